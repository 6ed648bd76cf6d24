//! Messages and the attempts to deliver them (rules 24 to 27).
//!
//! At most one attempt of a message is under way: the one without a class. A new attempt gives every earlier one its
//! class, and that is the fence: a fenced attempt can neither send the dot nor end the digest.

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_workflows::contract::BuryInput;
use uuid::Uuid;

use super::{
    Dialect, Sql, json, no_nul, number,
    rows::{self, MessageRow},
    statements,
};
use crate::store::{AttemptEnd, Begun, Error, Message, Result};

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
    pub(super) async fn write_message(&self, message: &Message) -> Result<()> {
        let id = message.digest_id.to_string();
        let mut tx = self.write().await?;
        if Self::lock(&mut tx, message.digest_id).await?.closed.is_none() {
            query(statements::PUT_MESSAGE)
                .bind(&message.key.tenant)
                .bind(&message.key.digest_type)
                .bind(&message.key.user)
                .bind(id.clone())
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
            query(statements::RENDERED_DIGEST).bind(id).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn start_attempt(&self, digest_id: Uuid, relay: &str, now: Timestamp) -> Result<Begun> {
        let id = digest_id.to_string();
        let mut tx = self.write().await?;
        if let Some(closed) = Self::lock(&mut tx, digest_id).await?.closed {
            return Ok(Begun::Closed(closed));
        }
        let row: Option<MessageRow> = query_as(statements::MESSAGE).bind(id.clone()).fetch_optional(&mut *tx).await?;
        let row = row.ok_or_else(|| Error::Broken(format!("digest {digest_id} has no message to send")))?;
        let message = Box::new(rows::message(digest_id, row)?);
        query(statements::FENCE).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        let (earlier, ambiguous): (i64, i64) =
            query_as(statements::EARLIER_ATTEMPTS).bind(id.clone()).fetch_one(&mut *tx).await?;
        let begin = query(statements::BEGIN_ATTEMPT).bind(&message.key.tenant).bind(id).bind(earlier + 1);
        begin.bind(relay.to_owned()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Begun::Go { number: number(earlier + 1)?, ambiguous: number(ambiguous)?, message })
    }

    /// One statement, because it stands between DATA and the dot of every mail.
    pub(super) async fn pass_the_dot(&self, digest_id: Uuid, attempt: u32, now: Timestamp) -> Result<bool> {
        let statement = query(D::PAST_THE_DOT).bind(digest_id.to_string()).bind(i64::from(attempt));
        Ok(D::rows(&statement.bind(now.as_millisecond()).execute(&self.writer).await?) > 0)
    }

    pub(super) async fn finish_attempt(
        &self,
        digest_id: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.write().await?;
        let digest = Self::lock(&mut tx, digest_id).await?;
        let standing = Self::record_end(&mut tx, digest_id, attempt, end, now).await?;
        let current = standing == Standing::Current;
        // The relay has the mail, whichever attempt brought it: ending the digest now spares the recipient a second.
        let sent = end.class == "sent" && standing != Standing::Repeated;
        if sent {
            let statement = query(statements::SENT_DIGEST).bind(digest_id.to_string());
            statement.bind(now.as_millisecond()).execute(&mut *tx).await?;
        }
        if let (true, Some(suppression)) = (current, &end.suppress) {
            Self::write_suppression(&mut tx, suppression).await?;
        }
        if let (true, Some(closed), None) = (current || sent, &end.closed, digest.closed) {
            Self::end(&mut tx, digest_id, closed, end.return_events, now).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn record_end(
        connection: &mut D::Connection,
        digest_id: Uuid,
        attempt: u32,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<Standing> {
        for (statement, standing) in
            [(statements::END_ATTEMPT, Standing::Current), (statements::LATE_END, Standing::Late)]
        {
            let update = query(statement).bind(digest_id.to_string()).bind(i64::from(attempt));
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
