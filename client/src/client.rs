//! `emit` and `retract` up to the acknowledgement, by signals or over HTTP, within a limit on bytes in
//! flight.

use std::{sync::Arc, time::Instant};

use serde_json::json;
use tidings_model::{
    inbox::InboxItem,
    limits::{self, InvalidField},
};
use tidings_proto::v1;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    Config, ConnectError, EmitError, config,
    http::BatchSender,
    lanes::{EmitResult, QueuedItem, SignalSender},
};

/// Memory per event or retract besides its JSON, including its key's lane.
const OVERHEAD_BYTES: usize = 1024;

/// Cheap to clone; clones share connection, memory and rate limits.
#[derive(Clone)]
pub struct Client(Arc<ClientInner>);

struct ClientInner {
    config: Config,
    memory: Arc<Semaphore>,
    way: EventTransport,
}

enum EventTransport {
    Signals(Arc<SignalSender>),
    Http(Arc<BatchSender>),
}

impl Client {
    /// Connects to the gateway in [`Config::http`], or without one to Temporal as configured by `TEMPORAL_*`
    /// variables and `temporal.toml`.
    ///
    /// # Errors
    /// If the configuration is invalid, or the server does not respond within the deadline.
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        match config.http.clone() {
            None => Ok(Self::new(config::connect(config.deadline).await?, config)),
            Some(http) => {
                Ok(Self::with_way(EventTransport::Http(BatchSender::connect(http, config.deadline).await?), config))
            }
        }
    }

    /// Uses an existing connection to Temporal, ignoring [`Config::http`].
    #[must_use]
    pub fn new(temporal: temporalio_client::Client, config: Config) -> Self {
        Self::with_way(EventTransport::Signals(SignalSender::new(temporal, &config.task_queue)), config)
    }

    fn with_way(way: EventTransport, mut config: Config) -> Self {
        config.memory_bytes = config.memory_bytes.clamp(64 * 1024, 1 << 31);
        let memory = Arc::new(Semaphore::new(config.memory_bytes as usize));
        Self(Arc::new(ClientInner { config, memory, way }))
    }

    /// Returns once the event is durable, in the workflow's history or a gateway's inbox. Dropping the future
    /// withdraws the event unless it is already in flight.
    ///
    /// # Errors
    /// See [`EmitError`]. After any error except [`EmitError::Invalid`], the event may or may not have arrived;
    /// emitting it again is safe.
    pub async fn emit(&self, event: v1::Event) -> Result<(), EmitError> {
        self.emit_with_warnings(event).await.map(drop)
    }

    /// Like [`Client::emit`], but returns a gateway's warnings about likely mistakes in the accepted event.
    /// Temporal returns none.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn emit_with_warnings(&self, event: v1::Event) -> Result<Vec<InvalidField>, EmitError> {
        self.hand_over(InboxItem::from_wire_event(event)?).await
    }

    /// Retracts the event with `event_id`, or all with a category and entity which occurred up to
    /// `occurred_at`, even if not yet arrived. Returns once this is durable.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn retract(&self, retract: v1::Retract) -> Result<(), EmitError> {
        self.hand_over(InboxItem::from_wire_retract(retract)?).await.map(drop)
    }

    /// Waits until everything accepted so far has a result.
    pub async fn flush(&self) {
        // We can only acquire all memory once nothing is in flight. The semaphore is never closed.
        let _ = self.0.memory.acquire_many(self.0.config.memory_bytes).await;
    }

    async fn hand_over(&self, item: InboxItem) -> EmitResult {
        let deadline = Instant::now() + self.0.config.deadline;
        let late =
            |waited_for: &str| EmitError::Unavailable(format!("waited {:?} for {waited_for}", self.0.config.deadline));
        let until = tokio::time::Instant::from_std(deadline);
        let accepted = tokio::time::timeout_at(until, self.enqueue_item(item, deadline));
        let acknowledged = accepted.await.map_err(|_| late("memory"))??;
        match tokio::time::timeout_at(until, acknowledged).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(EmitError::Unavailable("the client's task ended".to_owned()))),
            Err(_) => Err(late("the server")),
        }
    }

    async fn enqueue_item(
        &self,
        InboxItem { key, kind, json }: InboxItem,
        deadline: Instant,
    ) -> Result<AckReceiver, EmitError> {
        let bytes = u32::try_from(json.len() + OVERHEAD_BYTES).unwrap_or(u32::MAX).min(self.0.config.memory_bytes);
        let memory = Arc::clone(&self.0.memory).acquire_many_owned(bytes).await;
        let memory = memory.map_err(|error| EmitError::Unavailable(error.to_string()))?;
        let (reply, acknowledged) = oneshot::channel();
        let item = QueuedItem { kind, json, deadline, reply, memory };
        match &self.0.way {
            EventTransport::Signals(lanes) => lanes.push(key, item),
            EventTransport::Http(requests) => requests.push(&key, item),
        }
        Ok(acknowledged)
    }
}

type AckReceiver = oneshot::Receiver<EmitResult>;

/// Bytes in flight, as JSON: four full batches for one key. Its rate limit sends them within 0.8 s, or 20 s
/// at the slowest.
const BYTES: usize = 4 * limits::BATCH_BYTES;

/// Limits bytes in flight, so every event can be sent before the client's deadline, even if all belong to one
/// key.
pub struct ByteBudget(Semaphore);

impl Default for ByteBudget {
    fn default() -> Self {
        Self(Semaphore::new(BYTES))
    }
}

impl ByteBudget {
    /// Waits for room, then emits the event and returns its warnings. The client's deadline starts after the
    /// wait.
    ///
    /// # Errors
    /// As for [`Client::emit`].
    pub async fn emit(&self, client: &Client, event: v1::Event) -> Result<Vec<InvalidField>, EmitError> {
        let bytes = json!(event).to_string().len().min(BYTES);
        let _room = self.0.acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)).await;
        client.emit_with_warnings(event).await
    }
}
