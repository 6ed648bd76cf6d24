//! Turns a digest's contents from the ledger into a signed email.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::{
    mime::{Draft, MessageKind, Party, Threading, Unsubscribe},
    render::{Click, Input, Links, Rendered, Tracker, View},
};
use tidings_model::{
    Alert, AsBeforeLink, Cadence, ClickLink, EmailAddress, Link, OpenLink, hex_sha256,
    limits::COUNTED_LINK_CHARS,
    records::{Contents, Facts, Message, Origin, Recipient},
    rules::effective::Effective,
    settings::{DigestSettings, InForce, RecipientLinks, Settings, StreamName, Track},
    window::Window,
};
use uuid::Uuid;

use crate::{apart::apart, deps::Deps, error::Error};

pub struct Email<'a> {
    pub window: &'a Window,
    pub facts: &'a Facts,
    pub recipient: &'a Recipient,
    pub date: Timestamp,
    pub message_id: Option<&'a str>,
}

/// Everything a message depends on except its events, for comparing hashes. Empty optional fields are
/// skipped, so hashes from older versions still match.
#[derive(Serialize)]
struct MadeFrom<'a> {
    view: View,
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

fn hashed(made_from: &MadeFrom<'_>) -> Result<String, Error> {
    let json = serde_json::to_vec(made_from).map_err(|error| Error::Render(error.to_string()))?;
    Ok(hex_sha256(&json))
}

pub enum Composed {
    Message(Box<Message>),
    /// The address in the directory is not a valid email address; `why` explains this.
    Undeliverable {
        why: String,
    },
}

impl Email<'_> {
    /// Composes and signs the message for the window's contents.
    ///
    /// # Errors
    /// If the digest type is not configured, the store fails, no template works, or the DKIM key cannot sign.
    pub async fn compose(&self, deps: &Deps, contents: &Contents) -> Result<Composed, Error> {
        let Self { window, recipient, date, .. } = *self;
        let to = match recipient.email_address() {
            Ok(address) => address,
            Err(error) => return Ok(Composed::Undeliverable { why: format!("the directory has an {error}") }),
        };
        let settings = deps.digest(&window.key)?;
        let thread = self.thread(settings, contents);
        let first = match thread {
            Some(thread) => deps.store.first_of_thread(thread, window).await?,
            None => None,
        };
        let threading = match (thread, &first) {
            (None, _) => Threading::Alone,
            (Some(_), None) => Threading::First,
            (Some(_), Some(first)) => Threading::Reply(first),
        };
        let links = self.links(deps);
        let counting = Counting::new(&deps.settings, settings.track, &window.key.tenant, window.digest_id);
        let rendered = self.render(deps, &links, contents, &counting.tracker())?;
        if rendered.fallback.is_some() {
            // Do not log the reason, since it may quote an event. `tidings template check` shows it with
            // sample data.
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
                threading,
            },
            date,
            message_domain: self.message_domain().unwrap_or(&sender.domain),
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
            made_from: hashed(&self.made_from(deps)?)?,
            thread,
            made_at: date,
        };
        Ok(Composed::Message(Box::new(message)))
    }

    fn message_domain(&self) -> Option<&str> {
        Some(self.message_id?.split_once('@')?.1)
    }

    /// Returns `true` if the message would be different now, apart from its events. Older versions hashed
    /// only the DKIM keys' names.
    ///
    /// # Errors
    /// If the digest type is not configured.
    pub fn differs_from(&self, deps: &Deps, made_from: &str) -> Result<bool, Error> {
        let now = self.made_from(deps)?;
        Ok(hashed(&now)? != made_from && hashed(&MadeFrom { keys: Vec::new(), ..now })? != made_from)
    }

    fn made_from<'a>(&'a self, deps: &'a Deps) -> Result<MadeFrom<'a>, Error> {
        let Self { window, facts, recipient, .. } = *self;
        let (tenant, links, settings) = (&window.key.tenant, self.links(deps), deps.digest(&window.key)?);
        let InForce { stream, .. } = deps.settings.for_tenant(tenant, StreamName::Bulk);
        let sender = &stream.sender;
        // The workflow and the ledger may have different values for `due_at`, so we ignore it.
        let window = &Window { due_at: window.opened_at, ..window.clone() };
        let nothing = Contents { claimed_at: None, items: 0, groups: 0, counts: BTreeMap::new(), lines: Vec::new() };
        let records = deps.signers.records(tenant, StreamName::Bulk);
        let (signed_by, keys) = records.into_iter().map(|[name, key]| (name, key)).unzip();
        Ok(MadeFrom {
            view: Email { window, ..*self }.view(deps, &links, &nothing)?,
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

    fn thread(&self, settings: &DigestSettings, contents: &Contents) -> Option<Uuid> {
        let (entity_type, entity_id) = contents.entity()?;
        let Effective { cadence, .. } = Effective::new(settings, self.facts, self.date);
        (cadence == Cadence::Instant).then(|| self.window.key.thread_id(entity_type, entity_id))
    }

    #[must_use]
    pub fn links(&self, deps: &Deps) -> RecipientLinks {
        let Window { key, digest_id, .. } = self.window;
        let link = Link::Unsubscribe { key: key.clone(), message: *digest_id, generation: self.facts.generation };
        deps.settings.recipient_links(&link, &key.user, StreamName::Bulk)
    }

    /// Renders subject, HTML and text.
    ///
    /// # Errors
    /// If the digest type is not configured, or no template works.
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

    /// Builds the data for a template.
    ///
    /// # Errors
    /// If the digest type is not configured.
    pub fn view(&self, deps: &Deps, links: &RecipientLinks, contents: &Contents) -> Result<View, Error> {
        let Self { window, facts, recipient, date, .. } = *self;
        let settings = deps.digest(&window.key)?;
        let Effective { cadence, zone, adapted, .. } = Effective::new(settings, facts, date);
        let cadence = cadence.to_string();
        let RecipientLinks { unsubscribe_url, preferences_url, view_url, .. } = links.clone();
        let as_before =
            AsBeforeLink { key: window.key.clone(), message: window.digest_id, generation: facts.generation };
        let as_before_url = adapted.and_then(|_| deps.settings.as_before_url(&as_before));
        let more_url = settings.more_url.clone();
        let links = Links { more_url, unsubscribe_url, preferences_url, as_before_url, view_url };
        let tenant = &window.key.tenant;
        let phrases = deps
            .renderer
            .phrases_for(deps.settings.names.tenant(tenant), deps.settings.locales(tenant, &recipient.locale));
        let InForce { brand, .. } = deps.settings.for_tenant(tenant, StreamName::Bulk);
        let (title, zone, cadence, links) = (settings.title.as_deref(), &zone, &cadence, &links);
        Ok(View::new(&Input { contents, window, recipient, zone, title, cadence, links, brand, phrases }))
    }
}

pub struct Counting<'a> {
    click: Option<Box<Click<'a>>>,
    picture: Option<String>,
}

impl<'a> Counting<'a> {
    #[must_use]
    pub fn new(settings: &'a Settings, track: Track, tenant: &'a str, message: Uuid) -> Self {
        let gateway = settings.pages.public_url.as_deref().zip(settings.link_keys.as_ref());
        let click = gateway.filter(|_| track.clicks).map(|(address, keys)| {
            let counted = move |target: &str| {
                let link = ClickLink { tenant: tenant.to_owned(), message, target: target.to_owned() };
                let counted = format!("{address}/c/{}", link.token(keys)?);
                (counted.len() <= COUNTED_LINK_CHARS).then_some(counted)
            };
            Box::new(counted) as Box<Click<'a>>
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
    pub fn tracker(&self) -> Tracker<'_> {
        Tracker { click: self.click.as_deref(), picture: self.picture.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidings_mail::render::Renderer;
    use tidings_model::{
        Key,
        settings::{Sender, Settings, Stream, Streams, UnknownRecipients},
    };
    use tidings_store::Sqlite;

    use super::*;

    #[tokio::test]
    async fn a_message_of_the_version_before_is_not_made_again_for_what_that_version_did_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let address: EmailAddress = "digest@acme.example".parse().unwrap();
        let sender = Sender { name: String::new(), address, reply_to: None, domain: "acme.example".into() };
        let stream = Stream::new(&["default"], sender);
        let streams = Streams { bulk: stream.clone(), transactional: stream };
        let activity = DigestSettings::new("activity", "after 1s".parse().unwrap());
        let mut settings = Settings {
            digests: [("activity".to_owned(), activity)].into(),
            unknown_recipients: UnknownRecipients::Invent,
            ..Settings::new(streams)
        };
        let key = Key { tenant: "acme".into(), digest_type: "activity".into(), user: "ann".into() };
        let date = Timestamp::from_second(1_800_000_000).unwrap();
        let window = Window { digest_id: key.digest_id("run", 0), key, opened_at: date, due_at: date };
        let (store, renderer) = (Arc::new(store), Arc::new(Renderer::new(None).unwrap()));
        let deps = |settings: &Settings| Deps::for_previews(store.clone(), None, renderer.clone(), settings.clone());
        let before = deps(&settings);
        let facts = before.kept_facts(&window.key).await.unwrap();
        let recipient = facts.recipient.as_ref().unwrap();
        let email = Email { window: &window, facts: &facts, recipient, date, message_id: None };
        let made_from = email.made_from(&before).unwrap();
        let json = serde_json::to_value(&made_from).unwrap();
        assert!(json.get("list_host").is_none() && json.get("keys").is_none(), "as the version before had it");
        let hash = hashed(&made_from).unwrap();
        let other_key = hashed(&MadeFrom { keys: vec!["another".into()], ..made_from }).unwrap();
        assert!(!email.differs_from(&before, &hash).unwrap());
        assert!(email.differs_from(&before, &other_key).unwrap());
        "mail.acme.example".clone_into(&mut settings.streams.bulk.sender.domain);
        assert!(email.differs_from(&deps(&settings), &hash).unwrap());
    }
}
