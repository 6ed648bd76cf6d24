//! A message's current step and its reason, for the query `status`, the Temporal UI and the command line.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{pause::PauseDetails, window::WindowEnd};
use uuid::Uuid;

use super::state::{MessageDecision, MessageRunState};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageStatus {
    pub message: Uuid,
    pub state: MessageStage,
    /// Number of failed attempts.
    pub failed: u32,
    /// `None` means now or never.
    pub next_attempt_at: Option<Timestamp>,
    pub why: String,
    /// An operator's pause for the tenant. No attempt starts until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseDetails>,
    pub closed: Option<WindowEnd>,
    /// Error of the last activity, until one succeeds.
    pub trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStage {
    Sending,
    Deferred,
    /// An operator's pause for the tenant is in effect.
    Paused,
    /// An operator asked for a retry, so the ended message is being reopened.
    Retrying,
    Cancelling,
    Closed,
}

impl MessageStatus {
    pub(super) fn new(state: &MessageRunState, trouble: Option<String>) -> Self {
        let (stage, next_attempt_at) = match state.decide() {
            MessageDecision::Send => (MessageStage::Sending, None),
            MessageDecision::Wait(until) if state.pause.is_some() => (MessageStage::Paused, Some(until)),
            MessageDecision::Wait(until) => (MessageStage::Deferred, Some(until)),
            MessageDecision::Retry => (MessageStage::Retrying, None),
            MessageDecision::Close => (MessageStage::Cancelling, None),
            MessageDecision::Finish => (MessageStage::Closed, None),
        };
        Self {
            message: state.key.message_id(),
            state: stage,
            failed: state.failed,
            next_attempt_at,
            why: state.why.clone(),
            pause: state.pause.as_ref().filter(|_| stage == MessageStage::Paused).map(|pause| pause.paused.clone()),
            closed: state.closed.clone(),
            trouble,
        }
    }
}

impl fmt::Display for MessageStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Markdown for the Temporal UI.
impl fmt::Display for MessageStatus {
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
        if let Some(WindowEnd { outcome, why }) = &self.closed {
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

    use tidings_model::{
        MessageKey, command::CommandContext, message::command::RetryCommand, step::PauseWait, window::DigestOutcome,
    };

    use super::*;

    #[test]
    fn each_step_has_its_word() {
        let mut state = MessageRunState::new(MessageKey::new("acme".into(), "k".into()).unwrap());
        let told = |state: &MessageRunState, expected: (&str, Option<Timestamp>, bool)| {
            let status = MessageStatus::new(state, None);
            let word = status.state.to_string();
            assert_eq!(serde_json::to_value(status.state).unwrap(), word);
            assert_eq!((word.as_str(), status.next_attempt_at, status.pause.is_some()), expected);
        };
        told(&state, ("sending", None, false));
        let at = Timestamp::UNIX_EPOCH;
        state.not_before = Some(at);
        told(&state, ("deferred", Some(at), false));
        let paused = PauseDetails { by: "ann".into(), why: "wrong prices".into(), since: at, until: None };
        state.pause = Some(PauseWait { look_at: at, share: Duration::ZERO, paused });
        told(&state, ("paused", Some(at), true));
        state.cancelled = true;
        told(&state, ("cancelling", None, false));
        state.closed = Some(WindowEnd { outcome: DigestOutcome::Dropped, why: String::new() });
        told(&state, ("closed", None, false));
        state.cancelled = false;
        state.retrying = Some(RetryCommand {
            order: CommandContext { by: "ann".into(), why: "fixed".into() },
            may_duplicate: false,
        });
        told(&state, ("retrying", None, false));
    }
}
