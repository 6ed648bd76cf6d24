//! Lists dead letters from signals and webhooks, and emits each once after the fault is fixed (rule 36).
//!
//! We emit a signal's events before marking its letter. After a crash in between, emit it again: the ledger
//! ignores duplicates by `event_id` (rule 3). A webhook's reports and its mark are written in one
//! transaction.

use std::{cmp::Reverse, collections::BTreeSet, fmt, str::FromStr, time::Duration};

use futures::future::try_join_all;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_client::Client;
use tidings_model::{
    Key,
    command::CommandContext,
    decode::{DecodedLetter, decode_again},
    delivery_events::{CheckedDeliveryEvent, LetterEmitted},
    records::{
        AuditEntry, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord, KeptLetter, LetterSource,
        ListPage, PageCursor, PageRequest, WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace,
        WebhookLetterRecord,
    },
    settings::Settings,
    without_addresses,
};
use tidings_services::delivery_events::{WebhookResult, add_names, report_recorded};
use tidings_store::Store;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterId {
    Events(DeadLetterId),
    Webhook(WebhookLetterId),
}

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

#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    #[error("there is no dead letter {0}; see tidings dead-letters list")]
    Unknown(LetterId),
    #[error("dead letter {id} was emitted already, by {} at {:.0}", emitted.by, emitted.at)]
    Emitted { id: LetterId, emitted: tidings_model::records::EmissionRecord },
    /// This version cannot read the letter, or only part of it was stored.
    #[error("dead letter {id} cannot be emitted: {why}")]
    Refused { id: LetterId, why: String },
    #[error("dead letter {id} was not emitted as a whole: {error}; run the command again, an event counts once")]
    NotTaken { id: DeadLetterId, error: tidings_client::EmitError },
    #[error("dead letter {id} was emitted, but not marked: {error}; run the command again, an event counts once")]
    NotMarked { id: DeadLetterId, error: tidings_store::StoreError },
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

/// The result of emitting a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DeadLetterEmitted))]
#[serde(untagged)]
pub enum LetterEmission {
    Events(Emission),
    Webhook(WebhookEmission),
}

/// The result of emitting a signal's dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Emission {
    /// The letter.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: DeadLetterId,
    pub events: usize,
    pub retracts: usize,
    /// The keys that received the events.
    pub keys: Vec<String>,
}

/// The result of emitting a webhook's dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookEmission {
    /// The letter.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: WebhookLetterId,
    /// Reports recorded for the first time.
    pub new: usize,
    /// Reports we had already recorded.
    pub again: usize,
    /// Reports about messages we gave to no relay.
    pub unknown: usize,
    /// Reports about messages we gave to another relay.
    pub foreign: usize,
}

/// Emits the letter's events and retracts to their keys, then marks the letter.
///
/// # Errors
/// See [`DeadLetterError`].
pub async fn emit_events(
    store: &dyn Store,
    client: &Client,
    id: &DeadLetterId,
    order: &CommandContext,
) -> Result<LetterEmission, DeadLetterError> {
    let letter_id = || LetterId::Events(id.clone());
    let letter = store.dead_letter(None, id).await?.ok_or_else(|| DeadLetterError::Unknown(letter_id()))?;
    if let Some(emitted) = letter.record.emitted {
        return Err(DeadLetterError::Emitted { id: letter_id(), emitted });
    }
    let again = decode_again(&letter).map_err(|why| DeadLetterError::Refused { id: letter_id(), why });
    let DecodedLetter { events, retracts, keys } = again?;
    let emission = Emission { id: id.clone(), events: events.len(), retracts: retracts.len(), keys: names(&keys) };
    // Emit concurrently, so events for one key share a signal.
    let events = try_join_all(events.into_iter().map(|event| client.emit(event)));
    let retracts = try_join_all(retracts.into_iter().map(|retract| client.retract(retract)));
    tokio::try_join!(events, retracts).map_err(|error| DeadLetterError::NotTaken { id: id.clone(), error })?;
    let marked = store.mark_emitted(id, &keys, &entry(id, order, Timestamp::now())).await;
    match marked.map_err(|error| DeadLetterError::NotMarked { id: id.clone(), error })? {
        None => Ok(LetterEmission::Events(emission)),
        Some(emitted) => Err(DeadLetterError::Emitted { id: letter_id(), emitted }),
    }
}

/// Records the webhook's events with their effects and marks the letter, in one transaction. `read` contains
/// the parsed events. The caller should wake the returned keys.
///
/// # Errors
/// See [`DeadLetterError`]. After an error nothing is recorded.
pub async fn emit_webhook(
    store: &dyn Store,
    settings: &Settings,
    id: &WebhookLetterId,
    read: Result<Vec<CheckedDeliveryEvent>, String>,
    order: &CommandContext,
) -> Result<(LetterEmission, BTreeSet<Key>), DeadLetterError> {
    let letter_id = || LetterId::Webhook(id.clone());
    let mut events = read.map_err(|why| DeadLetterError::Refused { id: letter_id(), why })?;
    for event in &mut events {
        event.relay = Some(id.relay.clone());
        add_names(event, settings);
    }
    let now = Timestamp::now();
    match store.emit_webhook_letter(id, &events, settings.soft_bounces, &entry(id, order, now)).await? {
        LetterEmitted::Now(recorded) => {
            let received = report_recorded(store, settings, &events, recorded, now).await;
            let WebhookResult { new, again, unknown, foreign, withdrawn } = received;
            let emission = WebhookEmission { id: id.clone(), new, again, unknown, foreign };
            Ok((LetterEmission::Webhook(emission), withdrawn))
        }
        LetterEmitted::Before(emitted) => Err(DeadLetterError::Emitted { id: letter_id(), emitted }),
        LetterEmitted::Unknown => Err(DeadLetterError::Unknown(letter_id())),
    }
}

fn entry(id: &impl fmt::Display, order: &CommandContext, now: Timestamp) -> AuditEntry {
    let entry = order.audit_entry("dead_letter_emit", now);
    AuditEntry { why: format!("{id}: {}", entry.why), ..entry }
}

fn names(keys: &BTreeSet<Key>) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

/// A letter without its payload, with the keys it would be emitted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShownLetter {
    #[serde(flatten)]
    pub record: DeadLetterRecord,
    /// Payload size in bytes, as stored.
    pub kept: usize,
    /// The keys that would receive events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// Why this letter cannot be emitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[must_use]
pub fn describe_letter(letter: &KeptLetter) -> ShownLetter {
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
pub enum DeadLetterEntry {
    Webhook(WebhookLetterRecord),
    Events(DeadLetterRecord),
}

/// The cursor for a listing. At the same instant, webhook letters come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LetterCursor {
    Webhook(WebhookLetterPlace),
    Events(DeadLetterPlace),
}

/// Lists dead letters, latest first. Webhook letters have no key, so any filter on a key excludes them.
///
/// # Errors
/// If the store fails.
pub async fn list(
    store: &dyn Store,
    source: Option<LetterSource>,
    filter: &DeadLetterFilter,
    page: &PageRequest<LetterCursor>,
) -> Result<ListPage<DeadLetterEntry, LetterCursor>, tidings_store::StoreError> {
    let limit = page.limit;
    let after = page.after.as_ref().map(|PageCursor(place)| place);
    let (mut rows, mut more) = (Vec::new(), false);
    if source != Some(LetterSource::Events) && filter.workflow_ids().is_none() {
        let page = PageRequest { limit, after: after.map(webhooks_after).map(PageCursor) };
        let filter = WebhookLetterFilter { since: filter.since, until: filter.until, page };
        let listed = store.webhook_letters(&filter).await?;
        more |= listed.next.is_some();
        rows.extend(listed.rows.into_iter().map(DeadLetterEntry::Webhook));
    }
    if source != Some(LetterSource::Webhook) {
        let page = PageRequest { limit, after: after.map(events_after).map(PageCursor) };
        let listed = store.dead_letters(&DeadLetterFilter { page, ..filter.clone() }).await?;
        more |= listed.next.is_some();
        rows.extend(listed.rows.into_iter().map(DeadLetterEntry::Events));
    }
    Ok(merge_sources(rows, limit as usize, more))
}

/// At one instant webhook letters come before events, so none follow an event.
fn webhooks_after(place: &LetterCursor) -> WebhookLetterPlace {
    match place {
        LetterCursor::Webhook(place) => place.clone(),
        LetterCursor::Events((at, ..)) => (*at, String::new(), String::new()),
    }
}

/// All events at this instant follow the webhook letter. Times are whole milliseconds.
fn events_after(place: &LetterCursor) -> DeadLetterPlace {
    match place {
        LetterCursor::Events(place) => place.clone(),
        LetterCursor::Webhook((at, ..)) => {
            (at.saturating_add(Duration::from_millis(1)).unwrap_or(*at), String::new(), 0)
        }
    }
}

/// Expects `rows` sorted within each source, webhooks first.
fn merge_sources(mut rows: Vec<DeadLetterEntry>, limit: usize, more: bool) -> ListPage<DeadLetterEntry, LetterCursor> {
    rows.sort_by_key(|letter| Reverse(letter.buried_at()));
    let more = more || rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|last| PageCursor(last.list_cursor()));
    ListPage { rows, next }
}

impl DeadLetterEntry {
    const fn buried_at(&self) -> Timestamp {
        match self {
            Self::Webhook(letter) => letter.buried_at,
            Self::Events(letter) => letter.buried_at,
        }
    }

    fn list_cursor(&self) -> LetterCursor {
        match self {
            Self::Webhook(letter) => {
                LetterCursor::Webhook((letter.buried_at, letter.relay.clone(), letter.sha256.clone()))
            }
            Self::Events(letter) => LetterCursor::Events((letter.buried_at, letter.id.run_id.clone(), letter.id.seq)),
        }
    }
}
