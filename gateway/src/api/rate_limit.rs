//! How many requests a token, or a client with unknown tokens, may send (429).

use std::time::Duration;

use tokio::time::Instant;

use super::endpoint::RateClass;

/// Generic cell rate algorithm (GCRA) as a pure function: allows `burst` requests at once, then one per
/// `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestRate {
    pub interval: Duration,
    pub burst: u32,
}

impl RequestRate {
    pub const UNKNOWN_TOKENS: Self = Self { interval: Duration::from_millis(100), burst: 50 };

    pub const fn for_class(class: RateClass) -> Self {
        let (a_second, burst) = match class {
            RateClass::Events => (10_000, 10_000),
            RateClass::Reads => (100, 200),
            RateClass::Operate => (20, 100),
        };
        Self { interval: Duration::from_nanos(1_000_000_000 / a_second), burst }
    }

    /// Returns the next state, or the time to wait. The state is the theoretical arrival time: when all
    /// requests so far would have arrived at an even pace. `None` if there was no recent request.
    pub fn admit(self, state: Option<Instant>, now: Instant) -> Result<Instant, Duration> {
        let even = state.map_or(now, |state| state.max(now));
        let ahead = even.duration_since(now);
        let tolerance = self.interval * self.burst.saturating_sub(1);
        match ahead.checked_sub(tolerance) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(self.next(state, now)),
        }
    }

    pub fn next(self, state: Option<Instant>, now: Instant) -> Instant {
        state.map_or(now, |state| state.max(now)) + self.interval
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_passes_at_once_and_the_next_request_waits_an_interval() {
        let (rate, now) = (RequestRate { interval: MS(100), burst: 3 }, Instant::now());
        let mut state = None;
        for _ in 0..3 {
            state = Some(rate.admit(state, now).unwrap());
        }
        assert_eq!(rate.admit(state, now), Err(MS(100)));
        assert_eq!(rate.admit(state, now + MS(40)), Err(MS(60)));
        assert!(rate.admit(state, now + MS(100)).is_ok());
    }

    proptest! {
        #[test]
        fn no_span_exceeds_burst_and_rate_and_the_named_wait_suffices(
            gaps in proptest::collection::vec(0_u64..300, 1..80), burst in 1_u32..6,
        ) {
            let (rate, start) = (RequestRate { interval: MS(100), burst }, Instant::now());
            let (mut state, mut now, mut admitted) = (None, start, Vec::new());
            for gap in gaps {
                now += MS(gap);
                match rate.admit(state, now) {
                    Ok(next) => {
                        state = Some(next);
                        admitted.push(now);
                    }
                    Err(wait) => {
                        prop_assert!(rate.admit(state, now + wait).is_ok());
                        prop_assert!(rate.admit(state, now + wait - Duration::from_nanos(1)).is_err());
                    }
                }
            }
            for (n, from) in admitted.iter().enumerate() {
                for (m, until) in admitted.iter().enumerate().skip(n) {
                    let most = u128::from(burst) + until.duration_since(*from).as_millis() / 100;
                    prop_assert!((m - n + 1) as u128 <= most);
                }
            }
        }
    }
}
