//! One row for the installation's identity and its workers' heartbeat, and one per process.

use std::future::{Ready, ready};

use jiff::Timestamp;
use sqlx::{query, query_as, query_scalar};
use tidings_model::{
    installation::{BEAT, Installation},
    process::{FileId, ProcessRecord},
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    sql::{
        SqlStore, calls,
        columns::{column, row},
        dialect::{Dialect, StatementVariants},
        to_json,
    },
};

calls! {
    pub trait InstallationStore {
        /// `None` if `tidings migrate` never ran, e.g. in a test.
        async fn installation(&self) -> Result<Option<Installation>>;

        /// Keeps an existing identity unless `replace` is set.
        #[span(%identity, replace)]
        async fn put_installation(&self, identity: Uuid, replace: bool) -> Result<Installation>;

        /// Advances the heartbeat from one value to the next, at most once per interval. Returns `false` if
        /// another worker just did, or the stored beat differs. The first beat also counts as a finished
        /// upkeep.
        async fn advance_beat(&self, from: Uuid, to: Uuid, now: Timestamp) -> Result<bool>;

        /// Stores the release of a worker's time zone data, if it is the newest so far.
        #[span(release)]
        async fn keep_zone_release(&self, release: &str) -> Result<()>;

        async fn zone_release(&self) -> Result<String>;

        async fn database_clock(&self) -> Result<Timestamp>;

        async fn database_file(&self) -> Result<Option<FileId>>;

        #[span(id = %process.id)]
        async fn put_process(&self, process: &ProcessRecord) -> Result<()>;

        #[span(%id)]
        async fn remove_process(&self, id: Uuid) -> Result<()>;

        async fn forget_processes(&self, before: Timestamp) -> Result<()>;

        async fn processes(&self) -> Result<Vec<ProcessRecord>>;

        async fn keep_upkeep(&self, at: Timestamp) -> Result<()>;

        /// The end of the last upkeep run, or the first beat if none has finished. `None` if no worker has
        /// run yet.
        async fn upkeep_at(&self) -> Result<Option<Timestamp>>;
    }
}

const PLACES: Uuid = Uuid::from_u128(0x91e6_04d2_77c5_4b0e_a3f8_5d1c_20b9_46e7);

pub const INSTALLATION: &str = "SELECT identity, beat, before_beat FROM installation";

pub const PUT: &str = "INSERT INTO installation (one, identity, beat, before_beat, beat_at) VALUES (1, $1, $2, $2, 0) ON CONFLICT DO NOTHING";

pub const REPLACE: &str = "UPDATE installation SET identity = $1, beat = $2, before_beat = $2, beat_at = 0";

/// `$1` current beat, `$2` next one, `$3` now, `$4` the latest previous beat for which the next one is due.
/// Also starts the upkeep clock if upkeep never ran, or a wrong clock wrote its time.
pub const NEXT_BEAT: &str = "
UPDATE installation SET before_beat = beat, beat = $2, beat_at = $3,
    upkeep_at = CASE WHEN upkeep_at = 0 OR upkeep_at > $3 + 60000 THEN $3 ELSE upkeep_at END
WHERE beat = $1 AND (beat_at <= $4 OR beat_at > $3)";

pub const KEEP_ZONE_RELEASE: &str = "UPDATE installation SET zone_release = $1 WHERE zone_release < $1";

pub const ZONE_RELEASE: &str = "SELECT zone_release FROM installation";

/// Milliseconds since 1970.
pub const CLOCK: StatementVariants = StatementVariants {
    sqlite: "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    postgres: "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
};

pub const PUT_PROCESS: &str = "
INSERT INTO processes (id, seen_at, profile) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, profile = excluded.profile";

pub const REMOVE_PROCESS: &str = "DELETE FROM processes WHERE id = $1";

pub const FORGET_PROCESSES: &str = "DELETE FROM processes WHERE seen_at < $1";

pub const PROCESSES: &str = "SELECT id, seen_at, profile FROM processes ORDER BY id";

/// `$1` the end of an upkeep run. Keeps a later one, unless a wrong clock wrote it.
pub const KEEP_UPKEEP: &str = "UPDATE installation SET upkeep_at = $1 WHERE upkeep_at < $1 OR upkeep_at > $1 + 60000";

pub const UPKEEP_AT: &str = "SELECT upkeep_at FROM installation WHERE upkeep_at > 0";

/// Where the database is; a copy is elsewhere. A file is identified by its inode, because containers may
/// mount it under several paths, and a PostgreSQL database by its cluster (if readable) and its oid, which a
/// promoted standby keeps.
pub const PLACE: StatementVariants = StatementVariants {
    sqlite: "SELECT file FROM pragma_database_list WHERE name = 'main'",
    postgres: "
SELECT current_schema() || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/'
    || CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
       THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END",
};

impl<D: Dialect> SqlStore<D> {
    async fn installation(&self) -> Result<Option<Installation>> {
        let mut reader = self.reader.acquire().await?;
        let row: Option<InstallationRow> = query_as(INSTALLATION).fetch_optional(&mut *reader).await?;
        let Some(InstallationRow { identity, beat, before_beat }) = row else { return Ok(None) };
        let (place,): (String,) = query_as(D::pick_variant(PLACE)).fetch_one(&mut *reader).await?;
        let place = Uuid::new_v5(&PLACES, D::database_place(&place).as_bytes()).to_string();
        Ok(Some(Installation { identity, beat, before: before_beat, place }))
    }

    async fn put_installation(&self, identity: Uuid, replace: bool) -> Result<Installation> {
        let mut tx = self.begin_write().await?;
        let put = |statement| query(statement).bind(identity.to_string()).bind(Uuid::new_v4().to_string());
        put(PUT).execute(&mut *tx).await?;
        if replace {
            put(REPLACE).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        self.installation().await?.ok_or_else(|| StoreError::Broken("the database has no identity".to_owned()))
    }

    async fn advance_beat(&self, from: Uuid, to: Uuid, now: Timestamp) -> Result<bool> {
        let beat = query(NEXT_BEAT).bind(from.to_string()).bind(to.to_string()).bind(now.as_millisecond());
        let beat = beat.bind((now - BEAT).as_millisecond());
        Ok(D::changed_rows(&beat.execute(&mut *self.writer.acquire().await?).await?) > 0)
    }

    async fn keep_zone_release(&self, release: &str) -> Result<()> {
        let keep = query(KEEP_ZONE_RELEASE).bind(release.to_owned());
        keep.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn zone_release(&self) -> Result<String> {
        let release = query_scalar(ZONE_RELEASE).fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(release.unwrap_or_default())
    }

    async fn database_clock(&self) -> Result<Timestamp> {
        let now: i64 = query_scalar(D::pick_variant(CLOCK)).fetch_one(&mut *self.reader.acquire().await?).await?;
        Timestamp::from_millisecond(now)
            .map_err(|error| StoreError::Broken(format!("the clock of the database: {error}")))
    }

    fn database_file(&self) -> Ready<Result<Option<FileId>>> {
        ready(Ok(self.file.as_ref().map(|file| file.id())))
    }

    async fn put_process(&self, process: &ProcessRecord) -> Result<()> {
        let ProcessRecord { id, seen_at, profile } = process;
        let profile = to_json(profile)?;
        let put = query(PUT_PROCESS).bind(id.to_string()).bind(seen_at.as_millisecond()).bind(profile);
        put.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn remove_process(&self, id: Uuid) -> Result<()> {
        query(REMOVE_PROCESS).bind(id.to_string()).execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn forget_processes(&self, before: Timestamp) -> Result<()> {
        let forget = query(FORGET_PROCESSES).bind(before.as_millisecond());
        forget.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn processes(&self) -> Result<Vec<ProcessRecord>> {
        let rows: Vec<ProcessRow> = query_as(PROCESSES).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(rows.into_iter().filter_map(ProcessRow::into_process).collect())
    }

    async fn keep_upkeep(&self, at: Timestamp) -> Result<()> {
        let keep = query(KEEP_UPKEEP).bind(at.as_millisecond());
        keep.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn upkeep_at(&self) -> Result<Option<Timestamp>> {
        let at = query(UPKEEP_AT).try_map(|row| column(&row, "upkeep_at"));
        Ok(at.fetch_optional(&mut *self.reader.acquire().await?).await?)
    }
}

row! {
pub struct ProcessRow {
    id: Uuid,
    seen_at: Timestamp,
    profile: String,
}
}

impl ProcessRow {
    fn into_process(self) -> Option<ProcessRecord> {
        let Self { id, seen_at, profile } = self;
        match serde_json::from_str(&profile) {
            Ok(profile) => Some(ProcessRecord { id, seen_at, profile }),
            Err(error) => {
                tracing::warn!(%id, %error, "cannot parse a process profile, so it is not compared; check its version");
                None
            }
        }
    }
}

row! {
pub struct InstallationRow {
    identity: Uuid,
    beat: Uuid,
    before_beat: Uuid,
}
}
