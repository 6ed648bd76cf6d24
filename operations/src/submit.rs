//! Accepts single messages. We store a rendered message in the outbox before its workflow starts, so workflow
//! history contains no body or address. An idempotency key always yields the same message, even much later.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use temporalio_client::{
    Client, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions, errors::WorkflowStartError,
};
use temporalio_common::{UntypedWorkflow, data_converters::RawValue};
use tidings_client::{message_search_attributes, message_task_queue};
use tidings_mail::{
    dkim::TenantSigners,
    mime::{Attachment, MessageDraft, MessageKind, MessageParty, UnsubscribeUris},
    render::{self, BrandView, TemplateRenderer, ViewLinks},
};
use tidings_model::{
    EmailAddress, Key, MessageKey, hex_sha256,
    limits::InvalidField,
    names,
    records::{KeyFacts, MessageOrigin, MessageRecord, OutboxMessage, Recipient, SuppressionReason},
    settings::{RecipientLinks, Settings, StreamName, TenantStream, UnknownRecipients},
};
use tidings_services::{
    apart::run_blocking,
    error::StepError,
    message_configuration::MessageConfiguration,
    team_directory::{self, TeamDirectory},
};
use tidings_store::Store;
use tracing::instrument;

pub const PARTS_BYTES: usize = 1024 * 1024;
pub const VARIABLES_BYTES: usize = 64 * 1024;
/// Limit on all attachments together, in bytes before encoding.
pub const ATTACHMENTS_BYTES: usize = 5 * 1024 * 1024;
pub const ATTACHMENTS: usize = 20;

/// One email from a service. Do not log this: it contains an address and a body.
#[derive(Clone, Serialize)]
pub struct MessageSubmission {
    pub tenant: String,
    /// Chosen by the sender. A second submission with this key returns the same message.
    pub idempotency_key: String,
    pub stream: StreamName,
    pub to: SubmissionRecipient,
    pub content: SubmissionContent,
    /// Overrides the stream's `Reply-To`.
    pub reply_to: Option<EmailAddress>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "hashed")]
    pub attachments: Vec<Attachment>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionRecipient {
    User(String),
    Address { address: EmailAddress, name: String },
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionContent {
    /// We render a template. Template errors go to the caller; there is no fallback template.
    Template { name: String, variables: Map<String, Value> },
    Parts {
        subject: String,
        text: String,
        /// `None` sends plain text only.
        html: Option<String>,
    },
}

#[derive(Clone, PartialEq, Eq)]
pub struct AcceptedMessage {
    pub message: MessageRecord,
    pub again: bool,
}

/// Why a message was rejected. It is not in the outbox and will not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    #[error("to: {why}")]
    UnknownRecipient { why: String },
    #[error("to: the address is suppressed: {reason}")]
    Suppressed { reason: SuppressionReason },
    #[error("key: was used for another content; a new message needs a new key")]
    OtherContent,
    #[error("template: {0}")]
    Template(#[from] render::TemplateError),
    #[error("the mail cannot be made: {0}")]
    Unsigned(String),
    /// The team's own directory is not responding. Submitting again is safe.
    #[error("to: {0}")]
    Directory(StepError),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

/// Stores the message in the outbox, or finds it there. Call [`start_message`] next.
///
/// # Errors
/// See [`SubmitError`]. After [`SubmitError::Store`], submitting again is safe.
pub async fn accept(
    store: &dyn Store,
    directory: Option<&TeamDirectory>,
    renderer: &TemplateRenderer,
    signers: &TenantSigners,
    settings: &Settings,
    submission: &MessageSubmission,
) -> Result<AcceptedMessage, SubmitError> {
    let key = MessageKey::new(submission.tenant.clone(), submission.idempotency_key.clone())?;
    let sha256 = content_hash(submission)?;
    if let Some(message) = store.message(key.message_id()).await? {
        return check_same(message, &sha256, true);
    }
    let message = MessageBuilder { store, directory, renderer, signers, settings, submission }
        .message(key, sha256.clone())
        .await?;
    store.put_message(&message, None).await?;
    let missing = || tidings_store::StoreError::Broken(format!("message {} is not in the outbox", message.id));
    let stored = store.message(message.id).await?.ok_or_else(missing)?;
    check_same(stored, &sha256, false)
}

/// Starts the message's delivery workflow, unless it already has one or has ended.
///
/// # Errors
/// If Temporal fails. Accepting and starting again is safe.
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "start", message = %message.id), err(level = "debug"))]
pub async fn start_message(
    temporal: &Client,
    task_queue: &str,
    message: &MessageRecord,
) -> Result<(), WorkflowStartError> {
    let MessageOrigin::Single { key, .. } = &message.origin else { return Ok(()) };
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

fn check_same(message: MessageRecord, sha256: &str, again: bool) -> Result<AcceptedMessage, SubmitError> {
    match &message.origin {
        MessageOrigin::Single { content_sha256, .. } if content_sha256 == sha256 => {
            Ok(AcceptedMessage { message, again })
        }
        _ => Err(SubmitError::OtherContent),
    }
}

/// JSON maps are sorted first, so equal submissions have equal hashes.
fn content_hash(submission: &MessageSubmission) -> Result<String, InvalidField> {
    let json = serde_json::to_vec(submission).map_err(|error| invalid("content", error.to_string()))?;
    Ok(hex_sha256(&json))
}

fn hashed<S: Serializer>(attachments: &[Attachment], serializer: S) -> Result<S::Ok, S::Error> {
    let hashed = attachments.iter().map(|Attachment { name, media_type, bytes }| (name, media_type, hex_sha256(bytes)));
    serializer.collect_seq(hashed)
}

fn invalid(field: &str, problem: impl Into<String>) -> InvalidField {
    InvalidField { field: field.to_owned(), problem: problem.into() }
}

struct MessageBuilder<'a> {
    store: &'a dyn Store,
    directory: Option<&'a TeamDirectory>,
    renderer: &'a TemplateRenderer,
    signers: &'a TenantSigners,
    settings: &'a Settings,
    submission: &'a MessageSubmission,
}

struct EmailParts {
    subject: String,
    text: String,
    html: Option<String>,
    template: String,
}

impl MessageBuilder<'_> {
    async fn message(&self, key: MessageKey, content_sha256: String) -> Result<OutboxMessage, SubmitError> {
        let MessageSubmission { stream: name, reply_to, .. } = self.submission;
        let name = *name;
        let TenantStream { stream, .. } = self.settings.for_tenant(&key.tenant, name);
        let (recipient, user) = self.recipient().await?;
        let to = recipient.email_address().map_err(|error| invalid("to", format!("the directory has an {error}")))?;
        let address = to.to_string();
        let configuration = MessageConfiguration {
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
        let made_from = configuration.made_from().map_err(|error| SubmitError::Unsigned(error.to_string()))?;
        let draft = MessageDraft {
            from: MessageParty { name: &sender.name, address: &sender.address },
            to: MessageParty { name: &recipient.name, address: &to },
            reply_to: reply_to.as_ref().or(sender.reply_to.as_ref()),
            subject: &parts.subject,
            html: parts.html.as_deref(),
            text: &parts.text,
            id: key.message_id(),
            of: MessageKind::Single { tenant: &key.tenant, stream: name },
            date,
            message_domain: &sender.domain,
            unsubscribe: UnsubscribeUris::from_links(&links),
            token: token.as_deref(),
            attachments,
        };
        let composed = draft.compose().map_err(submit_error)?;
        let reasons = self.store.suppression_reasons(&key.tenant, &composed.envelope_to).await?;
        if let Some(reason) = reasons.into_iter().find(|reason| reason.forbids(name)) {
            return Err(SubmitError::Suppressed { reason });
        }
        Ok(OutboxMessage {
            id: key.message_id(),
            origin: MessageOrigin::Single { key, user, content_sha256 },
            stream: name,
            envelope_from: stream.envelope_from(token.as_deref()),
            envelope_to: composed.envelope_to,
            message_id: composed.message_id,
            subject: composed.subject,
            bytes: self
                .signers
                .sign(&self.submission.tenant, name, composed.bytes, date)
                .map_err(|error| SubmitError::Unsigned(error.to_string()))?,
            template: parts.template,
            counted: false,
            made_from,
            thread: None,
            made_at: date,
        })
    }

    async fn recipient(&self) -> Result<(Recipient, Option<String>), SubmitError> {
        let tenant = &self.submission.tenant;
        match &self.submission.to {
            SubmissionRecipient::User(user) => {
                // Preferences are per digest type, and a single message has none.
                let key = Key { tenant: tenant.clone(), digest_type: String::new(), user: user.clone() };
                let invents = self.settings.unknown_recipients == UnknownRecipients::Invent;
                let KeyFacts { recipient, missing, .. } =
                    team_directory::facts(self.directory, self.store, &key).await.map_err(not_known)?;
                let known = recipient.or_else(|| invents.then(|| Recipient::for_development(&key)));
                let unknown = || {
                    let import =
                        || format!("tenant {tenant:?} has no recipient {user:?}; import them, or name an address");
                    SubmitError::UnknownRecipient { why: missing.unwrap_or_else(import) }
                };
                Ok((known.ok_or_else(unknown)?, Some(user.clone())))
            }
            SubmissionRecipient::Address { address, name } => {
                let (address, name) = (address.as_written().to_owned(), name.clone());
                let (user, zone, locale) = Default::default();
                Ok((Recipient { tenant: tenant.clone(), user, address, name, zone, locale }, None))
            }
        }
    }

    fn attachments(&self) -> Result<&[Attachment], InvalidField> {
        let attachments = &self.submission.attachments;
        if attachments.len() > ATTACHMENTS {
            let problem = format!("has {} files, the limit is {ATTACHMENTS}", attachments.len());
            return Err(invalid("attachments", problem));
        }
        at_most("attachments", attachments.iter().map(|file| file.bytes.len()).sum(), ATTACHMENTS_BYTES)?;
        Ok(attachments)
    }

    fn parts(&self, recipient: &Recipient, links: &RecipientLinks) -> Result<EmailParts, SubmitError> {
        match &self.submission.content {
            SubmissionContent::Template { name, variables } => {
                at_most("variables", Value::Object(variables.clone()).to_string().len(), VARIABLES_BYTES)?;
                let RecipientLinks { unsubscribe_url, view_url, .. } = links.clone();
                let links = ViewLinks { unsubscribe_url, view_url, ..ViewLinks::default() };
                let tenant = &recipient.tenant;
                let phrases = self
                    .renderer
                    .phrases_for(self.settings.names.tenant(tenant), self.settings.locales(tenant, &recipient.locale));
                let brand = BrandView::new(self.settings.for_tenant(tenant, self.submission.stream).brand);
                let render = || self.renderer.render_message(name, variables, recipient, &links, brand, phrases);
                let mail = run_blocking(self.renderer.may_take_long(), render)?;
                Ok(EmailParts {
                    subject: mail.subject,
                    text: mail.text,
                    html: Some(mail.html),
                    template: mail.template,
                })
            }
            SubmissionContent::Parts { subject, text, html } => {
                for (field, value) in [("subject", subject), ("text", text)] {
                    if value.trim().is_empty() {
                        return Err(invalid(field, "is required").into());
                    }
                }
                at_most("text and html", text.len() + html.as_ref().map_or(0, String::len), PARTS_BYTES)?;
                let template = String::new();
                Ok(EmailParts { subject: subject.clone(), text: text.clone(), html: html.clone(), template })
            }
        }
    }
}

fn at_most(field: &str, bytes: usize, limit: usize) -> Result<(), InvalidField> {
    if bytes <= limit { Ok(()) } else { Err(invalid(field, format!("has {bytes} bytes, the limit is {limit}"))) }
}

fn not_known(error: StepError) -> SubmitError {
    match error {
        StepError::Store(error) => error.into(),
        error => SubmitError::Directory(error),
    }
}

fn submit_error(error: tidings_mail::MailError) -> SubmitError {
    match error {
        tidings_mail::MailError::Message { part: "attachment", problem } => invalid("attachments", problem),
        error => return SubmitError::Unsigned(error.to_string()),
    }
    .into()
}

#[cfg(test)]
mod tests;
