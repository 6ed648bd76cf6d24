//! Ends digests and their messages (rule 27).

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Event, Key,
    records::{AuditActor, CloseRequest, DigestState, MessageState},
    step::{CloseAnswer, ReturnedEvents},
    window::{DigestOutcome, Window, WindowEnd},
};
use uuid::Uuid;

use crate::{
    Result,
    digest::{LOCK_MESSAGE, LockedDigest},
    events::recorded_event,
    sql::{SqlStore, columns::row, dialect::Dialect, no_nul},
};

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

/// At most twice per event (rule 25).
pub const RETURN_EVENTS: &str =
    "UPDATE events SET returned_at = $2, returns = returns + 1 WHERE digest_id = $1 AND returns < 2";

pub const FENCE: &str = "
UPDATE attempts SET fenced_at = $2, class = CASE WHEN past_the_dot_at IS NULL THEN 'fenced' ELSE 'ambiguous' END
WHERE message = $1 AND class IS NULL";

pub enum AdoptionScope {
    All,
    /// Only the given events, and none from this digest, because it is in delivery.
    TheseExceptFrom(Option<Uuid>),
}

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn close_window(&self, closing: CloseRequest<'_>, adoption: AdoptionScope) -> Result<CloseAnswer> {
        let CloseRequest { window, events, closed, by, return_events, planned, now } = closing;
        let mut tx = self.begin_write().await?;
        let mut digest = Self::collect_events(&mut tx, window, planned, events, Some(closed), now).await?;
        // True when ending a whole window before its claim.
        let takes_returned = matches!(adoption, AdoptionScope::All) && !return_events;
        let only = match adoption {
            AdoptionScope::All => None,
            AdoptionScope::TheseExceptFrom(delivering) => {
                digest.elsewhere.retain(|id| Some(*id) != delivering);
                Some(events)
            }
        };
        if !return_events || digest.closed.is_none() {
            Self::adopt_orphans(&mut tx, window, &digest, only, now).await?;
        }
        Self::record_refused(&mut tx, &window.key, &digest.refused, now).await?;
        let first = if let Some(first) = digest.closed {
            first
        } else {
            query(D::pick_variant(LOCK_MESSAGE)).bind(window.digest_id.to_string()).execute(&mut *tx).await?;
            if takes_returned && digest.state == DigestState::Open {
                Self::take_returned(&mut tx, window, &digest).await?;
            }
            let closed = Self::unless_past_the_dot(&mut tx, window.digest_id, closed, now).await?;
            Self::apply_end(&mut tx, window.digest_id, &closed, return_events, now).await?;
            Self::audit_close(&mut tx, &window.key, window.digest_id, &closed, by, now).await?;
            closed
        };
        tx.commit().await?;
        Ok(CloseAnswer { closed: first, taken: digest.taken, returned: None })
    }

    /// Fences the attempts of a locked message. If one was past the dot, the recipient may have the message,
    /// so this returns an ambiguous outcome (rule 31).
    pub(crate) async fn unless_past_the_dot(
        connection: &mut D::Connection,
        message: Uuid,
        closed: &WindowEnd,
        now: Timestamp,
    ) -> Result<WindowEnd> {
        let id = message.to_string();
        Self::fence_attempt(&mut *connection, &id, now).await?;
        let (_, ambiguous) = Self::earlier_attempts(connection, &id, 0).await?;
        if ambiguous == 0 {
            return Ok(closed.clone());
        }
        Ok(WindowEnd { outcome: DigestOutcome::Ambiguous, why: format!("{}, past the dot of an attempt", closed.why) })
    }

    /// Fences the attempt under way, if any, so its end only updates its own row. Otherwise a dead worker's
    /// attempt would stay open.
    pub(crate) async fn fence_attempt(connection: &mut D::Connection, message: &str, now: Timestamp) -> Result<()> {
        query(FENCE).bind(message.to_owned()).bind(now.as_millisecond()).execute(connection).await?;
        Ok(())
    }

    /// Ends an open, locked message and its digest, or a digest without a message; `id` is the id of either.
    /// Only a digest has events to return.
    pub(crate) async fn apply_end(
        connection: &mut D::Connection,
        id: Uuid,
        closed: &WindowEnd,
        return_events: bool,
        now: Timestamp,
    ) -> Result<()> {
        let id = id.to_string();
        for (statement, name) in
            [(CLOSE_DIGEST, closed.outcome.name()), (CLOSE_MESSAGE, MessageState::from_outcome(closed.outcome).name())]
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

pub const TAKE_RETURNED: &str = "
UPDATE events SET returned_from = digest_id, digest_id = $4, returned_at = NULL
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
  AND ($5 OR EXISTS (SELECT 1 FROM events own WHERE own.digest_id = $4))";

pub const RETURNED: &str = "
SELECT digest_id, COUNT(*) AS items, MIN(returned_at) AS first_at FROM events
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
GROUP BY digest_id";

pub const RETURNED_EVENT: &str = concat!(
    recorded_event!(),
    " WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
ORDER BY returned_at, event_id LIMIT 1"
);

impl<D: Dialect> SqlStore<D> {
    /// Moves events returned by the key's failed digests into the window's digest. Takes none if all of the
    /// call's events are in other open digests, because its run may be gone.
    pub(crate) async fn take_returned(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
    ) -> Result<()> {
        let Key { tenant, digest_type, user } = &window.key;
        let take = query(TAKE_RETURNED).bind(tenant).bind(digest_type).bind(user);
        take.bind(window.digest_id.to_string()).bind(digest.elsewhere.is_empty()).execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn returned_events(&self, key: &Key) -> Result<Option<ReturnedEvents>> {
        let statement = query_as(RETURNED).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let rows: Vec<ReturnedRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
        let at = rows.iter().map(|row| row.first_at).min();
        let digests = rows.into_iter().map(|row| (row.digest_id, row.items)).collect();
        Ok(at.map(|at| ReturnedEvents { at, digests }))
    }

    pub(crate) async fn returned_event(&self, key: &Key) -> Result<Option<Event>> {
        let event = query(RETURNED_EVENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        self.read_record(event).await
    }
}

row! {
pub struct ReturnedRow {
    digest_id: Uuid,
    items: u64,
    first_at: Timestamp,
}
}

pub const IS_ORPHANED: &str = "
SELECT 1 FROM digests WHERE digest_id = $1 AND opened_at < $2 AND state <> 'closed'
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1)";

pub const ADOPT_EVENTS: &str = "UPDATE events SET returned_from = digest_id, digest_id = $2 WHERE digest_id = $1";

pub const ADOPT_EVENT: &str =
    concat!("UPDATE events SET returned_from = digest_id, digest_id = $2 ", "WHERE digest_id = $1 AND event_id = $3");

impl<D: Dialect> SqlStore<D> {
    /// Moves the events of every orphaned digest to this window's digest, or just `only`
    /// ([`Ledger::stash`](crate::Ledger::stash_events)).
    pub(crate) async fn adopt_orphans(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
        only: Option<&[Event]>,
        now: Timestamp,
    ) -> Result<()> {
        let why = format!("left behind; its events went on to digest {}", window.digest_id);
        let closed = WindowEnd { outcome: DigestOutcome::Skipped, why };
        for id in digest.elsewhere.iter().filter(|_| only.is_some() || digest.state.takes_events()) {
            // Lock before reading: another transaction may end it in between.
            Self::lock_message(&mut *connection, *id).await?;
            let left = query(IS_ORPHANED).bind(id.to_string()).bind(window.opened_at.as_millisecond());
            if left.fetch_optional(&mut *connection).await?.is_none() {
                continue;
            }
            match only {
                None => {
                    let adopt = query(ADOPT_EVENTS).bind(id.to_string()).bind(window.digest_id.to_string());
                    adopt.execute(&mut *connection).await?;
                }
                // Its message includes all of these events, so none may leave.
                Some(_) if !Self::lock_digest(&mut *connection, *id).await?.state.takes_events() => continue,
                Some(events) => {
                    for event in events {
                        let adopt = query(ADOPT_EVENT).bind(id.to_string());
                        let adopt = adopt.bind(window.digest_id.to_string()).bind(event.event_id.clone());
                        adopt.execute(&mut *connection).await?;
                    }
                    if Self::items_and_lines(&mut *connection, *id).await? != (0, 0) {
                        continue;
                    }
                }
            }
            Self::apply_end(&mut *connection, *id, &closed, false, now).await?;
            Self::audit_close(&mut *connection, &window.key, *id, &closed, AuditActor::Tidings, now).await?;
        }
        Ok(())
    }
}
