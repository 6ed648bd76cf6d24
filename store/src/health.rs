//! The state of the database.

use sqlx::query;

use crate::{
    Result,
    sql::{Sql, calls, dialect::Dialect},
};

calls! {
    /// The state of the database.
    pub trait Health {
        /// Reads one row, to see that the database answers and has the tables.
        async fn ping(&self) -> Result<()>;

        /// Writes one row, to see that the database takes what it is given: it may be read-only or full, or wait for a standby.
        async fn ping_writing(&self) -> Result<()>;
    }
}

/// Reads a table, because SQLite answers `SELECT 1` without its file.
pub const PING: &str = "SELECT 1 FROM relays LIMIT 1";

pub const PING_WRITING: &str = "UPDATE installation SET beat_at = beat_at";

impl<D: Dialect> Sql<D> {
    async fn ping(&self) -> Result<()> {
        query(PING).fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(())
    }

    async fn ping_writing(&self) -> Result<()> {
        let mut tx = self.write().await?;
        query(PING_WRITING).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}
