//! The lanes of all keys. One task per key that has something to send.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tidings_model::Key;
use tokio::sync::Semaphore;

use crate::{
    Error,
    lane::{Lane, Next},
    signal,
    waiting::{Waiting, time_left},
};

/// Requests on their way to the server, over all keys: enough to keep one server busy.
const IN_FLIGHT: usize = 64;

/// Sends events as signals to the workflows of their keys.
pub(crate) struct Lanes {
    temporal: temporalio_client::Client,
    task_queue: String,
    by_key: Mutex<HashMap<Key, Lane>>,
    in_flight: Semaphore,
}

impl Lanes {
    pub fn new(temporal: temporalio_client::Client, task_queue: &str) -> Arc<Self> {
        let (task_queue, in_flight) = (task_queue.to_owned(), Semaphore::new(IN_FLIGHT));
        Arc::new(Self { temporal, task_queue, by_key: Mutex::default(), in_flight })
    }

    /// Adds an item to the lane of its key, and starts the lane's driver if the lane is new.
    pub fn push(self: &Arc<Self>, key: Key, item: Waiting) {
        match self.by_key().entry(key) {
            Entry::Occupied(lane) => lane.into_mut().push(item),
            Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(Lane::new()).push(item);
                tokio::spawn(drive(Arc::clone(self), key));
            }
        }
    }

    fn by_key(&self) -> MutexGuard<'_, HashMap<Key, Lane>> {
        // Nothing that runs under the lock leaves a lane half-changed.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next step for the key. Forgets an idle lane under the same lock, so that the next event starts a new
    /// driver.
    fn next(&self, key: &Key) -> Next {
        let mut lanes = self.by_key();
        let next = lanes.get_mut(key).map_or(Next::Forget, |lane| lane.next(Instant::now()));
        if matches!(next, Next::Forget) {
            lanes.remove(key);
        }
        next
    }

    fn with_lane<T>(&self, key: &Key, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        self.by_key().get_mut(key).map(act)
    }
}

/// Sends one key's batches, one at a time, until nothing waits.
async fn drive(lanes: Arc<Lanes>, key: Key) {
    loop {
        match lanes.next(&key) {
            Next::Forget => return,
            Next::Wait(until) => tokio::time::sleep_until(until.into()).await,
            Next::Send => send(&lanes, &key).await,
        }
    }
}

async fn send(lanes: &Arc<Lanes>, key: &Key) {
    let Ok(_turn) = lanes.in_flight.acquire().await else { return };
    // Taken only now: what arrived while waiting for the turn goes along.
    let batch = lanes.with_lane(key, Lane::take_batch).unwrap_or_default();
    if batch.is_empty() {
        return;
    }
    let started = Instant::now();
    let time_left = time_left(&batch, started);
    let payload = signal::batch(batch.iter().map(|item| (item.kind, item.json.as_str())));
    let call = {
        let (lanes, key) = (Arc::clone(lanes), key.clone());
        async move { signal::send(&lanes.temporal, &lanes.task_queue, &key, payload, time_left).await }
    };
    // In a task of its own: a panic reaches the callers of this batch and leaves the lane running.
    let result = match tokio::spawn(call).await {
        Ok(result) => result,
        Err(error) => Err(Error::Unavailable(format!("the client's task failed: {error}"))),
    };
    lanes.with_lane(key, |lane| lane.ended(started, Instant::now(), result.is_ok()));
    for item in batch {
        item.answer(result.clone().map(|()| Vec::new()));
    }
}
