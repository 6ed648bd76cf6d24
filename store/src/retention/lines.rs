//! Rows as the archive has them: one JSON object a line, in the words of the tables, with times as RFC 3339.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_model::records::{AttemptRecord, Message, MessageRecord};

use crate::{
    attempts::AttemptRow,
    message::{MessageRow, RecordRow},
    sql::columns::{Json, row},
};

/// A row that is going to be deleted.
pub struct Line {
    /// The primary key.
    pub key: Value,
    /// The line of the archive.
    pub json: Value,
    /// The instant from which the row's age counts.
    pub since: Timestamp,
}

row! {
/// Columns of [`EVENTS_OF_DIGESTS`](crate::retention::statements::EVENTS_OF_DIGESTS).
pub struct EventRow {
    tenant: String,
    digest_type: String,
    user_id: String,
    event_id: String,
    digest_id: String,
    category: String,
    other_categories: Option<Json<Value>>,
    entity_type: String,
    entity_id: String,
    actor: String,
    occurred_at: Timestamp,
    counts: Json<Value>,
    urgent: bool,
    payload: Json<Value>,
    recorded_at: Timestamp,
    returned_from: Option<String>,
    closed_at: Option<Timestamp>,
}
}

impl From<EventRow> for Line {
    fn from(row: EventRow) -> Self {
        let key = json!([row.tenant, row.digest_type, row.user_id, row.event_id]);
        let other_categories = row.other_categories.map_or_else(|| json!([]), |others| others.0);
        let json = json!({
            "kind": "event", "tenant": row.tenant, "digest_type": row.digest_type, "user": row.user_id,
            "event_id": row.event_id, "digest_id": row.digest_id, "closed_at": row.closed_at, "category": row.category,
            "other_categories": other_categories, "entity_type": row.entity_type, "entity_id": row.entity_id, "actor": row.actor,
            "occurred_at": row.occurred_at, "counts": row.counts.0, "urgent": row.urgent, "payload": row.payload.0,
            "recorded_at": row.recorded_at, "returned_from": row.returned_from,
        });
        Self { key, json, since: row.closed_at.unwrap_or(row.recorded_at) }
    }
}

row! {
/// Columns of [`OLD_RETRACTS`](crate::retention::statements::OLD_RETRACTS).
pub struct RetractRow {
    tenant: String,
    digest_type: String,
    user_id: String,
    event_id: String,
    category: String,
    entity_type: String,
    entity_id: String,
    until_at: i64,
    retracted_at: Timestamp,
}
}

impl From<RetractRow> for Line {
    fn from(row: RetractRow) -> Self {
        let key = json!([
            row.tenant,
            row.digest_type,
            row.user_id,
            row.event_id,
            row.category,
            row.entity_type,
            row.entity_id
        ]);
        let json = json!({
            "kind": "retract", "tenant": row.tenant, "digest_type": row.digest_type, "user": row.user_id,
            "event_id": row.event_id, "category": row.category, "entity_type": row.entity_type,
            "entity_id": row.entity_id,
            // A retract of an event id has no end, which RFC 3339 cannot say.
            "until_at": Timestamp::from_millisecond(row.until_at).ok(), "retracted_at": row.retracted_at,
        });
        Self { key, json, since: row.retracted_at }
    }
}

row! {
/// Columns of [`OLD_LETTERS`](crate::retention::statements::OLD_LETTERS).
pub struct DeadLetterRow {
    workflow_id: String,
    run_id: String,
    seq: i64,
    reason: String,
    encoding: String,
    message_type: Option<String>,
    size: i64,
    sha256: String,
    head: String,
    buried_at: Timestamp,
    emitted_at: Option<Timestamp>,
    emitted_by: Option<String>,
}
}

impl From<DeadLetterRow> for Line {
    fn from(row: DeadLetterRow) -> Self {
        let json = json!({
            "kind": "dead_letter", "workflow_id": row.workflow_id, "run_id": row.run_id, "seq": row.seq,
            "reason": row.reason, "encoding": row.encoding, "message_type": row.message_type, "size": row.size,
            "sha256": row.sha256, "head": row.head, "buried_at": row.buried_at, "emitted_at": row.emitted_at,
            "emitted_by": row.emitted_by,
        });
        Self { key: json!([row.workflow_id, row.run_id, row.seq]), json, since: row.buried_at }
    }
}

row! {
/// Columns of [`OLD_WEBHOOK_LETTERS`](crate::retention::selection::OLD_WEBHOOK_LETTERS).
pub struct WebhookLetterRow {
    relay: String,
    sha256: String,
    reason: String,
    size: i64,
    head: String,
    buried_at: Timestamp,
    emitted_at: Option<Timestamp>,
    emitted_by: Option<String>,
}
}

impl From<WebhookLetterRow> for Line {
    fn from(row: WebhookLetterRow) -> Self {
        let json = json!({
            "kind": "webhook_dead_letter", "relay": row.relay, "reason": row.reason, "size": row.size,
            "sha256": row.sha256, "head": row.head, "buried_at": row.buried_at, "emitted_at": row.emitted_at,
            "emitted_by": row.emitted_by,
        });
        Self { key: json!([row.relay, row.sha256]), json, since: row.buried_at }
    }
}

row! {
/// Columns of [`OLD_REPORTS`](crate::retention::statements::OLD_REPORTS).
pub struct ReportRow {
    message: String,
    event: String,
    tenant: String,
    address_lower: String,
    kind: String,
    bounce: Option<String>,
    status: Option<String>,
    diagnostic: String,
    relay: Option<String>,
    event_id: Option<String>,
    occurred_at: Timestamp,
    received_at: Timestamp,
    never_sent: bool,
    machine: Option<String>,
    url: Option<String>,
}
}

impl From<ReportRow> for Line {
    fn from(row: ReportRow) -> Self {
        let json = json!({
            "kind": "delivery_event", "message": row.message, "tenant": row.tenant, "address": row.address_lower,
            "event": row.kind, "bounce": row.bounce, "status": row.status, "diagnostic": row.diagnostic,
            "relay": row.relay, "event_id": row.event_id, "occurred_at": row.occurred_at,
            "received_at": row.received_at, "never_sent": row.never_sent, "machine": row.machine, "url": row.url,
        });
        Self { key: json!([row.message, row.event]), json, since: row.received_at }
    }
}

/// The bytes are text where they are UTF-8, and else base64: `encoding` says which.
pub fn message(record: RecordRow, message: MessageRow, attempts: Vec<AttemptRow>) -> Value {
    let record = MessageRecord::from(record);
    let former_envelopes = message.former_envelopes();
    let message = Message::from(message);
    let attempts: Vec<_> = attempts.into_iter().map(AttemptRecord::from).collect();
    let (encoding, bytes) = match String::from_utf8(message.bytes) {
        Ok(text) => ("utf-8", text),
        Err(error) => ("base64", STANDARD.encode(error.as_bytes())),
    };
    json!({
        "kind": "message", "id": record.id, "origin": record.origin, "stream": record.stream, "state": record.state,
        "why": record.why, "envelope_from": message.envelope_from, "envelope_to": record.envelope_to,
        "former_envelopes": former_envelopes,
        "message_id": record.message_id, "subject": record.subject, "template": message.template,
        "created_at": record.created_at, "made_at": record.made_at, "sent_at": record.sent_at, "closed_at": record.closed_at,
        "attempts": attempts, "encoding": encoding, "bytes": bytes,
    })
}
