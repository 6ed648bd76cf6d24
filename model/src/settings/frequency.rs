//! The limits on how often a recipient gets digests (rule 13): the cap, and all that a window keeps (rule 16).

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::words;

closed_set! {
    /// Treatment of a due window that a throttle or a cap holds back.
    #[derive(Default)]
    pub enum OverLimit {
        /// It waits and collects.
        #[default]
        Defer = "defer",
        /// It closes as `throttled`, and the ledger keeps its events.
        Skip = "skip",
    }
}

impl OverLimit {
    /// Reports the default, which JSON leaves out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn defers(&self) -> bool {
        *self == Self::Defer
    }
}

/// The limits of `tidings.toml` on the digests of a key. A window keeps the limits that it was planned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyLimits {
    /// The digest type's cadence is `never`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never: bool,
    /// Shortest time between two digests of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Duration>,
    /// Treatment of a window that the throttle holds back.
    #[serde(default, skip_serializing_if = "OverLimit::defers")]
    pub throttled: OverLimit,
    /// Limit on the recipient's digests over all digest types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// Treatment of a window that the cap holds back.
    #[serde(default, skip_serializing_if = "OverLimit::defers")]
    pub capped: OverLimit,
}

/// A limit on digests in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// Number of digests, at least one.
    pub most: u32,
    /// Length of the span, which slides. Whole days are days of the calendar.
    pub within: Duration,
}

/// In the words of `tidings.toml`: `5 in 1d`.
impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.most, words::written(self.within))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn limits_are_small_in_history_and_the_same_after_it() {
        assert_eq!(to_value(FrequencyLimits::default()).unwrap(), json!({}));
        let cap = Some(Cap { most: 5, within: Duration::from_hours(24) });
        let limits = FrequencyLimits {
            never: true,
            throttle: Some(Duration::from_hours(1)),
            throttled: OverLimit::Skip,
            cap,
            capped: OverLimit::Skip,
        };
        assert_eq!(from_value::<FrequencyLimits>(to_value(limits).unwrap()).unwrap(), limits);
    }
}
