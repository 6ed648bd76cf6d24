//! What the workflow asks of the outside world: the activities' names, inputs and answers.
//!
//! `tidings-activities` implements them. No address and no body passes through here, because all of this is history.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Event, Key, Retract, Slide, command::Reopen};

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

/// `plan`: a window is about to open, or something has happened that may move its deadline. When is it due?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanInput {
    /// Whose window it would be.
    pub key: Key,
    /// What the deadline follows.
    #[serde(flatten)]
    pub signs: Signs,
    /// The window's digest, if the window is open already and some of its events may be in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Uuid>,
    /// The ids that have arrived so far.
    pub event_ids: Vec<String>,
    /// The plan so far, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Plan>,
    /// Since when an operator wants the deadline that today's configuration makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew_at: Option<Timestamp>,
}

/// What the deadline of a window follows, as far as the events are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signs {
    /// When the first event arrived.
    pub opened_at: Timestamp,
    /// The category of the first event, unless that has left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// When the latest event arrived.
    pub last_at: Timestamp,
    /// When the first of the urgent events arrived that are in workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent_at: Option<Timestamp>,
}

/// The answer of `plan`, kept as it is until the window closes: a later change of `tidings.toml` moves nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Those of the ids that the ledger has in digests that came to their end, or in the open window's; their events open
    /// no window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// When the window is due.
    pub due_at: Timestamp,
    /// Every step that led to `due_at`, in words.
    pub why: String,
    /// The window is full, and due, with this many events. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u32>,
    /// How later events move the deadline; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slide: Option<Slide>,
    /// An urgent event made the window due: throttle and quiet hours do not apply (rule 14).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// The revision of the recipient's choices that were looked at.
    #[serde(default)]
    pub revision: u64,
    /// What the deadline follows in words, as far as the recipient can choose it.
    #[serde(default)]
    pub follows: String,
    /// An idle run waits for so long for another event before it completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Duration>,
}

/// `stash`: write a page of an open window's events to the ledger, so that the workflow's state stays small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StashInput {
    /// The window that the events belong to.
    pub window: Window,
    /// The page.
    pub events: Vec<Event>,
    /// Earlier runs of this workflow whose signals are to be read back from their histories and stashed, too.
    pub runs: Vec<String>,
}

/// The answer of `stash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stashed {
    /// See [`Ending::taken`].
    pub taken: u64,
}

/// `load`: the window is due. Admit it and claim its events, or say why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The due window.
    pub window: Window,
    /// Its events, as far as they are not stashed.
    pub events: Vec<Event>,
    /// An operator asked for it: throttle and quiet hours do not apply. Hold, pause, consent and suppression do.
    pub flushed: bool,
    /// See [`Plan::urgent`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// See [`Plan::revision`].
    #[serde(default)]
    pub revision: u64,
}

/// The answer of `load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loaded {
    /// Not admitted: the window goes on collecting until then.
    Later {
        /// When to ask again.
        until: Timestamp,
        /// Why not now, in words.
        why: String,
    },
    /// The recipient chose something else since the window was planned, and the signal that says so was lost: plan again.
    Changed,
    /// The window is a digest now; its events are in the ledger under its `digest_id`.
    Claimed {
        /// Events in the digest.
        items: u64,
        /// Lines that they make.
        groups: u64,
        /// See [`Ending::taken`].
        taken: u64,
    },
    /// Nothing will be sent, and the ledger says so.
    Nothing(Ending),
}

/// `render`: make the mail of a claimed digest and put it in the outbox. The first write wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
}

/// The answer of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rendered {
    /// The message is in the outbox.
    Stored,
    /// Nothing will be sent, and the ledger says so: the recipient left the directory after the claim.
    Nothing(Closed),
}

/// `send`: one attempt to deliver the message of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
    /// This is the last attempt that the schedule allows.
    pub last: bool,
}

/// The answer of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// It is over, and the ledger says how.
    Closed(Closed),
    /// A transient failure, or an ambiguous one where the stream says `at_least_once`: the schedule decides when to
    /// try again.
    Deferred {
        /// What went wrong, in words.
        why: String,
    },
    /// The relay, not the message, is at fault (credentials, policy, throttling): try again without counting it.
    Waiting {
        /// When to ask again.
        until: Timestamp,
        /// What is wrong with the relay.
        why: String,
    },
}

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

/// `retract`: take events back, those that are here and those that are still to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetractInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// Whose events.
    pub key: Key,
    /// Which.
    pub retracts: Vec<Retract>,
    /// The window of those that are in workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Those that are in workflow state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
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
