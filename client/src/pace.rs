//! The pace of the signals to one key. Signals to a workflow compete with the tasks that process them: past about five
//! a second, and above all when several are in flight, the run falls behind and its timers fire late.

use std::time::{Duration, Instant};

/// Between the starts of two batches of one key: five a second.
const INTERVAL: Duration = Duration::from_millis(200);
/// The most that a slow or throttling server makes us wait.
const LONGEST: Duration = Duration::from_secs(5);

/// The earliest start of a key's next batch.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    next: Option<Instant>,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { interval: INTERVAL, next: None }
    }

    /// `None`: at once.
    pub(crate) fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// A batch went from `started` to `ended`. A client does not see the other processes that signal the same key,
    /// but it feels them: an answer that takes more than half of the interval doubles it, a quick one shortens it.
    /// Ten processes on one key (`./dev bench hot-key`) made its one-second timer late by a p99 of 231 ms over
    /// 600 s so, and of 425 ms over 180 s with the interval fixed: one run each, the second on a busy machine.
    pub(crate) fn ended(&mut self, started: Instant, ended: Instant, acknowledged: bool) {
        let took = ended.saturating_duration_since(started);
        self.interval = if acknowledged && took * 2 <= self.interval {
            self.interval.saturating_sub(INTERVAL / 4).max(INTERVAL)
        } else {
            (self.interval * 2).min(LONGEST)
        };
        self.next = Some(started + took.max(self.interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn intervals(answers: &[(u64, bool)]) -> Vec<u128> {
        let (mut pace, mut now) = (Pace::new(), Instant::now());
        assert_eq!(pace.wait_until(now), None, "the first event goes at once");
        let mut intervals = Vec::new();
        for (took, acknowledged) in answers {
            pace.ended(now, now + MS(*took), *acknowledged);
            let next = pace.wait_until(now).unwrap();
            intervals.push((next - now).as_millis());
            now = next;
        }
        intervals
    }

    #[test]
    fn quick_answers_allow_five_batches_a_second() {
        assert_eq!(intervals(&[(5, true), (100, true), (0, true)]), [200, 200, 200]);
    }

    #[test]
    fn slow_answers_double_the_interval_and_quick_ones_shorten_it() {
        assert_eq!(intervals(&[(101, true), (5, false), (5, true), (5, true)]), [400, 800, 750, 700]);
    }

    #[test]
    fn a_slow_server_bounds_the_interval_and_has_one_batch_in_flight() {
        assert_eq!(intervals(&[(9, false); 6]).last(), Some(&5_000));
        assert_eq!(intervals(&[(7_000, true)]), [7_000]);
    }
}
