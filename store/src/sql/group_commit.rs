//! Lets calls wait together and be recorded in one commit.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tidings_model::{inbox::InboxItem, records::FirstAttempt};
use tokio::sync::oneshot;
use uuid::Uuid;

/// Waiting attempts, each with its time. `true` means the attempt may send the dot.
pub type CommitQueue = GroupCommit<(PendingCommit, Timestamp), bool>;
pub type ArrivalQueue = GroupCommit<InboxArrival, ()>;

pub struct InboxArrival {
    pub items: Arc<[InboxItem]>,
    pub now: Timestamp,
}

#[derive(Clone)]
pub enum PendingCommit {
    /// The ledger has the attempt already.
    Begun { message: Uuid, number: u32 },
    /// A first attempt, recorded together with its dot.
    First(FirstAttempt),
}

pub struct GroupCommit<T, A>(Mutex<Vec<QueuedRecord<T, A>>>);

pub struct QueuedRecord<T, A> {
    pub record: T,
    /// For the result. Dropped if recording failed.
    pub tell: oneshot::Sender<A>,
}

impl<T, A> Default for GroupCommit<T, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T, A> GroupCommit<T, A> {
    pub fn push(&self, record: T) -> oneshot::Receiver<A> {
        let (tell, told) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(QueuedRecord { record, tell });
        told
    }

    pub fn take(&self) -> Vec<QueuedRecord<T, A>> {
        let mut waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.retain(|waiting| !waiting.tell.is_closed());
        waiting
    }
}
