//! The row of a digest.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::query_as;
use tidings_model::{
    Content, Key,
    records::{DigestRecord, DigestState},
    window::{Closed, Outcome},
};
use uuid::Uuid;

use crate::{
    Error, Result,
    sql::{
        Sql,
        columns::row,
        dialect::{Dialect, Variants},
    },
};

/// `$1` digest. Answers with (state, outcome, why) and keeps the row for the transaction.
pub const LOCK_DIGEST: Variants = Variants {
    sqlite: "SELECT state, outcome, why FROM digests WHERE digest_id = $1",
    postgres: "SELECT state, outcome, why FROM digests WHERE digest_id = $1 FOR UPDATE",
};

/// The columns of a [`DigestRow`].
macro_rules! digest_columns {
    () => {
        "SELECT d.digest_id, d.tenant, d.digest_type, d.user_id, d.opened_at, d.due_at, d.state, d.claimed_at,
                d.sent_at, d.outcome, d.why, d.closed_at, d.returned_at, d.purged_at, d.plan_why, d.cadence, d.zone,
                (SELECT CASE WHEN COUNT(*) < d.event_count THEN d.event_count ELSE COUNT(*) END
                 FROM events e WHERE e.digest_id = d.digest_id) AS items,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = d.digest_id) AS attempts,
                (SELECT COUNT(*) FROM attempts a WHERE a.message = d.digest_id AND a.class = 'ambiguous') AS ambiguous
         FROM digests d "
    };
}

pub(crate) use digest_columns;

pub const DIGEST: &str = concat!(digest_columns!(), "WHERE d.digest_id = $1");

pub const DIGESTS: &str = concat!(
    digest_columns!(),
    "WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 ORDER BY d.opened_at DESC, d.digest_id LIMIT $4"
);

/// A digest's row, ours until the transaction ends.
pub struct LockedDigest {
    pub state: DigestState,
    pub closed: Option<Closed>,
    /// See [`Ending::taken`].
    pub taken: u64,
    /// Digests without an end that have some of the events.
    pub elsewhere: BTreeSet<Uuid>,
    /// Other contents of events that are over.
    pub refused: Vec<(String, Content)>,
}

row! {
/// Columns of [`LOCK_DIGEST`].
pub struct LockedRow {
    state: DigestState,
    outcome: Option<Outcome>,
    why: Option<String>,
}
}

impl LockedDigest {
    pub fn new(LockedRow { state, outcome, why }: LockedRow) -> Self {
        Self { state, closed: closed(outcome, why), taken: 0, elsewhere: BTreeSet::new(), refused: Vec::new() }
    }
}

impl<D: Dialect> Sql<D> {
    pub(crate) async fn lock(connection: &mut D::Connection, digest_id: Uuid) -> Result<LockedDigest> {
        let locked = Self::lock_if_any(connection, digest_id).await?;
        locked.ok_or_else(|| Error::Broken(format!("digest {digest_id} is not in the ledger")))
    }

    pub(crate) async fn lock_if_any(connection: &mut D::Connection, digest_id: Uuid) -> Result<Option<LockedDigest>> {
        let row = query_as(D::pick(LOCK_DIGEST)).bind(digest_id.to_string()).fetch_optional(connection).await?;
        Ok(row.map(LockedDigest::new))
    }

    /// Reports if a statement about the digest or message finds a row.
    pub(crate) async fn finds(
        connection: &mut D::Connection,
        statement: &'static str,
        digest_id: Uuid,
    ) -> Result<bool> {
        let found: Option<(i64,)> = query_as(statement).bind(digest_id.to_string()).fetch_optional(connection).await?;
        Ok(found.is_some())
    }
}

row! {
/// Columns of [`DIGEST`](crate::sql::DIGEST).
pub struct DigestRow {
    digest_id: Uuid,
    tenant: String,
    digest_type: String,
    user_id: String,
    opened_at: Timestamp,
    due_at: Timestamp,
    state: DigestState,
    claimed_at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    outcome: Option<Outcome>,
    why: Option<String>,
    closed_at: Option<Timestamp>,
    returned_at: Option<Timestamp>,
    purged_at: Option<Timestamp>,
    plan_why: Option<String>,
    cadence: Option<String>,
    zone: Option<String>,
    items: u64,
    attempts: u32,
    ambiguous: u32,
}
}

impl From<DigestRow> for DigestRecord {
    fn from(row: DigestRow) -> Self {
        Self {
            digest_id: row.digest_id,
            key: Key { tenant: row.tenant, digest_type: row.digest_type, user: row.user_id },
            opened_at: row.opened_at,
            due_at: row.due_at,
            state: row.state,
            claimed_at: row.claimed_at,
            sent_at: row.sent_at,
            closed: closed(row.outcome, row.why),
            closed_at: row.closed_at,
            returned_at: row.returned_at,
            purged_at: row.purged_at,
            items: row.items,
            plan_why: row.plan_why.unwrap_or_default(),
            cadence: row.cadence.unwrap_or_default(),
            zone: row.zone.unwrap_or_default(),
            attempts: row.attempts,
            ambiguous: row.ambiguous,
        }
    }
}

pub fn closed(outcome: Option<Outcome>, why: Option<String>) -> Option<Closed> {
    outcome.map(|outcome| Closed { outcome, why: why.unwrap_or_default() })
}
