//! What operators do to digests, and what is written down beside them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Closed, Window};
use crate::{Event, Key, command::Reopen};

/// `close`: the workflow ends a digest by itself (an operator's drop, a cancel).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloseInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The window to close.
    pub window: Window,
    /// Its events, as far as they are not in the ledger.
    pub events: Vec<Event>,
    /// How it ends, unless the ledger already knows an end.
    pub closed: Closed,
    /// Who wants it, for the audit trail; empty: whoever cancelled the workflow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// `reopen`: take a digest up again, under its `digest_id` and with the events that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// Whose digest.
    pub key: Key,
    /// Which, who and why.
    #[serde(flatten)]
    pub reopen: Reopen,
}

/// The answer of `reopen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumed {
    /// The digest has no end any more.
    Claimed {
        /// The window that it was.
        window: Window,
        /// Events in the digest.
        items: u64,
        /// Lines that they make.
        groups: u64,
    },
    /// It stays as it is.
    Refused {
        /// Why, and what could be done, in words.
        why: String,
    },
}

/// `audit`: record commands in the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditInput {
    /// Whose workflow took them.
    pub key: Key,
    /// The commands, in their order.
    pub notes: Vec<Note>,
}

/// A command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// Who gave it.
    pub by: String,
    /// Its name.
    pub action: String,
    /// Why, in words.
    pub why: String,
}

/// `bury`: record signals that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuryInput {
    /// The workflow that received them. Not a [`Key`]: a malformed workflow id is one more thing to bury.
    pub workflow_id: String,
    /// The first run of its chain: the letters are numbered from there on.
    pub run_id: String,
    /// The signals, in the order of arrival.
    pub letters: Vec<DeadLetter>,
}

/// A signal, or an event in one, that the edge refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Its place among the refused: makes the record idempotent.
    pub seq: u64,
    /// Why it was refused.
    pub reason: String,
    /// The `encoding` of the payload's metadata.
    pub encoding: String,
    /// The whole payload's size in bytes.
    pub size: u64,
    /// SHA-256 of the whole payload, in hex.
    pub sha256: String,
    /// The payload's beginning as base64 (RFC 4648), 64 KiB of each signal at most. Empty for what arrived while the
    /// store was down and more of them were waiting than a run may carry.
    pub head: String,
}
