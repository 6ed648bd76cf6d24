use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::installation::Installation;
use uuid::Uuid;

use crate::Result;

/// The identity of the installation that a database belongs to, and the beats of its workers.
#[async_trait]
pub trait Installations: Send + Sync + 'static {
    /// The installation. `None`: the database was never migrated by `tidings migrate`, as in a test.
    async fn installation(&self) -> Result<Option<Installation>>;

    /// Gives the database an identity. It keeps one that it has, unless it is to be another installation.
    async fn put_installation(&self, identity: Uuid, replace: bool) -> Result<Installation>;

    /// Changes the beat from this one to the next, unless a worker did just now. `false`: one did, or the beat is another.
    async fn beat(&self, from: Uuid, to: Uuid, now: Timestamp) -> Result<bool>;

    /// Keeps the release of a worker's zone data, if it is newer than that of every worker before.
    async fn keep_zone_release(&self, release: &str) -> Result<()>;

    /// The newest release that any worker had. Empty: none said so.
    async fn zone_release(&self) -> Result<String>;
}
