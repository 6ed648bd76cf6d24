//! How often a recipient may get digests (rule 13): the cap, and the limits that a window keeps (rule 16).

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::words;

closed_set! {
    #[derive(Default)]
    pub enum OverLimit {
        #[default]
        Defer = "defer",
        /// The window closes as `throttled`; its events stay in the ledger.
        Skip = "skip",
    }
}

impl OverLimit {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn defers(&self) -> bool {
        *self == Self::Defer
    }
}

/// The configured limits on a key's digests. A window keeps those it was planned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyLimits {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Duration>,
    #[serde(default, skip_serializing_if = "OverLimit::defers")]
    pub on_throttle: OverLimit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<DigestCap>,
    #[serde(default, skip_serializing_if = "OverLimit::defers")]
    pub on_cap: OverLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestCap {
    pub most: u32,
    /// Whole days are calendar days.
    pub within: Duration,
}

/// In `tidings.toml` syntax: `5 in 1d`.
impl fmt::Display for DigestCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.most, words::format_duration(self.within))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn limits_are_small_in_history_and_the_same_after_it() {
        assert_eq!(to_value(FrequencyLimits::default()).unwrap(), json!({}));
        let cap = Some(DigestCap { most: 5, within: Duration::from_hours(24) });
        let limits = FrequencyLimits {
            never: true,
            throttle: Some(Duration::from_hours(1)),
            on_throttle: OverLimit::Skip,
            cap,
            on_cap: OverLimit::Skip,
        };
        assert_eq!(from_value::<FrequencyLimits>(to_value(limits).unwrap()).unwrap(), limits);
    }
}
