//! Deletes old rows. A batch is one transaction that locks, archives and deletes its rows, leaving those
//! locked by another call for later. A digest that loses events or its message is marked, so a reopen will
//! not send half of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::{AssertSqlSafe, query, query_as};
use tidings_model::{
    Key,
    records::AuditEntry,
    retention::{ArchiveRecord, PurgeAnswer, RetentionCutoff, RetentionKind, RetractExpiry},
};

use self::selection::{
    COUNT_OLD_DEAD_LETTERS, COUNT_OLD_EVENTS, COUNT_OLD_FORWARDED, COUNT_OLD_MESSAGES, COUNT_OLD_NOTICES,
    COUNT_OLD_REPORTS, COUNT_OLD_RETRACTS, ExpiredBatch, KEYS_OF_OLD_RETRACTS, OLD_FORWARDED, OLD_NOTICES,
};
use crate::{
    Result,
    archive::{Archive, ArchiveBatch, ArchiveRange},
    catalogue,
    sql::{SqlStore, calls, columns::record, dialect::Dialect, no_nul, to_json, within_timeout},
};

calls! {
    pub trait RetentionStore {
        /// Archives and deletes at most `limit` rows. Without an archive it only deletes. Keeps open digests
        /// and messages, events waiting for a claim, and retracts that may cover one of these. Only retracts
        /// listed in `expiries` are deleted; others of those keys are skipped for half a day. Concurrent
        /// calls delete different rows.
        #[span(kind = cutoff.kind.name())]
        async fn purge(
            &self,
            cutoff: RetentionCutoff,
            limit: u32,
            archive: Option<&Archive>,
            expiries: &[RetractExpiry],
            now: Timestamp,
        ) -> Result<PurgeAnswer>;

        /// Some keys with retracts from before this time that the ledger no longer needs. An open window,
        /// which only Temporal has, may still need them.
        async fn keys_of_old_retracts(&self, before: Timestamp, limit: u32, now: Timestamp) -> Result<Vec<Key>>;

        /// Counts the rows all batches of [`RetentionStore::purge`] would delete, including retracts needed
        /// by open windows.
        #[span(kind = cutoff.kind.name())]
        async fn count_expired(&self, cutoff: RetentionCutoff) -> Result<u64>;

        async fn archives(&self) -> Result<Vec<ArchiveRecord>>;

        /// Records that the archive has files, before another is written.
        #[limit(each_step)]
        async fn remember_archive(&self, archive: &Archive, now: Timestamp) -> Result<()>;

        /// Records that upkeep waits for the archive. The next successful batch clears this.
        async fn archive_failed(&self, archive: &Archive, why: &str, now: Timestamp) -> Result<()>;

        /// Forgets a folder whose files are gone or moved, so erasures no longer need it. `false` if it is
        /// unknown.
        async fn forget_archive(&self, folder: &str, entry: &AuditEntry) -> Result<bool>;
    }
}

pub mod selection;

/// Stores the event count before deleting the first event, because some events may have arrived after the
/// digest's end, or an older version wrote it.
pub const MARK_PURGED: &str = "
UPDATE digests SET purged_at = COALESCE(purged_at, $2),
    event_count = (SELECT CASE WHEN COUNT(*) < digests.event_count THEN digests.event_count ELSE COUNT(*) END
                   FROM events e WHERE e.digest_id = digests.digest_id)
WHERE digest_id IN (SELECT value->>0 FROM {each})";

pub const MARK_EMPTIED: &str = "
UPDATE digests SET emptied_at = $2
WHERE digest_id IN (SELECT value->>0 FROM {each})
  AND NOT EXISTS (SELECT 1 FROM events e WHERE e.digest_id = digests.digest_id)";

/// How long a retract needed by an open window is skipped, i.e. until the next night's upkeep.
const NEEDED_FOR: SignedDuration = SignedDuration::from_hours(12);

impl<D: Dialect> SqlStore<D> {
    async fn purge(
        &self,
        cutoff: RetentionCutoff,
        limit: u32,
        archive: Option<&Archive>,
        expiries: &[RetractExpiry],
        now: Timestamp,
    ) -> Result<PurgeAnswer> {
        loop {
            if let Some(purged) = self.purge_batch(cutoff, limit, archive, expiries, now).await? {
                return Ok(purged);
            }
            if let Some(archive) = archive {
                Self::remember_files(&mut *self.writer.acquire().await?, archive, ArchiveRange::default(), now).await?;
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

    async fn count_expired(&self, cutoff: RetentionCutoff) -> Result<u64> {
        let RetentionCutoff { kind, before } = cutoff;
        let statement = match kind {
            RetentionKind::Events => COUNT_OLD_EVENTS,
            RetentionKind::Retracts => COUNT_OLD_RETRACTS,
            RetentionKind::DeadLetters => COUNT_OLD_DEAD_LETTERS,
            RetentionKind::Messages => COUNT_OLD_MESSAGES,
            RetentionKind::DeliveryEvents => COUNT_OLD_REPORTS,
            RetentionKind::Inbox => COUNT_OLD_FORWARDED,
            RetentionKind::Notices => COUNT_OLD_NOTICES,
        };
        let (count,): (i64,) =
            query_as(statement).bind(before.as_millisecond()).fetch_one(&mut *self.reader.acquire().await?).await?;
        crate::sql::checked_number(count)
    }

    async fn remember_archive(&self, archive: &Archive, now: Timestamp) -> Result<()> {
        let Some(written) = archive.file_range().await? else { return Ok(()) };
        within_timeout(async { Self::remember_files(&mut *self.writer.acquire().await?, archive, written, now).await })
            .await
    }
}

impl<D: Dialect> SqlStore<D> {
    /// Returns `None` and changes nothing if the archive must be remembered before its first file.
    async fn purge_batch(
        &self,
        RetentionCutoff { kind, before }: RetentionCutoff,
        limit: u32,
        archive: Option<&Archive>,
        expiries: &[RetractExpiry],
        now: Timestamp,
    ) -> Result<Option<PurgeAnswer>> {
        let mut tx = self.begin_write().await?;
        let limit = i64::from(limit);
        let mut retired = match kind {
            RetentionKind::Events => Self::old_events(&mut tx, before, limit).await?,
            RetentionKind::Retracts => Self::old_retracts(&mut tx, before, expiries, limit, now).await?,
            RetentionKind::DeadLetters => Self::old_dead_letters(&mut tx, before, limit).await?,
            RetentionKind::Messages => Self::old_messages(&mut tx, before, limit, archive.is_some()).await?,
            RetentionKind::DeliveryEvents => Self::old_reports(&mut tx, before, limit).await?,
            RetentionKind::Inbox => Self::numbered_rows(&mut tx, OLD_FORWARDED, before, limit).await?,
            RetentionKind::Notices => Self::numbered_rows(&mut tx, OLD_NOTICES, before, limit).await?,
        };
        let purged = retired.keys.len() as u64;
        let prepared = match archive {
            Some(archive) if !retired.lines.is_empty() => {
                if archive.is_there() && !Self::is_remembered(&mut tx, archive).await? {
                    tx.rollback().await?;
                    return Ok(None);
                }
                let lines = std::mem::take(&mut retired.lines);
                let prepared = archive.prepare_batch(ArchiveBatch { kind, since: retired.since, lines }).await?;
                Self::remember_files(&mut tx, archive, prepared.file_range(), now).await?;
                Some(prepared)
            }
            _ => None,
        };
        // Do this before publishing the file: if the connection broke meanwhile, its locks are lost, and
        // another call may have the rows.
        Self::mark_digests(&mut tx, MARK_PURGED, &retired.digests, now).await?;
        Self::delete(&mut tx, kind, &retired).await?;
        Self::mark_digests(&mut tx, MARK_EMPTIED, &retired.visited, now).await?;
        Self::end_wait(&mut tx).await?;
        let archived = if prepared.is_some() { purged } else { 0 };
        if let Some(prepared) = prepared {
            prepared.publish().await?;
        }
        tx.commit().await?;
        Ok(Some(PurgeAnswer { purged, archived, more: retired.more }))
    }

    async fn delete(connection: &mut D::Connection, kind: RetentionKind, retired: &ExpiredBatch) -> Result<()> {
        if !retired.keys.is_empty() {
            if kind == RetentionKind::Messages {
                Self::roll_up(&mut *connection, to_json(&retired.keys)?).await?;
            }
            for statement in catalogue::upkeep_statements(kind) {
                query(Self::expand_each(statement)).bind(to_json(&retired.keys)?).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    async fn mark_digests(
        connection: &mut D::Connection,
        statement: &'static str,
        digests: &[Value],
        now: Timestamp,
    ) -> Result<()> {
        if !digests.is_empty() {
            let mark = query(Self::expand_each(statement)).bind(to_json(&digests)?).bind(now.as_millisecond());
            mark.execute(&mut *connection).await?;
        }
        Ok(())
    }

    pub(crate) fn expand_each(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("{each}", D::EACH_OF_1))
    }
}

// The archive's folders. We remember a folder before writing its first file, so an erasure will find every
// file.

pub const ARCHIVES: &str =
    "SELECT folder, begun_at, first_file, last_file, failed_at, failure FROM archives ORDER BY folder";

pub const IS_REMEMBERED: &str = "SELECT COUNT(*) FROM archives WHERE folder = $1 AND begun_at IS NOT NULL";

pub const REMEMBER: &str = "
INSERT INTO archives (folder, begun_at, first_file, last_file) VALUES ($1, $4, $2, $3)
ON CONFLICT (folder) DO UPDATE SET
    begun_at = COALESCE(archives.begun_at, excluded.begun_at),
    first_file = CASE WHEN archives.first_file = '' OR excluded.first_file <> '' AND excluded.first_file < archives.first_file
                      THEN excluded.first_file ELSE archives.first_file END,
    last_file = CASE WHEN excluded.last_file > archives.last_file THEN excluded.last_file ELSE archives.last_file END";

pub const FAILED: &str = "
INSERT INTO archives (folder, failed_at, failure) VALUES ($1, $2, $3)
ON CONFLICT (folder) DO UPDATE SET failed_at = COALESCE(archives.failed_at, excluded.failed_at), failure = excluded.failure";

/// Clears all folders, because upkeep uses one at a time.
pub const WAIT_ENDED: &str = "UPDATE archives SET failed_at = NULL, failure = NULL WHERE failed_at IS NOT NULL";

pub const FORGET_ARCHIVE: &str = "DELETE FROM archives WHERE folder = $1";

record!(row => ArchiveRecord { folder, begun_at, first_file, last_file, failed_at, failure });

impl<D: Dialect> SqlStore<D> {
    async fn archives(&self) -> Result<Vec<ArchiveRecord>> {
        let archives = query(ARCHIVES);
        self.read_records(archives).await
    }

    async fn is_remembered(connection: &mut D::Connection, archive: &Archive) -> Result<bool> {
        let known = query_as(IS_REMEMBERED).bind(archive.absolute_path()).fetch_one(connection);
        let (known,): (i64,) = known.await?;
        Ok(known > 0)
    }

    async fn remember_files(
        connection: &mut D::Connection,
        archive: &Archive,
        ArchiveRange { first, last }: ArchiveRange,
        now: Timestamp,
    ) -> Result<()> {
        let remember = query(REMEMBER).bind(archive.absolute_path()).bind(first).bind(last).bind(now.as_millisecond());
        remember.execute(connection).await?;
        Ok(())
    }

    async fn end_wait(connection: &mut D::Connection) -> Result<()> {
        query(WAIT_ENDED).execute(connection).await?;
        Ok(())
    }

    async fn archive_failed(&self, archive: &Archive, why: &str, now: Timestamp) -> Result<()> {
        let failed = query(FAILED).bind(archive.absolute_path()).bind(now.as_millisecond()).bind(no_nul(why));
        failed.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn forget_archive(&self, folder: &str, entry: &AuditEntry) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let forget = query(FORGET_ARCHIVE).bind(no_nul(folder));
        let known = D::changed_rows(&forget.execute(&mut *tx).await?) > 0;
        if known {
            Self::audit_tenant(&mut tx, "", entry).await?;
        }
        tx.commit().await?;
        Ok(known)
    }
}
