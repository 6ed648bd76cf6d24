//! What the outbox says of its messages, and what operators do to single ones: those that are of no digest.

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key, MessageKey,
    contract::{Closed, Outcome},
    message::contract::{Retried, RetryInput},
    records::{
        AttemptRecord, AuditEntry, LateEnd, Message, MessageFilter, MessageRecord, MessageState, Origin, Reason,
    },
};
use uuid::Uuid;

use super::{Dialect, Sql, no_nul, number, outbox::LockedMessage, rows, statements, suppressions::folded, time};
use crate::{Error, Result};

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_message(&self, message: Uuid) -> Result<Option<MessageRecord>> {
        let statement = query_as(statements::MESSAGE_RECORD).bind(message.to_string());
        let row: Option<RecordRow> = statement.fetch_optional(&self.reader).await?;
        row.map(record).transpose()
    }

    pub(super) async fn read_messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>> {
        let statement = query_as(statements::MESSAGES).bind(filter.tenant.clone().unwrap_or_default());
        let statement = statement.bind(filter.state.map(|state| state.name().to_owned()).unwrap_or_default());
        let rows: Vec<RecordRow> = statement.bind(i64::from(filter.limit)).fetch_all(&self.reader).await?;
        rows.into_iter().map(record).collect()
    }

    pub(super) async fn read_attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>> {
        let statement = query_as(statements::ATTEMPTS).bind(message.to_string());
        let rows: Vec<AttemptRow> = statement.fetch_all(&self.reader).await?;
        rows.into_iter().map(attempt).collect()
    }

    pub(super) async fn read_suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>> {
        let statement = query_as(statements::SUPPRESSED).bind(tenant.to_owned()).bind(folded(address));
        let rows: Vec<(String,)> = statement.fetch_all(&self.reader).await?;
        rows.iter().map(|(name,)| rows::reason(name)).collect()
    }

    pub(super) async fn close_single(
        &self,
        key: &MessageKey,
        closed: &Closed,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Closed>> {
        let mut tx = self.write().await?;
        let Some(locked) = Self::lock_single(&mut tx, key).await? else { return Ok(None) };
        if locked.closed.is_some() {
            return Ok(locked.closed);
        }
        let closed = Self::unless_past_the_dot(&mut tx, key.message_id(), closed, now).await?;
        Self::end(&mut tx, key.message_id(), &closed, false, now).await?;
        let actor = if by.is_empty() { "tidings" } else { by }.to_owned();
        let why = format!("{}: {}", MessageState::after(closed.outcome).name(), closed.why);
        Self::audit_single(&mut tx, key, AuditEntry { at: now, actor, action: "close".into(), why }).await?;
        tx.commit().await?;
        Ok(Some(closed))
    }

    pub(super) async fn retry_single(&self, input: &RetryInput, now: Timestamp) -> Result<Retried> {
        let RetryInput { asked_at, key, retry } = input;
        let id = key.message_id().to_string();
        let mut tx = self.write().await?;
        let Some(locked) = Self::lock_single(&mut tx, key).await? else {
            return Ok(Retried::Refused { why: format!("the outbox has no message {key}") });
        };
        query(statements::FENCE).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        let why =
            if locked.sent { Some("the relay took it".to_owned()) } else { locked.closed.as_ref().and_then(over) };
        if let Some(why) = why {
            return Ok(Retried::Refused { why });
        }
        if !retry.may_duplicate && Self::has(&mut tx, statements::MAYBE_DELIVERED, key.message_id()).await? {
            let why = "an attempt was past the dot, so the recipient may have the mail; --may-duplicate sends it again";
            return Ok(Retried::Refused { why: why.to_owned() });
        }
        query(statements::REOPEN_MESSAGE).bind(id).bind(retry.may_duplicate).execute(&mut *tx).await?;
        let order = &retry.order;
        let entry =
            AuditEntry { at: *asked_at, actor: order.by.clone(), action: "retry".into(), why: order.why.clone() };
        Self::audit_single(&mut tx, key, entry).await?;
        tx.commit().await?;
        Ok(Retried::Queued)
    }

    async fn lock_single(connection: &mut D::Connection, key: &MessageKey) -> Result<Option<LockedMessage>> {
        let id = key.message_id();
        let found: Option<(String,)> =
            query_as(statements::IS_SINGLE).bind(id.to_string()).fetch_optional(&mut *connection).await?;
        if found.is_some() { Self::lock_message(connection, id).await.map(Some) } else { Ok(None) }
    }

    async fn audit_single(connection: &mut D::Connection, key: &MessageKey, entry: AuditEntry) -> Result<()> {
        query(statements::AUDIT_MESSAGE_ONCE)
            .bind(key.tenant.clone())
            .bind(key.message_id().to_string())
            .bind(entry.at.as_millisecond())
            .bind(no_nul(&entry.actor))
            .bind(entry.action)
            .bind(no_nul(&entry.why))
            .execute(connection)
            .await?;
        Ok(())
    }
}

/// The ends that are not to be undone.
fn over(closed: &Closed) -> Option<String> {
    match closed.outcome {
        Outcome::Sent => Some("it was sent".to_owned()),
        Outcome::Suppressed | Outcome::Skipped | Outcome::Throttled => {
            Some(format!("it was {}: {}", closed.outcome.name(), closed.why))
        }
        Outcome::Dropped | Outcome::Failed | Outcome::Ambiguous | Outcome::Unknown => None,
    }
}

/// [`Origin`] as columns; what it does not have is empty.
#[derive(Default)]
pub(super) struct OriginRow {
    pub digest_id: String,
    pub digest_type: String,
    pub user: String,
    pub idempotency_key: String,
    pub content_sha256: String,
}

impl OriginRow {
    pub fn new(message: &Message) -> Self {
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

/// Columns of [`MESSAGE`](statements::MESSAGE).
pub(super) type MessageRow = (
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    String,
    String,
    String,
    String,
    String,
    Vec<u8>,
    String,
    i64,
    i64,
);

/// The message, and the attempt up to which an operator let it be repeated.
pub(super) fn message(id: Uuid, row: MessageRow) -> Result<(Message, i64)> {
    let (
        tenant,
        digest_type,
        user,
        key,
        sha256,
        stream,
        envelope_from,
        envelope_to,
        message_id,
        subject,
        bytes,
        template,
        at,
        may_repeat,
    ) = row;
    let origin = origin(tenant, digest_type, user, key, sha256);
    let message = Message {
        id,
        origin,
        stream,
        envelope_from,
        envelope_to,
        message_id,
        subject,
        bytes,
        template,
        created_at: time(at)?,
    };
    Ok((message, may_repeat))
}

/// Columns of [`MESSAGE_RECORD`](statements::MESSAGE_RECORD).
pub(super) type RecordRow = (
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    String,
    String,
    Option<String>,
    String,
    String,
    String,
    i64,
    Option<i64>,
    Option<i64>,
    i64,
);

pub(super) fn record(row: RecordRow) -> Result<MessageRecord> {
    let (
        id,
        tenant,
        digest_type,
        user,
        key,
        sha256,
        stream,
        name,
        why,
        to,
        message_id,
        subject,
        at,
        sent,
        end,
        attempts,
    ) = row;
    Ok(MessageRecord {
        id: id.parse().map_err(|_| Error::Broken(format!("a message id in the store: {id:?}")))?,
        origin: origin(tenant, digest_type, user, key, sha256),
        stream,
        state: state(&name)?,
        why: why.unwrap_or_default(),
        envelope_to: to,
        message_id,
        subject,
        created_at: time(at)?,
        sent_at: sent.map(time).transpose()?,
        closed_at: end.map(time).transpose()?,
        attempts: number(attempts)?,
    })
}

pub(super) fn state(name: &str) -> Result<MessageState> {
    let known = MessageState::ALL.into_iter().find(|state| state.name() == name);
    known.ok_or_else(|| Error::Broken(format!("a state in the store: {name:?}")))
}

/// Columns of [`ATTEMPTS`](statements::ATTEMPTS).
pub(super) type AttemptRow = (
    i64,
    String,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
);

pub(super) fn attempt(row: AttemptRow) -> Result<AttemptRecord> {
    let (
        n,
        relay,
        begun_at,
        past_the_dot_at,
        ended_at,
        phase,
        class,
        reply,
        late_at,
        late_phase,
        late_class,
        late_reply,
    ) = row;
    let late = |at: i64| -> Result<LateEnd> {
        Ok(LateEnd {
            at: time(at)?,
            phase: late_phase.unwrap_or_default(),
            class: late_class.unwrap_or_default(),
            reply: late_reply.unwrap_or_default(),
        })
    };
    Ok(AttemptRecord {
        number: number(n)?,
        relay,
        begun_at: time(begun_at)?,
        past_the_dot_at: past_the_dot_at.map(time).transpose()?,
        ended_at: ended_at.map(time).transpose()?,
        phase,
        class,
        reply,
        late: late_at.map(late).transpose()?,
    })
}
