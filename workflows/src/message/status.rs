//! The present step of a message, with its reason: for the query `status`, the Temporal UI and the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{pause::Paused, step::Closed};
use uuid::Uuid;

use super::state::{Decision, State};

/// The answer of the query `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The message's id.
    pub message: Uuid,
    /// `sending`, `deferred`, `paused`, `retrying`, `cancelling` or `closed`.
    pub state: String,
    /// Number of failed attempts.
    pub failed: u32,
    /// The start of the next attempt. `None`: now, or never.
    pub next_attempt_at: Option<Timestamp>,
    /// The result of the last attempt.
    pub why: String,
    /// An operator's pause of the tenant: no attempt starts before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Paused>,
    /// The end of the message.
    pub closed: Option<Closed>,
    /// The error of the last activity, until one succeeds.
    pub trouble: Option<String>,
}

impl Status {
    pub(super) fn new(state: &State, trouble: Option<String>) -> Self {
        let (name, next_attempt_at) = match state.decide() {
            Decision::Send => ("sending", None),
            Decision::Wait(until) if state.pause.is_some() => ("paused", Some(until)),
            Decision::Wait(until) => ("deferred", Some(until)),
            Decision::Retry => ("retrying", None),
            Decision::Close => ("cancelling", None),
            Decision::Finish => ("closed", None),
        };
        Self {
            message: state.key.message_id(),
            state: name.to_owned(),
            failed: state.failed,
            next_attempt_at,
            why: state.why.clone(),
            pause: state.pause.as_ref().filter(|_| name == "paused").map(|pause| pause.paused.clone()),
            closed: state.closed.clone(),
            trouble,
        }
    }
}

/// Words in Markdown, for the Temporal UI.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "**{}**\n\nMessage `{}`", self.state, self.message)?;
        if self.failed > 0 {
            write!(f, ", {} failed {}", self.failed, if self.failed == 1 { "attempt" } else { "attempts" })?;
        }
        if let Some(at) = self.next_attempt_at {
            write!(f, ", next attempt at {at:.0}")?;
        }
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        if let Some(Closed { outcome, why }) = &self.closed {
            write!(f, "\n\n{}{}{why}", outcome.name(), if why.is_empty() { "" } else { ": " })?;
        }
        if let Some(trouble) = &self.trouble {
            write!(f, "\n\nTrouble: {trouble}")?;
        }
        Ok(())
    }
}
