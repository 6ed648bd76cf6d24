//! State, decisions and results of the subscription workflow. Pure functions.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::subscription::{DeliverAnswer, Left, away_for};

use crate::driver::after;

/// How long a run without notices waits for a signal, so a steady flow does not start a run for each notice.
const LINGER: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Deliver,
    /// Until then, or until a signal arrives.
    Wait(Timestamp),
    /// Until then, even if a signal arrives, because the receiver does not respond.
    WaitForReceiver(Timestamp),
    Finish,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub name: String,
    /// A signal arrived after the last delivery started.
    #[serde(default)]
    pub woken: bool,
    #[serde(default)]
    pub status: SubscriptionStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionStatus {
    pub delivered: u64,
    pub failed: u64,
    pub dead_letters: u64,
    /// Consecutive calls without a response from the receiver.
    pub away: u32,
    /// Notices left by the last call; `None` before the first.
    pub left: Option<Left>,
    pub asked_at: Option<Timestamp>,
}

impl State {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), woken: false, status: SubscriptionStatus::default() }
    }

    /// All decisions are made here.
    pub fn decide(&self, now: Timestamp) -> Decision {
        let (Some(left), Some(asked_at)) = (self.status.left, self.status.asked_at) else { return Decision::Deliver };
        let unless_over = |until: Timestamp, wait: fn(Timestamp) -> Decision, over: Decision| {
            if now < until { wait(until) } else { over }
        };
        match left {
            Left::Away => {
                let until = after(asked_at, away_for(self.status.away));
                unless_over(until, Decision::WaitForReceiver, Decision::Deliver)
            }
            // A replay may come between the receiver's 410 and the end of this run.
            _ if self.woken => Decision::Deliver,
            Left::Gone | Left::NotConfigured => Decision::Finish,
            Left::More => Decision::Deliver,
            Left::Until(until) => unless_over(until, Decision::Wait, Decision::Deliver),
            Left::Nothing => unless_over(after(asked_at, LINGER), Decision::Wait, Decision::Finish),
        }
    }

    /// Any signal from now on requests another delivery.
    pub const fn begins(&mut self) {
        self.woken = false;
    }

    pub fn answered(&mut self, DeliverAnswer { delivered, failed, dead, left }: DeliverAnswer, now: Timestamp) {
        self.status.delivered += delivered;
        self.status.failed += failed;
        self.status.dead_letters += dead;
        self.status.away = if left == Left::Away { self.status.away.saturating_add(1) } else { 0 };
        self.status.left = Some(left);
        self.status.asked_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn state() -> State {
        State { name: "crm".to_owned(), woken: true, status: SubscriptionStatus::default() }
    }

    fn left(left: Left, woken: bool) -> State {
        let mut state = state();
        state.begins();
        state.answered(DeliverAnswer { delivered: 1, failed: 0, dead: 0, left }, at(100));
        state.woken = woken;
        state
    }

    #[test]
    fn each_answer_has_one_next_step() {
        use Decision::{Deliver, Finish, Wait, WaitForReceiver};
        assert_eq!(state().decide(at(0)), Deliver);
        for (answer, woken, now, next) in [
            (Left::More, false, 100, Deliver),
            (Left::Until(at(200)), false, 100, Wait(at(200))),
            (Left::Until(at(200)), false, 200, Deliver),
            (Left::Until(at(200)), true, 100, Deliver),
            (Left::Nothing, false, 100, Wait(at(160))),
            (Left::Nothing, true, 100, Deliver),
            (Left::Nothing, false, 160, Finish),
            (Left::Nothing, true, 160, Deliver),
            (Left::Away, true, 100, WaitForReceiver(at(105))),
            (Left::Away, false, 105, Deliver),
            (Left::Gone, false, 100, Finish),
            (Left::Gone, true, 100, Deliver),
            (Left::NotConfigured, false, 100, Finish),
        ] {
            assert_eq!(left(answer, woken).decide(at(now)), next, "{answer:?} {woken} {now}");
        }
    }

    #[test]
    fn a_signal_asks_for_one_more_delivery() {
        let mut state = left(Left::Nothing, true);
        assert_eq!(state.decide(at(100)), Decision::Deliver);
        state.begins();
        assert_eq!(state.decide(at(100)), Decision::Wait(at(160)));
    }

    #[test]
    fn a_receiver_that_answers_again_is_no_longer_away() {
        let mut state = left(Left::Away, false);
        let away = DeliverAnswer { delivered: 0, failed: 0, dead: 0, left: Left::Away };
        state.answered(away, at(105));
        assert_eq!((state.status.away, state.decide(at(105))), (2, Decision::WaitForReceiver(at(120))));
        for seconds in [120, 121] {
            state.answered(DeliverAnswer { delivered: 7, failed: 2, dead: 3, left: Left::Nothing }, at(seconds));
        }
        let SubscriptionStatus { delivered, failed, dead_letters, away, .. } = state.status;
        assert_eq!((delivered, failed, dead_letters, away), (15, 4, 6, 0));
    }

    #[test]
    fn a_carried_state_reads_back_and_a_name_alone_is_a_start() {
        let state = left(Left::Until(at(9)), true);
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        let start: State = serde_json::from_str(r#"{"name":"crm"}"#).unwrap();
        assert_eq!(start.decide(at(0)), Decision::Deliver);
    }
}
