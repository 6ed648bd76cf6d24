//! What goes into statements as JSON and comes out of them as rows.

use serde::{Deserialize, Serialize, de::IntoDeserializer};
use tidings_model::{
    Event, Key,
    contract::{Closed, Outcome},
    records::{DigestRecord, Facts, Group, Reason, Recipient},
};
use uuid::Uuid;

use super::{json, number, time};
use crate::{Error, Result};

/// An event as the statements take it: what is JSON in a column is text here, so that neither database looks into it.
#[derive(Serialize)]
pub struct EventRow<'a> {
    event_id: &'a str,
    category: &'a str,
    entity_type: &'a str,
    entity_id: &'a str,
    actor: &'a str,
    occurred_at: i64,
    counts: String,
    urgent: bool,
    payload: String,
}

impl<'a> EventRow<'a> {
    pub fn new(event: &'a Event) -> Result<Self> {
        Ok(Self {
            event_id: &event.event_id,
            category: &event.category,
            entity_type: &event.entity_type,
            entity_id: &event.entity_id,
            actor: &event.actor,
            occurred_at: event.occurred_at.as_millisecond(),
            counts: json(&event.counts)?,
            urgent: event.urgent,
            payload: json(&event.payload)?,
        })
    }
}

/// A recipient as the statements take it.
#[derive(Serialize)]
pub struct RecipientRow<'a> {
    #[serde(flatten)]
    pub recipient: &'a Recipient,
    pub address_lower: String,
}

/// A retract as the statements take it.
#[derive(Serialize)]
pub struct RetractRow<'a> {
    #[serde(flatten)]
    pub identity: RetractIdentity<'a>,
    pub until_at: i64,
}

/// The columns of the other kind are empty.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RetractIdentity<'a> {
    pub event_id: &'a str,
    pub category: &'a str,
    pub entity_type: &'a str,
    pub entity_id: &'a str,
}

/// Columns of [`FACTS`](super::statements::FACTS).
pub type FactsRow = (
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<bool>,
    Option<String>,
    Option<i64>,
);

pub fn facts(key: &Key, row: FactsRow) -> Result<Facts> {
    let (address, name, zone, locale, zone_revision, zone_at, chosen, revision, at, consent, suppressed, last_sent_at) =
        row;
    // Each part only grows, and so does the sum.
    let revision = revision.unwrap_or_default().saturating_add(zone_revision.unwrap_or_default());
    let recipient = address.map(|address| Recipient {
        tenant: key.tenant.clone(),
        user: key.user.clone(),
        address,
        name: name.unwrap_or_default(),
        zone: zone.unwrap_or_default(),
        locale: locale.unwrap_or_default(),
    });
    Ok(Facts {
        recipient,
        preferences: chosen.map(|text| parsed("preferences", &text)).transpose()?.unwrap_or_default(),
        revision: number(revision)?,
        changed_at: at.max(zone_at).map(time).transpose()?,
        consent: consent.unwrap_or(true),
        suppressed: suppressed.as_deref().map(reason).transpose()?,
        last_sent_at: last_sent_at.map(time).transpose()?,
    })
}

pub fn reason(name: &str) -> Result<Reason> {
    let known = Reason::ALL.into_iter().find(|reason| reason.name() == name);
    known.ok_or_else(|| Error::Broken(format!("a reason in the store: {name:?}")))
}

/// Columns of [`Dialect::LINES`](super::Dialect::LINES).
pub type LineRow = (String, String, String, i64, i64, i64, String, String, String, i64, String);

pub fn group(row: LineRow) -> Result<Group> {
    let (category, entity_type, entity_id, items, first_at, last_at, counts, actor, payload, actor_count, actors) = row;
    Ok(Group {
        category,
        entity_type,
        entity_id,
        count: number(items)?,
        counts: parsed("counts", &counts)?,
        first_at: time(first_at)?,
        last_at: time(last_at)?,
        actor,
        payload: parsed("payload", &payload)?,
        actor_count: number(actor_count)?,
        actors: parsed("actors", &actors)?,
    })
}

/// Columns of [`DIGEST`](super::statements::DIGEST).
pub type DigestRow =
    (String, String, String, String, i64, i64, String, Option<String>, Option<String>, Option<i64>, i64, i64, i64);

pub fn digest(row: DigestRow) -> Result<DigestRecord> {
    let (id, tenant, digest_type, user, opened_at, due_at, state, outcome, why, closed_at, items, attempts, ambiguous) =
        row;
    Ok(DigestRecord {
        digest_id: digest_id(&id)?,
        key: Key { tenant, digest_type, user },
        opened_at: time(opened_at)?,
        due_at: time(due_at)?,
        state,
        closed: closed(outcome, why)?,
        closed_at: closed_at.map(time).transpose()?,
        items: number(items)?,
        attempts: number(attempts)?,
        ambiguous: number(ambiguous)?,
    })
}

pub fn closed(outcome: Option<String>, why: Option<String>) -> Result<Option<Closed>> {
    let Some(outcome) = outcome else { return Ok(None) };
    let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = outcome.as_str().into_deserializer();
    let outcome =
        Outcome::deserialize(name).map_err(|error| Error::Broken(format!("an outcome in the store: {error}")))?;
    Ok(Some(Closed { outcome, why: why.unwrap_or_default() }))
}

pub fn digest_id(text: &str) -> Result<Uuid> {
    text.parse().map_err(|_| Error::Broken(format!("a digest id in the store: {text:?}")))
}

pub fn parsed<'a, T: Deserialize<'a>>(what: &str, text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Broken(format!("{what} in the store: {error}")))
}
