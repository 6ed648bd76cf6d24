//! Queues events and retracts per key. Each lane has one batch in flight, its own rate limit, and a task
//! while not empty.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tidings_model::{
    Key,
    inbox::{InboxItemKind, batch_len},
    limits::InvalidField,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{EmitError, signal};

/// Requests in flight over all keys, enough to saturate one server.
const IN_FLIGHT: usize = 64;

pub(crate) struct SignalSender {
    temporal: temporalio_client::Client,
    task_queue: String,
    by_key: Mutex<HashMap<Key, KeyQueue>>,
    in_flight: Semaphore,
}

impl SignalSender {
    pub fn new(temporal: temporalio_client::Client, task_queue: &str) -> Arc<Self> {
        let (task_queue, in_flight) = (task_queue.to_owned(), Semaphore::new(IN_FLIGHT));
        Arc::new(Self { temporal, task_queue, by_key: Mutex::default(), in_flight })
    }

    pub fn push(self: &Arc<Self>, key: Key, item: QueuedItem) {
        match self.by_key().entry(key) {
            Entry::Occupied(lane) => lane.into_mut().push(item),
            Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(KeyQueue::new()).push(item);
                tokio::spawn(drive(Arc::clone(self), key));
            }
        }
    }

    fn by_key(&self) -> MutexGuard<'_, HashMap<Key, KeyQueue>> {
        // No code panics halfway through a change while holding this lock.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key's next step. Removes an idle lane under the same lock, so the next event starts a new driver.
    fn next(&self, key: &Key) -> LaneStep {
        let mut lanes = self.by_key();
        let next = lanes.get_mut(key).map_or(LaneStep::Forget, |lane| lane.next(Instant::now()));
        if matches!(next, LaneStep::Forget) {
            lanes.remove(key);
        }
        next
    }

    fn with_lane<T>(&self, key: &Key, act: impl FnOnce(&mut KeyQueue) -> T) -> Option<T> {
        self.by_key().get_mut(key).map(act)
    }
}

async fn drive(lanes: Arc<SignalSender>, key: Key) {
    loop {
        match lanes.next(&key) {
            LaneStep::Forget => return,
            LaneStep::Wait(until) => tokio::time::sleep_until(until.into()).await,
            LaneStep::Send => send(&lanes, &key).await,
        }
    }
}

async fn send(lanes: &Arc<SignalSender>, key: &Key) {
    let Ok(_turn) = lanes.in_flight.acquire().await else { return };
    // Take the batch only now, to include items which arrived while we waited for a permit.
    let batch = lanes.with_lane(key, KeyQueue::take_batch).unwrap_or_default();
    if batch.is_empty() {
        return;
    }
    let started = Instant::now();
    let time_left = time_left(&batch, started);
    let payload = signal::encode_batch(batch.iter().map(|item| (item.kind, item.json.as_str())));
    let call = {
        let (lanes, key) = (Arc::clone(lanes), key.clone());
        async move { signal::send(&lanes.temporal, &lanes.task_queue, &key, payload, time_left).await }
    };
    // Spawned as its own task, so a panic only fails this batch's callers and the lane keeps running.
    let result = match tokio::spawn(call).await {
        Ok(result) => result,
        Err(error) => Err(EmitError::Unavailable(format!("the client's task failed: {error}"))),
    };
    lanes.with_lane(key, |lane| lane.batch_ended(started, Instant::now(), result.is_ok()));
    for item in batch {
        item.reply_with(result.clone().map(|()| Vec::new()));
    }
}

enum LaneStep {
    Send,
    Wait(Instant),
    Forget,
}

struct KeyQueue {
    waiting: VecDeque<QueuedItem>,
    pace: BatchRateLimiter,
}

impl KeyQueue {
    pub const fn new() -> Self {
        Self { waiting: VecDeque::new(), pace: BatchRateLimiter::new() }
    }

    pub fn push(&mut self, item: QueuedItem) {
        self.waiting.push_back(item);
    }

    pub fn next(&mut self, now: Instant) -> LaneStep {
        self.waiting.retain(|item| !item.is_withdrawn());
        match self.pace.wait_until(now) {
            Some(until) => LaneStep::Wait(until),
            None if self.waiting.is_empty() => LaneStep::Forget,
            None => LaneStep::Send,
        }
    }

    /// Takes the next batch in order of arrival: at most 500 events and retracts, and 256 KiB as JSON.
    pub fn take_batch(&mut self) -> Vec<QueuedItem> {
        self.waiting.retain(|item| !item.is_withdrawn());
        let count = batch_len(self.waiting.iter().map(|item| item.json.len()));
        self.waiting.drain(..count).collect()
    }

    pub fn batch_ended(&mut self, started: Instant, ended: Instant, acknowledged: bool) {
        self.pace.adapt_interval(started, ended, acknowledged);
    }
}

const INTERVAL: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct BatchRateLimiter {
    interval: Duration,
    next: Option<Instant>,
}

impl BatchRateLimiter {
    pub const fn new() -> Self {
        Self { interval: INTERVAL, next: None }
    }

    pub fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// Adapts to a batch which ran from `started` to `ended`. Other processes signalling the same key slow
    /// down responses: one that takes more than half of the interval doubles it, and a quick one shortens it.
    /// With ten processes on one key (`./dev bench hot-key`), its one-second timer was late by a p99 of 231
    /// ms over 600 s, compared to 425 ms over 180 s with a fixed interval; one run each, the second on a busy
    /// machine.
    pub fn adapt_interval(&mut self, started: Instant, ended: Instant, acknowledged: bool) {
        let took = ended.saturating_duration_since(started);
        self.interval = if acknowledged && took * 2 <= self.interval {
            self.interval.saturating_sub(INTERVAL / 4).max(INTERVAL)
        } else {
            (self.interval * 2).min(LONGEST)
        };
        self.next = Some(started + took.max(self.interval));
    }
}

/// If accepted, may have warnings about likely mistakes.
pub(crate) type EmitResult = Result<Vec<InvalidField>, EmitError>;

pub(crate) struct QueuedItem {
    pub kind: InboxItemKind,
    pub json: String,
    pub deadline: Instant,
    /// A closed channel withdraws the item.
    pub reply: oneshot::Sender<EmitResult>,
    pub memory: OwnedSemaphorePermit,
}

impl QueuedItem {
    pub fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    pub fn reply_with(self, result: EmitResult) {
        drop(self.memory);
        let _ = self.reply.send(result);
    }
}

pub(crate) fn time_left(batch: &[QueuedItem], now: Instant) -> Duration {
    batch.iter().map(|item| item.deadline.saturating_duration_since(now)).max().unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::EmitError;

    fn lane(events: impl IntoIterator<Item = String>) -> (KeyQueue, Vec<Caller>) {
        let (waiting, callers): (VecDeque<_>, _) = events.into_iter().map(waiting).unzip();
        (KeyQueue { waiting, pace: BatchRateLimiter::new() }, callers)
    }

    #[test]
    fn only_the_first_event_goes_out_without_waiting_for_the_pace() {
        let (mut lane, _callers) = lane(["a".to_owned()]);
        let start = Instant::now();
        assert!(matches!(lane.next(start), LaneStep::Send));
        assert_eq!(lane.take_batch().len(), 1);
        let (second, _caller) = waiting("b".to_owned());
        lane.push(second);
        lane.batch_ended(start, start + Duration::from_millis(3), true);
        assert!(matches!(lane.next(start), LaneStep::Wait(until) if until == start + Duration::from_millis(200)));
        assert!(matches!(lane.next(start + Duration::from_millis(200)), LaneStep::Send));
    }

    #[test]
    fn a_lane_is_forgotten_only_after_its_pace() {
        let (mut lane, _callers) = lane([]);
        let start = Instant::now();
        lane.batch_ended(start, start, true);
        assert!(matches!(lane.next(start), LaneStep::Wait(_)));
        assert!(matches!(lane.next(start + Duration::from_secs(1)), LaneStep::Forget));
    }

    #[test]
    fn a_batch_keeps_order_and_stays_within_500_events_and_256_kib() {
        let (mut many, _callers) = lane((0..1_100).map(|n| n.to_string()));
        let batches = [(); 4].map(|()| many.take_batch());
        assert_eq!(batches.each_ref().map(Vec::len), [500, 500, 100, 0]);
        let order = batches.iter().flatten().map(|event| event.json.parse::<usize>().unwrap());
        assert!(order.eq(0..1_100));

        let (mut big, _callers) = lane((0..30).map(|_| "x".repeat(20_000)));
        assert_eq!([(); 3].map(|()| big.take_batch().len()), [13, 13, 4]);
    }

    #[test]
    fn an_event_whose_caller_is_gone_is_withdrawn_and_no_other() {
        let (mut lane, mut callers) = lane(["a", "b", "c"].map(str::to_owned));
        drop(callers.remove(1));
        let left: Vec<_> = lane.take_batch().into_iter().map(|event| event.json).collect();
        assert_eq!(left, ["a", "c"]);
    }

    #[test]
    fn an_error_reaches_only_the_callers_of_its_batch() {
        let (mut lane, mut callers) = lane((0..501).map(|n| n.to_string()));
        for item in lane.take_batch() {
            item.reply_with(Err(EmitError::Unavailable("down".to_owned())));
        }
        let answered = callers.iter_mut().map(|caller| caller.try_recv().is_ok()).filter(|answered| *answered).count();
        assert_eq!(answered, 500);
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn intervals(answers: &[(u64, bool)]) -> Vec<u128> {
        let (mut pace, mut now) = (BatchRateLimiter::new(), Instant::now());
        assert_eq!(pace.wait_until(now), None, "the first event goes at once");
        let mut intervals = Vec::new();
        for (took, acknowledged) in answers {
            pace.adapt_interval(now, now + MS(*took), *acknowledged);
            let next = pace.wait_until(now).unwrap();
            intervals.push((next - now).as_millis());
            now = next;
        }
        intervals
    }

    #[test]
    fn quick_answers_allow_five_batches_a_second() {
        assert_eq!(intervals(&[(5, true), (100, true), (0, true)]), [200, 200, 200]);
    }

    #[test]
    fn slow_answers_double_the_interval_and_quick_ones_shorten_it() {
        assert_eq!(intervals(&[(101, true), (5, false), (5, true), (5, true)]), [400, 800, 750, 700]);
    }

    #[test]
    fn a_slow_server_bounds_the_interval_and_has_one_batch_in_flight() {
        assert_eq!(intervals(&[(9, false); 6]).last(), Some(&5_000));
        assert_eq!(intervals(&[(7_000, true)]), [7_000]);
    }

    pub(crate) type Caller = oneshot::Receiver<EmitResult>;

    /// An impatient event, and its caller.
    pub(crate) fn waiting(json: String) -> (QueuedItem, Caller) {
        let (reply, caller) = oneshot::channel();
        let memory = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        (QueuedItem { kind: InboxItemKind::Event, json, deadline: Instant::now(), reply, memory }, caller)
    }
}
