//! Records attempts before their final dot, many in one commit: SQLite has one writer, and each of its
//! commits waits for the disk.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{Connection, query, query_as};
use tidings_model::records::FirstAttempt;
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        SqlStore,
        dialect::{Dialect, StatementVariants},
        group_commit::{PendingCommit, QueuedRecord},
        or_zero, to_json,
    },
};

type WaitingDot = QueuedRecord<(PendingCommit, Timestamp), bool>;

pub const PAST_THE_DOT: StatementVariants = StatementVariants {
    sqlite: "
UPDATE attempts SET past_the_dot_at = COALESCE(past_the_dot_at, $3)
WHERE message = $1 AND number = $2 AND class IS NULL
  AND EXISTS (SELECT 1 FROM messages WHERE id = $1 AND closed_at IS NULL)",
    postgres: "
UPDATE attempts SET past_the_dot_at = COALESCE(past_the_dot_at, $3)
FROM (SELECT id FROM messages WHERE id = $1 AND closed_at IS NULL FOR UPDATE) m
WHERE attempts.message = m.id AND attempts.number = $2 AND attempts.class IS NULL",
};

/// Inserts a row if this is the first attempt. `$6` is the epoch.
pub const FIRST_ATTEMPT: StatementVariants = StatementVariants {
    sqlite: "
INSERT INTO attempts (tenant, message, number, relay, begun_at, past_the_dot_at, nonce)
SELECT tenant, id, 1, $2, $3, NULLIF($4, 0), $5 FROM messages WHERE id = $1 AND closed_at IS NULL AND epoch = $6
ON CONFLICT DO NOTHING",
    postgres: "
INSERT INTO attempts (tenant, message, number, relay, begun_at, past_the_dot_at, nonce)
SELECT tenant, id, 1, $2, $3, NULLIF($4, 0), $5
FROM (SELECT tenant, id FROM messages WHERE id = $1 AND closed_at IS NULL AND epoch = $6 FOR UPDATE) m
ON CONFLICT DO NOTHING",
};

pub const FIRST_ATTEMPTS: StatementVariants = StatementVariants {
    sqlite: "
INSERT INTO attempts (tenant, message, number, relay, begun_at, past_the_dot_at, nonce)
SELECT m.tenant, m.id, 1, f.value->>'relay', f.value->>'begun_at', f.value->>'past_the_dot_at', f.value->>'nonce'
FROM jsonb_each($1) f CROSS JOIN messages m
WHERE m.id = f.value->>'message' AND m.closed_at IS NULL AND m.epoch = f.value->>'epoch'
ON CONFLICT DO NOTHING RETURNING nonce",
    // Sorted by id, so two calls for the same messages cannot deadlock.
    postgres: "
INSERT INTO attempts (tenant, message, number, relay, begun_at, past_the_dot_at, nonce)
SELECT tenant, id, 1, relay, begun_at, past_the_dot_at, nonce
FROM (SELECT m.tenant, m.id, f.value->>'relay' AS relay, (f.value->>'begun_at')::bigint AS begun_at,
             (f.value->>'past_the_dot_at')::bigint AS past_the_dot_at, f.value->>'nonce' AS nonce
      FROM jsonb_array_elements($1::jsonb) f JOIN messages m ON m.id = f.value->>'message'
      WHERE m.closed_at IS NULL AND m.epoch = (f.value->>'epoch')::bigint ORDER BY m.id FOR UPDATE OF m) m
ON CONFLICT DO NOTHING RETURNING nonce",
};

pub const IS_FIRST_ATTEMPT: &str = "
SELECT 1 FROM attempts
WHERE message = $1 AND number = 1 AND nonce = $2 AND class IS NULL
  AND EXISTS (SELECT 1 FROM messages WHERE id = $1 AND closed_at IS NULL)";

impl<D: Dialect> SqlStore<D> {
    /// Returns `true` if the attempt may send its final dot. The first call to get a connection records all
    /// calls waiting for one.
    pub(crate) async fn commit_in_doubt(&self, dot: PendingCommit, now: Timestamp) -> Result<bool> {
        loop {
            let mut told = self.past_the_dot.push((dot.clone(), now));
            let told = tokio::select! {
                biased;
                told = &mut told => told,
                connection = self.writer.acquire() => {
                    let mut connection = connection?;
                    self.record_pending(&mut connection).await?;
                    connection.release();
                    told.await
                }
            };
            // If the other call failed or was dropped, try again: recording twice is harmless.
            if let Ok(may_send) = told {
                return Ok(may_send);
            }
        }
    }

    pub(crate) async fn record_pending(&self, connection: &mut D::Connection) -> Result<()> {
        let dots = self.past_the_dot.take();
        let firsts: Option<Vec<_>> = dots.iter().map(|waiting| FirstRow::new(&waiting.record)).collect();
        let recorded = match (dots.len(), firsts) {
            (0, _) => return Ok(()),
            (1, _) => Self::record_each(connection, dots).await?,
            (_, Some(firsts)) => {
                let firsts = to_json(&firsts)?;
                Self::record_firsts(connection, firsts, dots).await?
            }
            (_, None) => {
                let mut tx = connection.begin_with(D::BEGIN_WRITE).await?;
                let recorded = Self::record_each(&mut tx, dots).await?;
                tx.commit().await?;
                recorded
            }
        };
        for (waiting, may_send) in recorded {
            let _ = waiting.tell.send(may_send);
        }
        Ok(())
    }

    async fn record_firsts(
        connection: &mut D::Connection,
        firsts: String,
        dots: Vec<WaitingDot>,
    ) -> Result<Vec<(WaitingDot, bool)>> {
        let inserted: Vec<(String,)> =
            query_as(D::pick_variant(FIRST_ATTEMPTS)).bind(firsts).fetch_all(&mut *connection).await?;
        let inserted: BTreeSet<String> = inserted.into_iter().map(|(nonce,)| nonce).collect();
        let mut recorded = Vec::with_capacity(dots.len());
        for waiting in dots {
            let may_send = match &waiting.record.0 {
                PendingCommit::First(first) if inserted.contains(&first.nonce.to_string()) => true,
                PendingCommit::First(first) => Self::is_first(&mut *connection, first).await?,
                PendingCommit::Begun { .. } => false,
            };
            recorded.push((waiting, may_send));
        }
        Ok(recorded)
    }

    async fn record_each(connection: &mut D::Connection, dots: Vec<WaitingDot>) -> Result<Vec<(WaitingDot, bool)>> {
        let mut recorded = Vec::with_capacity(dots.len());
        for waiting in dots {
            let (dot, now) = &waiting.record;
            let may_send = match dot {
                PendingCommit::Begun { message, number } => {
                    let statement =
                        query(D::pick_variant(PAST_THE_DOT)).bind(message.to_string()).bind(i64::from(*number));
                    let done = statement.bind(now.as_millisecond()).execute(&mut *connection).await?;
                    D::changed_rows(&done) > 0
                }
                PendingCommit::First(first) => {
                    Self::insert_first(&mut *connection, first, Some(*now)).await?
                        || Self::is_first(&mut *connection, first).await?
                }
            };
            recorded.push((waiting, may_send));
        }
        Ok(recorded)
    }

    /// Returns `true` if an earlier call recorded this attempt but lost its reply; the attempt may continue.
    pub(crate) async fn is_first(connection: &mut D::Connection, first: &FirstAttempt) -> Result<bool> {
        let found = query(IS_FIRST_ATTEMPT).bind(first.message.to_string()).bind(first.nonce.to_string());
        Ok(found.fetch_optional(connection).await?.is_some())
    }

    /// Returns `false` if the attempt is not the first or is fenced.
    pub(crate) async fn insert_first(
        connection: &mut D::Connection,
        first: &FirstAttempt,
        past_the_dot_at: Option<Timestamp>,
    ) -> Result<bool> {
        let insert = query(D::pick_variant(FIRST_ATTEMPT)).bind(first.message.to_string()).bind(&first.relay);
        let insert = insert.bind(first.begun_at.as_millisecond()).bind(or_zero(past_the_dot_at));
        let insert = insert.bind(first.nonce.to_string()).bind(first.epoch.cast_signed());
        Ok(D::changed_rows(&insert.execute(connection).await?) > 0)
    }
}

#[derive(Serialize)]
struct FirstRow<'a> {
    message: Uuid,
    relay: &'a str,
    begun_at: i64,
    past_the_dot_at: i64,
    nonce: Uuid,
    epoch: i64,
}

impl<'a> FirstRow<'a> {
    /// `None` if the ledger has the attempt.
    fn new((dot, now): &'a (PendingCommit, Timestamp)) -> Option<Self> {
        let PendingCommit::First(FirstAttempt { message, relay, begun_at, epoch, nonce }) = dot else { return None };
        Some(Self {
            message: *message,
            relay,
            begun_at: begun_at.as_millisecond(),
            past_the_dot_at: now.as_millisecond(),
            nonce: *nonce,
            epoch: epoch.cast_signed(),
        })
    }
}
