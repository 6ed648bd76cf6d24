//! Migrations, and the check that they have run.

use jiff::Timestamp;
use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType::Simple, Migrator},
    query_as, query_scalar,
};

use super::{Dialect, SqlStore, columns::row};
use crate::{Result, StoreError, error::NOT_MIGRATED};

pub type MigrationStep = (i64, &'static str, &'static str);

/// A database's migrations, oldest first, from the folder `migrations/DATABASE`.
macro_rules! migrations {
    ($database:literal) => {
        migrations![
            $database:
            1 "tidings" "0001_tidings.sql",
            2 "pauses" "0002_pauses.sql",
            3 "erasure" "0003_erasure.sql",
            4 "plans" "0004_plans.sql",
            5 "listings" "0005_listings.sql",
            6 "returns" "0006_returns.sql",
            7 "emitted" "0007_emitted.sql",
            8 "webhooks" "0008_webhooks.sql",
            9 "first attempts" "0009_first_attempts.sql",
            10 "reports" "0010_reports.sql",
            11 "tokens" "0011_tokens.sql",
            12 "inbox" "0012_inbox.sql",
            13 "jobs" "0013_jobs.sql",
            14 "notices" "0014_notices.sql",
            15 "answers" "0015_answers.sql",
            16 "complaints" "0016_complaints.sql",
            17 "readings" "0017_readings.sql",
            18 "dead notices" "0018_dead_notices.sql",
            19 "troubled runs" "0019_troubled_runs.sql",
            20 "installation" "0020_installation.sql",
            21 "refusals" "0021_refusals.sql",
            22 "idempotency keys" "0022_idempotency_keys.sql",
            23 "slots" "0023_slots.sql",
            24 "zone data" "0024_zone_data.sql",
            25 "made from" "0025_made_from.sql",
            26 "contents" "0026_contents.sql",
            27 "threads" "0027_threads.sql",
            28 "archives" "0028_archives.sql",
            29 "aliases" "0029_aliases.sql",
            30 "people" "0030_people.sql",
            31 "processes" "0031_processes.sql",
            32 "moved" "0032_moved.sql",
        ]
    };
    ($database:literal: $($version:literal $name:literal $file:literal,)+) => {
        [$(($version, $name, include_str!(concat!("../../migrations/", $database, "/", $file)))),+]
    };
}

pub const SQLITE: [MigrationStep; STEPS] = migrations!("sqlite");
pub const POSTGRES: [MigrationStep; STEPS] = migrations!("postgres");

const VERSION: i64 = 32;

const STEPS: usize = 32;

pub fn migrator(steps: &[MigrationStep]) -> Migrator {
    let migration = |(version, name, text): &MigrationStep| {
        Migration::new(*version, (*name).into(), Simple, text.into_sql_str(), false)
    };
    Migrator::with_migrations(steps.iter().map(migration).collect())
}

pub const MIGRATED: &str = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";

const MOVED: &str = "SELECT moved_to, moved_at FROM installation WHERE moved_to IS NOT NULL";

row! {
struct MovedRow {
    moved_to: String,
    moved_at: Timestamp,
}
}

pub fn not_later(version: i64) -> Result<()> {
    if version <= VERSION {
        return Ok(());
    }
    Err(StoreError::Broken(format!(
        "a later version of Tidings migrated the database (migration {version}): run the command of that version"
    )))
}

impl<D: Dialect> SqlStore<D> {
    /// Checks that [`migrate`](Self::migrate) has run, and that the installation has not moved to another
    /// database. A newer schema is fine, because migrations only add.
    ///
    /// # Errors
    /// [`StoreError::Broken`] contains the command to run.
    pub async fn check_schema(&self) -> Result<()> {
        let mut reader = self.reader.acquire().await?;
        let version: i64 = query_scalar(MIGRATED).fetch_one(&mut *reader).await?;
        if version < VERSION {
            return Err(StoreError::Broken(NOT_MIGRATED.to_owned()));
        }
        let moved: Option<MovedRow> = query_as(MOVED).fetch_optional(&mut *reader).await?;
        moved.map_or(Ok(()), |MovedRow { moved_to, moved_at }| {
            Err(StoreError::Broken(format!(
                "this database was copied into {moved_to} at {moved_at:.0} and is used no more: set database_url to that one. `tidings copy \
                 --undo` takes the file up again, without what happened there since"
            )))
        })
    }
}
