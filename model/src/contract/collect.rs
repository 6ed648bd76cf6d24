//! While a window collects: when it is due, what goes to the store early, and what is taken back.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Window;
use crate::{Event, Key, Retract, Slide};

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
    /// The events waited for a digest that was not delivered at once: they go out together (rule 7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
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
    /// The category of the first event, unless nobody knows it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// When the latest event arrived.
    pub last_at: Timestamp,
    /// When the first of the urgent events arrived.
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
    /// The recipient wants no mail before then; what is due waits (rule 15). For the status: admission looks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
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
    /// The digest that is on its way: what it has stays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivering: Option<Uuid>,
}

/// The answer of `stash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stashed {
    /// See [`Ending::taken`](super::Ending::taken).
    pub taken: u64,
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
    /// The digest that is on its way: what it has stays there, also where it came once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivering: Option<Uuid>,
}
