//! `stash`: a page of an open window's events goes to the ledger, so that the workflow's state stays small.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::returned::Returned;
use crate::Event;
use crate::window::Window;

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
    /// See [`SendInput::opens_returned`](super::SendInput::opens_returned).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
    /// Asks for [`Stashed::events`]. A run that an earlier version began does not ask.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_new: bool,
}

/// The answer of `stash`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stashed {
    /// Number of events in the ledger now; see [`Ending::taken`](super::Ending::taken).
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
