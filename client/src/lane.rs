//! The queue of one key's events and retracts. One batch is in flight; later items wait for the next batch. This module does
//! no I/O.

use std::{collections::VecDeque, time::Instant};

use tidings_model::inbox::batch_len;

use crate::{pace::Pace, waiting::Waiting};

/// The next step of a lane's driver.
pub(crate) enum Next {
    /// There is a batch to send.
    Send,
    /// Nothing to do before then.
    Wait(Instant),
    /// Nothing waits and no pace is due: forget the lane.
    Forget,
}

/// The queue and the pace of one key.
pub(crate) struct Lane {
    waiting: VecDeque<Waiting>,
    pace: Pace,
}

impl Lane {
    pub(crate) const fn new() -> Self {
        Self { waiting: VecDeque::new(), pace: Pace::new() }
    }

    pub(crate) fn push(&mut self, item: Waiting) {
        self.waiting.push_back(item);
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.waiting.retain(|item| !item.is_withdrawn());
        match self.pace.wait_until(now) {
            Some(until) => Next::Wait(until),
            None if self.waiting.is_empty() => Next::Forget,
            None => Next::Send,
        }
    }

    /// The next batch, in order of arrival: at most 500 events and retracts, and 256 KiB as JSON.
    pub(crate) fn take_batch(&mut self) -> Vec<Waiting> {
        self.waiting.retain(|item| !item.is_withdrawn());
        let count = batch_len(self.waiting.iter().map(|item| item.json.len()));
        self.waiting.drain(..count).collect()
    }

    pub(crate) fn ended(&mut self, started: Instant, ended: Instant, acknowledged: bool) {
        self.pace.ended(started, ended, acknowledged);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Error,
        waiting::tests::{Caller, waiting},
    };

    fn lane(events: impl IntoIterator<Item = String>) -> (Lane, Vec<Caller>) {
        let (waiting, callers): (VecDeque<_>, _) = events.into_iter().map(waiting).unzip();
        (Lane { waiting, pace: Pace::new() }, callers)
    }

    #[test]
    fn only_the_first_event_goes_out_without_waiting_for_the_pace() {
        let (mut lane, _callers) = lane(["a".to_owned()]);
        let start = Instant::now();
        assert!(matches!(lane.next(start), Next::Send));
        assert_eq!(lane.take_batch().len(), 1);
        let (second, _caller) = waiting("b".to_owned());
        lane.push(second);
        lane.ended(start, start + Duration::from_millis(3), true);
        assert!(matches!(lane.next(start), Next::Wait(until) if until == start + Duration::from_millis(200)));
        assert!(matches!(lane.next(start + Duration::from_millis(200)), Next::Send));
    }

    #[test]
    fn a_lane_is_forgotten_only_after_its_pace() {
        let (mut lane, _callers) = lane([]);
        let start = Instant::now();
        lane.ended(start, start, true);
        assert!(matches!(lane.next(start), Next::Wait(_)));
        assert!(matches!(lane.next(start + Duration::from_secs(1)), Next::Forget));
    }

    #[test]
    fn a_batch_keeps_order_and_stays_within_500_events_and_256_kib() {
        let (mut many, _callers) = lane((0..1_100).map(|n| n.to_string()));
        let batches = [(); 4].map(|()| many.take_batch());
        assert_eq!(batches.each_ref().map(Vec::len), [500, 500, 100, 0]);
        let order = batches.iter().flatten().map(|event| event.json.parse::<usize>().unwrap());
        assert!(order.eq(0..1_100));

        let (mut big, _callers) = lane((0..30).map(|_| "x".repeat(20_000)));
        assert_eq!([(); 3].map(|()| big.take_batch().len()), [13, 13, 4]);
    }

    #[test]
    fn an_event_whose_caller_is_gone_is_withdrawn_and_no_other() {
        let (mut lane, mut callers) = lane(["a", "b", "c"].map(str::to_owned));
        drop(callers.remove(1));
        let left: Vec<_> = lane.take_batch().into_iter().map(|event| event.json).collect();
        assert_eq!(left, ["a", "c"]);
    }

    #[test]
    fn an_error_reaches_only_the_callers_of_its_batch() {
        let (mut lane, mut callers) = lane((0..501).map(|n| n.to_string()));
        for item in lane.take_batch() {
            item.answer(Err(Error::Unavailable("down".to_owned())));
        }
        let answered = callers.iter_mut().map(|caller| caller.try_recv().is_ok()).filter(|answered| *answered).count();
        assert_eq!(answered, 500);
    }
}
