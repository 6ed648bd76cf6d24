//! State, decisions, activity inputs and results of the message workflow. Pure.
//!
//! No decision depends on the clock: a wait ends when its timer fires. So a replay decides the same, even if
//! its clock is ahead: temporalio-sdk 1.1.1 merges workflow tasks that ended without a command with the next
//! one. The problem is gone once a replay of such a task sees that task's time.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{
    MessageKey,
    command::CommandContext,
    message::{
        command::{CancelResult, RetryCommand},
        contract::{AttemptResult, MessageCloseInput, MessageSendInput, RetryInput, RetryResult},
    },
    step::{PauseWait, SendAnswer, UnrecordedEnd},
    window::WindowEnd,
};

use crate::driver::after_delay;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageDecision {
    Send,
    Wait(Timestamp),
    Retry,
    Close,
    Finish,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageRunState {
    pub key: MessageKey,
    pub failed: u32,
    /// While the ledger refuses to record the last attempt. No new attempt may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedEnd>,
    /// See [`AttemptResult::delays`].
    #[serde(default)]
    pub delays: Option<Vec<Duration>>,
    #[serde(default)]
    pub not_before: Option<Timestamp>,
    #[serde(default)]
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseWait>,
    /// A signal arrived since the last attempt was requested: its pause may be over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signalled: bool,
    #[serde(default)]
    pub retrying: Option<RetryCommand>,
    #[serde(skip)]
    pub retried: Option<RetryResult>,
    #[serde(default)]
    pub cancelling: Option<CommandContext>,
    #[serde(default)]
    pub cancelled: bool,
    /// Outcome recorded in the outbox.
    #[serde(default)]
    pub closed: Option<WindowEnd>,
}

impl MessageRunState {
    pub const fn new(key: MessageKey) -> Self {
        Self {
            key,
            failed: 0,
            unrecorded: None,
            delays: None,
            not_before: None,
            why: String::new(),
            pause: None,
            signalled: false,
            retrying: None,
            retried: None,
            cancelling: None,
            cancelled: false,
            closed: None,
        }
    }

    pub const fn decide(&self) -> MessageDecision {
        if self.unrecorded.is_some() {
            MessageDecision::Send
        } else if self.retrying.is_some() {
            MessageDecision::Retry
        } else if self.closed.is_some() {
            MessageDecision::Finish
        } else if self.winds_down() {
            MessageDecision::Close
        } else if let Some(until) = self.not_before {
            MessageDecision::Wait(until)
        } else {
            MessageDecision::Send
        }
    }

    pub const fn winds_down(&self) -> bool {
        self.cancelled || self.cancelling.is_some()
    }
}

impl MessageRunState {
    pub fn begin_send(&mut self, asked_at: Timestamp) -> MessageSendInput {
        self.signalled = false;
        let (delays, unrecorded) = (self.delays.clone(), self.unrecorded.clone());
        MessageSendInput { asked_at, key: self.key.clone(), failed: self.failed, delays, keeps_ends: true, unrecorded }
    }

    pub fn close_input(&self, asked_at: Timestamp) -> MessageCloseInput {
        MessageCloseInput { asked_at, key: self.key.clone(), order: self.cancelling.clone() }
    }

    pub fn retry_input(&self, asked_at: Timestamp) -> Option<RetryInput> {
        Some(RetryInput { asked_at, key: self.key.clone(), retry: self.retrying.clone()? })
    }
}

impl MessageRunState {
    pub fn apply_attempt(&mut self, AttemptResult { sent, delays }: AttemptResult, now: Timestamp) {
        self.unrecorded = None;
        match sent {
            SendAnswer::Closed { closed, .. } => self.closed = Some(closed),
            SendAnswer::Deferred { why, .. } => {
                let nth = usize::try_from(self.failed).unwrap_or(usize::MAX);
                let delay = delays.get(nth).or(delays.last()).copied().unwrap_or_default();
                self.failed += 1;
                self.not_before = Some(after_delay(now, delay));
                self.why = why;
                self.pause = None;
            }
            SendAnswer::Waiting { until, why, pause, .. } => {
                self.not_before = Some(until);
                self.why = why;
                self.pause = pause;
                // The attempt may have read the store before the pause ended.
                if self.signalled {
                    self.look_again(now);
                }
            }
            SendAnswer::Unrecorded(end) => {
                self.why = end.describe_wait();
                self.unrecorded = Some(end);
            }
        }
        self.delays = Some(delays);
    }

    /// The pause may be over, so waits only for the message's share of the spread.
    pub fn look_again(&mut self, now: Timestamp) {
        self.signalled = true;
        if let Some(pause) = &self.pause {
            let at = after_delay(now, pause.share);
            self.not_before = self.not_before.map(|not_before| not_before.min(at));
        }
    }

    pub fn end_wait(&mut self) {
        self.not_before = None;
    }

    pub fn apply_close(&mut self, closed: WindowEnd) {
        self.closed = Some(closed);
    }

    /// Returns a refusal if this is not possible now.
    pub fn retry(&mut self, retry: RetryCommand) -> Option<RetryResult> {
        let refused = |why: &str| Some(RetryResult::Refused { why: why.to_owned() });
        if self.winds_down() {
            return refused("it is being cancelled; try again when that is done");
        }
        if self.retrying.is_some() {
            return refused("it is being retried already");
        }
        self.retrying = Some(retry);
        None
    }

    /// Starts over if the outbox has reopened the message.
    pub fn apply_retry(&mut self, answer: RetryResult) {
        if answer == RetryResult::Queued {
            *self =
                Self { cancelling: self.cancelling.take(), cancelled: self.cancelled, ..Self::new(self.key.clone()) };
        }
        self.retrying = None;
        self.retried = Some(answer);
    }

    /// Gives up the message, unless it has already ended.
    pub fn cancel(&mut self, order: CommandContext) {
        if self.closed.is_none() {
            self.cancelling = Some(order);
        }
    }

    pub fn cancel_result(&self) -> CancelResult {
        CancelResult { closed: self.closed.clone() }
    }
}

#[cfg(test)]
mod tests {
    use tidings_model::{pause::PauseDetails, window::DigestOutcome};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn state() -> MessageRunState {
        MessageRunState::new(MessageKey::new("acme".into(), "k".into()).unwrap())
    }

    fn order() -> CommandContext {
        CommandContext { by: "carol".into(), why: "ticket 812".into() }
    }

    fn retry() -> RetryCommand {
        RetryCommand { order: order(), may_duplicate: false }
    }

    fn deferred(delays: &[Duration]) -> AttemptResult {
        AttemptResult {
            sent: SendAnswer::Deferred { why: "451 later".into(), again_in: None },
            delays: delays.to_vec(),
        }
    }

    fn closed(outcome: DigestOutcome) -> WindowEnd {
        WindowEnd { outcome, why: String::new() }
    }

    #[test]
    fn attempts_follow_each_other_at_the_delays_of_the_first_answer() {
        let mut state = state();
        for (n, seconds) in [(0, 60), (1, 300)] {
            assert_eq!(state.decide(), MessageDecision::Send);
            assert_eq!(state.begin_send(at(0)).failed, n);
            state.apply_attempt(deferred(&[MINUTE, 5 * MINUTE]), at(0));
            assert_eq!(state.decide(), MessageDecision::Wait(at(seconds)));
            assert_eq!(state.begin_send(at(0)).delays, Some(vec![MINUTE, 5 * MINUTE]));
            state.end_wait();
        }
        let sent = AttemptResult { sent: SendAnswer::closed(closed(DigestOutcome::Sent)), delays: Vec::new() };
        state.apply_attempt(sent, at(0));
        assert_eq!(state.decide(), MessageDecision::Finish);
    }

    #[test]
    fn a_relay_at_fault_burns_no_attempt() {
        let mut state = state();
        state.apply_attempt(
            AttemptResult {
                sent: SendAnswer::Waiting {
                    until: at(9),
                    why: "535".into(),
                    pause: None,
                    too_large: None,
                    moment: false,
                },
                delays: vec![],
            },
            at(0),
        );
        assert_eq!((state.decide(), state.failed), (MessageDecision::Wait(at(9)), 0));
    }

    fn paused() -> AttemptResult {
        let paused = PauseDetails { by: "ann".into(), why: "wrong prices".into(), since: at(0), until: None };
        let pause = PauseWait { look_at: at(1800), share: Duration::from_secs(9), paused };
        let sent = SendAnswer::Waiting {
            until: pause.look_at,
            why: pause.paused.to_string(),
            pause: Some(pause),
            too_large: None,
            moment: false,
        };
        AttemptResult { sent, delays: vec![] }
    }

    #[test]
    fn a_signal_shortens_the_wait_for_a_pause_and_no_other() {
        let mut state = state();
        state.apply_attempt(paused(), at(0));
        assert_eq!((state.decide(), state.failed), (MessageDecision::Wait(at(1800)), 0));
        state.look_again(at(100));
        assert_eq!(state.decide(), MessageDecision::Wait(at(109)));
        state.look_again(at(105));
        assert_eq!(state.decide(), MessageDecision::Wait(at(109)));
        state.end_wait();
        state.begin_send(at(109));
        state.apply_attempt(deferred(&[MINUTE]), at(110));
        state.look_again(at(111));
        assert_eq!(state.decide(), MessageDecision::Wait(at(170)));
    }

    #[test]
    fn a_signal_during_an_attempt_that_saw_the_pause_is_not_lost() {
        let mut state = state();
        state.begin_send(at(0));
        state.look_again(at(1));
        state.apply_attempt(paused(), at(2));
        assert_eq!(state.decide(), MessageDecision::Wait(at(11)));
    }

    #[test]
    fn nothing_is_sent_after_a_cancel_whenever_it_comes() {
        let mut waiting = state();
        waiting.apply_attempt(deferred(&[MINUTE]), at(0));
        for mut state in [state(), waiting] {
            state.cancel(order());
            assert_eq!(state.decide(), MessageDecision::Close);
            state.apply_close(closed(DigestOutcome::Ambiguous));
            assert_eq!(
                (state.decide(), state.cancel_result()),
                (MessageDecision::Finish, CancelResult { closed: state.closed.clone() })
            );
        }
        let mut sent = state();
        sent.apply_close(closed(DigestOutcome::Sent));
        sent.cancel(order());
        assert_eq!((sent.decide(), sent.winds_down()), (MessageDecision::Finish, false));
    }

    #[test]
    fn a_retry_starts_over_unless_it_is_refused() {
        let mut state = state();
        state.apply_attempt(deferred(&[MINUTE]), at(0));
        let before = state.clone();
        assert_eq!(state.retry_input(at(0)), None);
        assert_eq!(state.retry(retry()), None);
        assert_eq!(state.decide(), MessageDecision::Retry);
        let asked = RetryInput { asked_at: at(9), key: state.key.clone(), retry: retry() };
        assert_eq!(state.retry_input(at(9)), Some(asked));
        assert!(state.retry(retry()).is_some(), "one at a time");
        state.apply_retry(RetryResult::Refused { why: "no".into() });
        assert_eq!(MessageRunState { retried: None, ..state.clone() }, before);
        assert_eq!(state.retry(retry()), None);
        state.apply_retry(RetryResult::Queued);
        assert_eq!((state.decide(), state.failed, state.delays), (MessageDecision::Send, 0, None));
    }

    #[test]
    fn a_cancel_during_a_retry_keeps_the_message_from_being_sent_again() {
        for cancel in
            [|state: &mut MessageRunState| state.cancel(order()), |state: &mut MessageRunState| state.cancelled = true]
        {
            let mut state = state();
            state.retry(retry());
            cancel(&mut state);
            state.apply_retry(RetryResult::Queued);
            assert_eq!(state.decide(), MessageDecision::Close);
        }
    }

    #[test]
    fn a_carried_state_reads_back_unchanged() {
        let mut state = state();
        state.apply_attempt(deferred(&[MINUTE]), at(0));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<MessageRunState>(&json).unwrap(), state);
    }
}
