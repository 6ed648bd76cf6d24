//! Events over HTTP to the api of a gateway: `POST /v1/events`, in batches. The gateway makes them durable, and hands them to
//! Temporal.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use hyper::body::Bytes;
use serde_json::json;
use tidings_model::{Key, inbox::Kind};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::instrument;

use self::answer::{Connection, Meaning, meaning, wait};
use crate::{
    ConnectError, Error,
    config::Http,
    lanes::{Waiting, time_left},
};

mod answer;
#[cfg(test)]
mod tests;

/// Bytes and items of a request: what the gateway takes.
const BYTES: usize = 1 << 20;
const ITEMS: usize = 10_000;
/// Time limit of one attempt. A gateway answers within 14 s.
const ATTEMPT: Duration = Duration::from_secs(20);

/// Sends events to the api of a gateway.
pub(crate) struct Requests {
    queue: Mutex<Queue>,
    /// Held by the driver.
    connection: tokio::sync::Mutex<Connection>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The task that sends. It ends when nothing waits.
    driver: Option<JoinHandle<()>>,
}

impl Requests {
    /// Connects to the gateway.
    ///
    /// # Errors
    /// When the server does not answer within the deadline.
    pub async fn connect(http: Http, deadline: Duration) -> Result<Arc<Self>, ConnectError> {
        let target = http.to_string();
        let connecting = timeout(deadline, Connection::open(http)).await;
        let opened = connecting.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let connection = opened.map_err(|source| ConnectError::Gateway { target, source })?;
        Ok(Arc::new(Self { queue: Mutex::default(), connection: tokio::sync::Mutex::new(connection) }))
    }

    /// Adds an item to the queue, and starts the driver if none runs.
    pub fn push(self: &Arc<Self>, key: &Key, item: Waiting) {
        let item = Waiting { json: keyed(key, &item.json), ..item };
        let mut queue = self.queue();
        queue.waiting.push_back(item);
        // A driver that panicked is finished, too.
        if queue.driver.as_ref().is_none_or(JoinHandle::is_finished) {
            queue.driver = Some(tokio::spawn(drive(Arc::clone(self))));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that runs under the lock leaves the queue half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next batch: the events, and then the retracts. Without one, the driver is forgotten under the same lock, so that
    /// the next item starts a new one.
    fn next(&self) -> Vec<Waiting> {
        let mut queue = self.queue();
        queue.waiting.retain(|item| !item.is_withdrawn());
        let count = batch_len(queue.waiting.iter().map(|item| item.json.len()));
        if count == 0 {
            queue.driver = None;
        }
        let mut batch: Vec<_> = queue.waiting.drain(..count).collect();
        batch.sort_by_key(|item| item.kind == Kind::Retract);
        batch
    }

    /// Puts a batch back to the front of the queue, except items whose deadline is before the next attempt.
    fn put_back(&self, batch: Vec<Waiting>, next: Instant, why: &str) {
        let (late, again): (Vec<_>, Vec<_>) = batch.into_iter().partition(|item| item.deadline <= next);
        let mut queue = self.queue();
        for item in again.into_iter().rev() {
            queue.waiting.push_front(item);
        }
        drop(queue);
        for item in late {
            item.answer(Err(Error::Unavailable(why.to_owned())));
        }
    }
}

/// Sends batches, one at a time, until nothing waits.
async fn drive(requests: Arc<Requests>) {
    let mut connection = requests.connection.lock().await;
    let mut failures = 0;
    loop {
        let batch = requests.next();
        if batch.is_empty() {
            return;
        }
        match send(&mut connection, &batch).await {
            Meaning::Results(results) => {
                failures = 0;
                for (item, result) in batch.into_iter().zip(results) {
                    item.answer(result);
                }
            }
            Meaning::Refused(rejection) => {
                failures = 0;
                for item in batch {
                    item.answer(Err(Error::Rejected(rejection.clone())));
                }
            }
            Meaning::Later { asked, why } => {
                let wait = wait(asked, failures);
                failures += 1;
                requests.put_back(batch, Instant::now() + wait, &why);
                sleep(wait).await;
            }
        }
    }
}

/// Makes one attempt. An attempt without an answer may have arrived, and comes again: an event counts once.
#[instrument(name = "http", level = "debug", skip_all, fields(items = batch.len()))]
async fn send(connection: &mut Connection, batch: &[Waiting]) -> Meaning {
    let time = time_left(batch, Instant::now()).min(ATTEMPT);
    let why = match timeout(time, connection.post(body(batch))).await {
        Ok(Ok(response)) => return meaning(&response, batch.len(), SystemTime::now()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer for {time:?}"),
    };
    tracing::debug!(why, "a request failed");
    Meaning::Later { asked: None, why }
}

/// The item's JSON with its key. Both are objects, and neither is empty.
fn keyed(Key { tenant, digest_type, user }: &Key, json: &str) -> String {
    let key = json!({"tenant": tenant, "digest": digest_type, "user": user}).to_string();
    format!("{},{}", &key[..key.len() - 1], &json[1..])
}

/// Returns the number of items, from the first on, that fit into one request.
fn batch_len(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut bytes = body(&[]).len();
    let fits = |size: &usize| {
        bytes += size + ",".len();
        bytes <= BYTES
    };
    sizes.into_iter().take(ITEMS).take_while(fits).count()
}

/// The body of a request. The events of the batch come first.
fn body(batch: &[Waiting]) -> Bytes {
    let list = |items: &[Waiting]| items.iter().map(|item| item.json.as_str()).collect::<Vec<_>>().join(",");
    let (events, retracts) = batch.split_at(batch.partition_point(|item| item.kind == Kind::Event));
    format!("{{\"events\":[{}],\"retracts\":[{}]}}", list(events), list(retracts)).into()
}
