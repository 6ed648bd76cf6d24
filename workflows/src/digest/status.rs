//! The present step of a key, with its reason: for the query `status`, the Temporal UI and the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{command::Hold, pause::Paused};
use uuid::Uuid;

use super::{
    decide::{Decision, deadline, decide, why},
    state::{State, is_default},
};

/// The answer of the query `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DigestStatus))]
pub struct Status {
    /// The present step.
    pub state: Stage,
    /// Events that wait for a claim, as far as the ledger is known not to have them from an earlier digest (rule 3).
    pub pending: u64,
    /// Further events that were not compared with the ledger yet. Each is new or a repetition.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uncompared: u64,
    /// Those among the pending ones that a failed digest returned.
    #[serde(default, skip_serializing_if = "is_default")]
    pub returned: u64,
    /// The digest that they will be part of, once their window is open.
    pub digest_id: Option<Uuid>,
    /// The time at which their window is due.
    pub due_at: Option<Timestamp>,
    /// The reason for that time, in words.
    pub why: String,
    /// The schedule of later windows, in words, where this one keeps the deadline of an earlier schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// An operator's hold: no message goes out before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// An operator's pause of the tenant or the digest type: no message goes out before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Paused>,
    /// The digest in delivery.
    pub delivering: Option<Delivery>,
    /// Signals and events that could not be decoded; they are in the dead letters.
    pub malformed: u64,
    /// The error of the last activity, until one succeeds.
    pub trouble: Option<String>,
}

/// The present step of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Stage {
    /// Nothing is pending and nothing undelivered.
    Idle,
    /// The pending events' window gets its deadline.
    Planning,
    /// The window waits for its deadline.
    Collecting,
    /// An operator's hold stops everything that is due.
    Held,
    /// An operator's pause of the tenant or the digest type stops everything that is due.
    Paused,
    /// The due window becomes a digest.
    Claiming,
    /// The digest's message is made.
    Rendering,
    /// An attempt is under way.
    Sending,
    /// The message waits for a while, in which an operator's drop takes it back.
    Undoable,
    /// The next attempt waits for its time.
    Retrying,
    /// The message waits for a relay that takes it, for a reply or for its recipient, which costs no attempt.
    Waiting,
    /// An operator's drop ends everything without a message.
    Dropping,
    /// A cancel ends everything without a message.
    Cancelling,
}

/// A digest in delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    pub digest_id: Uuid,
    /// Number of events.
    pub items: u64,
    /// Number of lines that they make.
    pub groups: u64,
    /// Number of failed attempts.
    pub attempts: u32,
    /// The start of the next attempt. `None`: now.
    pub next_attempt_at: Option<Timestamp>,
    /// The result of the last attempt, or the wait before the first one.
    pub why: String,
}

impl Status {
    pub(crate) fn new(state: &State, trouble: Option<String>, now: Timestamp) -> Self {
        let open = state.open.as_ref();
        Self {
            state: Stage::new(state, now),
            pending: state.waiting() - state.uncompared(),
            uncompared: state.uncompared(),
            returned: state.returned(),
            digest_id: open.map(|open| open.window.digest_id),
            due_at: deadline(state),
            why: why(state),
            then: state.plan().and_then(|plan| plan.then.clone()),
            hold: state.hold.clone().filter(|_| state.held_until(now).is_some()),
            pause: state.pause(now).map(|pause| pause.paused.clone()),
            delivering: state.delivering.as_ref().map(|digest| Delivery {
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

impl Stage {
    fn new(state: &State, now: Timestamp) -> Self {
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
            Decision::Wait(_) if state.pause(now).is_some() => Self::Paused,
            Decision::Wait(_) if is_undoable(state, now) => Self::Undoable,
            Decision::Wait(_) if state.delivering.as_ref().is_some_and(|digest| digest.waits) => Self::Waiting,
            Decision::Wait(_) if state.delivering.is_some() => Self::Retrying,
            Decision::CompareUrgent => Self::Retrying,
            Decision::Wait(_) if state.idle_since.is_some() => Self::Idle,
            Decision::Wait(_)
            | Decision::Compare
            | Decision::Stash
            | Decision::Retract
            | Decision::DeadLetters
            | Decision::Audit => Self::Collecting,
            Decision::Plan => Self::Planning,
            Decision::Claim | Decision::Reopen => Self::Claiming,
            Decision::Render | Decision::Shorten => Self::Rendering,
            Decision::Send => Self::Sending,
            Decision::Close => Self::Cancelling,
            Decision::Finish => Self::Idle,
        }
    }
}

fn is_undoable(state: &State, now: Timestamp) -> bool {
    state.delivering.as_ref().is_some_and(|digest| digest.undo_until.is_some_and(|at| at > now))
}

/// The word in JSON, in the Temporal UI and on the command line.
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Words in Markdown, for the Temporal UI.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "**{}**", self.state)?;
        if let Some(Hold { order, until }) = &self.hold {
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
