//! SQLite: the embedded default. One connection writes, so that writers wait in line instead of failing with
//! `SQLITE_BUSY`; the others read beside it (WAL).

use std::{
    fs::{DirBuilder, OpenOptions},
    future, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    str::FromStr,
    time::Duration,
};

use sqlx::{
    Connection as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteQueryResult, SqliteSynchronous},
};

use super::{Dialect, Sql, dots::Dots, migrator, statements::items_and_groups};
use crate::{Error, Result};

/// How long a statement waits for another process that writes (`tidings` on the command line beside the worker).
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const READERS: u32 = 4;

impl Sql<sqlx::Sqlite> {
    /// Opens the file of `sqlite:PATH`, and creates it and its folder where they are missing.
    ///
    /// # Errors
    /// The address cannot be read, or the file cannot be opened.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL may lose the last commits when the machine loses power. Temporal would remember them as done: a
            // claim whose events are nowhere, a dot that was never recorded. FULL costs one fsync a commit.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let file = options.get_filename();
        create(file).map_err(|error| Error::Broken(format!("cannot create {}: {error}", file.display())))?;
        // A file does not hang up, and asking it costs as much as a statement. But where the disk is full SQLite rolls back by
        // itself, sqlx 0.9 goes on as if it had not, and a connection like that begins no transaction any more.
        let pool = || {
            let pool = SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None).test_before_acquire(false);
            pool.before_acquire(|connection, _| Box::pin(future::ready(Ok(!connection.is_in_transaction()))))
        };
        let writer = pool().max_connections(1).connect_with(options.clone()).await?;
        let reader = pool().max_connections(READERS).connect_lazy_with(options.pragma("query_only", "ON"));
        Ok(Self { writer, reader, dots: Dots::default() })
    }

    /// Brings the tables to this version's.
    ///
    /// # Errors
    /// A statement failed, or another version of Tidings migrated the database differently.
    pub async fn migrate(&self) -> Result<()> {
        Ok(migrator(include_str!("../../migrations/sqlite/0001_tidings.sql")).run(&self.writer).await?)
    }
}

/// For nobody else on this machine: addresses and mails are in it. SQLite's other files get the mode of this one. A file that
/// is there is not opened: to close it would end the locks that connections of this process hold on it (POSIX).
fn create(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// `SUM` of SQLite fails when it overflows, and a digest would fail with it, for ever. Summed in two halves of 32 bits,
/// which cannot overflow, and then cut to what an i64 holds.
macro_rules! summed_counts {
    ($events:literal) => {
        concat!(
            "(SELECT json_group_object(name, CASE WHEN high > 2147483647 THEN 9223372036854775807
                                                  WHEN high < -2147483648 THEN -9223372036854775807 - 1
                                                  ELSE (high << 32) | low END)
              FROM (SELECT name, high + (low >> 32) AS high, low & 4294967295 AS low
                    FROM (SELECT c.key AS name, SUM(c.value >> 32) AS high, SUM(c.value & 4294967295) AS low
                          FROM events e, json_each(e.counts) c WHERE ",
            $events,
            " GROUP BY c.key)))"
        )
    };
}

// Elements come from `jsonb_each` where fields of them are taken: those of `json_each` are text, written and read again for
// each field. To insert 500 events takes 1.7 ms with it, and 3.1 without.
impl Dialect for sqlx::Sqlite {
    /// The lock is taken at once: a transaction that reads first and then cannot write would fail.
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";
    const BEGIN_READ: &'static str = "BEGIN";
    const PUT_RECIPIENTS: &'static str = "
INSERT INTO recipients (tenant, user_id, address, address_lower, name, zone, locale, zone_revision, zone_changed_at)
SELECT value->>'tenant', value->>'user', value->>'address', value->>'address_lower', value->>'name', value->>'zone',
       value->>'locale', CASE WHEN value->>'zone' = '' THEN 0 ELSE 1 END, NULL
FROM jsonb_each($1) WHERE TRUE
ON CONFLICT (tenant, user_id) DO UPDATE SET address = excluded.address, address_lower = excluded.address_lower,
    name = excluded.name, zone = excluded.zone, locale = excluded.locale,
    zone_revision = recipients.zone_revision + CASE WHEN recipients.zone = excluded.zone THEN 0 ELSE 1 END,
    zone_changed_at = CASE WHEN recipients.zone = excluded.zone THEN recipients.zone_changed_at ELSE $2 END";
    const PUT_PREFERENCES: &'static str = "
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
VALUES ($1, $2, $3, $4, 1, $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET chosen = excluded.chosen,
    revision = preferences.revision + 1, changed_at = excluded.changed_at WHERE preferences.chosen <> excluded.chosen";
    const PUT_RETRACTS: &'static str = "
INSERT INTO retracts (tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at)
SELECT $1, $2, $3, value->>'event_id', value->>'category', value->>'entity_type', value->>'entity_id', value->>'until_at', $5
FROM jsonb_each($4) WHERE TRUE
ON CONFLICT (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) DO UPDATE SET
    until_at = excluded.until_at, retracted_at = excluded.retracted_at WHERE retracts.until_at < excluded.until_at";
    const LOCK_DIGEST: &'static str = "SELECT state, outcome, why FROM digests WHERE digest_id = $1";
    const LOCK_MESSAGE: &'static str = "SELECT state, why, sent_at FROM messages WHERE id = $1";
    /// The whole database is ours already.
    const LOCK_ADDRESS: &'static str = "SELECT $1, $2";
    const LOCK_RECIPIENT: &'static str = "SELECT user_id FROM recipients WHERE tenant = $1 AND user_id = $2";
    const INSERT_EVENTS: &'static str = "
INSERT INTO events (tenant, digest_type, user_id, digest_id, event_id, category, entity_type, entity_id, actor,
                    occurred_at, counts, urgent, payload, recorded_at, returned_at)
SELECT d.tenant, d.digest_type, d.user_id, d.digest_id, e.value->>'event_id', e.value->>'category',
       e.value->>'entity_type', e.value->>'entity_id', e.value->>'actor', e.value->>'occurred_at', e.value->>'counts',
       e.value->>'urgent', e.value->>'payload', $3, d.returned_at
FROM digests d CROSS JOIN jsonb_each($2) e
WHERE d.digest_id = $1 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = d.digest_id)
ON CONFLICT DO NOTHING";
    const RECORDED_EVENTS: &'static str = "
SELECT e.event_id, e.digest_id, d.state FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.tenant = $1 AND e.digest_type = $2 AND e.user_id = $3 AND e.event_id IN (SELECT value FROM json_each($4))";
    const TOTALS: &'static str = items_and_groups!(summed_counts!("e.digest_id = $1"));
    const LINES: &'static str = concat!(
        "WITH lines AS (
    SELECT category, entity_type, entity_id, COUNT(*) AS items, MIN(occurred_at) AS first_at,
           MAX(occurred_at) AS last_at
    FROM events WHERE digest_id = $1
    GROUP BY category, entity_type, entity_id
    ORDER BY items DESC, last_at DESC, category, entity_type, entity_id LIMIT $2)
SELECT l.category, l.entity_type, l.entity_id, l.items, l.first_at, l.last_at, ",
        summed_counts!(
            "(e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)"
        ),
        " AS counts, latest.actor, latest.payload,
       (SELECT COUNT(DISTINCT e.actor) FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)) AS actor_count,
       (SELECT json_group_array(actor) FROM (SELECT e.actor FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
        GROUP BY e.actor ORDER BY MAX(e.occurred_at) DESC, e.actor LIMIT 3)) AS actors
FROM lines l JOIN events latest ON latest.rowid = (
    SELECT e.rowid FROM events e
    WHERE (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
    ORDER BY e.occurred_at DESC, e.event_id DESC LIMIT 1)
ORDER BY l.items DESC, l.last_at DESC, l.category, l.entity_type, l.entity_id"
    );
    const PAST_THE_DOT: &'static str = "
UPDATE attempts SET past_the_dot_at = COALESCE(past_the_dot_at, $3)
WHERE message = $1 AND number = $2 AND class IS NULL
  AND EXISTS (SELECT 1 FROM messages WHERE id = $1 AND closed_at IS NULL)";
    const BURY: &'static str = "
INSERT INTO dead_letters (workflow_id, run_id, seq, reason, encoding, size, sha256, head, buried_at)
SELECT $1, $2, value->>'seq', value->>'reason', value->>'encoding', value->>'size', value->>'sha256', value->>'head', $4
FROM jsonb_each($3) WHERE TRUE ON CONFLICT DO NOTHING";
    /// The whole database is ours already.
    const SKIP_LOCKED: &'static str = "";
    const EACH_OF_1: &'static str = "jsonb_each($1)";

    fn rows(result: &SqliteQueryResult) -> u64 {
        result.rows_affected()
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Store as _,
        conformance::{at, events, window},
    };

    /// SQLite does so by itself where the disk is full (`tests/tests/full_disk.rs`).
    #[tokio::test]
    async fn after_a_transaction_that_sqlite_rolled_back_the_store_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("tidings.db").display());
        let store = crate::Sqlite::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let mut transaction = store.write().await.unwrap();
        sqlx::query("ROLLBACK").execute(&mut *transaction).await.unwrap();
        drop(transaction);
        assert_eq!(store.stash(&window(1), &events(&["e1"]), None, at(1)).await.unwrap(), 1);
    }
}
