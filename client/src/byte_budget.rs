//! A limit on the bytes in flight for producers of many events.

use serde_json::json;
use tidings_model::limits::{self, Invalid};
use tidings_proto::v1;
use tokio::sync::Semaphore;

use crate::{Client, Error};

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
