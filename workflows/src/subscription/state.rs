//! State, decisions and results of the subscription workflow. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::subscription::{DeliverAnswer, RemainingNotices, away_for};

use crate::driver::after_delay;

/// How long a run without notices waits for a signal, so a steady flow does not start a run for each notice.
const LINGER: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionDecision {
    Deliver,
    /// Until then, or until a signal arrives.
    Wait(Timestamp),
    /// Until then, even if a signal arrives, because the receiver does not respond.
    WaitForReceiver(Timestamp),
    Finish,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubscriptionRunState {
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
    pub left: Option<RemainingNotices>,
    pub asked_at: Option<Timestamp>,
}

impl SubscriptionRunState {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), woken: false, status: SubscriptionStatus::default() }
    }

    pub fn decide(&self, now: Timestamp) -> SubscriptionDecision {
        let (Some(left), Some(asked_at)) = (self.status.left, self.status.asked_at) else {
            return SubscriptionDecision::Deliver;
        };
        let unless_over =
            |until: Timestamp, wait: fn(Timestamp) -> SubscriptionDecision, over: SubscriptionDecision| {
                if now < until { wait(until) } else { over }
            };
        match left {
            RemainingNotices::Away => {
                let until = after_delay(asked_at, away_for(self.status.away));
                unless_over(until, SubscriptionDecision::WaitForReceiver, SubscriptionDecision::Deliver)
            }
            // A replay may come between the receiver's 410 and the end of this run.
            _ if self.woken => SubscriptionDecision::Deliver,
            RemainingNotices::Gone | RemainingNotices::NotConfigured => SubscriptionDecision::Finish,
            RemainingNotices::More => SubscriptionDecision::Deliver,
            RemainingNotices::Until(until) => {
                unless_over(until, SubscriptionDecision::Wait, SubscriptionDecision::Deliver)
            }
            RemainingNotices::Nothing => {
                unless_over(after_delay(asked_at, LINGER), SubscriptionDecision::Wait, SubscriptionDecision::Finish)
            }
        }
    }

    /// Any signal from now on requests another delivery.
    pub const fn begin_delivery(&mut self) {
        self.woken = false;
    }

    pub fn apply_answer(&mut self, DeliverAnswer { delivered, failed, dead, left }: DeliverAnswer, now: Timestamp) {
        self.status.delivered += delivered;
        self.status.failed += failed;
        self.status.dead_letters += dead;
        self.status.away = if left == RemainingNotices::Away { self.status.away.saturating_add(1) } else { 0 };
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

    fn state() -> SubscriptionRunState {
        SubscriptionRunState { name: "crm".to_owned(), woken: true, status: SubscriptionStatus::default() }
    }

    fn left(left: RemainingNotices, woken: bool) -> SubscriptionRunState {
        let mut state = state();
        state.begin_delivery();
        state.apply_answer(DeliverAnswer { delivered: 1, failed: 0, dead: 0, left }, at(100));
        state.woken = woken;
        state
    }

    #[test]
    fn each_answer_has_one_next_step() {
        use SubscriptionDecision::{Deliver, Finish, Wait, WaitForReceiver};
        assert_eq!(state().decide(at(0)), Deliver);
        for (answer, woken, now, next) in [
            (RemainingNotices::More, false, 100, Deliver),
            (RemainingNotices::Until(at(200)), false, 100, Wait(at(200))),
            (RemainingNotices::Until(at(200)), false, 200, Deliver),
            (RemainingNotices::Until(at(200)), true, 100, Deliver),
            (RemainingNotices::Nothing, false, 100, Wait(at(160))),
            (RemainingNotices::Nothing, true, 100, Deliver),
            (RemainingNotices::Nothing, false, 160, Finish),
            (RemainingNotices::Nothing, true, 160, Deliver),
            (RemainingNotices::Away, true, 100, WaitForReceiver(at(105))),
            (RemainingNotices::Away, false, 105, Deliver),
            (RemainingNotices::Gone, false, 100, Finish),
            (RemainingNotices::Gone, true, 100, Deliver),
            (RemainingNotices::NotConfigured, false, 100, Finish),
        ] {
            assert_eq!(left(answer, woken).decide(at(now)), next, "{answer:?} {woken} {now}");
        }
    }

    #[test]
    fn a_signal_asks_for_one_more_delivery() {
        let mut state = left(RemainingNotices::Nothing, true);
        assert_eq!(state.decide(at(100)), SubscriptionDecision::Deliver);
        state.begin_delivery();
        assert_eq!(state.decide(at(100)), SubscriptionDecision::Wait(at(160)));
    }

    #[test]
    fn a_receiver_that_answers_again_is_no_longer_away() {
        let mut state = left(RemainingNotices::Away, false);
        let away = DeliverAnswer { delivered: 0, failed: 0, dead: 0, left: RemainingNotices::Away };
        state.apply_answer(away, at(105));
        assert_eq!((state.status.away, state.decide(at(105))), (2, SubscriptionDecision::WaitForReceiver(at(120))));
        for seconds in [120, 121] {
            state.apply_answer(
                DeliverAnswer { delivered: 7, failed: 2, dead: 3, left: RemainingNotices::Nothing },
                at(seconds),
            );
        }
        let SubscriptionStatus { delivered, failed, dead_letters, away, .. } = state.status;
        assert_eq!((delivered, failed, dead_letters, away), (15, 4, 6, 0));
    }

    #[test]
    fn a_carried_state_reads_back_and_a_name_alone_is_a_start() {
        let state = left(RemainingNotices::Until(at(9)), true);
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<SubscriptionRunState>(&json).unwrap(), state);
        let start: SubscriptionRunState = serde_json::from_str(r#"{"name":"crm"}"#).unwrap();
        assert_eq!(start.decide(at(0)), SubscriptionDecision::Deliver);
    }
}
