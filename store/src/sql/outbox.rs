//! Messages and the attempts to deliver them (rules 24 to 27).
//!
//! At most one attempt of a message is under way: the one without a class. A new attempt gives every earlier one its
//! class, and that is the fence: a fenced attempt can neither send the dot nor end the message.

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    contract::{BuryInput, Closed},
    records::{AttemptEnd, Begun, Message, MessageState, Origin},
};
use uuid::Uuid;

use super::{
    Dialect, Sql,
    columns::row,
    json,
    messages::{MessageRow, OriginRow},
    no_nul, number, rows, statements,
};
use crate::{Error, Result};

/// A message, ours until the transaction ends.
pub(super) struct LockedMessage {
    /// Its end, or its digest's.
    pub closed: Option<Closed>,
    /// Whether the relay took it.
    pub sent: bool,
}

row! {
/// Columns of [`LOCK_MESSAGE`](Dialect::LOCK_MESSAGE).
struct LockedRow {
    state: MessageState,
    why: Option<String>,
    sent_at: Option<Timestamp>,
}
}

/// What an attempt's end may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was under way: its end counts.
    Current,
    /// A later attempt had begun: only a success counts.
    Late,
    /// Its end was known.
    Repeated,
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn write_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool> {
        let id = message.id.to_string();
        let mut tx = self.write().await?;
        let of_digest = matches!(message.origin, Origin::Digest(_));
        if of_digest {
            let rendered = query(statements::RENDERED_DIGEST).bind(id.clone()).execute(&mut *tx).await?;
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
        let origin = OriginRow::new(message);
        query(statements::PUT_MESSAGE)
            .bind(message.tenant().to_owned())
            .bind(origin.digest_type)
            .bind(origin.user)
            .bind(id)
            .bind(origin.digest_id)
            .bind(origin.idempotency_key)
            .bind(origin.content_sha256)
            .bind(&message.stream)
            .bind(&message.envelope_from)
            .bind(&message.envelope_to)
            .bind(&message.message_id)
            .bind(no_nul(&message.subject))
            .bind(&message.bytes)
            .bind(&message.template)
            .bind(message.created_at.as_millisecond())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(true)
    }

    pub(super) async fn replace_message(&self, message: &Message, attempt: u32) -> Result<bool> {
        let mut tx = self.write().await?;
        // What the statement asks of the attempts is read when nobody else can begin one.
        Self::lock_message(&mut tx, message.id).await?;
        let statement = query(statements::SHRINK_MESSAGE).bind(message.id.to_string()).bind(i64::from(attempt));
        let statement = statement.bind(no_nul(&message.subject)).bind(&message.bytes).bind(&message.template);
        let shrunk = D::rows(&statement.execute(&mut *tx).await?) > 0;
        tx.commit().await?;
        Ok(shrunk)
    }

    pub(super) async fn start_attempt(&self, message: Uuid, relay: &str, now: Timestamp) -> Result<Begun> {
        let id = message.to_string();
        let mut tx = self.write().await?;
        if let Some(closed) = Self::lock_message(&mut tx, message).await?.closed {
            return Ok(Begun::Closed(closed));
        }
        let row: Option<MessageRow> = query_as(statements::MESSAGE).bind(id.clone()).fetch_optional(&mut *tx).await?;
        let row = row.ok_or_else(|| Error::Broken(format!("digest {message} has no message to send")))?;
        let may_repeat = row.may_repeat;
        let message = Message::from(row);
        let (mut earlier, mut ambiguous) = Self::earlier(&mut tx, &id, may_repeat).await?;
        let mut doubtful = false;
        if earlier > 0 {
            query(statements::FENCE).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
            (earlier, ambiguous) = Self::earlier(&mut tx, &id, may_repeat).await?;
            doubtful = Self::earlier(&mut tx, &id, 0).await?.1 > 0;
        }
        let begin =
            query(statements::BEGIN_ATTEMPT).bind(message.tenant().to_owned()).bind(id.clone()).bind(earlier + 1);
        begin.bind(relay.to_owned()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        Self::set_state(&mut tx, id, MessageState::Sending).await?;
        tx.commit().await?;
        let (number, ambiguous) = (number(earlier + 1)?, number(ambiguous)?);
        Ok(Begun::Go { number, ambiguous, doubtful, message: Box::new(message) })
    }

    /// Attempts, and ambiguous ones among those after that number.
    pub(super) async fn earlier(connection: &mut D::Connection, id: &str, after: i64) -> Result<(i64, i64)> {
        let earlier = query_as(statements::EARLIER_ATTEMPTS).bind(id.to_owned()).bind(after);
        Ok(earlier.fetch_one(connection).await?)
    }

    /// The digest first, then the message, in that order everywhere: else two calls could wait for each other.
    pub(super) async fn lock_message(connection: &mut D::Connection, message: Uuid) -> Result<LockedMessage> {
        let digest = Self::lock_if_any(&mut *connection, message).await?;
        let row = query_as(D::LOCK_MESSAGE).bind(message.to_string()).fetch_optional(connection).await?;
        let row: Option<LockedRow> = row;
        match (digest, row) {
            (Some(digest), row) => {
                Ok(LockedMessage { closed: digest.closed, sent: row.is_some_and(|row| row.sent_at.is_some()) })
            }
            (None, Some(row)) => {
                Ok(LockedMessage { closed: rows::closed(row.state.outcome(), row.why), sent: row.sent_at.is_some() })
            }
            (None, None) => Err(Error::Broken(format!("message {message} is not in the outbox"))),
        }
    }

    async fn set_state(connection: &mut D::Connection, id: String, state: MessageState) -> Result<()> {
        let set = query(statements::MESSAGE_STATE).bind(id).bind(state.name().to_owned());
        set.execute(connection).await?;
        Ok(())
    }

    pub(super) async fn finish_attempt(
        &self,
        message: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.write().await?;
        let locked = Self::lock_message(&mut tx, message).await?;
        let standing = Self::record_end(&mut tx, message, attempt, end, now).await?;
        let current = standing == Standing::Current;
        // The relay has the mail, whichever attempt brought it: ending the message now spares the recipient a second.
        let sent = end.class == "sent" && standing != Standing::Repeated;
        // Where this is the end, the end says so itself.
        if sent && locked.closed.is_some() {
            for statement in [statements::SENT_DIGEST, statements::SENT_MESSAGE] {
                query(statement).bind(message.to_string()).bind(now.as_millisecond()).execute(&mut *tx).await?;
            }
        }
        if let (true, Some(suppression)) = (current && Self::in_a_row(&mut tx, message, end).await?, &end.suppress) {
            Self::write_suppression(&mut tx, suppression).await?;
        }
        match (&end.closed, locked.closed) {
            (Some(closed), None) if current || sent => {
                Self::end(&mut tx, message, closed, end.return_events, now).await?;
            }
            (None, None) if current => {
                Self::set_state(&mut tx, message.to_string(), MessageState::Deferred).await?;
            }
            _ => {}
        }
        Ok(tx.commit().await?)
    }

    /// Whether the messages before this one to the same address ended like it, as many as it takes.
    async fn in_a_row(connection: &mut D::Connection, message: Uuid, end: &AttemptEnd) -> Result<bool> {
        let before = i64::from(end.in_a_row) - 1;
        if before == 0 || end.suppress.is_none() {
            return Ok(true);
        }
        let count = query_as(statements::ENDED_ALIKE).bind(message.to_string()).bind(end.class.to_owned()).bind(before);
        let (alike,): (i64,) = count.fetch_one(connection).await?;
        Ok(alike >= before)
    }

    async fn record_end(
        connection: &mut D::Connection,
        message: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<Standing> {
        for (statement, standing) in
            [(statements::END_ATTEMPT, Standing::Current), (statements::LATE_END, Standing::Late)]
        {
            let update = query(statement).bind(message.to_string()).bind(i64::from(attempt));
            let update = update.bind(now.as_millisecond()).bind(end.phase.to_owned()).bind(end.class.to_owned());
            if D::rows(&update.bind(no_nul(&end.reply)).execute(&mut *connection).await?) > 0 {
                return Ok(standing);
            }
        }
        Ok(Standing::Repeated)
    }

    pub(super) async fn write_letters(&self, input: &BuryInput, now: Timestamp) -> Result<()> {
        let mut letters = input.letters.clone();
        for letter in &mut letters {
            letter.reason = no_nul(&letter.reason);
            letter.encoding = no_nul(&letter.encoding);
        }
        let statement = query(D::BURY).bind(no_nul(&input.workflow_id)).bind(no_nul(&input.run_id));
        statement.bind(json(&letters)?).bind(now.as_millisecond()).execute(&self.writer).await?;
        Ok(())
    }
}
