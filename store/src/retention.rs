use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::retention::{Cutoff, Purged};

use crate::{Result, archive::Archive};

/// Deletion of old rows.
#[async_trait]
pub trait Retention: Send + Sync + 'static {
    /// Archives and deletes one batch of at most `limit` rows, in one transaction. Without an archive the rows are deleted only.
    ///
    /// Digests and messages without an end, events that wait for a claim, and retracts that may cover one of these stay. Rows that
    /// another call has locked are left for a later batch, so that simultaneous calls delete different rows.
    async fn purge(&self, cutoff: Cutoff, limit: u32, archive: Option<&Archive>, now: Timestamp) -> Result<Purged>;

    /// Counts the rows that [`Retention::purge`] would delete in all its batches.
    async fn expired(&self, cutoff: Cutoff) -> Result<u64>;
}
