use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    inbox::{Depth, Found, Item, Lease, Waiting},
};
use uuid::Uuid;

use crate::Result;

/// Events that the gateway accepted and that wait for the workflow of their key.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Adds the items, in their order, and returns when they are durable. One commit covers all calls that wait for it. A repeated call
    /// adds the items again, which is harmless: an event is known by its id.
    async fn receive(&self, items: Arc<[Item]>, now: Timestamp) -> Result<()>;

    /// At most `limit` keys with waiting items, in the order of their workflow ids, after the workflow id `after`.
    async fn waiting_keys(&self, after: &str, limit: u32) -> Result<Vec<Found>>;

    /// Leases those of the keys that are still free, under the new id `holder`. Answers with them and the lease.
    async fn lease(&self, holder: Uuid, keys: &[Key], now: Timestamp) -> Result<Vec<(Key, Lease)>>;

    /// The key's oldest waiting items, at most `limit`.
    async fn waiting(&self, key: &Key, limit: u32) -> Result<Vec<Waiting>>;

    /// Marks items as forwarded and replaces the lease, if `holder` still has it. A call without items replaces the lease only.
    async fn forwarded(&self, holder: Uuid, key: &Key, items: &[i64], lease: Lease, now: Timestamp) -> Result<()>;

    /// Counts what waits.
    async fn depth(&self) -> Result<Depth>;

    /// Ends all leases, and lets items that arrived at `since` or later, and were forwarded before `now`, wait again. Returns their number.
    async fn replay(&self, tenant: Option<&str>, since: Timestamp, now: Timestamp) -> Result<u64>;

    /// Deletes leases that have been free for a minute.
    async fn forget_leases(&self, now: Timestamp) -> Result<()>;
}
