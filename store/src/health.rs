use async_trait::async_trait;

use crate::Result;

/// The state of the database.
#[async_trait]
pub trait Health: Send + Sync + 'static {
    /// Reads one row, to see that the database answers and has the tables.
    async fn ping(&self) -> Result<()>;

    /// Writes one row, to see that the database takes what it is given: it may be read-only or full, or wait for a standby.
    async fn ping_writing(&self) -> Result<()>;
}
