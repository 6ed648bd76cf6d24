//! The inbox: what the api accepted is durable in the store, and forwarders hand it to Temporal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use tidings_model::inbox::{Depth, Item, Limits};
use tidings_store::Store;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

use crate::{metrics, problem::Problem};

mod forwarder;

pub use forwarder::Forwarder;

/// The shortest time between two measurements of the depth. A measurement that takes long is rarer.
const MEASURE: Duration = Duration::from_secs(1);

/// The inbox of one process. The clones share it.
#[derive(Clone)]
pub struct Inbox(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    limits: Limits,
    depth: watch::Sender<Depth>,
    /// Bytes that this process received after the depth was measured.
    received: AtomicU64,
    arrived: Notify,
}

impl Inbox {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, limits: Limits) -> Self {
        let (depth, received) = (watch::Sender::new(Depth::default()), AtomicU64::new(0));
        Self(Arc::new(Inner { store, limits, depth, received, arrived: Notify::new() }))
    }

    /// Returns when the items are durable.
    pub(crate) async fn receive(&self, items: Arc<[Item]>, now: Timestamp) -> Result<(), Problem> {
        let bytes = items.iter().map(|item| item.json.len() as u64).sum::<u64>();
        let since = self.0.received.load(Ordering::Relaxed);
        if !self.0.limits.has_room(*self.0.depth.borrow(), since, now) {
            return Err(Problem::InboxFull);
        }
        let received = self.0.store.receive(items, now).await;
        received
            .inspect_err(|error| tracing::warn!(%error, "no events can be accepted"))
            .map_err(|_| Problem::Unavailable)?;
        self.0.received.fetch_add(bytes, Ordering::Relaxed);
        self.0.arrived.notify_one();
        Ok(())
    }

    /// Measures the depth again and again, for the limits and the metrics. Never ends.
    pub async fn measure(self) {
        loop {
            let begun = Instant::now();
            let since = self.0.received.load(Ordering::Relaxed);
            match self.0.store.depth().await {
                Ok(depth) => {
                    self.0.received.fetch_sub(since, Ordering::Relaxed);
                    metrics::inbox(depth, Timestamp::now());
                    self.0.depth.send_replace(depth);
                }
                Err(error) => tracing::warn!(%error, "the inbox cannot be measured"),
            }
            sleep(MEASURE.max(begun.elapsed() * 20)).await;
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Waits for an arrival in this process, at most for `wait`.
    async fn arrival(&self, wait: Duration) {
        let _ = tokio::time::timeout(wait, self.0.arrived.notified()).await;
    }
}
