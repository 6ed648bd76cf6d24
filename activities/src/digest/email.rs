//! The email of a digest: contents of the ledger, through the templates, to a signed message.

use jiff::Timestamp;
use tidings_mail::{
    mime::{Draft, MessageKind, Party, Unsubscribe},
    render::{Input, Links, Rendered, Tracker, View},
};
use tidings_model::{
    Alert, AsBeforeLink, Link,
    records::{Contents, Facts, Message, Origin, Recipient},
    rules::effective::Effective,
    settings::{InForce, RecipientLinks, StreamName},
    step::Window,
};

use super::counting::Counting;
use crate::{apart::apart, deps::Deps, error::Error};

/// The email of a window, apart from the window's contents.
pub(super) struct Email<'a> {
    pub window: &'a Window,
    pub facts: &'a Facts,
    pub recipient: &'a Recipient,
    /// The `Date` of the message: the time at which it was rendered first.
    pub date: Timestamp,
}

/// The answer of [`Email::compose`].
pub(super) enum Composed {
    /// The message.
    Message(Box<Message>),
    /// The directory has an address that cannot be sent to. `why` says so.
    Undeliverable { why: String },
}

impl Email<'_> {
    /// Makes the message of the window's contents.
    ///
    /// # Errors
    /// The digest type is not configured, no template works, or the DKIM key cannot sign.
    pub fn compose(&self, deps: &Deps, contents: &Contents) -> Result<Composed, Error> {
        let Self { window, recipient, date, .. } = *self;
        let to = match recipient.email_address() {
            Ok(address) => address,
            Err(error) => return Ok(Composed::Undeliverable { why: format!("the directory has an {error}") }),
        };
        let settings = deps.digest(&window.key)?;
        let links = self.links(deps);
        let counting = Counting::new(&deps.settings, settings.track, &window.key.tenant, window.digest_id);
        let rendered = self.render(deps, &links, contents, &counting.tracker())?;
        if rendered.fallback.is_some() {
            // The reason may quote an event. `tidings template check` gives it for the sample.
            tracing::error!(alert = %Alert::TemplateFallback, template = settings.template, "a template does not work");
        }
        let InForce { stream, .. } = deps.settings.for_tenant(&window.key.tenant, StreamName::Bulk);
        let sender = &stream.sender;
        let token = deps.settings.report_token(&window.key.tenant, window.digest_id);
        let draft = Draft {
            from: Party { name: &sender.name, address: &sender.address },
            to: Party { name: &recipient.name, address: &to },
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
            },
            date,
            message_domain: &sender.domain,
            unsubscribe: Unsubscribe::of(&links),
            token: token.as_deref(),
            attachments: &[],
        };
        let composed = draft.compose().map_err(|error| Error::Render(error.to_string()))?;
        let signed = deps.signers.sign(&window.key.tenant, StreamName::Bulk, composed.bytes, date);
        let message = Message {
            id: window.digest_id,
            origin: Origin::Digest(window.key.clone()),
            stream: StreamName::Bulk,
            envelope_from: stream.envelope_from(token.as_deref()),
            envelope_to: composed.envelope_to,
            message_id: composed.message_id,
            subject: composed.subject,
            bytes: signed.map_err(|error| Error::Render(error.to_string()))?,
            template: rendered.template,
            counted: counting.counts_openings(),
            created_at: date,
        };
        Ok(Composed::Message(Box::new(message)))
    }

    /// The links of the recipient. They are the same each time.
    pub fn links(&self, deps: &Deps) -> RecipientLinks {
        let Window { key, digest_id, .. } = self.window;
        let link = Link::Unsubscribe { key: key.clone(), message: *digest_id };
        deps.settings.recipient_links(&link, &key.user, StreamName::Bulk)
    }

    /// The subject, HTML and text of the email.
    ///
    /// # Errors
    /// The digest type is not configured, or no template works.
    pub fn render(
        &self,
        deps: &Deps,
        links: &RecipientLinks,
        contents: &Contents,
        tracker: &Tracker<'_>,
    ) -> Result<Rendered, Error> {
        let template = &deps.digest(&self.window.key)?.template;
        let view = self.view(deps, links, contents)?;
        let render = || deps.renderer.render_tracked(template, &view, tracker);
        apart(deps.renderer.may_take_long(), render).map_err(|error| Error::Render(error.to_string()))
    }

    /// The data for a template.
    ///
    /// # Errors
    /// The digest type is not configured.
    pub fn view(&self, deps: &Deps, links: &RecipientLinks, contents: &Contents) -> Result<View, Error> {
        let Self { window, facts, recipient, date } = *self;
        let settings = deps.digest(&window.key)?;
        let Effective { cadence, zone, adapted, .. } = Effective::new(settings, facts, date);
        let cadence = cadence.to_string();
        let RecipientLinks { unsubscribe_url, preferences_url, view_url, .. } = links.clone();
        let as_before = AsBeforeLink { key: window.key.clone(), message: window.digest_id };
        let as_before_url = adapted.and_then(|_| deps.settings.as_before_url(&as_before));
        let more_url = settings.more_url.clone();
        let links = Links { more_url, unsubscribe_url, preferences_url, as_before_url, view_url };
        let tenant = &window.key.tenant;
        let phrases = deps.renderer.phrases_for(tenant, deps.settings.locales(tenant, &recipient.locale));
        let InForce { brand, .. } = deps.settings.for_tenant(tenant, StreamName::Bulk);
        let (title, zone, cadence, links) = (settings.title.as_deref(), &zone, &cadence, &links);
        Ok(View::new(&Input { contents, window, recipient, zone, title, cadence, links, brand, phrases }))
    }
}
