//! `retract`: withdraws events, those in the window and those that are still to come.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::window::Window;
use crate::{Event, Key, Retract};

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
