use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    installation::Installation,
    process::{FileId, Process},
};
use uuid::Uuid;

use crate::Result;

/// The identity of the installation that a database belongs to, the beats of its workers, and its processes.
#[async_trait]
pub trait Installations: Send + Sync + 'static {
    /// The installation. `None`: the database was never migrated by `tidings migrate`, as in a test.
    async fn installation(&self) -> Result<Option<Installation>>;

    /// Gives the database an identity. It keeps one that it has, unless it is to be another installation.
    async fn put_installation(&self, identity: Uuid, replace: bool) -> Result<Installation>;

    /// Changes the beat from this one to the next, unless a worker did just now. `false`: one did, or the beat is another. With the first
    /// beat upkeep counts as done.
    async fn beat(&self, from: Uuid, to: Uuid, now: Timestamp) -> Result<bool>;

    /// Keeps the release of a worker's zone data, if it is newer than that of every worker before.
    async fn keep_zone_release(&self, release: &str) -> Result<()>;

    /// The newest release that any worker had. Empty: none said so.
    async fn zone_release(&self) -> Result<String>;

    /// The clock of the database: that of its server, or that of this machine for a file.
    async fn clock(&self) -> Result<Timestamp>;

    /// The SQLite file that is open. `None`: a PostgreSQL database.
    async fn file(&self) -> Result<Option<FileId>>;

    /// Writes the row of a process, or replaces it.
    async fn put_process(&self, process: &Process) -> Result<()>;

    /// Removes the row of a process that ends, if it has one.
    async fn remove_process(&self, id: Uuid) -> Result<()>;

    /// Removes the rows of processes that were last seen before then.
    async fn forget_processes(&self, before: Timestamp) -> Result<()>;

    /// The rows of all processes, those that are gone included.
    async fn processes(&self) -> Result<Vec<Process>>;

    /// Keeps the end of an upkeep, unless a later one ended.
    async fn keep_upkeep(&self, at: Timestamp) -> Result<()>;

    /// The end of the last upkeep, or the first beat where none came to an end. `None`: no worker was here yet.
    async fn upkeep_at(&self) -> Result<Option<Timestamp>>;
}
