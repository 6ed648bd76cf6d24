//! How much is on its way at once: no more than gets its turn before the client's deadline, also where all is of one key.

use serde_json::json;
use tidings_client::{Client, Error};
use tidings_model::limits;
use tidings_proto::v1;
use tokio::sync::Semaphore;

/// Bytes of events on their way at once, as JSON: four full batches of one key, 0.8 s at its pace and 20 s at the slowest.
const BYTES: usize = 4 * limits::BATCH_BYTES;

/// See the module.
pub(crate) struct Room(Semaphore);

impl Room {
    pub fn new() -> Self {
        Self(Semaphore::new(BYTES))
    }

    /// Emits the event as soon as there is room for it; the client's deadline begins then.
    pub async fn emit(&self, client: &Client, event: v1::Event) -> Result<(), Error> {
        let bytes = json!(event).to_string().len().min(BYTES);
        // The semaphore is never closed.
        let _room = self.0.acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)).await;
        client.emit(event).await
    }
}
