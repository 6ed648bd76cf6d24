//! The time that a line has waited, in one unit.

use jiff::Timestamp;
use serde::Serialize;

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

/// The time from a line's first event to the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Age {
    pub seconds: u64,
    /// Whole units, at least 1.
    pub count: u64,
    pub unit: Unit,
}

/// The largest unit that an age fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Days,
    Hours,
    Minutes,
}

impl Age {
    /// The age at `now` of what began at `from`. What begins later has no age yet.
    pub fn new(from: Timestamp, now: Timestamp) -> Self {
        let seconds = u64::try_from(now.duration_since(from).as_secs()).unwrap_or_default();
        let (count, unit) = match seconds {
            DAY.. => (seconds / DAY, Unit::Days),
            HOUR.. => (seconds / HOUR, Unit::Hours),
            _ => ((seconds / 60).max(1), Unit::Minutes),
        };
        Self { seconds, count, unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_the_largest_unit_that_it_fills() {
        let now: Timestamp = "2025-02-03T08:00:00Z".parse().unwrap();
        for (from, count, unit) in [
            ("2025-01-22T20:00:00Z", 11, Unit::Days),
            ("2025-02-02T08:00:00Z", 1, Unit::Days),
            ("2025-02-02T08:00:01Z", 23, Unit::Hours),
            ("2025-02-03T07:00:00Z", 1, Unit::Hours),
            ("2025-02-03T07:00:01Z", 59, Unit::Minutes),
            ("2025-02-03T08:00:00Z", 1, Unit::Minutes),
            ("2025-02-03T09:00:00Z", 1, Unit::Minutes),
        ] {
            let age = Age::new(from.parse().unwrap(), now);
            assert_eq!((age.count, age.unit), (count, unit), "{from}");
        }
    }
}
