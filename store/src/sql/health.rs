//! The state of the database.

use super::dialect::Dialect;
use super::{Sql, within_timeout};
use crate::{Health, Result};
use async_trait::async_trait;
use sqlx::query;
use tracing::instrument;

/// Reads a table, because SQLite answers `SELECT 1` without its file.
pub const PING: &str = "SELECT 1 FROM relays LIMIT 1";

pub const PING_WRITING: &str = "UPDATE installation SET beat_at = beat_at";

#[async_trait]
impl<D: Dialect> Health for Sql<D> {
    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn ping(&self) -> Result<()> {
        within_timeout(async {
            query(PING).fetch_optional(&mut *self.reader.acquire().await?).await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn ping_writing(&self) -> Result<()> {
        within_timeout(async {
            let mut tx = self.write().await?;
            query(PING_WRITING).execute(&mut *tx).await?;
            Ok(tx.commit().await?)
        })
        .await
    }
}
