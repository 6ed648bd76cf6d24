//! The end of a digest or a message.

use serde::{Deserialize, Serialize};

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
