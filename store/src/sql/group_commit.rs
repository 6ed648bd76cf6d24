//! Attempts that wait to be recorded before the final dot.

use jiff::Timestamp;
use std::sync::{Mutex, PoisonError};
use tidings_model::records::FirstAttempt;
use tokio::sync::oneshot;
use uuid::Uuid;

/// Records that wait for a connection.
#[derive(Default)]
pub struct GroupCommit(Mutex<Vec<Waiting>>);

/// An attempt that is about to send the final dot.
#[derive(Clone)]
pub enum Dot {
    /// The ledger has the attempt.
    Begun { message: Uuid, number: u32 },
    /// The first attempt, which is recorded with its dot.
    First(FirstAttempt),
}

pub struct Waiting {
    pub dot: Dot,
    pub now: Timestamp,
    /// Permission to send the dot. Dropped if the record failed.
    pub tell: oneshot::Sender<bool>,
}

impl GroupCommit {
    pub fn push(&self, dot: Waiting) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(dot);
    }

    /// The records whose callers still wait.
    pub fn take(&self) -> Vec<Waiting> {
        let mut dots = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        dots.retain(|dot| !dot.tell.is_closed());
        dots
    }
}
