//! Steps of a digest: the input and the answer of each activity, side by side, one file a step.
//!
//! Workflows fill the inputs, activities give the answers. Both are workflow history, so no address and no body is in them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Key;

mod audit;
mod claim;
mod close;
mod dead_letter;
mod plan;
mod render;
mod reopen;
mod retract;
mod send;
mod stash;

pub use audit::{AuditInput, Note};
pub use claim::{LoadInput, Loaded};
pub use close::{CloseInput, Ending};
pub use dead_letter::{BuryInput, DeadLetter};
pub use plan::{DeadlineBasis, Plan, PlanInput, Signs};
pub use render::{RenderInput, Rendered};
pub use reopen::{ReopenInput, Resumed};
pub use retract::RetractInput;
pub use send::{SendInput, Sent};
pub use stash::{StashInput, Stashed};

/// The identity of a window, and of the digest that the window becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The key whose events the window collects.
    pub key: Key,
    /// Id of the digest; see [`Key::digest_id`].
    pub digest_id: Uuid,
    /// Arrival of the first event, by the server's clock.
    pub opened_at: Timestamp,
    /// Time when the window is due. Admission may defer it.
    pub due_at: Timestamp,
}

/// The end of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The outcome of the window.
    pub outcome: Outcome,
    /// The reason in words; empty for a plain success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The outcome of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The relay accepted the message.
    Sent,
    /// There was nothing to send, or the recipient does not want it.
    Skipped,
    /// The address is suppressed.
    Suppressed,
    /// The throttle skips instead of deferring.
    Throttled,
    /// An operator dropped or cancelled the digest. Its events stay in the ledger.
    Dropped,
    /// The recipient was unknown for seven days.
    Unknown,
    /// Delivery failed. After the last attempt of a transient failure the events join the key's next window; after a
    /// permanent failure they stay with the digest.
    Failed,
    /// The message may have been delivered: the connection broke after the final dot, and the stream is `at_most_once`.
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
