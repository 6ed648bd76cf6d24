//! Turns a digest's contents from the ledger into a signed email.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty, ThreadPosition, UnsubscribeUris},
    render::{ClickUrl, RenderedEmail, TemplateView, TrackingUrls, ViewInput, ViewLinks},
};
use tidings_model::{
    AlertName, AsBeforeLink, Cadence, ClickLink, EmailAddress, OpenLink, UnsubscribeLink, hex_sha256,
    limits::COUNTED_LINK_CHARS,
    records::{DigestContents, KeyFacts, MessageOrigin, OutboxMessage, Recipient},
    rules::effective::EffectiveSettings,
    settings::{DigestSettings, RecipientLinks, Settings, StreamName, TenantStream, TrackingSettings},
    window::Window,
};
use uuid::Uuid;

use crate::{apart::run_blocking, deps::StepServices, error::StepError};

pub struct DigestEmail<'a> {
    pub window: &'a Window,
    pub facts: &'a KeyFacts,
    pub recipient: &'a Recipient,
    pub date: Timestamp,
    pub message_id: Option<&'a str>,
}

/// Everything a message depends on except its events, for comparing hashes. Empty optional fields are
/// skipped, so hashes from older versions still match.
#[derive(Serialize)]
struct DigestFingerprint<'a> {
    view: TemplateView,
    template: &'a str,
    to: &'a str,
    off: &'a BTreeSet<String>,
    from: [&'a str; 2],
    reply_to: Option<&'a str>,
    envelope_from: String,
    unsubscribe: Option<String>,
    signed_by: Vec<String>,
    counts: [bool; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    list_host: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

fn hash_inputs(made_from: &DigestFingerprint<'_>) -> Result<String, StepError> {
    let json = serde_json::to_vec(made_from).map_err(|error| StepError::Render(error.to_string()))?;
    Ok(hex_sha256(&json))
}

pub enum ComposeOutcome {
    Message(Box<OutboxMessage>),
    /// The address in the directory is not a valid email address; `why` explains this.
    Undeliverable {
        why: String,
    },
}

impl DigestEmail<'_> {
    /// Composes and signs the message for the window's contents.
    ///
    /// # Errors
    /// If the digest type is not configured, the store fails, no template works, or the DKIM key cannot sign.
    pub async fn compose(&self, deps: &StepServices, contents: &DigestContents) -> Result<ComposeOutcome, StepError> {
        let Self { window, recipient, date, .. } = *self;
        let to = match recipient.email_address() {
            Ok(address) => address,
            Err(error) => return Ok(ComposeOutcome::Undeliverable { why: format!("the directory has an {error}") }),
        };
        let settings = deps.digest_settings(&window.key)?;
        let thread = self.thread(settings, contents);
        let first = match thread {
            Some(thread) => deps.store.first_of_thread(thread, window).await?,
            None => None,
        };
        let threading = match (thread, &first) {
            (None, _) => ThreadPosition::Alone,
            (Some(_), None) => ThreadPosition::First,
            (Some(_), Some(first)) => ThreadPosition::Reply(first),
        };
        let links = self.links(deps);
        let counting = TrackingLinks::new(&deps.settings, settings.track, &window.key.tenant, window.digest_id);
        let rendered = self.render(deps, &links, contents, &counting.tracker())?;
        if rendered.fallback.is_some() {
            // Do not log the reason, since it may quote an event. `tidings template check` shows it with
            // sample data.
            tracing::error!(alert = %AlertName::TemplateFallback, template = settings.template, "template is broken");
        }
        let TenantStream { stream, .. } = deps.settings.for_tenant(&window.key.tenant, StreamName::Bulk);
        let sender = &stream.sender;
        let token = deps.settings.report_token(&window.key.tenant, window.digest_id);
        let draft = MessageDraft {
            from: MessageParty { name: &sender.name, address: &sender.address },
            to: MessageParty { name: &recipient.name, address: &to },
            reply_to: sender.reply_to.as_ref(),
            subject: &rendered.subject,
            html: Some(&rendered.html),
            text: &rendered.text,
            id: window.digest_id,
            of: MessageKind::Digest {
                tenant: &window.key.tenant,
                digest_type: &window.key.digest_type,
                events: contents.items,
                list_host: &sender.domain,
                threading,
            },
            date,
            message_domain: self.message_domain().unwrap_or(&sender.domain),
            unsubscribe: UnsubscribeUris::from_links(&links),
            token: token.as_deref(),
            attachments: &[],
        };
        let composed = draft.compose().map_err(|error| StepError::Render(error.to_string()))?;
        let signed = deps.signers.sign(&window.key.tenant, StreamName::Bulk, composed.bytes, date);
        let message = OutboxMessage {
            id: window.digest_id,
            origin: MessageOrigin::Digest(window.key.clone()),
            stream: StreamName::Bulk,
            envelope_from: stream.envelope_from(token.as_deref()),
            envelope_to: composed.envelope_to,
            message_id: composed.message_id,
            subject: composed.subject,
            bytes: signed.map_err(|error| StepError::Render(error.to_string()))?,
            template: rendered.template,
            counted: counting.counts_openings(),
            made_from: hash_inputs(&self.made_from(deps)?)?,
            thread,
            made_at: date,
        };
        Ok(ComposeOutcome::Message(Box::new(message)))
    }

    fn message_domain(&self) -> Option<&str> {
        Some(self.message_id?.split_once('@')?.1)
    }

    /// Returns `true` if the message would be different now, apart from its events. Older versions hashed
    /// only the DKIM keys' names.
    ///
    /// # Errors
    /// If the digest type is not configured.
    pub fn differs_from(&self, deps: &StepServices, made_from: &str) -> Result<bool, StepError> {
        let now = self.made_from(deps)?;
        Ok(hash_inputs(&now)? != made_from && hash_inputs(&DigestFingerprint { keys: Vec::new(), ..now })? != made_from)
    }

    fn made_from<'a>(&'a self, deps: &'a StepServices) -> Result<DigestFingerprint<'a>, StepError> {
        let Self { window, facts, recipient, .. } = *self;
        let (tenant, links, settings) = (&window.key.tenant, self.links(deps), deps.digest_settings(&window.key)?);
        let TenantStream { stream, .. } = deps.settings.for_tenant(tenant, StreamName::Bulk);
        let sender = &stream.sender;
        // The workflow and the ledger may have different values for `due_at`, so we ignore it.
        let window = &Window { due_at: window.opened_at, ..window.clone() };
        let nothing =
            DigestContents { claimed_at: None, items: 0, line_count: 0, counts: BTreeMap::new(), lines: Vec::new() };
        let records = deps.signers.dns_records(tenant, StreamName::Bulk);
        let (signed_by, keys) = records.into_iter().map(|[name, key]| (name, key)).unzip();
        Ok(DigestFingerprint {
            view: DigestEmail { window, ..*self }.view(deps, &links, &nothing)?,
            template: &settings.template,
            to: &recipient.address,
            off: &facts.preferences.off,
            from: [&sender.name, sender.address.as_str()],
            reply_to: sender.reply_to.as_ref().map(EmailAddress::as_str),
            envelope_from: stream.envelope_from(deps.settings.report_token(tenant, window.digest_id).as_deref()),
            unsubscribe: links.unsubscribe_mailto,
            signed_by,
            counts: [settings.track.opens, settings.track.clicks],
            list_host: Some(&*sender.domain).filter(|host| *host != sender.address.domain()),
            keys,
        })
    }

    fn thread(&self, settings: &DigestSettings, contents: &DigestContents) -> Option<Uuid> {
        let (entity_type, entity_id) = contents.common_entity()?;
        let EffectiveSettings { cadence, .. } = EffectiveSettings::new(settings, self.facts, self.date);
        (cadence == Cadence::Instant).then(|| self.window.key.thread_id(entity_type, entity_id))
    }

    #[must_use]
    pub fn links(&self, deps: &StepServices) -> RecipientLinks {
        let Window { key, digest_id, .. } = self.window;
        let link =
            UnsubscribeLink::Unsubscribe { key: key.clone(), message: *digest_id, generation: self.facts.generation };
        deps.settings.recipient_links(&link, &key.user, StreamName::Bulk)
    }

    /// Renders subject, HTML and text.
    ///
    /// # Errors
    /// If the digest type is not configured, or no template works.
    pub fn render(
        &self,
        deps: &StepServices,
        links: &RecipientLinks,
        contents: &DigestContents,
        tracker: &TrackingUrls<'_>,
    ) -> Result<RenderedEmail, StepError> {
        let template = &deps.digest_settings(&self.window.key)?.template;
        let view = self.view(deps, links, contents)?;
        let render = || deps.renderer.render_tracked(template, &view, tracker);
        run_blocking(deps.renderer.may_take_long(), render).map_err(|error| StepError::Render(error.to_string()))
    }

    /// Builds the data for a template.
    ///
    /// # Errors
    /// If the digest type is not configured.
    pub fn view(
        &self,
        deps: &StepServices,
        links: &RecipientLinks,
        contents: &DigestContents,
    ) -> Result<TemplateView, StepError> {
        let Self { window, facts, recipient, date, .. } = *self;
        let settings = deps.digest_settings(&window.key)?;
        let EffectiveSettings { cadence, zone, adapted, .. } = EffectiveSettings::new(settings, facts, date);
        let cadence = cadence.to_string();
        let RecipientLinks { unsubscribe_url, preferences_url, view_url, .. } = links.clone();
        let as_before =
            AsBeforeLink { key: window.key.clone(), message: window.digest_id, generation: facts.generation };
        let as_before_url = adapted.and_then(|_| deps.settings.as_before_url(&as_before));
        let more_url = settings.more_url.clone();
        let links = ViewLinks { more_url, unsubscribe_url, preferences_url, as_before_url, view_url };
        let tenant = &window.key.tenant;
        let phrases = deps
            .renderer
            .phrases_for(deps.settings.names.tenant(tenant), deps.settings.locales(tenant, &recipient.locale));
        let TenantStream { brand, .. } = deps.settings.for_tenant(tenant, StreamName::Bulk);
        let (title, zone, cadence, links) = (settings.title.as_deref(), &zone, &cadence, &links);
        Ok(TemplateView::new(&ViewInput { contents, window, recipient, zone, title, cadence, links, brand, phrases }))
    }
}

pub struct TrackingLinks<'a> {
    click: Option<Box<ClickUrl<'a>>>,
    picture: Option<String>,
}

impl<'a> TrackingLinks<'a> {
    #[must_use]
    pub fn new(settings: &'a Settings, track: TrackingSettings, tenant: &'a str, message: Uuid) -> Self {
        let gateway = settings.pages.public_url.as_deref().zip(settings.link_keys.as_ref());
        let click = gateway.filter(|_| track.clicks).map(|(address, keys)| {
            let counted = move |target: &str| {
                let link = ClickLink { tenant: tenant.to_owned(), message, target: target.to_owned() };
                let counted = format!("{address}/c/{}", link.token(keys)?);
                (counted.len() <= COUNTED_LINK_CHARS).then_some(counted)
            };
            Box::new(counted) as Box<ClickUrl<'a>>
        });
        let picture = gateway.filter(|_| track.opens).and_then(|(address, keys)| {
            Some(format!("{address}/o/{}", OpenLink { tenant: tenant.to_owned(), message }.token(keys)?))
        });
        Self { click, picture }
    }

    /// Returns `true` if the message has a tracking pixel.
    #[must_use]
    pub const fn counts_openings(&self) -> bool {
        self.picture.is_some()
    }

    #[must_use]
    pub fn tracker(&self) -> TrackingUrls<'_> {
        TrackingUrls { click: self.click.as_deref(), picture: self.picture.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidings_mail::render::TemplateRenderer;
    use tidings_model::{
        Key,
        settings::{DeliveryStreams, SenderIdentity, Settings, StreamSettings, UnknownRecipients},
    };
    use tidings_store::SqliteStore;

    use super::*;

    #[tokio::test]
    async fn a_message_of_the_version_before_is_not_made_again_for_what_that_version_did_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let address: EmailAddress = "digest@acme.example".parse().unwrap();
        let sender = SenderIdentity { name: String::new(), address, reply_to: None, domain: "acme.example".into() };
        let stream = StreamSettings::new(&["default"], sender);
        let streams = DeliveryStreams { bulk: stream.clone(), transactional: stream };
        let activity = DigestSettings::new("activity", "after 1s".parse().unwrap());
        let mut settings = Settings {
            digests: [("activity".to_owned(), activity)].into(),
            unknown_recipients: UnknownRecipients::Invent,
            ..Settings::new(streams)
        };
        let key = Key { tenant: "acme".into(), digest_type: "activity".into(), user: "ann".into() };
        let date = Timestamp::from_second(1_800_000_000).unwrap();
        let window = Window { digest_id: key.digest_id("run", 0), key, opened_at: date, due_at: date };
        let (store, renderer) = (Arc::new(store), Arc::new(TemplateRenderer::new(None).unwrap()));
        let deps =
            |settings: &Settings| StepServices::for_previews(store.clone(), None, renderer.clone(), settings.clone());
        let before = deps(&settings);
        let facts = before.kept_facts(&window.key).await.unwrap();
        let recipient = facts.recipient.as_ref().unwrap();
        let email = DigestEmail { window: &window, facts: &facts, recipient, date, message_id: None };
        let made_from = email.made_from(&before).unwrap();
        let json = serde_json::to_value(&made_from).unwrap();
        assert!(json.get("list_host").is_none() && json.get("keys").is_none(), "as the version before had it");
        let hash = hash_inputs(&made_from).unwrap();
        let other_key = hash_inputs(&DigestFingerprint { keys: vec!["another".into()], ..made_from }).unwrap();
        assert!(!email.differs_from(&before, &hash).unwrap());
        assert!(email.differs_from(&before, &other_key).unwrap());
        "mail.acme.example".clone_into(&mut settings.streams.bulk.sender.domain);
        assert!(email.differs_from(&deps(&settings), &hash).unwrap());
    }
}
