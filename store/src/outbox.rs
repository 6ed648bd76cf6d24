//! Messages with their final bytes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Event, Key, MessageKey,
    records::{
        AuditActor, AuditEntry, ListPage, MessageFilter, MessageOrigin, MessagePlace, MessageRecord, MessageState,
        OutboxMessage, PageCursor, RemovedEvents, RenderedClaim,
    },
    window::{PlanSummary, Window, WindowEnd},
};
use uuid::Uuid;

use crate::{
    Result,
    claims::needs_ledger,
    digest::{MESSAGE_BYTES, MESSAGE_RECORD, MESSAGES, OriginRow, StoredMessage, WAITING_MESSAGE},
    events::{EventRow, event_columns, event_values},
    sql::{
        SqlStore, calls,
        dialect::{Dialect, StatementVariants},
        no_nul, to_json,
    },
};

calls! {
    pub trait Outbox {
        /// Stores a message, unless its digest is closed. The first write for an id wins.
        ///
        /// `tells_of` is the number of events it was rendered from. Returns `false` and stores nothing if the
        /// digest now has another number.
        #[span(message = %message.id, tenant = %message.tenant())]
        async fn put_message(&self, message: &OutboxMessage, tells_of: Option<u64>) -> Result<bool>;

        /// Replaces a message by a smaller one after the relay in attempt `number` rejected its size. Safe to
        /// repeat for this attempt. Returns `false` if the message was already replaced, is not smaller, or
        /// may have arrived, or if the attempt is not the latest or ended otherwise.
        #[span(message = %message.id, attempt = number)]
        async fn shrink_message(&self, message: &OutboxMessage, number: u32) -> Result<bool>;

        /// Removes retracted events, events in categories that are `off`, and `seen` ones from a digest with
        /// a pending message, like a claim. The message must then be rendered again before an attempt can
        /// pass the dot. Returns `None` and changes nothing if the digest has ended or an attempt is past the
        /// dot.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn withdraw_events(
            &self,
            window: &Window,
            off: &BTreeSet<String>,
            seen: &BTreeSet<String>,
            now: Timestamp,
        ) -> Result<Option<RemovedEvents>>;

        /// Merges changed content for an event into a digest with a pending message, like
        /// [`Ledger::stash`](crate::Ledger::stash_events). The message must then be rendered again before an
        /// attempt can pass the dot. Returns `false` if no pending message has other content for it.
        #[span(key = %key)]
        async fn take_content(&self, key: &Key, event: &Event, now: Timestamp) -> Result<bool>;

        /// Replaces a pending message, keeping its `Message-ID`, and fences attempts under way. A new address
        /// or new bytes are audited. `epoch` comes from [`RemovedEvents`], before the digest's events were
        /// read, or from [`waiting_message`](Self::waiting_message). Returns the new epoch, or `None` if the
        /// message has another epoch, it or its digest has ended, or an attempt is past the dot.
        #[span(message = %message.id, tenant = %message.tenant())]
        async fn remake_message(&self, message: &OutboxMessage, epoch: u64, why: &str, now: Timestamp) -> Result<Option<u64>>;

        /// Records since when a pending message cannot be rendered again, because its recipient or digest
        /// type is unknown. `None` if it can.
        #[span(message = %message)]
        async fn note_missing(&self, message: Uuid, since: Option<Timestamp>) -> Result<()>;

        /// The Message-ID of the first message in a thread before this window's own, ignoring messages that
        /// will never be sent.
        #[span(thread = %thread)]
        async fn first_of_thread(&self, thread: Uuid, window: &Window) -> Result<Option<String>>;

        /// Ends a single message with an audit entry, and fences the attempt under way. The end is ambiguous
        /// if this is past the dot. The first recorded end is kept and returned; `None` for an unknown
        /// message.
        #[span(key = %key)]
        async fn close_message(
            &self,
            key: &MessageKey,
            closed: &WindowEnd,
            by: AuditActor,
            now: Timestamp,
        ) -> Result<Option<WindowEnd>>;

        #[span(message = %message)]
        async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>>;

        /// A message and its epoch, if it can still be rendered again, i.e. it has not ended and no attempt
        /// is past the dot.
        #[span(message = %message)]
        async fn waiting_message(&self, message: Uuid) -> Result<Option<(OutboxMessage, u64)>>;

        #[span(tenant, message = %message)]
        async fn message_bytes(&self, tenant: &str, message: Uuid) -> Result<Option<Vec<u8>>>;

        #[span(tenant = filter.tenant)]
        async fn messages(&self, filter: &MessageFilter) -> Result<ListPage<MessageRecord, MessagePlace>>;
    }
}

pub const RENDERED_DIGEST: &str =
    "UPDATE digests SET state = 'rendered' WHERE digest_id = $1 AND state IN ('open', 'claimed')";

pub const PUT_MESSAGE: &str = "
INSERT INTO messages (tenant, digest_type, user_id, id, digest_id, idempotency_key, content_sha256, stream, envelope_from,
                      envelope_to, message_id, subject, bytes, template, created_at, counted, made_from, thread, thread_at, state,
                      may_repeat, shrunk)
VALUES ($1, $2, $3, $4, NULLIF($5, ''), NULLIF($6, ''), NULLIF($7, ''), $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
        NULLIF($18, ''), CASE WHEN $18 <> '' THEN (SELECT opened_at FROM digests WHERE digest_id = $5) END, 'queued', 0, 0)
ON CONFLICT DO NOTHING";

/// Only for the latest attempt, open or too large, because no other attempt may be sending the bytes. Not if
/// the recipient may have the large message. `shrunk` stores the attempt's number; an earlier version stored
/// 1.
pub const SHRINK_MESSAGE: &str = "
UPDATE messages SET subject = $3, bytes = $4, template = $5, shrunk = $2
WHERE id = $1 AND shrunk = 0 AND closed_at IS NULL AND LENGTH(bytes) > LENGTH($4)
  AND EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND number = $2 AND (class IS NULL OR class = 'too_large'))
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND (number > $2 OR class = 'ambiguous'))";

pub const IS_SHRUNK: &str = "SELECT 1 FROM messages WHERE id = $1 AND shrunk = $2 AND closed_at IS NULL";

/// The first message before the digest's own that the recipient may have. Windows opened by the same task
/// share `opened_at`, and are claimed one after another.
pub const FIRST_OF_THREAD: &str = "
SELECT message_id FROM messages
WHERE thread = $1 AND id <> $3 AND state NOT IN ('failed', 'suppressed', 'cancelled')
  AND (thread_at < $2 OR thread_at = $2
       AND created_at < COALESCE((SELECT created_at FROM messages WHERE id = $3), 9223372036854775807))
ORDER BY thread_at, created_at, id LIMIT 1";

impl<D: Dialect> SqlStore<D> {
    async fn put_message(&self, message: &OutboxMessage, tells_of: Option<u64>) -> Result<bool> {
        let id = message.id.to_string();
        let mut tx = self.begin_write().await?;
        let of_digest = matches!(message.origin, MessageOrigin::Digest(_));
        if of_digest {
            let rendered = query(RENDERED_DIGEST).bind(id).execute(&mut *tx).await?;
            if D::changed_rows(&rendered) == 0 {
                // It has a message or an end already. `lock` fails if the ledger does not have the digest.
                Self::lock_digest(&mut tx, message.id).await?;
                return Ok(true);
            }
        }
        // Until now, a repeated claim may have added or removed events.
        if let Some(tells_of) = tells_of
            && Self::items_and_lines(&mut tx, message.id).await?.0 != tells_of
        {
            return Ok(false);
        }
        Self::insert_message(&mut tx, message).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn shrink_message(&self, message: &OutboxMessage, attempt: u32) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        // The lock keeps other calls from beginning an attempt before the statement reads them.
        Self::lock_message(&mut tx, message.id).await?;
        let statement = query(SHRINK_MESSAGE).bind(message.id.to_string()).bind(i64::from(attempt));
        let statement = statement.bind(no_nul(&message.subject)).bind(&message.bytes).bind(&message.template);
        let mut shrunk = D::changed_rows(&statement.execute(&mut *tx).await?) > 0;
        if !shrunk {
            let again = query(IS_SHRUNK).bind(message.id.to_string()).bind(i64::from(attempt));
            shrunk = again.fetch_optional(&mut *tx).await?.is_some();
        }
        tx.commit().await?;
        Ok(shrunk)
    }

    async fn first_of_thread(&self, thread: Uuid, window: &Window) -> Result<Option<String>> {
        let statement = query_as(FIRST_OF_THREAD).bind(thread.to_string()).bind(window.opened_at.as_millisecond());
        let statement = statement.bind(window.digest_id.to_string());
        let row: Option<(String,)> = statement.fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(row.map(|(message_id,)| message_id))
    }

    async fn close_message(
        &self,
        key: &MessageKey,
        closed: &WindowEnd,
        by: AuditActor,
        now: Timestamp,
    ) -> Result<Option<WindowEnd>> {
        let mut tx = self.begin_write().await?;
        let Some(locked) = Self::lock_single(&mut tx, key).await? else { return Ok(None) };
        if locked.closed.is_some() {
            return Ok(locked.closed);
        }
        let closed = Self::unless_past_the_dot(&mut tx, key.message_id(), closed, now).await?;
        Self::apply_end(&mut tx, key.message_id(), &closed, false, now).await?;
        let why = format!("{}: {}", MessageState::from_outcome(closed.outcome).name(), closed.why);
        Self::audit_single(&mut tx, key, AuditEntry { at: now, actor: by, action: "close".into(), why }).await?;
        tx.commit().await?;
        Ok(Some(closed))
    }

    async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>> {
        let message = query(MESSAGE_RECORD).bind(message.to_string());
        self.read_record(message).await
    }

    async fn waiting_message(&self, message: Uuid) -> Result<Option<(OutboxMessage, u64)>> {
        let waiting = query(WAITING_MESSAGE).bind(message.to_string());
        let waiting = self.read_record(waiting).await?;
        Ok(waiting.map(|StoredMessage { message, epoch, .. }| (message, epoch)))
    }

    async fn message_bytes(&self, tenant: &str, message: Uuid) -> Result<Option<Vec<u8>>> {
        let statement = query_as(MESSAGE_BYTES).bind(tenant.to_owned()).bind(message.to_string());
        let row: Option<(Vec<u8>,)> = statement.fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(row.map(|(bytes,)| bytes))
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<ListPage<MessageRecord, MessagePlace>> {
        let MessageFilter { tenant, state, page } = filter;
        let after = page.after.as_ref().map(|PageCursor((at, id))| (at.as_millisecond(), id.to_string()));
        let (after_at, after_id) = after.unwrap_or((i64::MAX, String::new()));
        let rows = query(MESSAGES)
            .bind(tenant.clone().unwrap_or_default())
            .bind(state.map(|state| state.name().to_owned()).unwrap_or_default())
            .bind(after_at)
            .bind(after_id)
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page.build_page(rows, |last: &MessageRecord| (last.created_at, last.id)))
    }
}

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn insert_message(connection: &mut D::Connection, message: &OutboxMessage) -> Result<()> {
        let origin = OriginRow::new(message);
        query(PUT_MESSAGE)
            .bind(message.tenant().to_owned())
            .bind(origin.digest_type)
            .bind(origin.user)
            .bind(message.id.to_string())
            .bind(origin.digest_id)
            .bind(origin.idempotency_key)
            .bind(origin.content_sha256)
            .bind(message.stream.name().to_owned())
            .bind(&message.envelope_from)
            .bind(&message.envelope_to)
            .bind(&message.message_id)
            .bind(no_nul(&message.subject))
            .bind(&message.bytes)
            .bind(&message.template)
            .bind(message.made_at.as_millisecond())
            .bind(message.counted)
            .bind(&message.made_from)
            .bind(message.thread.map(|thread| thread.to_string()).unwrap_or_default())
            .execute(connection)
            .await?;
        Ok(())
    }
}

// Writes a fresh window as a digest, with its events and its message, in one round trip.

macro_rules! insert_digest {
    () => {
        concat!(
            "INSERT INTO digests (tenant, digest_type, user_id, digest_id, opened_at, due_at, state, plan_why, cadence, zone, claimed_at, slot_at)
SELECT $1, $2, $3, $4, $5, $6, 'rendered', NULLIF($7, ''), NULLIF($8, ''), NULLIF($9, ''), $10, NULLIF($22, 0)
WHERE NOT ",
            needs_ledger!(),
            "
ON CONFLICT DO NOTHING"
        )
    };
}

/// `$12` stream, `$13` envelope from, `$14` envelope to, `$15` message id, `$16` subject, `$17` bytes, `$18`
/// template, `$19` created, `$20` counted, `$21` hash of its inputs, `$23` thread or empty.
macro_rules! insert_message {
    () => {
        "INSERT INTO messages (tenant, digest_type, user_id, id, digest_id, stream, envelope_from, envelope_to, message_id,
                      subject, bytes, template, created_at, counted, made_from, thread, thread_at, state, may_repeat, shrunk)
SELECT $1, $2, $3, $4, $4, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, NULLIF($23, ''), CASE WHEN $23 <> '' THEN $5 END,
       'queued', 0, 0"
    };
}

/// The parameters above, plus `$11` JSON array of events. Returns a row if the digest is new and the key
/// needs nothing else from the ledger; a unique violation means the ledger has one of the events.
pub const CLAIM_RENDERED: StatementVariants = StatementVariants {
    sqlite: concat!(
        "
BEGIN IMMEDIATE;
",
        insert_digest!(),
        ";
",
        insert_message!(),
        " WHERE changes() = 1 RETURNING 1;
INSERT INTO events (",
        event_columns!(),
        ")
SELECT $1, $2, $3, $4, $10, ",
        event_values!(sqlite),
        "
FROM jsonb_each($11) e WHERE changes() = 1;
COMMIT"
    ),
    postgres: concat!(
        "
WITH digest AS (
",
        insert_digest!(),
        " RETURNING digest_id
), recorded AS (
INSERT INTO events (",
        event_columns!(),
        ")
SELECT $1, $2, $3, $4, $10, ",
        event_values!(postgres),
        "
FROM digest CROSS JOIN jsonb_array_elements($11::jsonb) e
)
",
        insert_message!(),
        " FROM digest RETURNING 1"
    ),
};

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn claim_rendered(&self, claim: RenderedClaim<'_>) -> Result<bool> {
        let RenderedClaim { window, events, planned, message, slot_at, now } = claim;
        let Window { key: Key { tenant, digest_type, user }, digest_id, opened_at, due_at } = window;
        let PlanSummary { why, cadence, zone } = planned.cloned().unwrap_or_default();
        let events: Vec<_> = events.iter().map(EventRow::new).collect::<Result<_>>()?;
        let claim = query(D::pick_variant(CLAIM_RENDERED))
            .bind(tenant)
            .bind(digest_type)
            .bind(user)
            .bind(digest_id.to_string())
            .bind(opened_at.as_millisecond())
            .bind(due_at.as_millisecond())
            .bind(no_nul(&why))
            .bind(cadence)
            .bind(zone)
            .bind(now.as_millisecond())
            .bind(to_json(&events)?)
            .bind(message.stream.name().to_owned())
            .bind(&message.envelope_from)
            .bind(&message.envelope_to)
            .bind(&message.message_id)
            .bind(no_nul(&message.subject))
            .bind(&message.bytes)
            .bind(&message.template)
            .bind(message.made_at.as_millisecond())
            .bind(message.counted)
            .bind(&message.made_from)
            .bind(slot_at.map_or(0, Timestamp::as_millisecond))
            .bind(message.thread.map(|thread| thread.to_string()).unwrap_or_default());
        self.write_at_once(claim).await
    }
}
