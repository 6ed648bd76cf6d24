//! `close`: the workflow ends a digest by itself, after an operator's drop or a cancel.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::returned::Returned;
use crate::Event;
use crate::window::{Closed, Planned, Window};

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
