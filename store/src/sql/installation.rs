//! The identity of the installation, and the beats of its workers: one row. And a row for each of its processes.

use super::columns::row;
use super::dialect::{Dialect, Variants};
use super::{Sql, json, within_timeout};
use crate::{Error, Installations, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{query, query_as, query_scalar};
use tidings_model::installation::{BEAT, Installation};
use tidings_model::process::{FileId, Process};
use tracing::instrument;
use uuid::Uuid;

/// Namespace of the hashes of places (UUIDv5): drawn once.
const PLACES: Uuid = Uuid::from_u128(0x91e6_04d2_77c5_4b0e_a3f8_5d1c_20b9_46e7);

pub const INSTALLATION: &str = "SELECT identity, beat, before_beat FROM installation";

/// `$2` a first beat.
pub const PUT: &str = "INSERT INTO installation (one, identity, beat, before_beat, beat_at) VALUES (1, $1, $2, $2, 0) ON CONFLICT DO NOTHING";

pub const REPLACE: &str = "UPDATE installation SET identity = $1, beat = $2, before_beat = $2, beat_at = 0";

/// `$1` beat, `$2` next one, `$3` now, `$4` the latest time of a beat that makes another one due. An upkeep that never was is not late yet,
/// and neither is one from more than a minute ahead, which a wrong clock wrote.
pub const NEXT_BEAT: &str = "
UPDATE installation SET before_beat = beat, beat = $2, beat_at = $3,
    upkeep_at = CASE WHEN upkeep_at = 0 OR upkeep_at > $3 + 60000 THEN $3 ELSE upkeep_at END
WHERE beat = $1 AND (beat_at <= $4 OR beat_at > $3)";

/// `$1` the release of a worker.
pub const KEEP_ZONE_RELEASE: &str = "UPDATE installation SET zone_release = $1 WHERE zone_release < $1";

pub const ZONE_RELEASE: &str = "SELECT zone_release FROM installation";

/// Milliseconds since 1970.
pub const CLOCK: Variants = Variants {
    sqlite: "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    postgres: "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
};

pub const PUT_PROCESS: &str = "
INSERT INTO processes (id, seen_at, profile) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, profile = excluded.profile";

pub const REMOVE_PROCESS: &str = "DELETE FROM processes WHERE id = $1";

pub const FORGET_PROCESSES: &str = "DELETE FROM processes WHERE seen_at < $1";

pub const PROCESSES: &str = "SELECT id, seen_at, profile FROM processes ORDER BY id";

/// `$1` the end of an upkeep. A later one stays, unless a wrong clock wrote it.
pub const KEEP_UPKEEP: &str = "UPDATE installation SET upkeep_at = $1 WHERE upkeep_at < $1 OR upkeep_at > $1 + 60000";

pub const UPKEEP_AT: &str = "SELECT upkeep_at FROM installation WHERE upkeep_at > 0";

/// The place of the database, which a copy does not have. A file is known by its number (inode), because containers see it under several paths.
/// A PostgreSQL database is known by its cluster and its number there, which a standby keeps when it is promoted. A server that does not
/// let us read the cluster's number leaves it out.
pub const PLACE: Variants = Variants {
    sqlite: "SELECT file FROM pragma_database_list WHERE name = 'main'",
    postgres: "
SELECT current_schema() || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/'
    || CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
       THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END",
};

#[async_trait]
impl<D: Dialect> Installations for Sql<D> {
    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn installation(&self) -> Result<Option<Installation>> {
        within_timeout(async {
            let mut reader = self.reader.acquire().await?;
            let row: Option<InstallationRow> = query_as(INSTALLATION).fetch_optional(&mut *reader).await?;
            let Some(InstallationRow { identity, beat, before_beat }) = row else { return Ok(None) };
            let (place,): (String,) = query_as(D::pick(PLACE)).fetch_one(&mut *reader).await?;
            let place = Uuid::new_v5(&PLACES, D::place(&place).as_bytes()).to_string();
            Ok(Some(Installation { identity, beat, before: before_beat, place }))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(%identity, replace), err(level = "debug"))]
    async fn put_installation(&self, identity: Uuid, replace: bool) -> Result<Installation> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let put = |statement| query(statement).bind(identity.to_string()).bind(Uuid::new_v4().to_string());
            put(PUT).execute(&mut *tx).await?;
            if replace {
                put(REPLACE).execute(&mut *tx).await?;
            }
            Ok(tx.commit().await?)
        })
        .await?;
        self.installation().await?.ok_or_else(|| Error::Broken("the database has no identity".to_owned()))
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn beat(&self, from: Uuid, to: Uuid, now: Timestamp) -> Result<bool> {
        within_timeout(async {
            let beat = query(NEXT_BEAT).bind(from.to_string()).bind(to.to_string()).bind(now.as_millisecond());
            let beat = beat.bind((now - BEAT).as_millisecond());
            Ok(D::rows(&beat.execute(&mut *self.writer.acquire().await?).await?) > 0)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(release), err(level = "debug"))]
    async fn keep_zone_release(&self, release: &str) -> Result<()> {
        within_timeout(async {
            let keep = query(KEEP_ZONE_RELEASE).bind(release.to_owned());
            keep.execute(&mut *self.writer.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn zone_release(&self) -> Result<String> {
        within_timeout(async {
            let release = query_scalar(ZONE_RELEASE).fetch_optional(&mut *self.reader.acquire().await?).await?;
            Ok(release.unwrap_or_default())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn clock(&self) -> Result<Timestamp> {
        within_timeout(async {
            let now: i64 = query_scalar(D::pick(CLOCK)).fetch_one(&mut *self.reader.acquire().await?).await?;
            Timestamp::from_millisecond(now)
                .map_err(|error| Error::Broken(format!("the clock of the database: {error}")))
        })
        .await
    }

    async fn file(&self) -> Result<Option<FileId>> {
        Ok(self.file.as_ref().map(|file| file.id()))
    }

    #[instrument(level = "debug", skip_all, fields(id = %process.id), err(level = "debug"))]
    async fn put_process(&self, process: &Process) -> Result<()> {
        let Process { id, seen_at, profile } = process;
        let profile = json(profile)?;
        within_timeout(async {
            let put = query(PUT_PROCESS).bind(id.to_string()).bind(seen_at.as_millisecond()).bind(profile);
            put.execute(&mut *self.writer.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(%id), err(level = "debug"))]
    async fn remove_process(&self, id: Uuid) -> Result<()> {
        within_timeout(async {
            query(REMOVE_PROCESS).bind(id.to_string()).execute(&mut *self.writer.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn forget_processes(&self, before: Timestamp) -> Result<()> {
        within_timeout(async {
            let forget = query(FORGET_PROCESSES).bind(before.as_millisecond());
            forget.execute(&mut *self.writer.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn processes(&self) -> Result<Vec<Process>> {
        within_timeout(async {
            let rows: Vec<ProcessRow> = query_as(PROCESSES).fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().filter_map(ProcessRow::process).collect())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn keep_upkeep(&self, at: Timestamp) -> Result<()> {
        within_timeout(async {
            let keep = query(KEEP_UPKEEP).bind(at.as_millisecond());
            keep.execute(&mut *self.writer.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn upkeep_at(&self) -> Result<Option<Timestamp>> {
        within_timeout(async {
            let row: Option<UpkeepRow> = query_as(UPKEEP_AT).fetch_optional(&mut *self.reader.acquire().await?).await?;
            Ok(row.map(|row| row.upkeep_at))
        })
        .await
    }
}

row! {
/// Columns of [`PROCESSES`].
pub struct ProcessRow {
    id: Uuid,
    seen_at: Timestamp,
    profile: String,
}
}

impl ProcessRow {
    /// The process. `None`: this version cannot read what it wrote.
    fn process(self) -> Option<Process> {
        let Self { id, seen_at, profile } = self;
        match serde_json::from_str(&profile) {
            Ok(profile) => Some(Process { id, seen_at, profile }),
            Err(error) => {
                tracing::warn!(%id, %error, "a process is not compared, as this version cannot read what it wrote");
                None
            }
        }
    }
}

row! {
/// The column of [`UPKEEP_AT`].
pub struct UpkeepRow {
    upkeep_at: Timestamp,
}
}

row! {
/// Columns of [`INSTALLATION`].
pub struct InstallationRow {
    identity: Uuid,
    beat: Uuid,
    before_beat: Uuid,
}
}
