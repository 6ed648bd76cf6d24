//! What goes into statements as JSON and comes out of them as rows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_model::{
    Event, Key,
    contract::{Closed, Outcome},
    records::{DigestRecord, Facts, Group, Preferences, Reason, Recipient},
};
use uuid::Uuid;

use super::{
    columns::{Json, row},
    json,
};
use crate::Result;

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

row! {
/// Columns of [`FACTS`](super::statements::FACTS).
pub struct FactsRow {
    address: Option<String>,
    name: Option<String>,
    zone: Option<String>,
    locale: Option<String>,
    zone_revision: Option<u64>,
    zone_changed_at: Option<Timestamp>,
    chosen: Option<Json<Preferences>>,
    revision: Option<u64>,
    changed_at: Option<Timestamp>,
    consent: Option<bool>,
    suppressed: Option<Reason>,
    last_sent_at: Option<Timestamp>,
}
}

impl FactsRow {
    pub fn facts(self, key: &Key) -> Facts {
        let recipient = self.address.map(|address| Recipient {
            tenant: key.tenant.clone(),
            user: key.user.clone(),
            address,
            name: self.name.unwrap_or_default(),
            zone: self.zone.unwrap_or_default(),
            locale: self.locale.unwrap_or_default(),
        });
        Facts {
            recipient,
            preferences: self.chosen.map(|Json(chosen)| chosen).unwrap_or_default(),
            // Each part only grows, and so does the sum.
            revision: self.revision.unwrap_or_default().saturating_add(self.zone_revision.unwrap_or_default()),
            changed_at: self.changed_at.max(self.zone_changed_at),
            consent: self.consent.unwrap_or(true),
            suppressed: self.suppressed,
            last_sent_at: self.last_sent_at,
        }
    }
}

row! {
/// Columns of [`Dialect::LINES`](super::Dialect::LINES).
pub struct LineRow {
    category: String,
    entity_type: String,
    entity_id: String,
    items: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    counts: Json<BTreeMap<String, i64>>,
    actor: String,
    payload: Json<Map<String, Value>>,
    actor_count: u64,
    actors: Json<Vec<String>>,
}
}

impl From<LineRow> for Group {
    fn from(row: LineRow) -> Self {
        Self {
            category: row.category,
            entity_type: row.entity_type,
            entity_id: row.entity_id,
            count: row.items,
            counts: row.counts.0,
            first_at: row.first_at,
            last_at: row.last_at,
            actor: row.actor,
            payload: row.payload.0,
            actor_count: row.actor_count,
            actors: row.actors.0,
        }
    }
}

row! {
/// Columns of [`DIGEST`](super::statements::DIGEST).
pub struct DigestRow {
    digest_id: Uuid,
    tenant: String,
    digest_type: String,
    user_id: String,
    opened_at: Timestamp,
    due_at: Timestamp,
    state: String,
    outcome: Option<Outcome>,
    why: Option<String>,
    closed_at: Option<Timestamp>,
    items: u64,
    attempts: u32,
    ambiguous: u32,
}
}

impl From<DigestRow> for DigestRecord {
    fn from(row: DigestRow) -> Self {
        Self {
            digest_id: row.digest_id,
            key: Key { tenant: row.tenant, digest_type: row.digest_type, user: row.user_id },
            opened_at: row.opened_at,
            due_at: row.due_at,
            state: row.state,
            closed: closed(row.outcome, row.why),
            closed_at: row.closed_at,
            items: row.items,
            attempts: row.attempts,
            ambiguous: row.ambiguous,
        }
    }
}

pub fn closed(outcome: Option<Outcome>, why: Option<String>) -> Option<Closed> {
    outcome.map(|outcome| Closed { outcome, why: why.unwrap_or_default() })
}
