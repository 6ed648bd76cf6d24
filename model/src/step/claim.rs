//! Claim, whose activity is named `load`: a due window is admitted and becomes a digest, or the answer says why not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ledger::Ending;
use crate::step::plan::PauseWait;
use crate::window::{Planned, Window};
use crate::{Event, settings::FrequencyLimits, window::Wait};

/// A claim that is later than this had no worker in time.
const LATE: SignedDuration = SignedDuration::from_mins(1);

/// The input of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The due window.
    pub window: Window,
    /// Events of the window that are not stashed.
    pub events: Vec<Event>,
    /// Set if an operator asked for the digest: throttle and quiet hours do not apply. Hold, pause, consent and suppression do.
    pub flushed: bool,
    /// Set if an urgent event made the window due; see [`Plan::urgent`](super::Plan::urgent).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// The revision that the plan is made from; see [`Plan::revision`](super::Plan::revision).
    #[serde(default)]
    pub revision: u64,
    /// The window's plan in words, for the ledger. A former version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
    /// The time at which the window is due after later events and deferrals moved the plan's. A former version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The limits that the plan keeps; see [`Plan::limits`](super::Plan::limits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FrequencyLimits>,
    /// The time for which the message can be taken back before it goes out. A former version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Duration>,
    /// Set if an operator released the overdue window by the name of its key, or gave it its time: it goes out in quiet hours, too. A former
    /// version does not send it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// The latest end of a limit that put the window off, by the [answers](ClaimAnswer::Later) to earlier claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ended_at: Option<Timestamp>,
    /// The first claim that found the recipient or the digest type unknown, by the [answer](ClaimAnswer::Later) to the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Timestamp>,
}

impl ClaimInput {
    /// The time at which the window is due in the end, and is claimed if nothing is late.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        self.due_at.unwrap_or(self.window.due_at)
    }

    /// The wait that ends with the claim.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let is_late = || self.asked_at.duration_since(self.due_at()) > LATE;
        if self.flushed {
            Wait::Flushed
        } else if self.urgent {
            Wait::Urgent
        } else if self.released {
            Wait::Released
        } else if self.unknown_since.is_some() {
            Wait::UnknownRecipient
        } else if is_late() {
            Wait::LateWorker
        } else {
            Wait::FirstDeadline
        }
    }

    /// The window with the time at which its message is due: after the wait in which the message can be taken back. The ledger and
    /// the delivery have this time.
    #[must_use]
    pub fn due_window(&self) -> Window {
        let due_at = self.due_at().saturating_add(self.undo.unwrap_or_default()).unwrap_or(Timestamp::MAX);
        Window { due_at, ..self.window.clone() }
    }
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimAnswer {
    /// The window is not admitted and goes on collecting.
    Later {
        /// Time to ask again.
        until: Timestamp,
        /// The reason in words.
        why: String,
        /// The operator's pause, if that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseWait>,
        /// The end of a throttle or a cap that puts the window off, if a [later claim](ClaimInput::limit_ended_at) must know it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ends_at: Option<Timestamp>,
        /// The first claim that found the recipient or the digest type unknown, if that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_since: Option<Timestamp>,
    },
    /// The preferences changed after the window was planned, and the signal about it was lost: plan again.
    Changed,
    /// The window is a digest now; its events are in the ledger under its `digest_id`.
    Claimed {
        /// Events in the digest.
        items: u64,
        /// Lines in its message.
        groups: u64,
        /// Number of events in the ledger now; see [`Ending::taken`].
        taken: u64,
        /// The claim stored the message, too, so that `render` has nothing to do. A former version does not send it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rendered: bool,
    },
    /// The digest ended without a message, and the ledger has the reason.
    Nothing(Ending),
}
