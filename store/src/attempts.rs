//! Attempts to deliver a message (rules 24, 25, 26 and 27).
//!
//! At most one attempt per message is under way: the one without a class. Each new attempt sets a class on
//! all earlier ones, which fences them.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::{FromRow as _, query, query::Query, query_as};
use tidings_model::{
    Key, StoredWait,
    attempt::AttemptClass,
    records::{
        AttemptEnd, AttemptRecord, AttemptStart, FirstAttempt, KeyFacts, LateEnd, MessageState, OutboxMessage,
        WaitingMessage,
    },
    window::WindowEnd,
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    digest::{LockedMessage, MESSAGE, StoredMessage},
    directory::{FactsRow, facts},
    ending::{ended_digest, ended_message},
    exclusion::covered_by_a_retract,
    sql::{
        SqlStore, calls, checked_number,
        columns::{column, record, row, text_column},
        dialect::{Dialect, StatementVariants},
        group_commit::PendingCommit,
        no_nul,
    },
};

calls! {
    /// Only the latest attempt may send. Beginning an attempt fences every earlier one, which can then
    /// neither send the final dot nor end the message (rules 24 to 27).
    pub trait AttemptStore {
        /// Also reads the message if it is still open and no attempt is past the dot. A first attempt needs
        /// no [`begin_attempt`](Self::begin_attempt).
        #[span(key = %key, message = %message)]
        async fn facts_for_attempt(&self, key: &Key, message: Uuid) -> Result<(KeyFacts, Option<WaitingMessage>)>;

        /// Records a first attempt just before its final dot. If this returns `false` (another attempt was
        /// first, or the message has ended or has another epoch), do not send the dot. Safe to repeat.
        #[span(message = %first.message)]
        async fn mark_first_in_doubt(&self, first: &FirstAttempt, now: Timestamp) -> Result<bool>;

        /// Records a first attempt that ended before the dot. Does nothing where
        /// [`mark_first_in_doubt`](Self::mark_first_in_doubt) would return `false`.
        #[span(message = %first.message)]
        async fn end_first_attempt(&self, first: &FirstAttempt, end: &AttemptEnd, now: Timestamp) -> Result<()>;

        /// Begins an attempt: fences every earlier one, takes the next number and returns the stored bytes.
        ///
        /// Returns [`AttemptStart::AwaitsReply`] while an earlier attempt has been past the dot for less than
        /// `reply_time`; after this it becomes ambiguous.
        #[span(message = %message, relay)]
        async fn begin_attempt(
            &self,
            message: Uuid,
            relay: &str,
            reply_time: Duration,
            now: Timestamp,
        ) -> Result<AttemptStart>;

        /// Records an attempt just before its final dot. If this returns `false` (the attempt is fenced, or
        /// the message has ended), do not send the dot. Safe to repeat.
        #[span(message = %message, attempt = number)]
        async fn mark_in_doubt(&self, message: Uuid, number: u32, now: Timestamp) -> Result<bool>;

        /// Records the end of an attempt; only its first end counts. A late reply to a fenced attempt only
        /// goes to its row, unless it is a success: this ends an open message, so the recipient will not get
        /// a second email (rule 26). A success always sets
        /// [`KeyFacts::last_sent_at`](tidings_model::records::KeyFacts::last_sent_at).
        #[span(message = %message, attempt = number)]
        async fn end_attempt(&self, message: Uuid, number: u32, end: &AttemptEnd, now: Timestamp) -> Result<()>;

        #[span(message = %message)]
        async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>>;
    }
}

/// `$1` message, `$2` number. Returns (attempts after this number, ambiguous ones among them).
pub const EARLIER_ATTEMPTS: &str = "
SELECT COALESCE(MAX(number), 0), COUNT(CASE WHEN class = 'ambiguous' AND number > $2 THEN 1 END)
FROM attempts WHERE message = $1";

pub const UNANSWERED_ATTEMPT: &str = "
SELECT number, past_the_dot_at FROM attempts WHERE message = $1 AND class IS NULL AND past_the_dot_at IS NOT NULL
ORDER BY number DESC LIMIT 1";

pub const BEGIN_ATTEMPT: &str =
    "INSERT INTO attempts (tenant, message, number, relay, begun_at) VALUES ($1, $2, $3, $4, $5)";

/// Reads no events for most keys, as they have no retract.
pub const FACTS_FOR_ATTEMPT: &str = facts!(
    concat!(
        ", m.id, m.tenant, m.digest_type, m.user_id, m.idempotency_key, m.content_sha256, m.stream, m.envelope_from, m.envelope_to,
       m.message_id, m.subject, m.bytes, m.template, m.counted, m.made_from, m.thread, COALESCE(m.made_at, m.created_at) AS made_at,
       m.former_envelopes, m.may_repeat, m.epoch, m.missing_since, m.shrunk <> 0 AS shortened, EXISTS (SELECT 1 FROM attempts WHERE message = $4) AS attempted,
       (m.id IS NOT NULL AND (m.outdated
         OR (EXISTS (SELECT 1 FROM retracts WHERE tenant = $1 AND digest_type = $2 AND user_id = $3)
             AND EXISTS (SELECT 1 FROM events WHERE ",
        covered_by_a_retract!("$4"),
        ")))) AS outdated"
    ),
    "
LEFT JOIN messages m ON m.id = $4 AND m.closed_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $4 AND past_the_dot_at IS NOT NULL)"
);

macro_rules! ended_attempt {
    () => {
        "UPDATE attempts SET ended_at = $3, phase = $4, class = $5, reply = $6, relay_id = NULLIF($7, '')"
    };
}

pub const END_ATTEMPT: &str = concat!(ended_attempt!(), " WHERE message = $1 AND number = $2 AND class IS NULL");

pub const LATE_END: &str = "
UPDATE attempts SET late_at = $3, late_phase = $4, late_class = $5, relay_id = NULLIF($7, ''),
    late_reply = CASE WHEN EXISTS (SELECT 1 FROM messages WHERE id = $1 AND erased_at IS NOT NULL) THEN '' ELSE $6 END
WHERE message = $1 AND number = $2 AND fenced_at IS NOT NULL AND late_at IS NULL";

pub const SENT_DIGEST: &str = "UPDATE digests SET sent_at = $2 WHERE digest_id = $1 AND sent_at IS NULL";

pub const SENT_MESSAGE: &str = "UPDATE messages SET sent_at = $2 WHERE id = $1 AND sent_at IS NULL";

/// `$1` message, `$2` class, `$3` limit: how many of the last `$3` ended messages to this address ended with
/// this class.
pub const ENDED_SOFTLY: &str = "
SELECT COUNT(*) FROM (
    SELECT (SELECT class FROM attempts a WHERE a.message = m.id ORDER BY number DESC LIMIT 1) AS class
    FROM messages m JOIN messages this ON this.id = $1 AND m.tenant = this.tenant AND m.envelope_to = this.envelope_to
    WHERE m.id <> $1 AND m.closed_at IS NOT NULL AND EXISTS (SELECT 1 FROM attempts a WHERE a.message = m.id)
    ORDER BY m.created_at DESC, m.id LIMIT $2) latest
WHERE class IN ('mailbox_full', 'unknown_mailbox', 'refused')";

pub const ATTEMPTS: &str = "
SELECT number, relay, begun_at, past_the_dot_at, ended_at, phase, class, reply, relay_id,
       late_at, late_phase, late_class, late_reply
FROM attempts WHERE message = $1 ORDER BY number";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AttemptStanding {
    /// Still under way, so its end counts.
    Current,
    /// A later attempt has begun, so only a success counts.
    Late,
    Repeated,
}

impl<D: Dialect> SqlStore<D> {
    async fn facts_for_attempt(&self, key: &Key, message: Uuid) -> Result<(KeyFacts, Option<WaitingMessage>)> {
        let mut connection = self.reader.acquire().await?;
        let statement = query(FACTS_FOR_ATTEMPT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let row = statement.bind(message.to_string()).fetch_one(&mut *connection).await?;
        connection.release();
        let facts = FactsRow::from_row(&row)?.into_facts(key);
        let waits = column::<_, Option<Uuid>>(&row, "id")?.is_some();
        Ok((facts, waits.then(|| Self::to_record(row)).transpose()?))
    }

    async fn mark_first_in_doubt(&self, first: &FirstAttempt, now: Timestamp) -> Result<bool> {
        self.commit_in_doubt(PendingCommit::First(first.clone()), now).await
    }

    async fn end_first_attempt(&self, first: &FirstAttempt, end: &AttemptEnd, now: Timestamp) -> Result<()> {
        let mut tx = self.begin_write().await?;
        let locked = Self::lock_message(&mut tx, first.message).await?;
        if Self::insert_first(&mut tx, first, None).await? || Self::is_first(&mut tx, first).await? {
            Self::end_locked(&mut tx, locked, first.message, 1, end, now).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn begin_attempt(
        &self,
        message: Uuid,
        relay: &str,
        reply_time: Duration,
        now: Timestamp,
    ) -> Result<AttemptStart> {
        let id = message.to_string();
        let mut tx = self.begin_write().await?;
        if let Some(closed) = Self::lock_message(&mut tx, message).await?.closed {
            return Ok(AttemptStart::Closed(closed));
        }
        let stored = query(MESSAGE).bind(id.clone()).try_map(Self::to_record).fetch_optional(&mut *tx).await?;
        let stored = stored.ok_or_else(|| StoreError::Broken(format!("digest {message} has no message to send")))?;
        let StoredMessage { message, may_repeat, epoch, .. } = stored;
        let (mut earlier, mut ambiguous) = Self::earlier_attempts(&mut tx, &id, may_repeat).await?;
        let mut had_ambiguous_attempt = false;
        if earlier > 0 {
            if let Some(awaited) = Self::awaited_reply(&mut tx, &id, reply_time, now).await? {
                return Ok(awaited);
            }
            Self::fence_attempt(&mut tx, &id, now).await?;
            (earlier, ambiguous) = Self::earlier_attempts(&mut tx, &id, may_repeat).await?;
            had_ambiguous_attempt = Self::earlier_attempts(&mut tx, &id, 0).await?.1 > 0;
        }
        let begin = query(BEGIN_ATTEMPT).bind(message.tenant().to_owned()).bind(id.clone()).bind(earlier + 1);
        begin.bind(relay.to_owned()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        Self::set_state(&mut tx, id, MessageState::Sending).await?;
        tx.commit().await?;
        let (number, ambiguous) = (checked_number(earlier + 1)?, checked_number(ambiguous)?);
        Ok(AttemptStart::Proceed { number, ambiguous, had_ambiguous_attempt, epoch, message: Box::new(message) })
    }

    async fn mark_in_doubt(&self, message: Uuid, attempt: u32, now: Timestamp) -> Result<bool> {
        self.commit_in_doubt(PendingCommit::Begun { message, number: attempt }, now).await
    }

    async fn end_attempt(&self, message: Uuid, attempt: u32, end: &AttemptEnd, now: Timestamp) -> Result<()> {
        if let Some(closed) = &end.closed
            && end.suppress.is_none()
            && !end.return_events
            && self.close_with_attempt(message, attempt, (end, closed), now).await?
        {
            return Ok(());
        }
        let mut tx = self.begin_write().await?;
        let locked = Self::lock_message(&mut tx, message).await?;
        Self::end_locked(&mut tx, locked, message, attempt, end, now).await?;
        Ok(tx.commit().await?)
    }

    async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>> {
        let attempts = query(ATTEMPTS).bind(message.to_string());
        self.read_records(attempts).await
    }
}

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn earlier_attempts(connection: &mut D::Connection, id: &str, after: i64) -> Result<(i64, i64)> {
        let earlier = query_as(EARLIER_ATTEMPTS).bind(id.to_owned()).bind(after);
        Ok(earlier.fetch_one(connection).await?)
    }

    /// The wait for a reply to an attempt past the dot, if any. A time slightly in the future counts as now;
    /// one far in the future comes from a wrong clock and is ignored.
    async fn awaited_reply(
        connection: &mut D::Connection,
        id: &str,
        reply_time: Duration,
        now: Timestamp,
    ) -> Result<Option<AttemptStart>> {
        let unanswered = query_as(UNANSWERED_ATTEMPT).bind(id.to_owned());
        let unanswered: Option<UnansweredRow> = unanswered.fetch_optional(connection).await?;
        let awaited = unanswered.and_then(|UnansweredRow { number, past_the_dot_at }| {
            let until = past_the_dot_at.min(now).saturating_add(reply_time).unwrap_or(now);
            let awaits = until > now && StoredWait::PAST.is_plausible(past_the_dot_at, now);
            awaits.then_some(AttemptStart::AwaitsReply { number, until })
        });
        Ok(awaited)
    }

    /// Returns `true` if enough earlier messages to this address ended in the same way, i.e. as a soft
    /// bounce.
    async fn should_suppress(connection: &mut D::Connection, message: Uuid, end: &AttemptEnd) -> Result<bool> {
        let before = i64::from(end.consecutive) - 1;
        if before == 0 || end.suppress.is_none() {
            return Ok(true);
        }
        let count = query_as(ENDED_SOFTLY).bind(message.to_string()).bind(before);
        let (alike,): (i64,) = count.fetch_one(connection).await?;
        Ok(alike >= before)
    }

    async fn end_locked(
        connection: &mut D::Connection,
        locked: LockedMessage,
        message: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<()> {
        let standing = Self::record_end(&mut *connection, message, attempt, end, now).await?;
        let current = standing == AttemptStanding::Current;
        // The relay accepted the message, whichever attempt sent it. We end the message now, so the recipient
        // gets no second email.
        let sent = end.class == AttemptClass::Sent && standing != AttemptStanding::Repeated;
        if sent && locked.closed.is_some() {
            for statement in [SENT_DIGEST, SENT_MESSAGE] {
                query(statement).bind(message.to_string()).bind(now.as_millisecond()).execute(&mut *connection).await?;
            }
        }
        if let (true, Some(suppression)) =
            (current && Self::should_suppress(&mut *connection, message, end).await?, &end.suppress)
        {
            Self::write_suppression(&mut *connection, suppression).await?;
        }
        match (&end.closed, locked.closed) {
            (Some(closed), None) if current || sent => {
                if !current {
                    Self::fence_attempt(&mut *connection, &message.to_string(), now).await?;
                }
                Self::apply_end(&mut *connection, message, closed, end.return_events, now).await?;
            }
            (None, None) if current => {
                Self::set_state(&mut *connection, message.to_string(), MessageState::Deferred).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn record_end(
        connection: &mut D::Connection,
        message: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<AttemptStanding> {
        if Self::writes_end(&mut *connection, END_ATTEMPT, message, attempt, end, now).await? {
            return Ok(AttemptStanding::Current);
        }
        let late = Self::writes_end(connection, LATE_END, message, attempt, end, now).await?;
        Ok(if late { AttemptStanding::Late } else { AttemptStanding::Repeated })
    }

    async fn writes_end(
        connection: &mut D::Connection,
        statement: &'static str,
        message: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<bool> {
        let update = Self::bind_end(statement, message, attempt, end, now);
        Ok(D::changed_rows(&update.execute(connection).await?) > 0)
    }

    pub(super) fn bind_end(
        statement: &'static str,
        message: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Query<'static, D, D::Arguments> {
        query(statement)
            .bind(message.to_string())
            .bind(i64::from(attempt))
            .bind(now.as_millisecond())
            .bind(end.phase.name().to_owned())
            .bind(end.class.name().to_owned())
            .bind(no_nul(&end.reply))
            .bind(end.relay_id.clone().unwrap_or_default())
    }
}

record!(row => WaitingMessage {
    message: OutboxMessage::read::<D>(row)?, epoch, attempted, shortened, outdated, missing_since,
});

row! {
pub struct UnansweredRow {
    number: u32,
    past_the_dot_at: Timestamp,
}
}

record!(row => AttemptRecord {
    number, relay, begun_at, past_the_dot_at, ended_at, phase, class, reply, relay_id, late: late_end::<D>(row)?,
});

fn late_end<D: Dialect>(row: &D::Row) -> sqlx::Result<Option<LateEnd>> {
    let late: (Option<_>, Option<_>) = (column(row, "late_at")?, column(row, "late_phase")?);
    let late = late.0.zip(late.1).zip(column(row, "late_class")?);
    let Some(((at, phase), class)) = late else { return Ok(None) };
    Ok(Some(LateEnd { at, phase, class, reply: text_column(row, "late_reply")? }))
}

/// Returns a row if the attempt was under way and the message open; otherwise does nothing.
pub const CLOSE_WITH_ATTEMPT: StatementVariants = StatementVariants {
    sqlite: concat!(
        "
BEGIN IMMEDIATE;
",
        ended_attempt!(),
        "
WHERE message = $1 AND number = $2 AND class IS NULL AND EXISTS (SELECT 1 FROM messages WHERE id = $1 AND closed_at IS NULL);
",
        ended_message!("$10", "$9", "$3"),
        " WHERE id = $1 AND changes() = 1 RETURNING 1;
",
        ended_digest!("$8", "$9", "$3"),
        " WHERE digest_id = $1 AND state <> 'closed' AND changes() = 1;
COMMIT"
    ),
    // Lock order should be the same in all writers: the digest's row, then the message's. If another writer
    // changed a row meanwhile, PostgreSQL checks the changed row again.
    postgres: concat!(
        "
WITH digest AS MATERIALIZED (
SELECT digest_id FROM digests WHERE digest_id = $1 FOR UPDATE
), message AS MATERIALIZED (
SELECT m.id FROM messages m LEFT JOIN digest ON TRUE WHERE m.id = $1 AND m.closed_at IS NULL FOR UPDATE OF m
), attempt AS (
",
        ended_attempt!(),
        " FROM message WHERE attempts.message = message.id AND number = $2 AND class IS NULL RETURNING attempts.message AS id
), ended AS (
",
        ended_digest!("$8", "$9", "$3"),
        " FROM attempt WHERE digest_id = attempt.id AND state <> 'closed'
)
",
        ended_message!("$10", "$9", "$3"),
        " FROM attempt WHERE messages.id = attempt.id RETURNING 1"
    ),
};

impl<D: Dialect> SqlStore<D> {
    /// Ends the message, its digest and the attempt under way. Returns `false` and writes nothing if any of
    /// them had ended.
    pub(crate) async fn close_with_attempt(
        &self,
        message: Uuid,
        attempt: u32,
        (end, closed): (&AttemptEnd, &WindowEnd),
        now: Timestamp,
    ) -> Result<bool> {
        let close = Self::bind_end(D::pick_variant(CLOSE_WITH_ATTEMPT), message, attempt, end, now)
            .bind(closed.outcome.name().to_owned())
            .bind(no_nul(&closed.why))
            .bind(MessageState::from_outcome(closed.outcome).name().to_owned());
        self.write_at_once(close).await
    }
}
