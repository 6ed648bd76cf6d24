//! Deletion of old rows. A batch is one transaction that locks its rows, has them archived, and deletes them.
//!
//! It waits for no lock: rows that another call has locked are left for later. A digest that loses events or its message is
//! marked, so that no reopen sends half of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::{AssertSqlSafe, query, query_as};
use tidings_model::{
    Key,
    records::AuditEntry,
    retention::{ArchiveRecord, Cutoff, Kind, Purged, RetractExpiry},
};

use self::selection::{
    COUNT_OLD_DEAD_LETTERS, COUNT_OLD_EVENTS, COUNT_OLD_FORWARDED, COUNT_OLD_MESSAGES, COUNT_OLD_NOTICES,
    COUNT_OLD_REPORTS, COUNT_OLD_RETRACTS, Expired, KEYS_OF_OLD_RETRACTS, OLD_FORWARDED, OLD_NOTICES,
};
use crate::{
    Result,
    archive::{Archive, Batch, Written},
    sql::{Sql, calls, dialect::Dialect, json, within_timeout},
};

calls! {
    /// Deletion of old rows.
    pub trait Retention {
        /// Archives and deletes one batch of at most `limit` rows, in one transaction. Without an archive the rows are deleted only.
        ///
        /// Digests and messages without an end, events that wait for a claim, and retracts that may cover one of these stay. Of retracts
        /// only those go that `expiries` name; the others of these keys are passed over for half a day. Rows that another call has locked
        /// are left for a later batch, so that simultaneous calls delete different rows.
        #[span(kind = cutoff.kind.name())]
        async fn purge(
            &self,
            cutoff: Cutoff,
            limit: u32,
            archive: Option<&Archive>,
            expiries: &[RetractExpiry],
            now: Timestamp,
        ) -> Result<Purged>;

        /// Some keys with retracts from before, which the ledger does not need. An open window may need them, and is in Temporal only.
        async fn keys_of_old_retracts(&self, before: Timestamp, limit: u32, now: Timestamp) -> Result<Vec<Key>>;

        /// Counts the rows that [`Retention::purge`] would delete in all its batches, with the retracts that open windows need.
        #[span(kind = cutoff.kind.name())]
        async fn expired(&self, cutoff: Cutoff) -> Result<u64>;

        /// Each folder of an archive that upkeep wrote to, or tried to.
        async fn archives(&self) -> Result<Vec<ArchiveRecord>>;

        /// Records that the archive has files, before a further one is written.
        #[limit(each_step)]
        async fn remember_archive(&self, archive: &Archive, now: Timestamp) -> Result<()>;

        /// Records that upkeep waits for the archive. The next batch that does not wait ends that.
        async fn archive_failed(&self, archive: &Archive, why: &str, now: Timestamp) -> Result<()>;

        /// Forgets a folder whose files are gone or moved, so that no erasure asks for it. `false`: it is not known.
        async fn forget_archive(&self, folder: &str, entry: &AuditEntry) -> Result<bool>;
    }
}

pub mod archives;
pub mod lines;
pub mod selection;

pub const DELETE_EVENTS: &str = "
DELETE FROM events WHERE (tenant, digest_type, user_id, event_id) IN
    (SELECT value->>0, value->>1, value->>2, value->>3 FROM {each})";

pub const DELETE_RETRACTS: &str = "
DELETE FROM retracts WHERE (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) IN
    (SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6 FROM {each})";

pub const DELETE_DEAD_LETTERS: &str = "
DELETE FROM dead_letters WHERE (workflow_id, run_id, seq) IN
    (SELECT value->>0, value->>1, CAST(value->>2 AS BIGINT) FROM {each})";

/// The keys of signals have three parts, and match none of these.
pub const DELETE_WEBHOOK_LETTERS: &str = "
DELETE FROM webhook_dead_letters WHERE (relay, sha256) IN (SELECT value->>0, value->>1 FROM {each})";

pub const DELETE_ATTEMPTS: &str = "DELETE FROM attempts WHERE message IN (SELECT value->>0 FROM {each})";

pub const DELETE_REPORTS: &str =
    "DELETE FROM delivery_events WHERE (message, event) IN (SELECT value->>0, value->>1 FROM {each})";

pub const DELETE_MESSAGES: &str = "DELETE FROM messages WHERE id IN (SELECT value->>0 FROM {each})";

pub const DELETE_FORWARDED: &str = "DELETE FROM inbox WHERE id IN (SELECT CAST(value->>0 AS BIGINT) FROM {each})";

pub const DELETE_NOTICES: &str = "DELETE FROM notices WHERE seq IN (SELECT CAST(value->>0 AS BIGINT) FROM {each})";

/// Keeps the number of events before the first of them goes: some came after the digest's end, or a former version wrote it.
pub const MARK_PURGED: &str = "
UPDATE digests SET purged_at = COALESCE(purged_at, $2),
    event_count = (SELECT CASE WHEN COUNT(*) < digests.event_count THEN digests.event_count ELSE COUNT(*) END
                   FROM events e WHERE e.digest_id = digests.digest_id)
WHERE digest_id IN (SELECT value->>0 FROM {each})";

pub const MARK_EMPTIED: &str = "
UPDATE digests SET emptied_at = $2
WHERE digest_id IN (SELECT value->>0 FROM {each})
  AND NOT EXISTS (SELECT 1 FROM events e WHERE e.digest_id = digests.digest_id)";

/// A retract that an open window needs is asked for again after that long, by the next night's upkeep.
const NEEDED_FOR: SignedDuration = SignedDuration::from_hours(12);

impl<D: Dialect> Sql<D> {
    async fn purge(
        &self,
        cutoff: Cutoff,
        limit: u32,
        archive: Option<&Archive>,
        expiries: &[RetractExpiry],
        now: Timestamp,
    ) -> Result<Purged> {
        loop {
            if let Some(purged) = self.purge_batch(cutoff, limit, archive, expiries, now).await? {
                return Ok(purged);
            }
            if let Some(archive) = archive {
                Self::remember(&mut *self.writer.acquire().await?, archive, Written::default(), now).await?;
            }
        }
    }

    async fn keys_of_old_retracts(&self, before: Timestamp, limit: u32, now: Timestamp) -> Result<Vec<Key>> {
        let asked_before = now.saturating_sub(NEEDED_FOR).unwrap_or(Timestamp::MIN);
        let keys = query_as(KEYS_OF_OLD_RETRACTS).bind(before.as_millisecond()).bind(asked_before.as_millisecond());
        let keys: Vec<(String, String, String)> =
            keys.bind(i64::from(limit)).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(keys.into_iter().map(|(tenant, digest_type, user)| Key { tenant, digest_type, user }).collect())
    }

    async fn expired(&self, cutoff: Cutoff) -> Result<u64> {
        let Cutoff { kind, before } = cutoff;
        let statement = match kind {
            Kind::Events => COUNT_OLD_EVENTS,
            Kind::Retracts => COUNT_OLD_RETRACTS,
            Kind::DeadLetters => COUNT_OLD_DEAD_LETTERS,
            Kind::Messages => COUNT_OLD_MESSAGES,
            Kind::DeliveryEvents => COUNT_OLD_REPORTS,
            Kind::Inbox => COUNT_OLD_FORWARDED,
            Kind::Notices => COUNT_OLD_NOTICES,
        };
        let (count,): (i64,) =
            query_as(statement).bind(before.as_millisecond()).fetch_one(&mut *self.reader.acquire().await?).await?;
        crate::sql::number(count)
    }

    async fn remember_archive(&self, archive: &Archive, now: Timestamp) -> Result<()> {
        let Some(written) = archive.written().await? else { return Ok(()) };
        within_timeout(async { Self::remember(&mut *self.writer.acquire().await?, archive, written, now).await }).await
    }
}

impl<D: Dialect> Sql<D> {
    /// `None`: changes nothing, because the archive must be remembered before its first file.
    async fn purge_batch(
        &self,
        Cutoff { kind, before }: Cutoff,
        limit: u32,
        archive: Option<&Archive>,
        expiries: &[RetractExpiry],
        now: Timestamp,
    ) -> Result<Option<Purged>> {
        let mut tx = self.write().await?;
        let limit = i64::from(limit);
        let mut retired = match kind {
            Kind::Events => Self::old_events(&mut tx, before, limit).await?,
            Kind::Retracts => Self::old_retracts(&mut tx, before, expiries, limit, now).await?,
            Kind::DeadLetters => Self::old_dead_letters(&mut tx, before, limit).await?,
            Kind::Messages => Self::old_messages(&mut tx, before, limit, archive.is_some()).await?,
            Kind::DeliveryEvents => Self::old_reports(&mut tx, before, limit).await?,
            Kind::Inbox => Self::numbered(&mut tx, OLD_FORWARDED, before, limit).await?,
            Kind::Notices => Self::numbered(&mut tx, OLD_NOTICES, before, limit).await?,
        };
        let purged = retired.keys.len() as u64;
        let prepared = match archive {
            Some(archive) if !retired.lines.is_empty() => {
                if archive.is_there() && !Self::is_remembered(&mut tx, archive).await? {
                    tx.rollback().await?;
                    return Ok(None);
                }
                let lines = std::mem::take(&mut retired.lines);
                let prepared = archive.prepare(Batch { kind, since: retired.since, lines }).await?;
                Self::remember(&mut tx, archive, prepared.written(), now).await?;
                Some(prepared)
            }
            _ => None,
        };
        // Before the file gets its name: a connection that broke meanwhile lost its locks, and another call may have the rows.
        Self::mark(&mut tx, MARK_PURGED, &retired.digests, now).await?;
        Self::delete(&mut tx, kind, &retired).await?;
        Self::mark(&mut tx, MARK_EMPTIED, &retired.visited, now).await?;
        Self::end_wait(&mut tx).await?;
        let archived = if prepared.is_some() { purged } else { 0 };
        if let Some(prepared) = prepared {
            prepared.publish().await?;
        }
        tx.commit().await?;
        Ok(Some(Purged { purged, archived, more: retired.more }))
    }

    async fn delete(connection: &mut D::Connection, kind: Kind, retired: &Expired) -> Result<()> {
        let statements: &[&str] = match kind {
            Kind::Events => &[DELETE_EVENTS],
            Kind::Retracts => &[DELETE_RETRACTS],
            Kind::DeadLetters => &[DELETE_DEAD_LETTERS, DELETE_WEBHOOK_LETTERS],
            Kind::Messages => &[DELETE_ATTEMPTS, DELETE_MESSAGES],
            Kind::DeliveryEvents => &[DELETE_REPORTS],
            Kind::Inbox => &[DELETE_FORWARDED],
            Kind::Notices => &[DELETE_NOTICES],
        };
        if !retired.keys.is_empty() {
            if kind == Kind::Messages {
                Self::roll_up(&mut *connection, json(&retired.keys)?).await?;
            }
            for statement in statements {
                query(Self::each(statement)).bind(json(&retired.keys)?).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    async fn mark(
        connection: &mut D::Connection,
        statement: &'static str,
        digests: &[Value],
        now: Timestamp,
    ) -> Result<()> {
        if !digests.is_empty() {
            let mark = query(Self::each(statement)).bind(json(&digests)?).bind(now.as_millisecond());
            mark.execute(&mut *connection).await?;
        }
        Ok(())
    }

    /// The statement, with `{each}` the rows of the JSON array `$1`.
    pub(crate) fn each(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("{each}", D::EACH_OF_1))
    }
}
