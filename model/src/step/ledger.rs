//! Steps that write to the ledger or to the audit trail and send nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Event, Key, Retract,
    command::Reopen,
    decode::DeadLetter,
    window::{Closed, Planned, Window},
};

// `close`: the workflow ends a digest by itself, after an operator's drop or a cancel.

/// The input of `close`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloseInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The window to close.
    pub window: Window,
    /// Events of the window that are not in the ledger.
    pub events: Vec<Event>,
    /// The end to record, unless the ledger already has one.
    pub closed: Closed,
    /// The operator's login for the audit trail; empty: the workflow was cancelled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The plan of a window that is not claimed in words, for the ledger. A former version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
    /// See [`SendInput::opens_returned`](super::SendInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
}

/// The answer of `close`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The end in the ledger.
    #[serde(flatten)]
    pub closed: Closed,
    /// Number of events, counted from the first, that are in the ledger now. Later ones came too late: a workflow task that was
    /// lost made the digest's message without them. They belong to the next window.
    pub taken: u64,
    /// The events of the key that wait for a window, if an attempt had ended the digest and returned its events. Only for a
    /// workflow that [opens one](CloseInput::opens_returned).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
}

// `stash`: a page of an open window's events goes to the ledger, so that the workflow's state stays small.

/// The input of `stash`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StashInput {
    /// The window that the events belong to.
    pub window: Window,
    /// The page.
    pub events: Vec<Event>,
    /// Earlier runs of this workflow: their signals are read back from history and stashed too.
    pub runs: Vec<String>,
    /// The digest in delivery: its events stay with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivering: Option<Uuid>,
    /// See [`SendInput::opens_returned`](crate::step::SendInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
    /// Asks for [`Stashed::events`]. A run that an earlier version began does not ask.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_new: bool,
}

/// The answer of `stash`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stashed {
    /// Number of events in the ledger now; see [`Ending::taken`](crate::step::Ending::taken).
    pub taken: u64,
    /// The events of the key that wait for a window, if some came too late for this one. Only for a workflow that
    /// [opens one](StashInput::opens_returned).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    /// Number of events that the ledger has for the window. An event of an earlier digest is not among them (rule 3). Only for a
    /// workflow that [asks](StashInput::counts_new).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
}

// Events that failed digests returned to their key (rule 25), in the answers of steps.

/// Events that wait for the key's next claim, as the ledger has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Time of the first return.
    pub at: Timestamp,
    /// The number of events by the digest that returned them.
    pub digests: BTreeMap<Uuid, u64>,
}

impl Returned {
    /// The number of all events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.digests.values().sum()
    }
}

// `retract`: withdraws events, those in the window and those that are still to come.

/// The input of `retract`. The activity has no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetractInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The key of the events.
    pub key: Key,
    /// The retracts to record.
    pub retracts: Vec<Retract>,
    /// The window of the covered events in workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The covered events in workflow state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The digest in delivery: its events stay with it, even if one of them arrived a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivering: Option<Uuid>,
}

// `reopen`: resumes a digest that ended without a message, under its `digest_id` and with the events that it has.

/// The input of `reopen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The key of the digest.
    pub key: Key,
    /// The operator's command.
    #[serde(flatten)]
    pub reopen: Reopen,
}

/// The answer of `reopen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumed {
    /// The digest is open again.
    Claimed {
        /// The digest's window.
        window: Window,
        /// Events in the digest.
        items: u64,
        /// Lines in its message.
        groups: u64,
    },
    /// The digest stays unchanged.
    Refused {
        /// The reason and the remedy, in words.
        why: String,
    },
}

// Dead letters, whose activity is named `bury`: records signals that could not be decoded as dead letters.

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

// `audit`: records commands in the audit trail.

/// The input of `audit`. The activity has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditInput {
    /// The key whose workflow took the commands.
    pub key: Key,
    /// The commands, in their order.
    pub notes: Vec<Note>,
}

/// A command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Time of the command, by the server's clock.
    pub at: Timestamp,
    /// The operator's login.
    pub by: String,
    /// The command's name.
    pub action: String,
    /// The reason in words.
    pub why: String,
}
