//! Dead letters of signals and of webhooks: listed together, and emitted after the fault is fixed, once each (rule 36).
//!
//! The events of a signal go out before its letter is marked. A crash in between loses nothing: the letter is emitted once more, and the
//! ledger knows the events by their `event_id` (rule 3). Of two operators at once, both emit the same events, and one marks the letter.
//! The reports of a webhook are recorded in one transaction with the mark.

use std::{cmp::Reverse, collections::BTreeSet, fmt, str::FromStr, time::Duration};

use futures::future::try_join_all;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_client::Client;
use tidings_model::{
    Key,
    command::Order,
    decode::{Again, decode_again},
    delivery_events::{LetterEmitted, Reported},
    records::{
        AuditEntry, Cursor, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord, KeptLetter,
        LetterSource, Listed, Page, WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord,
    },
    settings::Settings,
    without_addresses,
};
use tidings_services::delivery_events::{Received, add_names, followed};
use tidings_store::Store;

/// The id of a dead letter of either source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterId {
    Events(DeadLetterId),
    Webhook(WebhookLetterId),
}

/// `RUN_ID.SEQ`, or `RELAY/DIGITS`.
impl FromStr for LetterId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self::Webhook).map_err(|error| error.to_string());
        }
        text.parse().map(Self::Events).map_err(|error| error.to_string())
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(id) => id.fmt(f),
            Self::Webhook(id) => id.fmt(f),
        }
    }
}

/// The reason why a dead letter was not emitted, or not marked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not have the letter.
    #[error("there is no dead letter {0}; see tidings dead-letters list")]
    Unknown(LetterId),
    /// The letter was emitted before.
    #[error("dead letter {id} was emitted already, by {} at {:.0}", emitted.by, emitted.at)]
    Emitted { id: LetterId, emitted: tidings_model::records::Emitted },
    /// The letter still cannot be read, or is not kept as a whole.
    #[error("dead letter {id} cannot be emitted: {why}")]
    Refused { id: LetterId, why: String },
    /// Temporal did not take all of the letter.
    #[error("dead letter {id} was not emitted as a whole: {error}; run the command again, an event counts once")]
    NotTaken { id: DeadLetterId, error: tidings_client::Error },
    /// The letter was emitted, and the store did not record that.
    #[error("dead letter {id} was emitted, but not marked: {error}; run the command again, an event counts once")]
    NotMarked { id: DeadLetterId, error: tidings_store::Error },
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// The emission of a letter of either source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeadLetterEmitted))]
#[serde(untagged)]
pub enum Emitted {
    Events(Emission),
    Webhook(WebhookEmission),
}

/// The emission of a letter, as its JSON is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Emission {
    /// The letter.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: DeadLetterId,
    pub events: usize,
    pub retracts: usize,
    /// The keys that got them.
    pub keys: Vec<String>,
}

/// The emission of a webhook's letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookEmission {
    /// The letter.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: WebhookLetterId,
    /// Reports that were recorded.
    pub new: usize,
    /// Reports that were known.
    pub again: usize,
    /// Reports about messages that no relay was given.
    pub unknown: usize,
    /// Reports about messages that another relay was given.
    pub foreign: usize,
}

/// Emits the letter's events and retracts to the keys that they name, and marks the letter.
///
/// # Errors
/// See [`Error`].
pub async fn emit_events(
    store: &dyn Store,
    client: &Client,
    id: &DeadLetterId,
    order: &Order,
) -> Result<Emitted, Error> {
    let letter_id = || LetterId::Events(id.clone());
    let letter = store.dead_letter(None, id).await?.ok_or_else(|| Error::Unknown(letter_id()))?;
    if let Some(emitted) = letter.record.emitted {
        return Err(Error::Emitted { id: letter_id(), emitted });
    }
    let again = decode_again(&letter).map_err(|why| Error::Refused { id: letter_id(), why });
    let Again { events, retracts, keys } = again?;
    let emission = Emission { id: id.clone(), events: events.len(), retracts: retracts.len(), keys: names(&keys) };
    // All at once, so that those of one key share a signal.
    let events = try_join_all(events.into_iter().map(|event| client.emit(event)));
    let retracts = try_join_all(retracts.into_iter().map(|retract| client.retract(retract)));
    tokio::try_join!(events, retracts).map_err(|error| Error::NotTaken { id: id.clone(), error })?;
    let marked = store.mark_emitted(id, &keys, &entry(id, order, Timestamp::now())).await;
    match marked.map_err(|error| Error::NotMarked { id: id.clone(), error })? {
        None => Ok(Emitted::Events(emission)),
        Some(emitted) => Err(Error::Emitted { id: letter_id(), emitted }),
    }
}

/// Records the events of a webhook's letter with their effects, and marks the letter, in one transaction. `read` is what this version
/// reads in the letter. Returns the keys whose consent is withdrawn, too: wake them.
///
/// # Errors
/// See [`Error`]. After an error nothing is recorded.
pub async fn emit_webhook(
    store: &dyn Store,
    settings: &Settings,
    id: &WebhookLetterId,
    read: Result<Vec<Reported>, String>,
    order: &Order,
) -> Result<(Emitted, BTreeSet<Key>), Error> {
    let letter_id = || LetterId::Webhook(id.clone());
    let mut events = read.map_err(|why| Error::Refused { id: letter_id(), why })?;
    for event in &mut events {
        event.relay = Some(id.relay.clone());
        add_names(event, settings);
    }
    let now = Timestamp::now();
    match store.emit_webhook_letter(id, &events, settings.soft_bounces, &entry(id, order, now)).await? {
        LetterEmitted::Now(recorded) => {
            let received = followed(store, settings, &events, recorded, now).await;
            let Received { new, again, unknown, foreign, withdrawn } = received;
            let emission = WebhookEmission { id: id.clone(), new, again, unknown, foreign };
            Ok((Emitted::Webhook(emission), withdrawn))
        }
        LetterEmitted::Before(emitted) => Err(Error::Emitted { id: letter_id(), emitted }),
        LetterEmitted::Unknown => Err(Error::Unknown(letter_id())),
    }
}

fn entry(id: &impl fmt::Display, order: &Order, now: Timestamp) -> AuditEntry {
    let entry = order.entry("dead_letter_emit", now);
    AuditEntry { why: format!("{id}: {}", entry.why), ..entry }
}

fn names(keys: &BTreeSet<Key>) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

/// A letter without its payload, and what an emission would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShownLetter {
    #[serde(flatten)]
    pub record: DeadLetterRecord,
    /// Bytes of the payload that are kept.
    pub kept: usize,
    /// The keys that would get events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// The reason why the letter cannot be emitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The letter without its payload, and what an emission would do.
#[must_use]
pub fn shown(letter: &KeptLetter) -> ShownLetter {
    let (keys, refused) = match decode_again(letter) {
        Ok(again) => (Some(names(&again.keys)), None),
        Err(why) => (None, Some(without_addresses(&why))),
    };
    ShownLetter { record: letter.record.clone(), kept: letter.head.len(), keys, refused }
}

/// A dead letter of either source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeadLetter))]
pub enum Letter {
    Webhook(WebhookLetterRecord),
    Events(DeadLetterRecord),
}

/// The place of a dead letter in the listing. Of one instant, letters of webhooks come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Webhook(WebhookLetterPlace),
    Events(DeadLetterPlace),
}

/// Lists dead letters of this source, or of both, the latest first. A letter of a webhook names no key, so that no part of a key selects one.
///
/// # Errors
/// The store cannot answer.
pub async fn list(
    store: &dyn Store,
    source: Option<LetterSource>,
    filter: &DeadLetterFilter,
    page: &Page<Place>,
) -> Result<Listed<Letter, Place>, tidings_store::Error> {
    let limit = page.limit;
    let after = page.after.as_ref().map(|Cursor(place)| place);
    let (mut rows, mut more) = (Vec::new(), false);
    if source != Some(LetterSource::Events) && filter.workflow_ids().is_none() {
        let page = Page { limit, after: after.map(webhooks_after).map(Cursor) };
        let filter = WebhookLetterFilter { since: filter.since, until: filter.until, page };
        let listed = store.webhook_letters(&filter).await?;
        more |= listed.next.is_some();
        rows.extend(listed.rows.into_iter().map(Letter::Webhook));
    }
    if source != Some(LetterSource::Webhook) {
        let page = Page { limit, after: after.map(events_after).map(Cursor) };
        let listed = store.dead_letters(&DeadLetterFilter { page, ..filter.clone() }).await?;
        more |= listed.next.is_some();
        rows.extend(listed.rows.into_iter().map(Letter::Events));
    }
    Ok(merged(rows, limit as usize, more))
}

/// Webhooks of an instant come before its events, so that an event at the cursor leaves none of them.
fn webhooks_after(place: &Place) -> WebhookLetterPlace {
    match place {
        Place::Webhook(place) => place.clone(),
        Place::Events((at, ..)) => (*at, String::new(), String::new()),
    }
}

/// All events of the instant of a webhook's letter follow the letter. Times are whole milliseconds.
fn events_after(place: &Place) -> DeadLetterPlace {
    match place {
        Place::Events(place) => place.clone(),
        Place::Webhook((at, ..)) => (at.saturating_add(Duration::from_millis(1)).unwrap_or(*at), String::new(), 0),
    }
}

/// `rows` has the letters of each source in their order, webhooks first.
fn merged(mut rows: Vec<Letter>, limit: usize, more: bool) -> Listed<Letter, Place> {
    rows.sort_by_key(|letter| Reverse(letter.buried_at()));
    let more = more || rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|last| Cursor(last.place()));
    Listed { rows, next }
}

impl Letter {
    const fn buried_at(&self) -> Timestamp {
        match self {
            Self::Webhook(letter) => letter.buried_at,
            Self::Events(letter) => letter.buried_at,
        }
    }

    fn place(&self) -> Place {
        match self {
            Self::Webhook(letter) => Place::Webhook((letter.buried_at, letter.relay.clone(), letter.sha256.clone())),
            Self::Events(letter) => Place::Events((letter.buried_at, letter.id.run_id.clone(), letter.id.seq)),
        }
    }
}
