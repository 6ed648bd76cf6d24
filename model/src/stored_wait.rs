//! Waits stored as an instant: a lease, a retry, a circuit breaker (rule 59).
//!
//! A clock that was ahead leaves instants too far in the future, so each kind has a maximum wait, and
//! anything further away counts as expired. Otherwise a machine one day ahead for half a minute could block
//! emails for a day. Instants chosen by a person, e.g. the end of a pause, have no maximum.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// A kind of stored instant, with the longest wait a correct clock can write. Each kind is declared next to
/// the code using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredWait(Duration);

impl StoredWait {
    /// For past facts, e.g. a sent digest or a person's choice. These hold nothing back and cannot be in the
    /// future.
    pub const PAST: Self = Self(Duration::ZERO);

    pub(crate) const fn with_longest(longest: Duration) -> Self {
        Self(longest)
    }

    #[must_use]
    pub const fn longest(self) -> Duration {
        self.0
    }

    #[must_use]
    pub fn latest_plausible(self, now: Timestamp) -> Timestamp {
        let later = |at: Timestamp| at.saturating_add(self.longest()).ok();
        now.checked_add(CLOCK_TOLERANCE).ok().and_then(later).unwrap_or(Timestamp::MAX)
    }

    /// An implausible instant counts as expired.
    #[must_use]
    pub fn is_plausible(self, at: Timestamp, now: Timestamp) -> bool {
        at <= self.latest_plausible(now)
    }

    #[must_use]
    pub fn is_active(self, until: Timestamp, now: Timestamp) -> bool {
        now < until && self.is_plausible(until, now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::breaker::BreakerCause;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn kinds() -> Vec<StoredWait> {
        let causes = BreakerCause::ALL.into_iter().filter(|cause| *cause != BreakerCause::Operator);
        let others = [
            StoredWait::PROBE,
            StoredWait::INBOX_LEASE,
            StoredWait::JOB_LEASE,
            StoredWait::SWEEP_LEASE,
            StoredWait::RUN_RETRY,
            StoredWait::NOTICE_RETRY,
            StoredWait::PAST,
        ];
        causes.map(StoredWait::of_breaker).chain(others).collect()
    }

    #[test]
    fn no_kind_of_wait_is_longer_than_a_few_hours() {
        for kind in kinds() {
            assert!(kind.longest() < Duration::from_hours(5), "{kind:?}");
        }
    }

    #[test]
    fn only_an_operator_closes_a_relay_for_good() {
        let operator = StoredWait::of_breaker(BreakerCause::Operator);
        assert!(operator.is_active(Timestamp::MAX, at(0)));
        for kind in kinds() {
            assert!(!kind.is_active(Timestamp::MAX, at(0)), "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn a_wait_of_a_right_clock_holds_to_its_end_and_no_wait_holds_longer(
            ahead in 0..400 * 86_400_i64,
            part in 0.0..1.0_f64,
        ) {
            for kind in kinds() {
                let wait = SignedDuration::try_from(kind.longest().mul_f64(part)).unwrap();
                let written = at(0) + wait;
                prop_assert_eq!(kind.is_active(written, at(0)), written > at(0));
                // A clock that was ahead wrote it. It holds for the longest wait at most, as clocks may differ.
                let until = written + SignedDuration::from_secs(ahead);
                let most = SignedDuration::try_from(kind.longest()).unwrap() + CLOCK_TOLERANCE;
                prop_assert!(!kind.is_active(until, at(0)) || until <= at(0) + most);
            }
        }
    }
}
