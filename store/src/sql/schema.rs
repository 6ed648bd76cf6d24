//! The tables: migrations, and the check that they have run.

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType::Simple, Migrator},
};

use super::{Dialect, Sql};
use crate::{Error, Result, error::NOT_MIGRATED};

/// A migration: its version, its name, and its text for one database.
pub type Step = (i64, &'static str, &'static str);

/// The migrations of one database, oldest first: the files of the folder `migrations/DATABASE`.
macro_rules! migrations {
    ($database:literal) => {
        [
            (1, "tidings", include_str!(concat!("../../migrations/", $database, "/0001_tidings.sql"))),
            (2, "pauses", include_str!(concat!("../../migrations/", $database, "/0002_pauses.sql"))),
            (3, "erasure", include_str!(concat!("../../migrations/", $database, "/0003_erasure.sql"))),
            (4, "plans", include_str!(concat!("../../migrations/", $database, "/0004_plans.sql"))),
            (5, "listings", include_str!(concat!("../../migrations/", $database, "/0005_listings.sql"))),
            (6, "returns", include_str!(concat!("../../migrations/", $database, "/0006_returns.sql"))),
            (7, "emitted", include_str!(concat!("../../migrations/", $database, "/0007_emitted.sql"))),
            (8, "webhooks", include_str!(concat!("../../migrations/", $database, "/0008_webhooks.sql"))),
            (9, "first attempts", include_str!(concat!("../../migrations/", $database, "/0009_first_attempts.sql"))),
            (10, "reports", include_str!(concat!("../../migrations/", $database, "/0010_reports.sql"))),
            (11, "tokens", include_str!(concat!("../../migrations/", $database, "/0011_tokens.sql"))),
            (12, "inbox", include_str!(concat!("../../migrations/", $database, "/0012_inbox.sql"))),
            (13, "jobs", include_str!(concat!("../../migrations/", $database, "/0013_jobs.sql"))),
            (14, "notices", include_str!(concat!("../../migrations/", $database, "/0014_notices.sql"))),
            (15, "answers", include_str!(concat!("../../migrations/", $database, "/0015_answers.sql"))),
            (16, "complaints", include_str!(concat!("../../migrations/", $database, "/0016_complaints.sql"))),
            (17, "readings", include_str!(concat!("../../migrations/", $database, "/0017_readings.sql"))),
            (18, "dead notices", include_str!(concat!("../../migrations/", $database, "/0018_dead_notices.sql"))),
            (19, "troubled runs", include_str!(concat!("../../migrations/", $database, "/0019_troubled_runs.sql"))),
            (20, "installation", include_str!(concat!("../../migrations/", $database, "/0020_installation.sql"))),
            (21, "refusals", include_str!(concat!("../../migrations/", $database, "/0021_refusals.sql"))),
            (
                22,
                "idempotency keys",
                include_str!(concat!("../../migrations/", $database, "/0022_idempotency_keys.sql")),
            ),
            (23, "slots", include_str!(concat!("../../migrations/", $database, "/0023_slots.sql"))),
            (24, "zone data", include_str!(concat!("../../migrations/", $database, "/0024_zone_data.sql"))),
            (25, "made from", include_str!(concat!("../../migrations/", $database, "/0025_made_from.sql"))),
            (26, "contents", include_str!(concat!("../../migrations/", $database, "/0026_contents.sql"))),
            (27, "threads", include_str!(concat!("../../migrations/", $database, "/0027_threads.sql"))),
        ]
    };
}

pub const SQLITE: [Step; STEPS] = migrations!("sqlite");
pub const POSTGRES: [Step; STEPS] = migrations!("postgres");

/// The version of the latest migration.
const VERSION: i64 = 27;

const STEPS: usize = 27;

/// Carries out the migrations of one database that have not run yet.
pub fn migrator(steps: &[Step]) -> Migrator {
    let migration =
        |(version, name, text): &Step| Migration::new(*version, (*name).into(), Simple, text.into_sql_str(), false);
    Migrator::with_migrations(steps.iter().map(migration).collect())
}

impl<D: Dialect> Sql<D> {
    /// Checks that [`migrate`](Self::migrate) has run. A newer schema is fine: migrations only add.
    ///
    /// # Errors
    /// [`Error::Broken`] names the command to run.
    pub async fn check(&self) -> Result<()> {
        let version = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";
        let (version,): (i64,) = sqlx::query_as(version).fetch_one(&mut *self.reader.acquire().await?).await?;
        if version < VERSION { Err(Error::Broken(NOT_MIGRATED.to_owned())) } else { Ok(()) }
    }
}
