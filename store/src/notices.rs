use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    records::AuditEntry,
    subscription::{DeadNotice, Notice, Replayed, RetiredNotices, Settled, Subscription, SubscriptionState},
};

use crate::Result;

/// Notices to services that subscribed. The database writes each in the transaction of its fact, so that no call here adds any.
#[async_trait]
pub trait Notices: Send + Sync + 'static {
    /// Adds these to the subscriptions, and where it `forgets`, makes them the only ones. What waits, and the dead letters, of a name that
    /// one of them had are its own from now on; what waits for any other subscription waits on. A repeated call changes nothing.
    async fn subscribe(&self, subscriptions: &[Subscription], forgets: bool) -> Result<()>;

    /// Returns the subscriptions that there are no more, with the notices that wait for them. Those that waited for a day are dead
    /// letters.
    async fn retire_notices(&self, now: Timestamp) -> Result<Vec<RetiredNotices>>;

    /// The subscriptions for which a notice waits, each with the `seq` of the latest such notice.
    async fn newest_notices(&self) -> Result<Vec<(String, i64)>>;

    /// At most `limit` notices that may be delivered now, in the order of `seq`. Of a lane whose oldest notice must wait there are none.
    async fn ready_notices(&self, subscription: &str, limit: u32, now: Timestamp) -> Result<Vec<Notice>>;

    /// The time at which the next notice may be delivered that must wait now.
    async fn next_notice(&self, subscription: &str, now: Timestamp) -> Result<Option<Timestamp>>;

    /// Records the ends of deliveries, and returns the number of notices that became dead letters. A notice that has ended meanwhile
    /// stays unchanged.
    async fn settle_notices(&self, subscription: &str, settled: &Settled, now: Timestamp) -> Result<u64>;

    /// Lets notices wait again that ended before now, and whose facts were recorded at `since` or later. A receiver that answered
    /// 410 is tried again. Returns the number of notices; `None`: there is no such subscription.
    async fn replay_notices(
        &self,
        subscription: &str,
        since: Timestamp,
        which: Replayed,
        entry: &AuditEntry,
    ) -> Result<Option<u64>>;

    /// The dead letters of a subscription, the latest first, `limit` at most.
    async fn dead_notices(&self, subscription: &str, limit: u32) -> Result<Vec<DeadNotice>>;

    /// The subscriptions by name, and those that have notices that wait, or dead letters, still. Each count reads an index, and stops at this number.
    async fn subscriptions(&self, most: u32) -> Result<Vec<SubscriptionState>>;
}
