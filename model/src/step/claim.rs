//! Claims a due window (activity `load`): admits it and turns it into a digest, or explains why not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ledger::CloseAnswer;
use crate::step::plan::PauseWait;
use crate::window::{PlanSummary, Window};
use crate::{Event, settings::FrequencyLimits, window::WaitReason};

/// A later claim means no worker was available in time.
const LATE: SignedDuration = SignedDuration::from_mins(1);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimInput {
    /// The workflow's clock; used if the activity's own is behind it.
    pub asked_at: Timestamp,
    pub window: Window,
    pub events: Vec<Event>,
    /// An operator requested the digest: throttle and quiet hours do not apply, but hold, pause, consent and
    /// suppression still do.
    pub flushed: bool,
    /// See [`Plan::urgent`](super::Plan::urgent).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// See [`Plan::revision`](super::Plan::revision).
    #[serde(default)]
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlanSummary>,
    /// When the window is due, after later events and deferrals changed the planned time. `None` from earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FrequencyLimits>,
    /// How long the message waits before it is sent, so it can be cancelled. `None` from earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Duration>,
    /// An operator released the overdue window by its key, or re-timed it: it may then be sent in quiet hours
    /// too. Earlier versions do not set this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// The latest end of a limit that put the window off, from [earlier claims](ClaimAnswer::Later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ended_at: Option<Timestamp>,
    /// When a claim first found the recipient or digest type unknown, from the [previous
    /// claim](ClaimAnswer::Later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Timestamp>,
}

impl ClaimInput {
    /// Claimed at this time unless something is late.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        self.due_at.unwrap_or(self.window.due_at)
    }

    #[must_use]
    pub fn wait_reason(&self) -> WaitReason {
        let is_late = || self.asked_at.duration_since(self.due_at()) > LATE;
        if self.flushed {
            WaitReason::Flushed
        } else if self.urgent {
            WaitReason::Urgent
        } else if self.released {
            WaitReason::Released
        } else if self.unknown_since.is_some() {
            WaitReason::UnknownRecipient
        } else if is_late() {
            WaitReason::LateWorker
        } else {
            WaitReason::FirstDeadline
        }
    }

    /// The window with the time at which its message is due, i.e. after the undo period, for ledger and
    /// delivery.
    #[must_use]
    pub fn due_window(&self) -> Window {
        let due_at = self.due_at().saturating_add(self.undo.unwrap_or_default()).unwrap_or(Timestamp::MAX);
        Window { due_at, ..self.window.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimAnswer {
    Later {
        until: Timestamp,
        why: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseWait>,
        /// The throttle's or cap's end, if a [later claim](ClaimInput::limit_ended_at) will need it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ends_at: Option<Timestamp>,
        /// For an unknown recipient or digest type: when a claim first found this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_since: Option<Timestamp>,
    },
    Changed,
    /// The ledger has the events under the window's `digest_id`.
    Claimed {
        items: u64,
        groups: u64,
        taken: u64,
        /// The claim also stored the message, so `render` has nothing to do. Earlier versions do not set
        /// this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rendered: bool,
    },
    Nothing(CloseAnswer),
}
