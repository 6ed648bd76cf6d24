//! The end of a digest or a message.

use serde::{Deserialize, Serialize};

/// The end of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Closed {
    /// The outcome of the window.
    pub outcome: Outcome,
    /// The reason in words; empty for a plain success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

closed_set! {
    /// The outcome of one window.
    pub enum Outcome {
        /// The relay accepted the message.
        Sent = "sent",
        /// There was nothing to send, or the recipient does not want it.
        Skipped = "skipped",
        /// The address is suppressed.
        Suppressed = "suppressed",
        /// The throttle skips instead of deferring.
        Throttled = "throttled",
        /// An operator dropped or cancelled the digest. Its events stay in the ledger.
        Dropped = "dropped",
        /// The recipient was unknown for seven days.
        Unknown = "unknown",
        /// Delivery failed. After the last attempt of a transient failure the events are returned to the key, twice at
        /// most; after a permanent failure they stay with the digest.
        Failed = "failed",
        /// The message may have been delivered: the connection broke after the final dot, and the stream is `at_most_once`.
        Ambiguous = "ambiguous",
    }
}
