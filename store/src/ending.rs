//! The end of a digest and of its message.

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    records::{Closing, DigestState, MessageState},
    step::Ending,
    window::{Closed, Outcome},
};
use uuid::Uuid;

use crate::{
    Result,
    message::LOCK_MESSAGE,
    sql::{Sql, dialect::Dialect, no_nul},
};

/// Ends the digest `$1`. Fixes the digest's number of events: until its end a digest may take more events, and lose them.
macro_rules! ended_digest {
    ($outcome:literal, $why:literal, $now:literal) => {
        concat!(
            "UPDATE digests SET state = 'closed', outcome = ",
            $outcome,
            ", why = ",
            $why,
            ", closed_at = ",
            $now,
            ",
    event_count = (SELECT COUNT(*) FROM events WHERE events.digest_id = $1),
    sent_at = CASE WHEN ",
            $outcome,
            " = 'sent' THEN COALESCE(sent_at, ",
            $now,
            ") ELSE sent_at END"
        )
    };
}

macro_rules! ended_message {
    ($state:literal, $why:literal, $now:literal) => {
        concat!(
            "UPDATE messages SET state = ",
            $state,
            ", why = ",
            $why,
            ", closed_at = ",
            $now,
            ",
    sent_at = CASE WHEN ",
            $state,
            " = 'sent' THEN COALESCE(sent_at, ",
            $now,
            ") ELSE sent_at END"
        )
    };
}
pub(crate) use {ended_digest, ended_message};

pub const CLOSE_DIGEST: &str = concat!(ended_digest!("$2", "$3", "$4"), " WHERE digest_id = $1 AND state <> 'closed'");

pub const CLOSE_MESSAGE: &str = concat!(ended_message!("$2", "$3", "$4"), " WHERE id = $1 AND closed_at IS NULL");

pub const RETURN_DIGEST: &str = "
UPDATE digests SET returned_at = $2
WHERE digest_id = $1 AND EXISTS (SELECT 1 FROM events WHERE events.digest_id = $1 AND returned_at IS NOT NULL)";

/// Each event twice at most (rule 25).
pub const RETURN_EVENTS: &str =
    "UPDATE events SET returned_at = $2, returns = returns + 1 WHERE digest_id = $1 AND returns < 2";

pub const FENCE: &str = "
UPDATE attempts SET fenced_at = $2, class = CASE WHEN past_the_dot_at IS NULL THEN 'fenced' ELSE 'ambiguous' END
WHERE message = $1 AND class IS NULL";

/// The events of orphaned digests that an end adopts.
pub enum Adoption {
    /// All of their events.
    All,
    /// Its own events, and none from this digest, which is in delivery.
    TheseExceptFrom(Option<Uuid>),
}

impl<D: Dialect> Sql<D> {
    pub(crate) async fn close_window(&self, closing: Closing<'_>, adoption: Adoption) -> Result<Ending> {
        let Closing { window, events, closed, by, return_events, planned, now } = closing;
        let mut tx = self.write().await?;
        let mut digest = Self::collect(&mut tx, window, planned, events, Some(closed), now).await?;
        // The end of a whole window that was not claimed.
        let takes_returned = matches!(adoption, Adoption::All) && !return_events;
        let only = match adoption {
            Adoption::All => None,
            Adoption::TheseExceptFrom(delivering) => {
                digest.elsewhere.retain(|id| Some(*id) != delivering);
                Some(events)
            }
        };
        // Events that an earlier call returned belong to the next claim.
        if !return_events || digest.closed.is_none() {
            Self::adopt_orphans(&mut tx, window, &digest, only, now).await?;
        }
        Self::refuse(&mut tx, &window.key, &digest.refused, now).await?;
        let first = if let Some(first) = digest.closed {
            first
        } else {
            query(D::pick(LOCK_MESSAGE)).bind(window.digest_id.to_string()).execute(&mut *tx).await?;
            if takes_returned && digest.state == DigestState::Open {
                Self::take_returned(&mut tx, window, &digest).await?;
            }
            let closed = Self::unless_past_the_dot(&mut tx, window.digest_id, closed, now).await?;
            Self::end(&mut tx, window.digest_id, &closed, return_events, now).await?;
            Self::audit_close(&mut tx, &window.key, window.digest_id, &closed, by, now).await?;
            closed
        };
        tx.commit().await?;
        Ok(Ending { closed: first, taken: digest.taken, returned: None })
    }

    /// Fences the attempts of a message that is locked. If one was past the dot, the recipient may have the
    /// message, and the end says so (rule 31).
    pub(crate) async fn unless_past_the_dot(
        connection: &mut D::Connection,
        message: Uuid,
        closed: &Closed,
        now: Timestamp,
    ) -> Result<Closed> {
        let id = message.to_string();
        Self::fence(&mut *connection, &id, now).await?;
        let (_, ambiguous) = Self::earlier_attempts(connection, &id, 0).await?;
        if ambiguous == 0 {
            return Ok(closed.clone());
        }
        Ok(Closed { outcome: Outcome::Ambiguous, why: format!("{}, past the dot of an attempt", closed.why) })
    }

    /// Fences the attempt of a message that is under way, if there is one: its end changes nothing but the record of the attempt, and
    /// where its worker is dead nothing else would say that it is over.
    pub(crate) async fn fence(connection: &mut D::Connection, message: &str, now: Timestamp) -> Result<()> {
        query(FENCE).bind(message.to_owned()).bind(now.as_millisecond()).execute(connection).await?;
        Ok(())
    }

    /// Ends a message that is locked and has no end, and the digest that it is of, or a digest that has none yet: whatever
    /// there is of this id. Only a digest has events to return.
    pub(crate) async fn end(
        connection: &mut D::Connection,
        id: Uuid,
        closed: &Closed,
        return_events: bool,
        now: Timestamp,
    ) -> Result<()> {
        let id = id.to_string();
        for (statement, name) in
            [(CLOSE_DIGEST, closed.outcome.name()), (CLOSE_MESSAGE, MessageState::after(closed.outcome).name())]
        {
            let close = query(statement).bind(id.clone()).bind(name.to_owned()).bind(no_nul(&closed.why));
            close.bind(now.as_millisecond()).execute(&mut *connection).await?;
        }
        if return_events {
            for statement in [RETURN_EVENTS, RETURN_DIGEST] {
                query(statement).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }
}
