//! Calls that wait to be recorded, all of them in one commit.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tidings_model::{inbox::Item, records::FirstAttempt};
use tokio::sync::oneshot;
use uuid::Uuid;

/// Attempts that wait, each with its time. The answer is the permission to send the dot.
pub type Dots = GroupCommit<(Dot, Timestamp), bool>;
/// Requests with items for the inbox.
pub type Arrivals = GroupCommit<Arrival, ()>;

/// The items of a request, and the time of their arrival.
pub struct Arrival {
    pub items: Arc<[Item]>,
    pub now: Timestamp,
}

/// An attempt that is about to send the final dot.
#[derive(Clone)]
pub enum Dot {
    /// The ledger has the attempt.
    Begun { message: Uuid, number: u32 },
    /// The first attempt, which is recorded with its dot.
    First(FirstAttempt),
}

/// Records that wait for a connection.
pub struct GroupCommit<T, A>(Mutex<Vec<Waiting<T, A>>>);

/// A record of one call.
pub struct Waiting<T, A> {
    pub record: T,
    /// The answer. Dropped if the record failed.
    pub tell: oneshot::Sender<A>,
}

impl<T, A> Default for GroupCommit<T, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T, A> GroupCommit<T, A> {
    /// Adds a record, and returns the receiver of its answer.
    pub fn push(&self, record: T) -> oneshot::Receiver<A> {
        let (tell, told) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Waiting { record, tell });
        told
    }

    /// The records whose callers still wait.
    pub fn take(&self) -> Vec<Waiting<T, A>> {
        let mut waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.retain(|waiting| !waiting.tell.is_closed());
        waiting
    }
}
