//! The folders of the archive. A folder is remembered before its first file is written, so that an erasure finds every file.

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{Key, records::AuditEntry, retention::ArchiveRecord};

use crate::{
    Result,
    archive::{Archive, Written},
    sql::{Sql, columns::row, dialect::Dialect, no_nul},
};

pub const ARCHIVES: &str =
    "SELECT folder, begun_at, first_file, last_file, failed_at, failure FROM archives ORDER BY folder";

pub const IS_REMEMBERED: &str = "SELECT COUNT(*) FROM archives WHERE folder = $1 AND begun_at IS NOT NULL";

/// `$2` the first file or empty, `$3` the last one, `$4` now.
pub const REMEMBER: &str = "
INSERT INTO archives (folder, begun_at, first_file, last_file) VALUES ($1, $4, $2, $3)
ON CONFLICT (folder) DO UPDATE SET
    begun_at = COALESCE(archives.begun_at, excluded.begun_at),
    first_file = CASE WHEN archives.first_file = '' OR excluded.first_file <> '' AND excluded.first_file < archives.first_file
                      THEN excluded.first_file ELSE archives.first_file END,
    last_file = CASE WHEN excluded.last_file > archives.last_file THEN excluded.last_file ELSE archives.last_file END";

/// `$2` now, `$3` why.
pub const FAILED: &str = "
INSERT INTO archives (folder, failed_at, failure) VALUES ($1, $2, $3)
ON CONFLICT (folder) DO UPDATE SET failed_at = COALESCE(archives.failed_at, excluded.failed_at), failure = excluded.failure";

/// Of all folders: upkeep has one at a time.
pub const WAIT_ENDED: &str = "UPDATE archives SET failed_at = NULL, failure = NULL WHERE failed_at IS NOT NULL";

pub const FORGET_ARCHIVE: &str = "DELETE FROM archives WHERE folder = $1";

row! {
/// Columns of [`ARCHIVES`].
pub struct ArchiveRow {
    folder: String,
    begun_at: Option<Timestamp>,
    first_file: String,
    last_file: String,
    failed_at: Option<Timestamp>,
    failure: Option<String>,
}
}

impl From<ArchiveRow> for ArchiveRecord {
    fn from(row: ArchiveRow) -> Self {
        let ArchiveRow { folder, begun_at, first_file, last_file, failed_at, failure } = row;
        Self { folder, begun_at, first_file, last_file, failed_at, failure }
    }
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn archives(&self) -> Result<Vec<ArchiveRecord>> {
        let rows: Vec<ArchiveRow> = query_as(ARCHIVES).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(rows.into_iter().map(ArchiveRecord::from).collect())
    }

    pub(super) async fn is_remembered(connection: &mut D::Connection, archive: &Archive) -> Result<bool> {
        let known = query_as(IS_REMEMBERED).bind(archive.name()).fetch_one(connection);
        let (known,): (i64,) = known.await?;
        Ok(known > 0)
    }

    pub(super) async fn remember(
        connection: &mut D::Connection,
        archive: &Archive,
        Written { first, last }: Written,
        now: Timestamp,
    ) -> Result<()> {
        let remember = query(REMEMBER).bind(archive.name()).bind(first).bind(last).bind(now.as_millisecond());
        remember.execute(connection).await?;
        Ok(())
    }

    pub(super) async fn end_wait(connection: &mut D::Connection) -> Result<()> {
        query(WAIT_ENDED).execute(connection).await?;
        Ok(())
    }

    pub(super) async fn archive_failed(&self, archive: &Archive, why: &str, now: Timestamp) -> Result<()> {
        let failed = query(FAILED).bind(archive.name()).bind(now.as_millisecond()).bind(no_nul(why));
        failed.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    pub(super) async fn forget_archive(&self, folder: &str, entry: &AuditEntry) -> Result<bool> {
        let mut tx = self.write().await?;
        let forget = query(FORGET_ARCHIVE).bind(no_nul(folder));
        let known = D::rows(&forget.execute(&mut *tx).await?) > 0;
        if known {
            let nobody = Key { tenant: String::new(), digest_type: String::new(), user: String::new() };
            Self::audit_change(&mut tx, &nobody, None, entry).await?;
        }
        tx.commit().await?;
        Ok(known)
    }
}
