//! Sends events to a gateway's API, in batches to `POST /v1/events`. The gateway makes them durable and
//! forwards them to Temporal.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use hyper::body::Bytes;
use serde_json::json;
use tidings_model::{Key, inbox::InboxItemKind};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::instrument;

use self::answer::{BatchResponse, GatewayConnection, interpret_response, wait};
use crate::{
    ConnectError, EmitError,
    config::HttpGateway,
    lanes::{QueuedItem, time_left},
};

mod answer;
#[cfg(test)]
mod tests;

const BYTES: usize = 1 << 20;
const ITEMS: usize = 10_000;
/// Timeout for one attempt. A gateway responds within 14 s.
const ATTEMPT: Duration = Duration::from_secs(20);

pub(crate) struct BatchSender {
    queue: Mutex<RequestQueue>,
    connection: tokio::sync::Mutex<GatewayConnection>,
}

#[derive(Default)]
struct RequestQueue {
    waiting: VecDeque<QueuedItem>,
    driver: Option<JoinHandle<()>>,
}

impl BatchSender {
    /// # Errors
    /// If the server does not respond within the deadline.
    pub async fn connect(http: HttpGateway, deadline: Duration) -> Result<Arc<Self>, ConnectError> {
        let target = http.to_string();
        let connecting = timeout(deadline, GatewayConnection::open(http)).await;
        let opened = connecting.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let connection = opened.map_err(|source| ConnectError::Gateway { target, source })?;
        Ok(Arc::new(Self { queue: Mutex::default(), connection: tokio::sync::Mutex::new(connection) }))
    }

    pub fn push(self: &Arc<Self>, key: &Key, item: QueuedItem) {
        let item = QueuedItem { json: add_key(key, &item.json), ..item };
        let mut queue = self.queue();
        queue.waiting.push_back(item);
        if queue.driver.as_ref().is_none_or(JoinHandle::is_finished) {
            queue.driver = Some(tokio::spawn(drive(Arc::clone(self))));
        }
    }

    fn queue(&self) -> MutexGuard<'_, RequestQueue> {
        // No code panics halfway through a change while holding this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next batch, events before retracts. If empty, drops the driver under the same lock, so the
    /// next item starts a new one.
    fn next(&self) -> Vec<QueuedItem> {
        let mut queue = self.queue();
        queue.waiting.retain(|item| !item.is_withdrawn());
        let count = batch_len(queue.waiting.iter().map(|item| item.json.len()));
        if count == 0 {
            queue.driver = None;
        }
        let mut batch: Vec<_> = queue.waiting.drain(..count).collect();
        batch.sort_by_key(|item| item.kind == InboxItemKind::Retract);
        batch
    }

    /// Requeues a batch at the front. Items which expire before the next attempt fail.
    fn put_back(&self, batch: Vec<QueuedItem>, next: Instant, why: &str) {
        let (late, again): (Vec<_>, Vec<_>) = batch.into_iter().partition(|item| item.deadline <= next);
        let mut queue = self.queue();
        for item in again.into_iter().rev() {
            queue.waiting.push_front(item);
        }
        drop(queue);
        for item in late {
            item.reply_with(Err(EmitError::Unavailable(why.to_owned())));
        }
    }
}

async fn drive(requests: Arc<BatchSender>) {
    let mut connection = requests.connection.lock().await;
    let mut failures = 0;
    loop {
        let batch = requests.next();
        if batch.is_empty() {
            return;
        }
        match send(&mut connection, &batch).await {
            BatchResponse::Results(results) => {
                failures = 0;
                for (item, result) in batch.into_iter().zip(results) {
                    item.reply_with(result);
                }
            }
            BatchResponse::Refused(rejection) => {
                failures = 0;
                for item in batch {
                    item.reply_with(Err(EmitError::Rejected(rejection.clone())));
                }
            }
            BatchResponse::Later { asked, why } => {
                let wait = wait(asked, failures);
                failures += 1;
                requests.put_back(batch, Instant::now() + wait, &why);
                sleep(wait).await;
            }
        }
    }
}

/// Without a response, the batch may have arrived; sending it again is safe because events are deduplicated.
#[instrument(name = "http", level = "debug", skip_all, fields(items = batch.len()))]
async fn send(connection: &mut GatewayConnection, batch: &[QueuedItem]) -> BatchResponse {
    let time = time_left(batch, Instant::now()).min(ATTEMPT);
    let why = match timeout(time, connection.post(request_body(batch))).await {
        Ok(Ok(response)) => return interpret_response(&response, batch.len(), SystemTime::now()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer for {time:?}"),
    };
    tracing::debug!(why, "request to the gateway failed");
    BatchResponse::Later { asked: None, why }
}

/// Both the key's and the item's JSON are non-empty objects.
fn add_key(Key { tenant, digest_type, user }: &Key, json: &str) -> String {
    let key = json!({"tenant": tenant, "digest": digest_type, "user": user}).to_string();
    format!("{},{}", &key[..key.len() - 1], &json[1..])
}

fn batch_len(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut bytes = request_body(&[]).len();
    let fits = |size: &usize| {
        bytes += size + ",".len();
        bytes <= BYTES
    };
    sizes.into_iter().take(ITEMS).take_while(fits).count()
}

fn request_body(batch: &[QueuedItem]) -> Bytes {
    let list = |items: &[QueuedItem]| items.iter().map(|item| item.json.as_str()).collect::<Vec<_>>().join(",");
    let (events, retracts) = batch.split_at(batch.partition_point(|item| item.kind == InboxItemKind::Event));
    format!("{{\"events\":[{}],\"retracts\":[{}]}}", list(events), list(retracts)).into()
}
