//! Dead letters, whose activity is named `bury`: records signals that could not be decoded as dead letters.

use serde::{Deserialize, Serialize};

/// The input of the step. The activity has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLettersInput {
    /// The workflow that received the signals. Not a [`Key`](crate::Key), because a malformed workflow id is a reason for a dead
    /// letter.
    pub workflow_id: String,
    /// The first run of the workflow's chain. Dead letters are numbered within the chain.
    pub run_id: String,
    /// The signals, in the order of arrival.
    pub letters: Vec<DeadLetter>,
}

/// A signal, or one event in a signal, that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Number of the dead letter within its chain of runs. It makes the record idempotent.
    pub seq: u64,
    /// The reason in words.
    pub reason: String,
    /// The `encoding` of the payload's metadata.
    pub encoding: String,
    /// The message type by which the bytes are read: the `messageType` of the payload's metadata, empty if there is none, or the
    /// type of an item of a batch. `None`: an earlier version recorded the letter without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// Size of the whole payload in bytes.
    pub size: u64,
    /// SHA-256 of the whole payload, in hex.
    pub sha256: String,
    /// The first bytes of the payload as base64 (RFC 4648), at most 64 KiB for each signal. Empty if more letters waited, while
    /// the store was away, than a run may carry.
    pub head: String,
}
