//! Messages, each with its final bytes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Event, Key, MessageKey,
    records::{
        Actor, AuditEntry, Cursor, Listed, Message, MessageFilter, MessagePlace, MessageRecord, MessageState, Origin,
        RenderedClaim, Withdrawn,
    },
    window::{Closed, Planned, Window},
};
use uuid::Uuid;

use crate::{
    Result,
    claims::needs_ledger,
    digest::{MESSAGE_BYTES, MESSAGE_RECORD, MESSAGES, OriginRow, StoredMessage, WAITING_MESSAGE},
    events::{EventRow, event_columns, event_values},
    sql::{
        Sql, calls,
        dialect::{Dialect, Variants},
        json, no_nul,
    },
};

calls! {
    /// Messages, each with its final bytes. A *single* message belongs to no digest.
    pub trait Outbox {
        /// Stores a message, unless its digest is closed. The first write of an id wins.
        ///
        /// `tells_of` is the number of events that the message was made of. Returns `false` and stores nothing if the digest has
        /// another number of events by now.
        #[span(message = %message.id, tenant = %message.tenant())]
        async fn put_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool>;

        /// Replaces a message by a smaller one after the relay of attempt `number` found it too large. A repeated call for the same
        /// attempt changes nothing. Returns `false` if the message was replaced before for another attempt, is not smaller, or may
        /// have arrived, or if the attempt is not the latest or has another end.
        #[span(message = %message.id, attempt = number)]
        async fn shrink_message(&self, message: &Message, number: u32) -> Result<bool>;

        /// Takes events out of a digest whose message waits: those that a retract covers, those of categories that are `off`, and `seen`
        /// ones. They go where a claim puts them. The message must be made again: until then no attempt passes the dot. `None`: the digest
        /// has an end, or an attempt has passed the dot, and nothing changes.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn withdraw(
            &self,
            window: &Window,
            off: &BTreeSet<String>,
            seen: &BTreeSet<String>,
            now: Timestamp,
        ) -> Result<Option<Withdrawn>>;

        /// Takes other content of an event into a digest whose message waits, as [`Ledger::stash`](crate::Ledger::stash) does. The message must
        /// be made again: until then no attempt passes the dot. `false`: no message that waits has other content under the event's id, and
        /// nothing changes.
        #[span(key = %key)]
        async fn take_content(&self, key: &Key, event: &Event, now: Timestamp) -> Result<bool>;

        /// Replaces a message that waits, under its `Message-ID`, and fences attempts that are under way. Another address or other bytes are
        /// audited with this reason. `epoch` is that of [`Withdrawn`], before the events of a digest were read, or of
        /// [`waiting_message`](Self::waiting_message). Returns the epoch of the new message. `None`: the message has another epoch, it or its
        /// digest has an end, or an attempt has passed the dot, and nothing changes.
        #[span(message = %message.id, tenant = %message.tenant())]
        async fn remake_message(&self, message: &Message, epoch: u64, why: &str, now: Timestamp) -> Result<Option<u64>>;

        /// Notes since when a message that waits cannot be made again, because its recipient or its digest type is unknown. `None`: it can.
        #[span(message = %message)]
        async fn note_missing(&self, message: Uuid, since: Option<Timestamp>) -> Result<()>;

        /// Reads the Message-ID of the first message of a thread before the one of this window. Messages that were not sent, and will not
        /// be, do not count.
        #[span(thread = %thread)]
        async fn first_of_thread(&self, thread: Uuid, window: &Window) -> Result<Option<String>>;

        /// Ends a single message, and audits that. Fences the attempt that is under way. The end is ambiguous if that attempt is past
        /// the dot. The first recorded end stays. Returns that end, or `None` for an unknown message.
        #[span(key = %key)]
        async fn close_message(
            &self,
            key: &MessageKey,
            closed: &Closed,
            by: Actor,
            now: Timestamp,
        ) -> Result<Option<Closed>>;

        /// Reads a message of a digest or a single one.
        #[span(message = %message)]
        async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>>;

        /// Reads a message that can be made again, with its epoch: it has no end, and no attempt has passed the dot.
        #[span(message = %message)]
        async fn waiting_message(&self, message: Uuid) -> Result<Option<(Message, u64)>>;

        /// Reads the bytes of a tenant's message; `None` if the tenant has no such message, or no longer.
        #[span(tenant, message = %message)]
        async fn message_bytes(&self, tenant: &str, message: Uuid) -> Result<Option<Vec<u8>>>;

        /// Lists messages, the latest first.
        #[span(tenant = filter.tenant)]
        async fn messages(&self, filter: &MessageFilter) -> Result<Listed<MessageRecord, MessagePlace>>;
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

/// Only for the latest attempt, under way or too large, because no other one may be sending the bytes; and not where the
/// recipient may have the large one. Keeps the attempt's number, where an earlier version kept 1.
pub const SHRINK_MESSAGE: &str = "
UPDATE messages SET subject = $3, bytes = $4, template = $5, shrunk = $2
WHERE id = $1 AND shrunk = 0 AND closed_at IS NULL AND LENGTH(bytes) > LENGTH($4)
  AND EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND number = $2 AND (class IS NULL OR class = 'too_large'))
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1 AND (number > $2 OR class = 'ambiguous'))";

/// A call whose answer was lost may be repeated.
pub const IS_SHRUNK: &str = "SELECT 1 FROM messages WHERE id = $1 AND shrunk = $2 AND closed_at IS NULL";

/// `$1` thread, `$2` its `opened_at`, `$3` digest. The first message before the digest's own whose recipient may have it. Windows that
/// one task opened share `opened_at`, and are claimed one after the other.
pub const FIRST_OF_THREAD: &str = "
SELECT message_id FROM messages
WHERE thread = $1 AND id <> $3 AND state NOT IN ('failed', 'suppressed', 'cancelled')
  AND (thread_at < $2 OR thread_at = $2
       AND created_at < COALESCE((SELECT created_at FROM messages WHERE id = $3), 9223372036854775807))
ORDER BY thread_at, created_at, id LIMIT 1";

impl<D: Dialect> Sql<D> {
    async fn put_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool> {
        let id = message.id.to_string();
        let mut tx = self.write().await?;
        let of_digest = matches!(message.origin, Origin::Digest(_));
        if of_digest {
            let rendered = query(RENDERED_DIGEST).bind(id).execute(&mut *tx).await?;
            if D::rows(&rendered) == 0 {
                // It has its message, or an end, unless the ledger does not know it.
                Self::lock(&mut tx, message.id).await?;
                return Ok(true);
            }
        }
        // Until here a repeated claim may have added events, or taken some away.
        if let Some(tells_of) = tells_of
            && Self::items_and_groups(&mut tx, message.id).await?.0 != tells_of
        {
            return Ok(false);
        }
        Self::insert_message(&mut tx, message).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn shrink_message(&self, message: &Message, attempt: u32) -> Result<bool> {
        let mut tx = self.write().await?;
        // The lock keeps other calls from beginning an attempt before the statement reads the attempts.
        Self::lock_message(&mut tx, message.id).await?;
        let statement = query(SHRINK_MESSAGE).bind(message.id.to_string()).bind(i64::from(attempt));
        let statement = statement.bind(no_nul(&message.subject)).bind(&message.bytes).bind(&message.template);
        let mut shrunk = D::rows(&statement.execute(&mut *tx).await?) > 0;
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
        closed: &Closed,
        by: Actor,
        now: Timestamp,
    ) -> Result<Option<Closed>> {
        let mut tx = self.write().await?;
        let Some(locked) = Self::lock_single(&mut tx, key).await? else { return Ok(None) };
        if locked.closed.is_some() {
            return Ok(locked.closed);
        }
        let closed = Self::unless_past_the_dot(&mut tx, key.message_id(), closed, now).await?;
        Self::end(&mut tx, key.message_id(), &closed, false, now).await?;
        let why = format!("{}: {}", MessageState::after(closed.outcome).name(), closed.why);
        Self::audit_single(&mut tx, key, AuditEntry { at: now, actor: by, action: "close".into(), why }).await?;
        tx.commit().await?;
        Ok(Some(closed))
    }

    async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>> {
        let message = query(MESSAGE_RECORD).bind(message.to_string());
        self.read_record(message).await
    }

    async fn waiting_message(&self, message: Uuid) -> Result<Option<(Message, u64)>> {
        let waiting = query(WAITING_MESSAGE).bind(message.to_string());
        let waiting = self.read_record(waiting).await?;
        Ok(waiting.map(|StoredMessage { message, epoch, .. }| (message, epoch)))
    }

    async fn message_bytes(&self, tenant: &str, message: Uuid) -> Result<Option<Vec<u8>>> {
        let statement = query_as(MESSAGE_BYTES).bind(tenant.to_owned()).bind(message.to_string());
        let row: Option<(Vec<u8>,)> = statement.fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(row.map(|(bytes,)| bytes))
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<Listed<MessageRecord, MessagePlace>> {
        let MessageFilter { tenant, state, page } = filter;
        let after = page.after.as_ref().map(|Cursor((at, id))| (at.as_millisecond(), id.to_string()));
        let (after_at, after_id) = after.unwrap_or((i64::MAX, String::new()));
        let rows = query(MESSAGES)
            .bind(tenant.clone().unwrap_or_default())
            .bind(state.map(|state| state.name().to_owned()).unwrap_or_default())
            .bind(after_at)
            .bind(after_id)
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page.listed(rows, |last: &MessageRecord| (last.created_at, last.id)))
    }
}

impl<D: Dialect> Sql<D> {
    /// Writes a message unless the outbox has it.
    pub(super) async fn insert_message(connection: &mut D::Connection, message: &Message) -> Result<()> {
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

// A fresh window becomes a digest with its events and its message, in one call of the database.

/// Key `$1` to `$3`, `$4` digest, `$5` opened, `$6` due, `$7` words of the plan, `$8` cadence, `$9` zone, `$10` now, `$22` slot, 0 for none.
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

/// `$12` stream, `$13` envelope from, `$14` envelope to, `$15` message id, `$16` subject, `$17` bytes, `$18` template, `$19` created,
/// `$20` counted, `$21` hash of what it is made from, `$23` thread or empty.
macro_rules! insert_message {
    () => {
        "INSERT INTO messages (tenant, digest_type, user_id, id, digest_id, stream, envelope_from, envelope_to, message_id,
                      subject, bytes, template, created_at, counted, made_from, thread, thread_at, state, may_repeat, shrunk)
SELECT $1, $2, $3, $4, $4, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, NULLIF($23, ''), CASE WHEN $23 <> '' THEN $5 END,
       'queued', 0, 0"
    };
}

/// The parameters of the statements above, and `$11` JSON array of events. Answers with a row if the digest is new and the key needs
/// nothing else of the ledger; fails with a unique violation if that has one of the events.
pub const CLAIM_RENDERED: Variants = Variants {
    // `changes()`: the rows that the statement before has written.
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

impl<D: Dialect> Sql<D> {
    pub(crate) async fn claim_rendered(&self, claim: RenderedClaim<'_>) -> Result<bool> {
        let RenderedClaim { window, events, planned, message, slot_at, now } = claim;
        let Window { key: Key { tenant, digest_type, user }, digest_id, opened_at, due_at } = window;
        let Planned { why, cadence, zone } = planned.cloned().unwrap_or_default();
        let events: Vec<_> = events.iter().map(EventRow::new).collect::<Result<_>>()?;
        let claim = query(D::pick(CLAIM_RENDERED))
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
            .bind(json(&events)?)
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
