//! Steps that only write to the ledger or the audit trail.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Event, Key, Retract,
    command::ReopenCommand,
    decode::DeadLetter,
    window::{PlanSummary, Window, WindowEnd},
};

// `close`: the workflow closes a digest itself, after an operator dropped it or the workflow was cancelled.

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloseDigestInput {
    pub asked_at: Timestamp,
    pub window: Window,
    /// Events not in the ledger.
    pub events: Vec<Event>,
    pub closed: WindowEnd,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The explanation of an unclaimed window's plan. `None` from earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlanSummary>,
    /// See [`SendInput::opens_returned`](super::SendDigestInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseAnswer {
    #[serde(flatten)]
    pub closed: WindowEnd,
    /// How many of the events, counted from the first, are in the ledger. The others belong to the next
    /// window: a lost workflow task already created the message without them.
    pub taken: u64,
    /// The key's events waiting for a window, if an attempt returned the digest's events. Only set if the
    /// workflow [opens one](CloseDigestInput::opens_returned).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<ReturnedEvents>,
}

// `stash`: moves a page of an open window's events to the ledger to keep the workflow's state small.

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StashInput {
    pub window: Window,
    pub events: Vec<Event>,
    /// This workflow's earlier runs. Their signals are read back from history and stashed too.
    pub runs: Vec<String>,
    /// The digest in delivery, which keeps its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivering: Option<Uuid>,
    /// See [`SendInput::opens_returned`](crate::step::SendDigestInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
    /// Requests [`StashAnswer::events`]. Runs started by an earlier version do not set this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_new: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StashAnswer {
    pub taken: u64,
    /// The key's events waiting for a window, if some came too late for this one. Only set if the workflow
    /// [opens one](StashInput::opens_returned).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<ReturnedEvents>,
    /// Number of the window's events in the ledger, without repeats of an earlier digest's events (rule 3).
    /// Only set on [request](StashInput::counts_new).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
}

// Returned events (rule 25).

/// Events in the ledger waiting for the key's next claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedEvents {
    pub at: Timestamp,
    /// By the digest that returned them.
    pub digests: BTreeMap<Uuid, u64>,
}

impl ReturnedEvents {
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.digests.values().sum()
    }
}

// `retract`: withdraws events, including those which arrive later.

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetractInput {
    pub asked_at: Timestamp,
    pub key: Key,
    pub retracts: Vec<Retract>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The digest in delivery, which keeps its events, even if one arrived again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivering: Option<Uuid>,
}

// `reopen`: resumes a digest that closed without a message, with the same `digest_id` and events.

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenInput {
    pub asked_at: Timestamp,
    pub key: Key,
    #[serde(flatten)]
    pub reopen: ReopenCommand,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReopenAnswer {
    Claimed { window: Window, items: u64, groups: u64 },
    Refused { why: String },
}

// Dead letters (the activity is named `bury`): records signals that could not be decoded.

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLettersInput {
    /// Received the signals. Not a [`Key`](crate::Key), because a malformed workflow id is one reason for a
    /// dead letter.
    pub workflow_id: String,
    /// The first run of the workflow's chain, in which dead letters are numbered.
    pub run_id: String,
    pub letters: Vec<DeadLetter>,
}

// `audit`: records commands in the audit trail.

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditInput {
    pub key: Key,
    pub notes: Vec<AuditNote>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditNote {
    pub at: Timestamp,
    pub by: String,
    pub action: String,
    pub why: String,
}
