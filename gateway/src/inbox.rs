//! The inbox: accepted events are durable in the store until forwarders send them to
//! Temporal (rules 7 and 39).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use temporalio_client::Client;
use tidings_client::hand_over;
use tidings_model::{
    Key,
    inbox::{
        ForwarderStep, InboxDepth, InboxItem, InboxLimits, KeyLease, LEASE, LOOK, PendingItem, batch_len, next,
        ordered_len,
    },
};
use tidings_store::Store;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{metrics, problem::Problem};

/// Minimum time between measurements. Slow ones should run less often.
const MEASURE: Duration = Duration::from_secs(1);

/// Clones share one inbox.
#[derive(Clone)]
pub struct EventInbox(Arc<InboxInner>);

struct InboxInner {
    store: Arc<dyn Store>,
    limits: InboxLimits,
    depth: watch::Sender<InboxDepth>,
    /// Bytes received since the last measurement.
    received: AtomicU64,
    arrived: Notify,
}

impl EventInbox {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, limits: InboxLimits) -> Self {
        let (depth, received) = (watch::Sender::new(InboxDepth::default()), AtomicU64::new(0));
        Self(Arc::new(InboxInner { store, limits, depth, received, arrived: Notify::new() }))
    }

    /// Returns once the items are durable.
    pub(crate) async fn receive(&self, items: Arc<[InboxItem]>, now: Timestamp) -> Result<(), Problem> {
        let bytes = items.iter().map(|item| item.json.len() as u64).sum::<u64>();
        let since = self.0.received.load(Ordering::Relaxed);
        if !self.0.limits.has_room(*self.0.depth.borrow(), since, now) {
            return Err(Problem::InboxFull);
        }
        let received = self.0.store.receive_items(items, now).await;
        received
            .inspect_err(|error| tracing::warn!(%error, "cannot accept events"))
            .map_err(|_| Problem::Unavailable)?;
        self.0.received.fetch_add(bytes, Ordering::Relaxed);
        self.0.arrived.notify_one();
        Ok(())
    }

    /// Runs forever, for limits and metrics.
    pub async fn measure_depth(self) {
        loop {
            let begun = Instant::now();
            let since = self.0.received.load(Ordering::Relaxed);
            match self.0.store.inbox_depth().await {
                Ok(depth) => {
                    self.0.received.fetch_sub(since, Ordering::Relaxed);
                    metrics::set_inbox_depth(depth, Timestamp::now());
                    self.0.depth.send_replace(depth);
                }
                Err(error) => tracing::warn!(%error, "cannot measure the inbox"),
            }
            sleep(MEASURE.max(begun.elapsed() * 20)).await;
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Waits until this process receives items, up to `wait`.
    async fn wait_for_items(&self, wait: Duration) {
        let _ = tokio::time::timeout(wait, self.0.arrived.notified()).await;
    }
}

/// Keys per poll.
const KEYS: u32 = 200;
/// Most items per signal.
const ITEMS: u32 = 500;
/// Concurrent signals over all keys.
const IN_FLIGHT: usize = 32;
/// Signal timeout. With the store calls around it, this should end before the lease does.
const PATIENCE: Duration = Duration::from_secs(10);
/// Backoff while Temporal or the store is down.
const PAUSE: Duration = Duration::from_secs(1);
/// Poll interval while there is work.
const REST: Duration = Duration::from_millis(20);
/// Interval between purges of expired leases.
const FORGET: Duration = Duration::from_mins(1);
/// Shutdown grace for signals in flight. A lease not returned by then expires.
const ENDING: Duration = Duration::from_secs(15);

/// Sends inbox events to their keys' workflows.
///
/// Any number of forwarders can share an inbox. Each leases free keys and sends one signal per lease, so a
/// key has at most one in flight. If a forwarder crashes, its leases expire and another one sends the same
/// events again. This is safe, because we ignore duplicates (rule 3).
#[derive(Clone)]
pub struct InboxForwarder {
    inbox: EventInbox,
    temporal: watch::Receiver<Option<Client>>,
    task_queue: Arc<str>,
}

impl InboxForwarder {
    #[must_use]
    pub fn new(inbox: EventInbox, temporal: watch::Receiver<Option<Client>>, task_queue: &str) -> Self {
        Self { inbox, temporal, task_queue: task_queue.into() }
    }

    /// Forwards until `shutdown` is cancelled, then waits for signals in flight.
    pub async fn run(self, shutdown: CancellationToken) {
        let signals = TaskTracker::new();
        shutdown.run_until_cancelled(self.forward(&signals)).await;
        signals.close();
        let _ = timeout(ENDING, signals.wait()).await;
    }

    async fn forward(&self, signals: &TaskTracker) {
        let places = Arc::new(Semaphore::new(IN_FLIGHT));
        let mut forgotten = Instant::now();
        // Each poll continues after the last key of the previous one.
        let mut after = String::new();
        loop {
            if forgotten.elapsed() > FORGET {
                forgotten = Instant::now();
                let _ = self.inbox.store().forget_leases(Timestamp::now()).await;
            }
            let temporal = self.temporal.borrow().clone();
            let Some(temporal) = temporal else {
                sleep(PAUSE).await;
                continue;
            };
            // Gives more events time to arrive, so they share a signal.
            sleep(REST).await;
            match self.poll_keys(&temporal, &mut after, &places, signals).await {
                Ok(wait) if wait.is_zero() => {}
                Ok(wait) => self.inbox.wait_for_items(wait).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the inbox");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Starts sending to free keys. Returns the time until the next poll.
    async fn poll_keys(
        &self,
        temporal: &Client,
        after: &mut String,
        places: &Arc<Semaphore>,
        signals: &TaskTracker,
    ) -> tidings_store::Result<Duration> {
        // Only waits for a permit; we acquire one per key below. The semaphore is never closed.
        drop(places.acquire().await);
        let found = self.inbox.store().waiting_keys(after, KEYS).await?;
        let is_last = found.len() < KEYS as usize;
        *after = found.last().filter(|_| !is_last).map(|found| found.key.workflow_id()).unwrap_or_default();
        match next(found, places.available_permits(), Timestamp::now()) {
            ForwarderStep::Wait(wait) => Ok(if is_last { wait } else { Duration::ZERO }),
            ForwarderStep::Lease(free) => {
                let keys: Vec<_> = free.into_iter().map(|found| found.key).collect();
                // New for each poll: after a replay this forwarder may lease a key again while still sending
                // to it.
                let holder = Uuid::new_v4();
                let leased = self.inbox.store().lease_keys(holder, &keys, Timestamp::now()).await?;
                if leased.is_empty() {
                    return Ok(LOOK);
                }
                for (key, lease) in leased {
                    let Ok(place) = places.clone().acquire_owned().await else { break };
                    let (forwarder, temporal) = (self.clone(), temporal.clone());
                    signals.spawn(async move {
                        if let Err(error) = forwarder.send_events(&temporal, &key, holder, lease).await {
                            tracing::warn!(%error, %key, "cannot return lease; events wait until it expires");
                        }
                        drop(place);
                    });
                }
                Ok(Duration::ZERO)
            }
        }
    }

    /// Sends the oldest events in one signal, then replaces the lease. Store errors are retried while the
    /// lease lasts, because this key would otherwise wait for its expiry.
    async fn send_events(
        &self,
        temporal: &Client,
        key: &Key,
        holder: Uuid,
        lease: KeyLease,
    ) -> tidings_store::Result<()> {
        let (begun, started) = (Instant::now(), Timestamp::now());
        let store = self.inbox.store();
        let (sent, next) = match store.pending_items(key, ITEMS).await {
            // The lease will expire soon, so leave this key to the next forwarder.
            Ok(_) if begun.elapsed() > LEASE / 2 => return Ok(()),
            Ok(waiting) => self.signal_workflow(temporal, key, waiting, (started, lease)).await,
            Err(_) => (Vec::new(), KeyLease::after_success(started)),
        };
        loop {
            match store.mark_forwarded(holder, key, &sent, next, Timestamp::now()).await {
                Err(_) if begun.elapsed() < LEASE => sleep(PAUSE).await,
                answer => return answer,
            }
        }
    }

    /// Returns the ids sent and the next lease.
    async fn signal_workflow(
        &self,
        temporal: &Client,
        key: &Key,
        mut waiting: Vec<PendingItem>,
        (started, lease): (Timestamp, KeyLease),
    ) -> (Vec<i64>, KeyLease) {
        waiting.truncate(batch_len(waiting.iter().map(|item| item.json.len())));
        waiting.truncate(ordered_len(&waiting));
        if waiting.is_empty() {
            return (Vec::new(), KeyLease::after_success(started));
        }
        let items = waiting.iter().map(|item| (item.kind, item.json.as_str()));
        match hand_over(temporal, &self.task_queue, key, items, PATIENCE).await {
            Ok(()) => (waiting.iter().map(|item| item.id).collect(), KeyLease::after_success(started)),
            Err(error) => {
                tracing::warn!(%error, %key, failures = lease.failures + 1, "cannot signal workflow; events wait");
                (Vec::new(), lease.after_failure(Timestamp::now()))
            }
        }
    }
}
