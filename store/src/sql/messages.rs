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

use super::{
    Dialect, Sql,
    columns::row,
    no_nul,
    outbox::LockedMessage,
    statements,
    suppressions::{ReasonRow, folded},
};
use crate::Result;

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_message(&self, message: Uuid) -> Result<Option<MessageRecord>> {
        let statement = query_as(statements::MESSAGE_RECORD).bind(message.to_string());
        let row: Option<RecordRow> = statement.fetch_optional(&self.reader).await?;
        Ok(row.map(MessageRecord::from))
    }

    pub(super) async fn read_messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>> {
        let statement = query_as(statements::MESSAGES).bind(filter.tenant.clone().unwrap_or_default());
        let statement = statement.bind(filter.state.map(|state| state.name().to_owned()).unwrap_or_default());
        let rows: Vec<RecordRow> = statement.bind(i64::from(filter.limit)).fetch_all(&self.reader).await?;
        Ok(rows.into_iter().map(MessageRecord::from).collect())
    }

    pub(super) async fn read_attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>> {
        let statement = query_as(statements::ATTEMPTS).bind(message.to_string());
        let rows: Vec<AttemptRow> = statement.fetch_all(&self.reader).await?;
        Ok(rows.into_iter().map(AttemptRecord::from).collect())
    }

    pub(super) async fn read_suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>> {
        let statement = query_as(statements::SUPPRESSED).bind(tenant.to_owned()).bind(folded(address));
        let rows: Vec<ReasonRow> = statement.fetch_all(&self.reader).await?;
        Ok(rows.into_iter().map(|row| row.reason).collect())
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

row! {
/// Columns of [`MESSAGE`](statements::MESSAGE).
pub(super) struct MessageRow {
    id: Uuid,
    tenant: String,
    digest_type: String,
    user_id: String,
    idempotency_key: Option<String>,
    content_sha256: Option<String>,
    stream: String,
    envelope_from: String,
    envelope_to: String,
    message_id: String,
    subject: String,
    bytes: Vec<u8>,
    template: String,
    created_at: Timestamp,
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
            created_at: row.created_at,
        }
    }
}

row! {
/// Columns of [`MESSAGE_RECORD`](statements::MESSAGE_RECORD).
pub(super) struct RecordRow {
    id: Uuid,
    tenant: String,
    digest_type: String,
    user_id: String,
    idempotency_key: Option<String>,
    content_sha256: Option<String>,
    stream: String,
    state: MessageState,
    why: Option<String>,
    envelope_to: String,
    message_id: String,
    subject: String,
    created_at: Timestamp,
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
            sent_at: row.sent_at,
            closed_at: row.closed_at,
            attempts: row.attempts,
        }
    }
}

row! {
/// Columns of [`ATTEMPTS`](statements::ATTEMPTS).
pub(super) struct AttemptRow {
    number: u32,
    relay: String,
    begun_at: Timestamp,
    past_the_dot_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    phase: Option<String>,
    class: Option<String>,
    reply: Option<String>,
    late_at: Option<Timestamp>,
    late_phase: Option<String>,
    late_class: Option<String>,
    late_reply: Option<String>,
}
}

impl From<AttemptRow> for AttemptRecord {
    fn from(row: AttemptRow) -> Self {
        let late = row.late_at.map(|at| LateEnd {
            at,
            phase: row.late_phase.unwrap_or_default(),
            class: row.late_class.unwrap_or_default(),
            reply: row.late_reply.unwrap_or_default(),
        });
        Self {
            number: row.number,
            relay: row.relay,
            begun_at: row.begun_at,
            past_the_dot_at: row.past_the_dot_at,
            ended_at: row.ended_at,
            phase: row.phase,
            class: row.class,
            reply: row.reply,
            late,
        }
    }
}
