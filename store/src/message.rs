//! The row of a message.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key, MessageKey,
    records::{Message, MessageRecord, MessageState, Origin},
    settings::StreamName,
    window::Closed,
};
use uuid::Uuid;

use crate::{
    Error, Result,
    digest::closed,
    sql::{
        Sql,
        columns::{Json, row},
        dialect::{Dialect, Variants},
    },
};

/// `$1` message. Answers with (state, why, `sent_at`) and keeps the row for the transaction. A digest's row comes first.
pub const LOCK_MESSAGE: Variants = Variants {
    sqlite: "SELECT state, why, sent_at FROM messages WHERE id = $1",
    postgres: "SELECT state, why, sent_at FROM messages WHERE id = $1 FOR UPDATE",
};

macro_rules! message_row {
    () => {
        "
SELECT id, tenant, digest_type, user_id, idempotency_key, content_sha256, stream, envelope_from, envelope_to, message_id,
       subject, bytes, template, counted, made_from, thread, COALESCE(made_at, created_at) AS made_at, former_envelopes,
       may_repeat, epoch
FROM messages WHERE id = $1"
    };
}

pub const MESSAGE: &str = message_row!();

/// While it can be made again.
pub const WAITING_MESSAGE: &str = concat!(
    message_row!(),
    " AND closed_at IS NULL AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND past_the_dot_at IS NOT NULL)"
);

macro_rules! message_columns {
    () => {
        "SELECT m.id, m.tenant, m.digest_type, m.user_id, m.idempotency_key, m.content_sha256, m.stream, m.state,
                m.why, m.envelope_to, m.message_id, m.subject, m.created_at, COALESCE(m.made_at, m.created_at) AS made_at,
                m.made_from, m.sent_at, m.closed_at,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = m.id) AS attempts
         FROM messages m "
    };
}

pub const MESSAGE_RECORD: &str = concat!(message_columns!(), "WHERE m.id = $1");

/// `{each}` is a message's id in a list of its own.
pub const MESSAGE_RECORDS: &str = concat!(message_columns!(), "WHERE m.id IN (SELECT value->>0 FROM {each})");

/// `$1` tenant, `$2` id.
pub const MESSAGE_BYTES: &str = "SELECT bytes FROM messages WHERE tenant = $1 AND id = $2";

/// `$1` tenant and `$2` state, or empty for all. After the creation `$3` and the id `$4`; `$5` limit.
pub const MESSAGES: &str = concat!(
    message_columns!(),
    "WHERE (m.tenant = $1 OR $1 = '') AND (m.state = $2 OR $2 = '') AND (m.created_at, m.id) < ($3, $4)
     ORDER BY m.created_at DESC, m.id DESC LIMIT $5"
);

pub const IS_SINGLE: &str = "SELECT id FROM messages WHERE id = $1 AND digest_id IS NULL";

/// For one that has no end.
pub const MESSAGE_STATE: &str = "UPDATE messages SET state = $2 WHERE id = $1 AND closed_at IS NULL";

/// A message, ours until the transaction ends.
pub struct LockedMessage {
    /// Its end, or its digest's.
    pub closed: Option<Closed>,
    /// `true` if the relay accepted the message.
    pub sent: bool,
}

row! {
/// Columns of [`LOCK_MESSAGE`].
pub struct LockedRow {
    state: MessageState,
    why: Option<String>,
    sent_at: Option<Timestamp>,
}
}

impl<D: Dialect> Sql<D> {
    /// The digest first, then the message, in that order everywhere: else two calls could wait for each other.
    pub(crate) async fn lock_message(connection: &mut D::Connection, message: Uuid) -> Result<LockedMessage> {
        let digest = Self::lock_if_any(&mut *connection, message).await?;
        let row = query_as(D::pick(LOCK_MESSAGE)).bind(message.to_string()).fetch_optional(connection).await?;
        let row: Option<LockedRow> = row;
        match (digest, row) {
            (Some(digest), row) => {
                Ok(LockedMessage { closed: digest.closed, sent: row.is_some_and(|row| row.sent_at.is_some()) })
            }
            (None, Some(row)) => {
                Ok(LockedMessage { closed: closed(row.state.outcome(), row.why), sent: row.sent_at.is_some() })
            }
            (None, None) => Err(Error::Broken(format!("message {message} is not in the outbox"))),
        }
    }

    pub(crate) async fn lock_single(connection: &mut D::Connection, key: &MessageKey) -> Result<Option<LockedMessage>> {
        let id = key.message_id();
        let found: Option<(String,)> =
            query_as(IS_SINGLE).bind(id.to_string()).fetch_optional(&mut *connection).await?;
        if found.is_some() { Self::lock_message(connection, id).await.map(Some) } else { Ok(None) }
    }

    pub(crate) async fn set_state(connection: &mut D::Connection, id: String, state: MessageState) -> Result<()> {
        let set = query(MESSAGE_STATE).bind(id).bind(state.name().to_owned());
        set.execute(connection).await?;
        Ok(())
    }
}

/// [`Origin`] as columns; what it does not have is empty.
#[derive(Default)]
pub struct OriginRow {
    pub digest_id: String,
    pub digest_type: String,
    pub user: String,
    pub idempotency_key: String,
    pub content_sha256: String,
}

impl OriginRow {
    pub(crate) fn new(message: &Message) -> Self {
        match message.origin.clone() {
            Origin::Digest(Key { digest_type, user, .. }) => {
                Self { digest_id: message.id.to_string(), digest_type, user, ..Self::default() }
            }
            Origin::Single { key, user, content_sha256 } => {
                Self { user: user.unwrap_or_default(), idempotency_key: key.key, content_sha256, ..Self::default() }
            }
        }
    }
}

fn origin(
    tenant: String,
    digest_type: String,
    user: String,
    idempotency_key: Option<String>,
    content_sha256: Option<String>,
) -> Origin {
    match idempotency_key {
        None => Origin::Digest(Key { tenant, digest_type, user }),
        Some(key) => Origin::Single {
            key: MessageKey { tenant, key },
            user: (!user.is_empty()).then_some(user),
            content_sha256: content_sha256.unwrap_or_default(),
        },
    }
}

impl MessageRow {
    /// The addresses that the message was made for before.
    pub(crate) fn former_envelopes(&self) -> BTreeSet<String> {
        self.former_envelopes.as_ref().map(|Json(former)| former.clone()).unwrap_or_default()
    }
}

row! {
/// Columns of [`MESSAGE`].
pub struct MessageRow {
    id: Uuid,
    tenant: String,
    digest_type: String,
    user_id: String,
    idempotency_key: Option<String>,
    content_sha256: Option<String>,
    stream: StreamName,
    envelope_from: String,
    envelope_to: String,
    message_id: String,
    subject: String,
    bytes: Vec<u8>,
    template: String,
    counted: bool,
    made_from: String,
    thread: Option<Uuid>,
    made_at: Timestamp,
    /// Addresses that it was made for before.
    former_envelopes: Option<Json<BTreeSet<String>>>,
    epoch: u64,
    /// The attempt up to which an operator let the message be repeated; 0: none.
    may_repeat: i64,
}
}

impl From<MessageRow> for Message {
    fn from(row: MessageRow) -> Self {
        Self {
            id: row.id,
            origin: origin(row.tenant, row.digest_type, row.user_id, row.idempotency_key, row.content_sha256),
            stream: row.stream,
            envelope_from: row.envelope_from,
            envelope_to: row.envelope_to,
            message_id: row.message_id,
            subject: row.subject,
            bytes: row.bytes,
            template: row.template,
            counted: row.counted,
            made_from: row.made_from,
            thread: row.thread,
            made_at: row.made_at,
        }
    }
}

row! {
/// Columns of [`MESSAGE_RECORD`].
pub struct RecordRow {
    id: Uuid,
    tenant: String,
    digest_type: String,
    user_id: String,
    idempotency_key: Option<String>,
    content_sha256: Option<String>,
    stream: StreamName,
    state: MessageState,
    why: Option<String>,
    envelope_to: String,
    message_id: String,
    subject: String,
    created_at: Timestamp,
    made_at: Timestamp,
    made_from: String,
    sent_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    attempts: u32,
}
}

impl From<RecordRow> for MessageRecord {
    fn from(row: RecordRow) -> Self {
        Self {
            id: row.id,
            origin: origin(row.tenant, row.digest_type, row.user_id, row.idempotency_key, row.content_sha256),
            stream: row.stream,
            state: row.state,
            why: row.why.unwrap_or_default(),
            envelope_to: row.envelope_to,
            message_id: row.message_id,
            subject: row.subject,
            created_at: row.created_at,
            made_at: row.made_at,
            made_from: row.made_from,
            sent_at: row.sent_at,
            closed_at: row.closed_at,
            attempts: row.attempts,
        }
    }
}
