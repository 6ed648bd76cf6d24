//! Rows as the archive has them: one JSON object a line, in the words of the tables, with times as RFC 3339.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    messages::{self, AttemptRow, MessageRow, RecordRow},
    rows::parsed,
    time,
};
use crate::Result;

/// A row's key, its line, and what its age counts from.
type Line = (Value, Value, i64);

/// Columns of [`EVENTS_OF_DIGESTS`](super::statements::EVENTS_OF_DIGESTS).
pub type EventRow = (
    String,
    String,
    String,
    String,
    String,
    String,
    String,
    String,
    String,
    i64,
    String,
    bool,
    String,
    i64,
    Option<String>,
    i64,
);

pub fn event(row: EventRow) -> Result<Line> {
    let (
        tenant,
        digest_type,
        user,
        event_id,
        digest_id,
        category,
        entity_type,
        entity_id,
        actor,
        occurred_at,
        counts,
        urgent,
        payload,
        recorded_at,
        returned_from,
        closed_at,
    ) = row;
    let key = json!([tenant, digest_type, user, event_id]);
    let line = json!({
        "kind": "event", "tenant": tenant, "digest_type": digest_type, "user": user, "event_id": event_id,
        "digest_id": digest_id, "closed_at": time(closed_at)?, "category": category, "entity_type": entity_type,
        "entity_id": entity_id, "actor": actor, "occurred_at": time(occurred_at)?,
        "counts": parsed::<Value>("counts", &counts)?, "urgent": urgent,
        "payload": parsed::<Value>("payload", &payload)?, "recorded_at": time(recorded_at)?,
        "returned_from": returned_from,
    });
    Ok((key, line, closed_at))
}

/// Columns of [`OLD_RETRACTS`](super::statements::OLD_RETRACTS).
pub type RetractRow = (String, String, String, String, String, String, String, i64, i64);

pub fn retract(row: RetractRow) -> Result<Line> {
    let (tenant, digest_type, user, event_id, category, entity_type, entity_id, until_at, retracted_at) = row;
    let key = json!([tenant, digest_type, user, event_id, category, entity_type, entity_id]);
    let line = json!({
        "kind": "retract", "tenant": tenant, "digest_type": digest_type, "user": user, "event_id": event_id,
        "category": category, "entity_type": entity_type, "entity_id": entity_id,
        // Of the event of an id the end of time.
        "until_at": time(until_at).ok(), "retracted_at": time(retracted_at)?,
    });
    Ok((key, line, retracted_at))
}

/// Columns of [`OLD_LETTERS`](super::statements::OLD_LETTERS).
pub type LetterRow = (String, String, i64, String, String, i64, String, String, i64);

pub fn letter(row: LetterRow) -> Result<Line> {
    let (workflow_id, run_id, seq, reason, encoding, size, sha256, head, buried_at) = row;
    let key = json!([workflow_id, run_id, seq]);
    let line = json!({
        "kind": "dead_letter", "workflow_id": workflow_id, "run_id": run_id, "seq": seq, "reason": reason,
        "encoding": encoding, "size": size, "sha256": sha256, "head": head, "buried_at": time(buried_at)?,
    });
    Ok((key, line, buried_at))
}

/// Columns of [`OLD_REPORTS`](super::statements::OLD_REPORTS).
pub type ReportRow = (
    String,
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    String,
    Option<String>,
    Option<String>,
    i64,
    i64,
);

pub fn report(row: ReportRow) -> Result<Line> {
    let (message, event, tenant, address, kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at) =
        row;
    let key = json!([message, event]);
    let line = json!({
        "kind": "delivery_event", "message": message, "tenant": tenant, "address": address, "event": kind,
        "bounce": bounce, "status": status, "diagnostic": diagnostic, "relay": relay, "event_id": event_id,
        "occurred_at": time(occurred_at)?, "received_at": time(received_at)?,
    });
    Ok((key, line, received_at))
}

/// The bytes are text where they are UTF-8, and else base64: `encoding` says which.
pub fn message(record: RecordRow, message: MessageRow, attempts: Vec<AttemptRow>) -> Result<Value> {
    let record = messages::record(record)?;
    let (message, _) = messages::message(record.id, message)?;
    let attempts: Vec<_> = attempts.into_iter().map(messages::attempt).collect::<Result<_>>()?;
    let (encoding, bytes) = match String::from_utf8(message.bytes) {
        Ok(text) => ("utf-8", text),
        Err(error) => ("base64", STANDARD.encode(error.as_bytes())),
    };
    Ok(json!({
        "kind": "message", "id": record.id, "origin": record.origin, "stream": record.stream, "state": record.state,
        "why": record.why, "envelope_from": message.envelope_from, "envelope_to": record.envelope_to,
        "message_id": record.message_id, "subject": record.subject, "template": message.template,
        "created_at": record.created_at, "sent_at": record.sent_at, "closed_at": record.closed_at,
        "attempts": attempts, "encoding": encoding, "bytes": bytes,
    }))
}
