//! An event or a retract that waits for its acknowledgement, whichever way it takes.

use std::time::{Duration, Instant};

use tidings_model::{inbox::Kind, limits::Invalid};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::Error;

/// The answer to an event or a retract. An accepted one may have warnings: what looks like a mistake in it.
pub(crate) type Answer = Result<Vec<Invalid>, Error>;

/// An event or a retract that waits for its acknowledgement.
pub(crate) struct Waiting {
    /// The kind of the item.
    pub(crate) kind: Kind,
    /// Its proto3-JSON.
    pub(crate) json: String,
    /// The deadline of the caller.
    pub(crate) deadline: Instant,
    /// The channel to the caller. A closed channel withdraws the item.
    pub(crate) reply: oneshot::Sender<Answer>,
    /// Its share of the client's memory.
    pub(crate) memory: OwnedSemaphorePermit,
}

impl Waiting {
    /// Tells if the caller is gone.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    /// Answers the caller, and frees the memory first.
    pub(crate) fn answer(self, result: Answer) {
        drop(self.memory);
        // The caller may be gone, and then the answer has no other receiver.
        let _ = self.reply.send(result);
    }
}

/// Returns the time left for the batch: that of its most patient caller.
pub(crate) fn time_left(batch: &[Waiting], now: Instant) -> Duration {
    batch.iter().map(|item| item.deadline.saturating_duration_since(now)).max().unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    pub(crate) type Caller = oneshot::Receiver<Answer>;

    /// An event without patience, and its caller.
    pub(crate) fn waiting(json: String) -> (Waiting, Caller) {
        let (reply, caller) = oneshot::channel();
        let memory = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        (Waiting { kind: Kind::Event, json, deadline: Instant::now(), reply, memory }, caller)
    }
}
