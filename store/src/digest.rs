//! The rows of digests and messages.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    EventContent, Key, MessageKey,
    records::{DigestRecord, DigestState, MessageOrigin, MessageRecord, MessageState, OutboxMessage},
    window::{DigestOutcome, WindowEnd},
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    sql::{
        SqlStore,
        columns::{JsonColumn, column, record, text_column},
        dialect::{Dialect, StatementVariants},
    },
};

pub const LOCK_DIGEST: StatementVariants = StatementVariants {
    sqlite: "SELECT state, outcome, why FROM digests WHERE digest_id = $1",
    postgres: "SELECT state, outcome, why FROM digests WHERE digest_id = $1 FOR UPDATE",
};

macro_rules! digest_columns {
    () => {
        "SELECT d.digest_id, d.tenant, d.digest_type, d.user_id, d.opened_at, d.due_at, d.state, d.claimed_at,
                d.sent_at, d.outcome, d.why, d.closed_at, d.returned_at, d.purged_at, d.plan_why, d.cadence, d.zone,
                (SELECT CASE WHEN COUNT(*) < d.event_count THEN d.event_count ELSE COUNT(*) END
                 FROM events e WHERE e.digest_id = d.digest_id) AS items,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = d.digest_id) AS attempts,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = d.digest_id AND a.class = 'ambiguous') AS ambiguous
         FROM digests d "
    };
}

pub(crate) use digest_columns;

pub const DIGEST: &str = concat!(digest_columns!(), "WHERE d.digest_id = $1");

pub const DIGESTS: &str = concat!(
    digest_columns!(),
    "WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 ORDER BY d.opened_at DESC, d.digest_id LIMIT $4"
);

pub struct LockedDigest {
    pub state: DigestState,
    pub closed: Option<WindowEnd>,
    /// See [`Ending::taken`].
    pub taken: u64,
    /// Open digests which have some of the events.
    pub elsewhere: BTreeSet<Uuid>,
    /// New content for events which were already final.
    pub refused: Vec<(String, EventContent)>,
}

record!(row => LockedDigest {
    state,
    closed: closed_from(column(row, "outcome")?, column(row, "why")?),
    taken: 0,
    elsewhere: BTreeSet::new(),
    refused: Vec::new(),
});

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn lock_digest(connection: &mut D::Connection, digest_id: Uuid) -> Result<LockedDigest> {
        let locked = Self::lock_if_any(connection, digest_id).await?;
        locked.ok_or_else(|| StoreError::Broken(format!("digest {digest_id} is not in the ledger")))
    }

    pub(crate) async fn lock_if_any(connection: &mut D::Connection, digest_id: Uuid) -> Result<Option<LockedDigest>> {
        let digest = query(D::pick_variant(LOCK_DIGEST)).bind(digest_id.to_string()).try_map(Self::to_record);
        Ok(digest.fetch_optional(connection).await?)
    }

    pub(crate) async fn finds_row(
        connection: &mut D::Connection,
        statement: &'static str,
        digest_id: Uuid,
    ) -> Result<bool> {
        let found: Option<(i64,)> = query_as(statement).bind(digest_id.to_string()).fetch_optional(connection).await?;
        Ok(found.is_some())
    }
}

record!(row => DigestRecord {
    digest_id,
    key: Key { tenant: column(row, "tenant")?, digest_type: column(row, "digest_type")?, user: column(row, "user_id")? },
    opened_at,
    due_at,
    state,
    claimed_at,
    sent_at,
    closed: closed_from(column(row, "outcome")?, column(row, "why")?),
    closed_at,
    returned_at,
    purged_at,
    items,
    plan_why: text_column(row, "plan_why")?,
    cadence: text_column(row, "cadence")?,
    zone: text_column(row, "zone")?,
    attempts,
    ambiguous,
});

pub fn closed_from(outcome: Option<DigestOutcome>, why: Option<String>) -> Option<WindowEnd> {
    outcome.map(|outcome| WindowEnd { outcome, why: why.unwrap_or_default() })
}

/// Returns (state, why, `sent_at`) and locks the row. Lock the digest's row first.
pub const LOCK_MESSAGE: StatementVariants = StatementVariants {
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

/// Only while the message can still be rendered again.
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

pub const MESSAGE_RECORDS: &str = concat!(message_columns!(), "WHERE m.id IN (SELECT value->>0 FROM {each})");

pub const MESSAGE_BYTES: &str = "SELECT bytes FROM messages WHERE tenant = $1 AND id = $2";

pub const MESSAGES: &str = concat!(
    message_columns!(),
    "WHERE (m.tenant = $1 OR $1 = '') AND (m.state = $2 OR $2 = '') AND (m.created_at, m.id) < ($3, $4)
     ORDER BY m.created_at DESC, m.id DESC LIMIT $5"
);

pub const IS_SINGLE: &str = "SELECT id FROM messages WHERE id = $1 AND digest_id IS NULL";

pub const MESSAGE_STATE: &str = "UPDATE messages SET state = $2 WHERE id = $1 AND closed_at IS NULL";

pub struct LockedMessage {
    pub closed: Option<WindowEnd>,
    pub sent: bool,
}

record!(row => LockedMessage {
    closed: closed_from(column::<_, MessageState>(row, "state")?.outcome(), column(row, "why")?),
    sent: column::<_, Option<Timestamp>>(row, "sent_at")?.is_some(),
});

impl<D: Dialect> SqlStore<D> {
    /// Locks the digest first, then the message. All callers should use this order to avoid deadlocks.
    /// otherwise deadlock.
    pub(crate) async fn lock_message(connection: &mut D::Connection, message: Uuid) -> Result<LockedMessage> {
        let digest = Self::lock_if_any(&mut *connection, message).await?;
        let row = query(D::pick_variant(LOCK_MESSAGE)).bind(message.to_string()).try_map(Self::to_record);
        let row: Option<LockedMessage> = row.fetch_optional(connection).await?;
        match (digest, row) {
            (Some(digest), row) => {
                Ok(LockedMessage { closed: digest.closed, sent: row.is_some_and(|message| message.sent) })
            }
            (None, Some(row)) => Ok(row),
            (None, None) => Err(StoreError::Broken(format!("message {message} is not in the outbox"))),
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

#[derive(Default)]
pub struct OriginRow {
    pub digest_id: String,
    pub digest_type: String,
    pub user: String,
    pub idempotency_key: String,
    pub content_sha256: String,
}

impl OriginRow {
    pub(crate) fn new(message: &OutboxMessage) -> Self {
        match message.origin.clone() {
            MessageOrigin::Digest(Key { digest_type, user, .. }) => {
                Self { digest_id: message.id.to_string(), digest_type, user, ..Self::default() }
            }
            MessageOrigin::Single { key, user, content_sha256 } => {
                Self { user: user.unwrap_or_default(), idempotency_key: key.key, content_sha256, ..Self::default() }
            }
        }
    }
}

fn read_origin<D: Dialect>(row: &D::Row) -> sqlx::Result<MessageOrigin> {
    let [tenant, user]: [String; 2] = [column(row, "tenant")?, column(row, "user_id")?];
    Ok(match column(row, "idempotency_key")? {
        None => MessageOrigin::Digest(Key { tenant, digest_type: column(row, "digest_type")?, user }),
        Some(key) => MessageOrigin::Single {
            key: MessageKey { tenant, key },
            user: (!user.is_empty()).then_some(user),
            content_sha256: text_column(row, "content_sha256")?,
        },
    })
}

pub struct StoredMessage {
    pub message: OutboxMessage,
    /// Earlier recipients' addresses it was rendered for.
    pub former_envelopes: BTreeSet<String>,
    pub epoch: u64,
    pub may_repeat: i64,
}

record!(row => StoredMessage {
    message: OutboxMessage::read::<D>(row)?,
    former_envelopes: column::<_, Option<JsonColumn<_>>>(row, "former_envelopes")?.map(|JsonColumn(former)| former).unwrap_or_default(),
    epoch,
    may_repeat,
});

record!(row => OutboxMessage {
    id, origin: read_origin::<D>(row)?, stream, envelope_from, envelope_to, message_id, subject, bytes, template, counted, made_from, thread,
    made_at,
});

record!(row => MessageRecord {
    id, origin: read_origin::<D>(row)?, stream, state, why: text_column(row, "why")?, envelope_to, message_id, subject, created_at, made_at, made_from,
    sent_at, closed_at, attempts,
});
