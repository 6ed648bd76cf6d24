use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    breaker::VersionedBreaker,
    records::{AuditEntry, RefusalRecord},
};

use crate::Result;

/// The breakers of relays, which all workers share.
#[async_trait]
pub trait Breakers: Send + Sync + 'static {
    /// Reads the breakers by name, which is that of a relay or `RELAY/TENANT`. One without a history is missing.
    async fn breakers(&self) -> Result<BTreeMap<String, VersionedBreaker>>;

    /// Stores a breaker if the stored revision is `breaker.revision - 1`, and audits the change if there is an `entry`.
    /// Returns `false` if another worker changed the breaker first.
    async fn put_breaker(
        &self,
        relay: &str,
        breaker: &VersionedBreaker,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<bool>;

    /// Reads the latest replies by which a relay ended an attempt without taking the message, the latest first.
    async fn refusals(&self, relay: &str, limit: u32) -> Result<Vec<RefusalRecord>>;
}
