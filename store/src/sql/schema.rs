//! The tables: migrations, and the check that they have run.

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType::Simple, Migrator},
};

use super::{Dialect, Sql};
use crate::{Error, Result, error::NOT_MIGRATED};

/// The version of the latest migration.
const VERSION: i64 = 1;

/// The migrations of one database; `tables` is the text of the first.
pub fn migrator(tables: &'static str) -> Migrator {
    let first = Migration::new(VERSION, "tidings".into(), Simple, tables.into_sql_str(), false);
    Migrator::with_migrations(vec![first])
}

impl<D: Dialect> Sql<D> {
    /// Checks that [`migrate`](Self::migrate) has run. A newer schema is fine: migrations only add.
    ///
    /// # Errors
    /// [`Error::Broken`] names the command to run.
    pub async fn check(&self) -> Result<()> {
        let version = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";
        let (version,): (i64,) = sqlx::query_as(version).fetch_one(&self.reader).await?;
        if version < VERSION { Err(Error::Broken(NOT_MIGRATED.to_owned())) } else { Ok(()) }
    }
}
