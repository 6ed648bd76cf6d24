use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    records::AuditEntry,
    retention::{ArchiveRecord, Cutoff, Purged, RetractExpiry},
};

use crate::{Result, archive::Archive};

/// Deletion of old rows.
#[async_trait]
pub trait Retention: Send + Sync + 'static {
    /// Archives and deletes one batch of at most `limit` rows, in one transaction. Without an archive the rows are deleted only.
    ///
    /// Digests and messages without an end, events that wait for a claim, and retracts that may cover one of these stay. Of retracts
    /// only those go that `expiries` name; the others of these keys are passed over for half a day. Rows that another call has locked
    /// are left for a later batch, so that simultaneous calls delete different rows.
    async fn purge(
        &self,
        cutoff: Cutoff,
        limit: u32,
        archive: Option<&Archive>,
        expiries: &[RetractExpiry],
        now: Timestamp,
    ) -> Result<Purged>;

    /// Some keys with retracts from before, which the ledger does not need. An open window may need them, and is in Temporal only.
    async fn keys_of_old_retracts(&self, before: Timestamp, limit: u32, now: Timestamp) -> Result<Vec<Key>>;

    /// Counts the rows that [`Retention::purge`] would delete in all its batches, with the retracts that open windows need.
    async fn expired(&self, cutoff: Cutoff) -> Result<u64>;

    /// Each folder of an archive that upkeep wrote to, or tried to.
    async fn archives(&self) -> Result<Vec<ArchiveRecord>>;

    /// Records that the archive has files, before a further one is written.
    async fn remember_archive(&self, archive: &Archive, now: Timestamp) -> Result<()>;

    /// Records that upkeep waits for the archive. The next batch that does not wait ends that.
    async fn archive_failed(&self, archive: &Archive, why: &str, now: Timestamp) -> Result<()>;

    /// Forgets a folder whose files are gone or moved, so that no erasure asks for it. `false`: it is not known.
    async fn forget_archive(&self, folder: &str, entry: &AuditEntry) -> Result<bool>;
}
