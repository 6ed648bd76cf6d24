//! What the workflow asks of the outside world: the activities' inputs and answers, by what they are about.
//!
//! `tidings-activities` implements them. No address and no body passes through here, because all of this is history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Key;

mod collect;
mod deliver;
mod operate;

pub use collect::*;
pub use deliver::*;
pub use operate::*;

/// The identity of a window, and of the digest that it becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Whose window it is.
    pub key: Key,
    /// See [`Key::digest_id`].
    pub digest_id: Uuid,
    /// When the first event arrived, by the server's clock.
    pub opened_at: Timestamp,
    /// When the window is due. Admission may move it later.
    pub due_at: Timestamp,
}

/// The answer of `close`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The end that the ledger holds.
    #[serde(flatten)]
    pub closed: Closed,
    /// How many of the events, from the first on, are in the ledger now. Those after them came too late: in a workflow
    /// task that was lost, the digest's mail was made without them. They belong to the next window.
    pub taken: u64,
}

/// How a digest ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// What the window became.
    pub outcome: Outcome,
    /// Why, in words; empty for a plain success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What one window became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The relay accepted the message.
    Sent,
    /// Nothing to send, or nobody who wants it.
    Skipped,
    /// The address must not be mailed.
    Suppressed,
    /// A throttle that skips instead of deferring.
    Throttled,
    /// An operator dropped or cancelled it. Its events stay in the ledger.
    Dropped,
    /// The recipient stayed unknown for seven days.
    Unknown,
    /// Delivery failed. After the last attempt of a transient failure the events join the key's next window; a
    /// permanent failure keeps them.
    Failed,
    /// Perhaps delivered: the connection broke after the final dot, and the stream says `at_most_once`.
    Ambiguous,
}

impl Outcome {
    /// The name in SQL, JSON, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Skipped => "skipped",
            Self::Suppressed => "suppressed",
            Self::Throttled => "throttled",
            Self::Dropped => "dropped",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Ambiguous => "ambiguous",
        }
    }
}
