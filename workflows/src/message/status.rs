//! A message's current step and its reason, for the query `status`, the Temporal UI and the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{pause::Paused, window::Closed};
use uuid::Uuid;

use super::state::{Decision, State};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub message: Uuid,
    pub state: Stage,
    /// Number of failed attempts.
    pub failed: u32,
    /// `None` means now or never.
    pub next_attempt_at: Option<Timestamp>,
    pub why: String,
    /// An operator's pause for the tenant. No attempt starts until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Paused>,
    pub closed: Option<Closed>,
    /// Error of the last activity, until one succeeds.
    pub trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Sending,
    Deferred,
    /// An operator's pause for the tenant is in effect.
    Paused,
    /// An operator asked for a retry, so the ended message is being reopened.
    Retrying,
    Cancelling,
    Closed,
}

impl Status {
    pub(super) fn new(state: &State, trouble: Option<String>) -> Self {
        let (stage, next_attempt_at) = match state.decide() {
            Decision::Send => (Stage::Sending, None),
            Decision::Wait(until) if state.pause.is_some() => (Stage::Paused, Some(until)),
            Decision::Wait(until) => (Stage::Deferred, Some(until)),
            Decision::Retry => (Stage::Retrying, None),
            Decision::Close => (Stage::Cancelling, None),
            Decision::Finish => (Stage::Closed, None),
        };
        Self {
            message: state.key.message_id(),
            state: stage,
            failed: state.failed,
            next_attempt_at,
            why: state.why.clone(),
            pause: state.pause.as_ref().filter(|_| stage == Stage::Paused).map(|pause| pause.paused.clone()),
            closed: state.closed.clone(),
            trouble,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Markdown for the Temporal UI.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidings_model::{MessageKey, command::Order, message::command::Retry, step::PauseWait, window::Outcome};

    use super::*;

    #[test]
    fn each_step_has_its_word() {
        let mut state = State::new(MessageKey::new("acme".into(), "k".into()).unwrap());
        let told = |state: &State, expected: (&str, Option<Timestamp>, bool)| {
            let status = Status::new(state, None);
            let word = status.state.to_string();
            assert_eq!(serde_json::to_value(status.state).unwrap(), word);
            assert_eq!((word.as_str(), status.next_attempt_at, status.pause.is_some()), expected);
        };
        told(&state, ("sending", None, false));
        let at = Timestamp::UNIX_EPOCH;
        state.not_before = Some(at);
        told(&state, ("deferred", Some(at), false));
        let paused = Paused { by: "ann".into(), why: "wrong prices".into(), since: at, until: None };
        state.pause = Some(PauseWait { look_at: at, share: Duration::ZERO, paused });
        told(&state, ("paused", Some(at), true));
        state.cancelled = true;
        told(&state, ("cancelling", None, false));
        state.closed = Some(Closed { outcome: Outcome::Dropped, why: String::new() });
        told(&state, ("closed", None, false));
        state.cancelled = false;
        state.retrying = Some(Retry { order: Order { by: "ann".into(), why: "fixed".into() }, may_duplicate: false });
        told(&state, ("retrying", None, false));
    }
}
