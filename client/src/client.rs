//! From `emit` and `retract` to an acknowledgement, by signals or over HTTP, within a limit on the bytes in flight.

use std::{sync::Arc, time::Instant};

use serde_json::json;
use tidings_model::{
    inbox::Item,
    limits::{self, Invalid},
};
use tidings_proto::v1;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    Config, ConnectError, Error, config,
    http::Requests,
    lanes::{Answer, Lanes, Waiting},
};

/// Bytes that an event or a retract takes besides its JSON, its key's lane included.
const OVERHEAD_BYTES: usize = 1024;

/// Hands events over. Cheap to clone; the clones share connection, memory and pace.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    config: Config,
    memory: Arc<Semaphore>,
    way: Way,
}

/// The way of events.
enum Way {
    /// Signals to the workflows of their keys.
    Signals(Arc<Lanes>),
    /// Requests to the api of a gateway.
    Http(Arc<Requests>),
}

impl Client {
    /// Connects to the gateway that [`Config::http`] names. Without one, connects to Temporal as its own `TEMPORAL_*` variables and
    /// `temporal.toml` say.
    ///
    /// # Errors
    /// When these make no sense, or the server does not answer within the deadline.
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        match config.http.clone() {
            None => Ok(Self::new(config::connect(config.deadline).await?, config)),
            Some(http) => Ok(Self::with_way(Way::Http(Requests::connect(http, config.deadline).await?), config)),
        }
    }

    /// Uses a connection to Temporal that exists already, and not [`Config::http`].
    #[must_use]
    pub fn new(temporal: temporalio_client::Client, config: Config) -> Self {
        Self::with_way(Way::Signals(Lanes::new(temporal, &config.task_queue)), config)
    }

    fn with_way(way: Way, mut config: Config) -> Self {
        // Room for the largest event, and within what a semaphore counts.
        config.memory_bytes = config.memory_bytes.clamp(64 * 1024, 1 << 31);
        let memory = Arc::new(Semaphore::new(config.memory_bytes as usize));
        Self(Arc::new(Inner { config, memory, way }))
    }

    /// Returns when the event is durable: in the workflow's history, or in the inbox of a gateway. Dropping the future withdraws
    /// the event, unless the event is in flight.
    ///
    /// # Errors
    /// See [`Error`]. After any but [`Error::Invalid`] the event may or may not have arrived; emitting it again is safe.
    pub async fn emit(&self, event: v1::Event) -> Result<(), Error> {
        self.emit_with_warnings(event).await.map(drop)
    }

    /// Like [`Client::emit`]. Returns what looks like a mistake in the accepted event, as far as a gateway says so; Temporal does not.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn emit_with_warnings(&self, event: v1::Event) -> Result<Vec<Invalid>, Error> {
        self.hand_over(Item::event(event)?).await
    }

    /// Takes events of a key back: the one with `event_id`, or all of one category and entity that occurred up to
    /// `occurred_at`, whether they are there yet or not. Returns when the retract is durable; travels as events do.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn retract(&self, retract: v1::Retract) -> Result<(), Error> {
        self.hand_over(Item::retract(retract)?).await.map(drop)
    }

    /// Returns when everything that was accepted before has its answer.
    pub async fn flush(&self) {
        // All of the memory is free only when nothing holds a share of it. The semaphore is never closed.
        let _ = self.0.memory.acquire_many(self.0.config.memory_bytes).await;
    }

    async fn hand_over(&self, item: Item) -> Answer {
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
        match &self.0.way {
            Way::Signals(lanes) => lanes.push(key, item),
            Way::Http(requests) => requests.push(&key, item),
        }
        Ok(acknowledged)
    }
}

type Acknowledged = oneshot::Receiver<Answer>;

/// Bytes of events in flight, as JSON: four full batches of one key. The key's pace sends them in 0.8 s, and in 20 s at its
/// slowest.
const BYTES: usize = 4 * limits::BATCH_BYTES;

/// A limit on the bytes in flight, so that every event has its turn before the client's deadline. The limit matters most
/// when all events belong to one key.
pub struct ByteBudget(Semaphore);

impl Default for ByteBudget {
    fn default() -> Self {
        Self(Semaphore::new(BYTES))
    }
}

impl ByteBudget {
    /// Waits for room, then emits the event, and returns its warnings. The client's deadline starts after the wait.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn emit(&self, client: &Client, event: v1::Event) -> Result<Vec<Invalid>, Error> {
        let bytes = json!(event).to_string().len().min(BYTES);
        // The semaphore is never closed.
        let _room = self.0.acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)).await;
        client.emit_with_warnings(event).await
    }
}
