//! From `emit` and `retract` to the key's lane and back. One task per key that has something to send.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tidings_model::{Key, inbox::Item};
use tidings_proto::v1;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    Config, ConnectError, Error,
    commands::Commands,
    config,
    lane::{self, Lane, Next, Waiting},
    signal,
};

/// Requests on their way to the server, over all keys: enough to keep one server busy.
const IN_FLIGHT: usize = 64;
/// Bytes that an event or a retract takes besides its JSON, its key's lane included.
const OVERHEAD_BYTES: usize = 1024;

/// Hands events to Temporal. Cheap to clone; the clones share connection, memory and pace.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    temporal: temporalio_client::Client,
    config: Config,
    lanes: Mutex<HashMap<Key, Lane>>,
    memory: Arc<Semaphore>,
    in_flight: Semaphore,
}

impl Client {
    /// Connects as Temporal's own `TEMPORAL_*` variables and `temporal.toml` say.
    ///
    /// # Errors
    /// When these make no sense, or the server does not answer within the deadline.
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        Ok(Self::new(config::connect(config.deadline).await?, config))
    }

    /// Uses a connection that exists already.
    #[must_use]
    pub fn new(temporal: temporalio_client::Client, mut config: Config) -> Self {
        // Room for the largest event, and within what a semaphore counts.
        config.memory_bytes = config.memory_bytes.clamp(64 * 1024, 1 << 31);
        let memory = Arc::new(Semaphore::new(config.memory_bytes as usize));
        Self(Arc::new(Inner {
            temporal,
            config,
            lanes: Mutex::default(),
            memory,
            in_flight: Semaphore::new(IN_FLIGHT),
        }))
    }

    /// Returns when Temporal has recorded the event. Dropping the future withdraws the event, unless the event is in flight.
    ///
    /// # Errors
    /// See [`Error`]. After any but [`Error::Invalid`] the event may or may not have arrived; emitting it again is safe.
    pub async fn emit(&self, event: v1::Event) -> Result<(), Error> {
        self.hand_over(Item::event(event)?).await
    }

    /// Takes events of a key back: the one with `event_id`, or all of one category and entity that occurred up to
    /// `occurred_at`, whether they are there yet or not. Returns when Temporal has recorded it; travels as events do.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn retract(&self, retract: v1::Retract) -> Result<(), Error> {
        self.hand_over(Item::retract(retract)?).await
    }

    /// Returns the commands to the workflows that this client's events start.
    #[must_use]
    pub fn commands(&self) -> Commands {
        Commands::new(self.0.temporal.clone(), &self.0.config.task_queue)
    }

    /// Returns when everything that was accepted before has its answer.
    pub async fn flush(&self) {
        // All of the memory is free only when nothing holds a share of it. The semaphore is never closed.
        let _ = self.0.memory.acquire_many(self.0.config.memory_bytes).await;
    }

    async fn hand_over(&self, item: Item) -> Result<(), Error> {
        let deadline = Instant::now() + self.0.config.deadline;
        let late =
            |waited_for: &str| Error::Unavailable(format!("waited {:?} for {waited_for}", self.0.config.deadline));
        let until = tokio::time::Instant::from_std(deadline);
        let accepted = tokio::time::timeout_at(until, self.accept(item, deadline));
        let acknowledged = accepted.await.map_err(|_| late("memory"))??;
        match tokio::time::timeout_at(until, acknowledged).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(Error::Unavailable("the client's task ended".to_owned()))),
            Err(_) => Err(late("the server")),
        }
    }

    async fn accept(&self, Item { key, kind, json }: Item, deadline: Instant) -> Result<Acknowledged, Error> {
        let bytes = u32::try_from(json.len() + OVERHEAD_BYTES).unwrap_or(u32::MAX).min(self.0.config.memory_bytes);
        let memory = Arc::clone(&self.0.memory).acquire_many_owned(bytes).await;
        let memory = memory.map_err(|error| Error::Unavailable(error.to_string()))?;
        let (reply, acknowledged) = oneshot::channel();
        let item = Waiting { kind, json, deadline, reply, memory };
        match self.0.lanes().entry(key) {
            Entry::Occupied(lane) => lane.into_mut().push(item),
            Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(Lane::new()).push(item);
                tokio::spawn(drive(Arc::clone(&self.0), key));
            }
        }
        Ok(acknowledged)
    }
}

type Acknowledged = oneshot::Receiver<Result<(), Error>>;

impl Inner {
    fn lanes(&self) -> MutexGuard<'_, HashMap<Key, Lane>> {
        // Nothing that runs under the lock leaves a lane half-changed.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next step for the key. Forgets an idle lane under the same lock, so that the next event starts a new
    /// driver.
    fn next(&self, key: &Key) -> Next {
        let mut lanes = self.lanes();
        let next = lanes.get_mut(key).map_or(Next::Forget, |lane| lane.next(Instant::now()));
        if matches!(next, Next::Forget) {
            lanes.remove(key);
        }
        next
    }

    fn with_lane<T>(&self, key: &Key, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        self.lanes().get_mut(key).map(act)
    }
}

/// Sends one key's batches, one at a time, until nothing waits.
async fn drive(inner: Arc<Inner>, key: Key) {
    loop {
        match inner.next(&key) {
            Next::Forget => return,
            Next::Wait(until) => tokio::time::sleep_until(until.into()).await,
            Next::Send => send(&inner, &key).await,
        }
    }
}

async fn send(inner: &Arc<Inner>, key: &Key) {
    let Ok(_turn) = inner.in_flight.acquire().await else { return };
    // Taken only now: what arrived while waiting for the turn goes along.
    let batch = inner.with_lane(key, Lane::take_batch).unwrap_or_default();
    if batch.is_empty() {
        return;
    }
    let started = Instant::now();
    let time_left = lane::time_left(&batch, started);
    let payload = lane::signal(&batch);
    let call = {
        let (inner, key) = (Arc::clone(inner), key.clone());
        async move { signal::send(&inner.temporal, &inner.config.task_queue, &key, payload, time_left).await }
    };
    // In a task of its own: a panic reaches the callers of this batch and leaves the lane running.
    let result = match tokio::spawn(call).await {
        Ok(result) => result,
        Err(error) => Err(Error::Unavailable(format!("the client's task failed: {error}"))),
    };
    inner.with_lane(key, |lane| lane.ended(started, Instant::now(), result.is_ok()));
    lane::answer(batch, &result);
}
