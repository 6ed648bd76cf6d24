//! A key's current step and its reason, for the query `status`, the Temporal UI and the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{command::HoldCommand, pause::PauseDetails};
use uuid::Uuid;

use super::{
    decide::{DigestDecision, deadline, deadline_reason, decide},
    state::{DigestRunState, is_default},
};

/// Result of the query `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DigestStatus))]
pub struct DigestStatus {
    /// Current step.
    pub state: DigestStage,
    /// Events waiting for a claim. Leaves out events already in the ledger from an earlier digest (rule 3),
    /// as far as this was checked.
    pub pending: u64,
    /// Further events not compared with the ledger yet. Each may be new or a repetition.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uncompared: u64,
    /// How many of the pending events were returned by a failed digest.
    #[serde(default, skip_serializing_if = "is_default")]
    pub returned: u64,
    /// Digest for the pending events, once their window is open.
    pub digest_id: Option<Uuid>,
    /// When their window is due.
    pub due_at: Option<Timestamp>,
    /// Human-readable reason for `due_at`.
    pub why: String,
    /// Human-readable schedule of later windows. Set if this window keeps the deadline from an earlier
    /// schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// An operator's hold. No message is sent until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldCommand>,
    /// An operator's pause for the tenant or the digest type. No message is sent until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseDetails>,
    /// The digest being delivered.
    pub delivering: Option<DeliveryStatus>,
    /// Signals and events we could not decode. They are stored as dead letters.
    pub malformed: u64,
    /// Error of the last activity, until one succeeds.
    pub trouble: Option<String>,
}

/// Current step of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DigestStage {
    /// Nothing is pending or undelivered.
    Idle,
    /// The pending events' window is getting its deadline.
    Planning,
    /// Waiting for the window's deadline.
    Collecting,
    /// Due, but an operator's hold is in effect.
    Held,
    /// Due, but an operator's pause for the tenant or the digest type is in effect.
    Paused,
    /// The due window is becoming a digest.
    Claiming,
    /// Rendering the message.
    Rendering,
    /// An attempt is running.
    Sending,
    /// The message is delayed, so an operator's drop can still take it back.
    Undoable,
    /// Waiting for the next attempt.
    Retrying,
    /// Waiting for an available relay, for a reply or for the recipient. This does not count as an attempt.
    Waiting,
    /// An operator's drop is ending everything without a message.
    Dropping,
    /// A cancel is ending everything without a message.
    Cancelling,
}

/// The digest being delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryStatus {
    pub digest_id: Uuid,
    /// Number of events.
    pub items: u64,
    /// Number of lines.
    pub groups: u64,
    /// Number of failed attempts.
    pub attempts: u32,
    /// `None` means now.
    pub next_attempt_at: Option<Timestamp>,
    /// Result of the last attempt, or the reason for waiting before the first.
    pub why: String,
}

impl DigestStatus {
    pub(crate) fn new(state: &DigestRunState, trouble: Option<String>, now: Timestamp) -> Self {
        let open = state.open.as_ref();
        Self {
            state: DigestStage::new(state, now),
            pending: state.waiting_count() - state.uncompared_count(),
            uncompared: state.uncompared_count(),
            returned: state.returned(),
            digest_id: open.map(|open| open.window.digest_id),
            due_at: deadline(state),
            why: deadline_reason(state),
            then: state.plan().and_then(|plan| plan.then.clone()),
            hold: state.hold.clone().filter(|_| state.held_until(now).is_some()),
            pause: state.pause(now).map(|pause| pause.paused.clone()),
            delivering: state.delivering.as_ref().map(|digest| DeliveryStatus {
                digest_id: digest.window.digest_id,
                items: digest.items,
                groups: digest.groups,
                attempts: digest.attempts,
                next_attempt_at: digest.waits_until(now),
                why: digest.why.clone(),
            }),
            malformed: state.malformed,
            trouble,
        }
    }
}

impl DigestStage {
    fn new(state: &DigestRunState, now: Timestamp) -> Self {
        if state.cancelled {
            return Self::Cancelling;
        }
        if state.drop.is_some() {
            return Self::Dropping;
        }
        if state.held_until(now).is_some() {
            return Self::Held;
        }
        match decide(state, now) {
            DigestDecision::Wait(_) if state.pause(now).is_some() => Self::Paused,
            DigestDecision::Wait(_) if is_undoable(state, now) => Self::Undoable,
            DigestDecision::Wait(_) if state.delivering.as_ref().is_some_and(|digest| digest.waits) => Self::Waiting,
            DigestDecision::Wait(_) if state.delivering.is_some() => Self::Retrying,
            DigestDecision::CompareUrgent => Self::Retrying,
            DigestDecision::Wait(_) if state.idle_since.is_some() => Self::Idle,
            DigestDecision::Wait(_)
            | DigestDecision::Compare
            | DigestDecision::Stash
            | DigestDecision::Retract
            | DigestDecision::DeadLetters
            | DigestDecision::Audit => Self::Collecting,
            DigestDecision::Plan => Self::Planning,
            DigestDecision::Claim | DigestDecision::Reopen => Self::Claiming,
            DigestDecision::Render | DigestDecision::Shorten => Self::Rendering,
            DigestDecision::Send => Self::Sending,
            DigestDecision::Close => Self::Cancelling,
            DigestDecision::Finish => Self::Idle,
        }
    }
}

fn is_undoable(state: &DigestRunState, now: Timestamp) -> bool {
    state.delivering.as_ref().is_some_and(|digest| digest.undo_until.is_some_and(|at| at > now))
}

impl fmt::Display for DigestStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Markdown for the Temporal UI.
impl fmt::Display for DigestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "**{}**", self.state)?;
        if let Some(HoldCommand { order, until }) = &self.hold {
            let until = until.map(|until| format!(" until {until:.0}")).unwrap_or_default();
            write!(f, "\n\nOn hold{until} by {}: {}", order.by, order.why)?;
        }
        if let Some(pause) = &self.pause {
            write!(f, "\n\nThe key is {pause}")?;
        }
        if let Some(digest) = &self.delivering {
            write!(f, "\n\nDigest `{}` of {}", digest.digest_id, count(digest.items, "event"))?;
            if digest.attempts > 0 {
                write!(f, ", {} failed", count(digest.attempts.into(), "attempt"))?;
            }
            if let Some(at) = digest.next_attempt_at {
                write!(f, ", next attempt at {at:.0}")?;
            }
            if !digest.why.is_empty() {
                write!(f, ": {}", digest.why)?;
            }
        }
        if self.pending + self.uncompared > 0 {
            write!(f, "\n\n{} pending", count(self.pending, "event"))?;
        }
        if self.returned > 0 {
            write!(f, ", {} of them returned by a failed digest", self.returned)?;
        }
        if self.uncompared > 0 {
            write!(f, ", and {} not compared with the ledger yet", self.uncompared)?;
        }
        if let Some(due_at) = self.due_at {
            write!(f, ", due at {due_at:.0} ({})", self.why)?;
            if let Some(then) = &self.then {
                write!(f, ", then {then}")?;
            }
        }
        if self.malformed > 0 {
            write!(f, "\n\n{} refused, see the dead letters", count(self.malformed, "malformed event"))?;
        }
        if let Some(trouble) = &self.trouble {
            write!(f, "\n\nTrouble: {trouble}")?;
        }
        Ok(())
    }
}

fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}
