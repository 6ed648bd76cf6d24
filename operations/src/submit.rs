//! The entry for single messages: rendered, put in the outbox, and only then given to a workflow, so that no body and no
//! address is ever in workflow history. The same key twice is one message, however long after.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use temporalio_client::{
    Client, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions, errors::WorkflowStartError,
};
use temporalio_common::{UntypedWorkflow, data_converters::RawValue};
use tidings_client::{message_search_attributes, message_task_queue};
use tidings_mail::{
    dkim::Signers,
    mime::{Attachment, Draft, MessageKind, Party, Unsubscribe},
    render::{self, Brand, Links, Renderer},
};
use tidings_model::{
    EmailAddress, Key, MessageKey, hex_sha256,
    limits::Invalid,
    names,
    records::{Facts, Message, MessageRecord, Origin, Reason, Recipient},
    settings::{InForce, RecipientLinks, Settings, StreamName, UnknownRecipients},
};
use tidings_services::{
    apart::apart,
    error::Error,
    message_configuration::Configuration,
    team_directory::{self, TeamDirectory},
};
use tidings_store::Store;
use tracing::instrument;

/// Bytes of the text and the HTML of ready parts together.
pub const PARTS_BYTES: usize = 1024 * 1024;
/// Bytes of a template's variables as JSON.
pub const VARIABLES_BYTES: usize = 64 * 1024;
/// Bytes of all attachments together, as files.
pub const ATTACHMENTS_BYTES: usize = 5 * 1024 * 1024;
/// Attachments of a message.
pub const ATTACHMENTS: usize = 20;

/// One e-mail that a service hands over. It has an address and a body: not for logs.
#[derive(Clone, Serialize)]
pub struct Submission {
    pub tenant: String,
    /// Made up by the sender; what comes under it again is the same message.
    pub idempotency_key: String,
    pub stream: StreamName,
    pub to: To,
    pub content: Content,
    /// `Reply-To`, if it is not the stream's.
    pub reply_to: Option<EmailAddress>,
    /// Files that come with the message.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "hashed")]
    pub attachments: Vec<Attachment>,
}

/// The recipient of a message.
#[derive(Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// A user in the tenant's directory.
    User(String),
    /// An address, which need not be in the directory.
    Address {
        address: EmailAddress,
        /// Display name; may be empty.
        name: String,
    },
}

/// The content of a message.
#[derive(Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Content from a template. The caller gets a template's error; no fallback template is used.
    Template {
        name: String,
        /// The template's variable `message`.
        variables: Map<String, Value>,
    },
    /// It is ready.
    Parts {
        subject: String,
        text: String,
        /// Without it the mail is plain text.
        html: Option<String>,
    },
}

/// The message is in the outbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The message in the outbox.
    pub message: MessageRecord,
    /// Set if the message was in the outbox already.
    pub again: bool,
}

/// The message is not in the outbox, and will not be sent.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A part is wrong: which one, and what would be right.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The directory does not know the user.
    #[error("to: {why}")]
    UnknownRecipient {
        /// The reason and the remedy.
        why: String,
    },
    /// The tenant must not mail the address.
    #[error("to: the address is suppressed: {reason}")]
    Suppressed {
        /// Why it is, for this stream.
        reason: Reason,
    },
    /// The key was used for something else.
    #[error("key: was used for another content; a new message needs a new key")]
    OtherContent,
    /// The template cannot make the mail.
    #[error("template: {0}")]
    Template(#[from] render::Error),
    /// The DKIM key cannot sign.
    #[error("the mail cannot be made: {0}")]
    Unsigned(String),
    /// The team's own directory does not answer. Asking again is safe.
    #[error("to: {0}")]
    Directory(Error),
    /// The outbox does not answer.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Puts the message in the outbox, or finds it there. [`start`] comes next.
///
/// # Errors
/// See [`Refused`]. After [`Refused::Store`] asking again is safe.
pub async fn accept(
    store: &dyn Store,
    directory: Option<&TeamDirectory>,
    renderer: &Renderer,
    signers: &Signers,
    settings: &Settings,
    submission: &Submission,
) -> Result<Accepted, Refused> {
    let key = MessageKey::new(submission.tenant.clone(), submission.idempotency_key.clone())?;
    let sha256 = sha256(submission)?;
    if let Some(message) = store.message(key.message_id()).await? {
        return same(message, &sha256, true);
    }
    let message =
        Making { store, directory, renderer, signers, settings, submission }.message(key, sha256.clone()).await?;
    store.put_message(&message, None).await?;
    let missing = || tidings_store::Error::Broken(format!("message {} is not in the outbox", message.id));
    let stored = store.message(message.id).await?.ok_or_else(missing)?;
    same(stored, &sha256, false)
}

/// Starts the workflow that delivers the message, unless it has an end or a workflow already.
///
/// # Errors
/// Temporal does not answer. Accepting and starting again is safe.
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "start", message = %message.id), err(level = "debug"))]
pub async fn start(temporal: &Client, task_queue: &str, message: &MessageRecord) -> Result<(), WorkflowStartError> {
    let Origin::Single { key, .. } = &message.origin else { return Ok(()) };
    if message.closed().is_some() {
        return Ok(());
    }
    let options = WorkflowStartOptions::new(message_task_queue(task_queue, message.stream), key.workflow_id())
        .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
        .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
        .search_attributes(message_search_attributes(key))
        .build();
    let workflow = UntypedWorkflow::new(names::MESSAGE_WORKFLOW_TYPE);
    temporal.start_workflow(workflow, RawValue::default(), options).await?;
    Ok(())
}

fn same(message: MessageRecord, sha256: &str, again: bool) -> Result<Accepted, Refused> {
    match &message.origin {
        Origin::Single { content_sha256, .. } if content_sha256 == sha256 => Ok(Accepted { message, again }),
        _ => Err(Refused::OtherContent),
    }
}

/// A hash of everything that was handed over, in one spelling: the maps of JSON are sorted.
fn sha256(submission: &Submission) -> Result<String, Invalid> {
    let json = serde_json::to_vec(submission).map_err(|error| invalid("content", error.to_string()))?;
    Ok(hex_sha256(&json))
}

/// Writes attachments with hashes instead of their bytes.
fn hashed<S: Serializer>(attachments: &[Attachment], serializer: S) -> Result<S::Ok, S::Error> {
    let hashed = attachments.iter().map(|Attachment { name, media_type, bytes }| (name, media_type, hex_sha256(bytes)));
    serializer.collect_seq(hashed)
}

fn invalid(field: &str, problem: impl Into<String>) -> Invalid {
    Invalid { field: field.to_owned(), problem: problem.into() }
}

/// Builds a message from a submission.
struct Making<'a> {
    store: &'a dyn Store,
    directory: Option<&'a TeamDirectory>,
    renderer: &'a Renderer,
    signers: &'a Signers,
    settings: &'a Settings,
    submission: &'a Submission,
}

/// A mail without its headers.
struct Parts {
    subject: String,
    text: String,
    html: Option<String>,
    template: String,
}

impl Making<'_> {
    async fn message(&self, key: MessageKey, content_sha256: String) -> Result<Message, Refused> {
        let Submission { stream: name, reply_to, .. } = self.submission;
        let name = *name;
        let InForce { stream, .. } = self.settings.for_tenant(&key.tenant, name);
        let (recipient, user) = self.recipient().await?;
        let to = recipient.email_address().map_err(|error| invalid("to", format!("the directory has an {error}")))?;
        let address = to.to_string();
        let configuration = Configuration {
            settings: self.settings,
            signers: self.signers,
            key: &key,
            stream: name,
            user: user.as_deref(),
            address: &address,
        };
        let links = configuration.links();
        let attachments = self.attachments()?;
        let parts = self.parts(&recipient, &links)?;
        let date = Timestamp::now();
        let sender = &stream.sender;
        let token = configuration.token();
        let made_from = configuration.made_from().map_err(|error| Refused::Unsigned(error.to_string()))?;
        let draft = Draft {
            from: Party { name: &sender.name, address: &sender.address },
            to: Party { name: &recipient.name, address: &to },
            reply_to: reply_to.as_ref().or(sender.reply_to.as_ref()),
            subject: &parts.subject,
            html: parts.html.as_deref(),
            text: &parts.text,
            id: key.message_id(),
            of: MessageKind::Single { tenant: &key.tenant, stream: name },
            date,
            message_domain: &sender.domain,
            unsubscribe: Unsubscribe::of(&links),
            token: token.as_deref(),
            attachments,
        };
        let composed = draft.compose().map_err(wrong)?;
        let reasons = self.store.suppressed(&key.tenant, &composed.envelope_to).await?;
        if let Some(reason) = reasons.into_iter().find(|reason| reason.forbids(name)) {
            return Err(Refused::Suppressed { reason });
        }
        Ok(Message {
            id: key.message_id(),
            origin: Origin::Single { key, user, content_sha256 },
            stream: name,
            envelope_from: stream.envelope_from(token.as_deref()),
            envelope_to: composed.envelope_to,
            message_id: composed.message_id,
            subject: composed.subject,
            bytes: self
                .signers
                .sign(&self.submission.tenant, name, composed.bytes, date)
                .map_err(|error| Refused::Unsigned(error.to_string()))?,
            template: parts.template,
            counted: false,
            made_from,
            thread: None,
            made_at: date,
        })
    }

    /// Returns the recipient, and the user's id in the directory.
    async fn recipient(&self) -> Result<(Recipient, Option<String>), Refused> {
        let tenant = &self.submission.tenant;
        match &self.submission.to {
            To::User(user) => {
                // MessageKind no digest type: nothing was chosen for it.
                let key = Key { tenant: tenant.clone(), digest_type: String::new(), user: user.clone() };
                let invents = self.settings.unknown_recipients == UnknownRecipients::Invent;
                let Facts { recipient, missing, .. } =
                    team_directory::facts(self.directory, self.store, &key).await.map_err(not_known)?;
                let known = recipient.or_else(|| invents.then(|| Recipient::invented(&key)));
                let unknown = || {
                    let import =
                        || format!("tenant {tenant:?} has no recipient {user:?}; import them, or name an address");
                    Refused::UnknownRecipient { why: missing.unwrap_or_else(import) }
                };
                Ok((known.ok_or_else(unknown)?, Some(user.clone())))
            }
            To::Address { address, name } => {
                let (address, name) = (address.written().to_owned(), name.clone());
                let (user, zone, locale) = Default::default();
                Ok((Recipient { tenant: tenant.clone(), user, address, name, zone, locale }, None))
            }
        }
    }

    fn attachments(&self) -> Result<&[Attachment], Invalid> {
        let attachments = &self.submission.attachments;
        if attachments.len() > ATTACHMENTS {
            let problem = format!("has {} files, the limit is {ATTACHMENTS}", attachments.len());
            return Err(invalid("attachments", problem));
        }
        at_most("attachments", attachments.iter().map(|file| file.bytes.len()).sum(), ATTACHMENTS_BYTES)?;
        Ok(attachments)
    }

    fn parts(&self, recipient: &Recipient, links: &RecipientLinks) -> Result<Parts, Refused> {
        match &self.submission.content {
            Content::Template { name, variables } => {
                at_most("variables", Value::Object(variables.clone()).to_string().len(), VARIABLES_BYTES)?;
                let RecipientLinks { unsubscribe_url, view_url, .. } = links.clone();
                let links = Links { unsubscribe_url, view_url, ..Links::default() };
                let tenant = &recipient.tenant;
                let phrases = self
                    .renderer
                    .phrases_for(self.settings.names.tenant(tenant), self.settings.locales(tenant, &recipient.locale));
                let brand = Brand::new(self.settings.for_tenant(tenant, self.submission.stream).brand);
                let render = || self.renderer.message(name, variables, recipient, &links, brand, phrases);
                let mail = apart(self.renderer.may_take_long(), render)?;
                Ok(Parts { subject: mail.subject, text: mail.text, html: Some(mail.html), template: mail.template })
            }
            Content::Parts { subject, text, html } => {
                for (field, value) in [("subject", subject), ("text", text)] {
                    if value.trim().is_empty() {
                        return Err(invalid(field, "is required").into());
                    }
                }
                at_most("text and html", text.len() + html.as_ref().map_or(0, String::len), PARTS_BYTES)?;
                let template = String::new();
                Ok(Parts { subject: subject.clone(), text: text.clone(), html: html.clone(), template })
            }
        }
    }
}

fn at_most(field: &str, bytes: usize, limit: usize) -> Result<(), Invalid> {
    if bytes <= limit { Ok(()) } else { Err(invalid(field, format!("has {bytes} bytes, the limit is {limit}"))) }
}

fn not_known(error: Error) -> Refused {
    match error {
        Error::Store(error) => error.into(),
        error => Refused::Directory(error),
    }
}

fn wrong(error: tidings_mail::Error) -> Refused {
    match error {
        tidings_mail::Error::Message { part: "attachment", problem } => invalid("attachments", problem),
        error => return Refused::Unsigned(error.to_string()),
    }
    .into()
}

#[cfg(test)]
mod tests;
