//! Rows as JSON for the archive and exports: one object per line, named like the tables, with RFC 3339 times.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_model::records::{AttemptRecord, MessageRecord, RowPlace};

use crate::{
    digest::StoredMessage,
    sql::{
        columns::{self, column},
        dialect::Dialect,
    },
};

pub struct ArchiveLine {
    pub key: Value,
    pub json: Value,
    pub since: Timestamp,
}

pub struct TableLines {
    pub table: &'static str,
    kind: &'static str,
    pub columns: &'static [LineColumn],
    key: usize,
    since: &'static str,
    /// The number or time, and the text, by which export pages are sorted; empty if none.
    place: (&'static str, &'static str),
}

pub struct LineColumn {
    pub name: &'static str,
    word: &'static str,
    shape: ColumnShape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ColumnShape {
    Text,
    Number,
    Flag,
    Time,
    DigestTime,
    /// A time, or the end of time, which RFC 3339 cannot express.
    Until,
    Json,
    /// A JSON array; NULL becomes an empty one.
    List,
}

macro_rules! columns {
    ($($name:ident $(as $word:literal)?: $shape:ident),+ $(,)?) => {
        &[$(LineColumn { name: stringify!($name), word: columns!(@ $name $($word)?), shape: ColumnShape::$shape }),+]
    };
    (@ $name:ident $word:literal) => { $word };
    (@ $name:ident) => { stringify!($name) };
}

pub const DIGESTS: TableLines = TableLines {
    table: "digests",
    kind: "digest",
    columns: columns![
        digest_id: Text, tenant: Text, digest_type: Text, user_id as "user": Text, opened_at: Time, due_at: Time, state: Text,
        claimed_at: Time, sent_at: Time, closed_at: Time, outcome: Text, why: Text, plan_why: Text, cadence: Text, zone: Text,
        event_count: Number,
    ],
    key: 1,
    since: "",
    place: ("opened_at", "digest_id"),
};

pub const EVENTS: TableLines = TableLines {
    table: "events",
    kind: "event",
    columns: columns![
        tenant: Text, digest_type: Text, user_id as "user": Text, event_id: Text, digest_id: Text, closed_at: DigestTime,
        category: Text, other_categories: List, entity_type: Text, entity_id: Text, actor: Text, occurred_at: Time, counts: Json,
        urgent: Flag, payload: Json, recorded_at: Time, returned_from: Text,
    ],
    key: 4,
    since: "closed_at",
    place: ("", "event_id"),
};

pub const RETRACTS: TableLines = TableLines {
    table: "retracts",
    kind: "retract",
    columns: columns![
        tenant: Text, digest_type: Text, user_id as "user": Text, event_id: Text, category: Text, entity_type: Text,
        entity_id: Text, until_at: Until, retracted_at: Time,
    ],
    key: 7,
    since: "retracted_at",
    place: ("", ""),
};

pub const DEAD_LETTERS: TableLines = TableLines {
    table: "dead_letters",
    kind: "dead_letter",
    columns: columns![
        workflow_id: Text, run_id: Text, seq: Number, reason: Text, encoding: Text, message_type: Text, size: Number, sha256: Text,
        head: Text, buried_at: Time, emitted_at: Time, emitted_by: Text,
    ],
    key: 3,
    since: "buried_at",
    place: ("seq", "run_id"),
};

pub const WEBHOOK_LETTERS: TableLines = TableLines {
    table: "webhook_dead_letters",
    kind: "webhook_dead_letter",
    columns: columns![
        relay: Text, sha256: Text, reason: Text, size: Number, head: Text, buried_at: Time, emitted_at: Time, emitted_by: Text,
    ],
    key: 2,
    since: "buried_at",
    place: ("", ""),
};

pub const REPORTS: TableLines = TableLines {
    table: "delivery_events",
    kind: "delivery_event",
    columns: columns![
        message: Text, event as "": Text, tenant: Text, address_lower as "address": Text, kind as "event": Text, bounce: Text,
        status: Text, diagnostic: Text, relay: Text, event_id: Text, occurred_at: Time, received_at: Time, never_sent: Flag,
        machine: Text, url: Text,
    ],
    key: 2,
    since: "received_at",
    place: ("", ""),
};

pub const AUDIT: TableLines = TableLines {
    table: "audit",
    kind: "audit",
    columns: columns![
        audit_id as "": Number, acted_at: Time, digest_type: Text, digest_id: Text, message: Text, actor: Text, action: Text, why: Text,
    ],
    key: 1,
    since: "",
    place: ("audit_id", ""),
};

pub const INBOX: TableLines = TableLines {
    table: "inbox",
    kind: "",
    columns: columns![
        id as "": Number, kind: Text, workflow_id: Text, json: Json, received_at: Time, forwarded_at: Time,
    ],
    key: 1,
    since: "",
    place: ("id", ""),
};

pub const NOTICES: TableLines = TableLines {
    table: "notices",
    kind: "notice",
    columns: columns![
        seq as "": Number, subscription: Text, event: Text, digest_type: Text, digest_id: Text, message: Text, outcome: Text,
        reason: Text, occurred_at: Time, tries: Number, result: Text, ended_at: Time,
    ],
    key: 1,
    since: "",
    place: ("seq", ""),
};

pub const JOB_RESULTS: TableLines = TableLines {
    table: "job_keys",
    kind: "job_result",
    columns: columns![
        job_id as "job": Text, workflow_id: Text, state: Text, answer: Json, problem: Text, ended_at: Time,
    ],
    key: 2,
    since: "",
    place: ("", "job_id"),
};

pub const TROUBLED_RUNS: TableLines = TableLines {
    table: "troubled_runs",
    kind: "troubled_run",
    columns: columns![
        workflow_id: Text, run_id: Text, trouble: Text, since: Time, ended_by: Text, why: Text, resolution: Text, resolved_at: Time,
    ],
    key: 2,
    since: "",
    place: ("", "run_id"),
};

#[cfg(test)]
pub const ALL: [&TableLines; 11] = [
    &DIGESTS,
    &EVENTS,
    &RETRACTS,
    &DEAD_LETTERS,
    &WEBHOOK_LETTERS,
    &REPORTS,
    &AUDIT,
    &INBOX,
    &NOTICES,
    &JOB_RESULTS,
    &TROUBLED_RUNS,
];

impl TableLines {
    pub fn select_columns(&self, statement: &str) -> String {
        let of = if self.table == EVENTS.table { "e." } else { "" };
        let column = |LineColumn { name, shape, .. }: &LineColumn| match shape {
            ColumnShape::DigestTime => format!("d.{name}"),
            ColumnShape::Json => format!("CAST({of}{name} AS TEXT) AS {name}"),
            _ => format!("{of}{name}"),
        };
        let columns: Vec<_> = self.columns.iter().map(column).collect();
        statement.replace("{columns}", &columns.join(", "))
    }

    pub fn row_json<D: Dialect>(&self, row: &D::Row) -> sqlx::Result<Value> {
        let mut line = Map::new();
        if !self.kind.is_empty() {
            line.insert("kind".to_owned(), self.kind.into());
        }
        for LineColumn { name, word, shape } in self.columns.iter().filter(|column| !column.word.is_empty()) {
            line.insert((*word).to_owned(), shape.read_value::<D>(row, name)?);
        }
        Ok(line.into())
    }

    pub fn row_line<D: Dialect>(&self, row: &D::Row) -> sqlx::Result<ArchiveLine> {
        let key = self.columns[..self.key].iter().map(|column| column.shape.read_value::<D>(row, column.name));
        let key = key.collect::<sqlx::Result<Vec<_>>>()?.into();
        Ok(ArchiveLine { key, json: self.row_json::<D>(row)?, since: column(row, self.since)? })
    }

    pub fn row_place<D: Dialect>(&self, row: &D::Row) -> sqlx::Result<RowPlace> {
        let (number, text) = self.place;
        let number = if number.is_empty() { 0 } else { column(row, number)? };
        Ok((number, if text.is_empty() { String::new() } else { column(row, text)? }))
    }
}

impl ColumnShape {
    fn read_value<D: Dialect>(self, row: &D::Row, name: &str) -> sqlx::Result<Value> {
        Ok(match self {
            Self::Text => column::<_, Option<String>>(row, name)?.into(),
            Self::Number => column::<_, Option<i64>>(row, name)?.into(),
            Self::Flag => column::<_, bool>(row, name)?.into(),
            Self::Time | Self::DigestTime => json!(column::<_, Option<Timestamp>>(row, name)?),
            Self::Until => json!(Timestamp::from_millisecond(column(row, name)?).ok()),
            Self::Json => column::<_, Option<columns::JsonColumn<Value>>>(row, name)?.map(|json| json.0).into(),
            Self::List => {
                column::<_, Option<columns::JsonColumn<Value>>>(row, name)?.map_or_else(|| json!([]), |list| list.0)
            }
        })
    }
}

/// The bytes are text if valid UTF-8, otherwise base64; see `encoding`.
pub fn message_json(record: &MessageRecord, stored: StoredMessage, attempts: &[AttemptRecord]) -> Value {
    let StoredMessage { message, former_envelopes, .. } = stored;
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
