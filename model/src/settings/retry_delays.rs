//! When a failed attempt is repeated (rule 25).

use std::time::Duration;

use super::StreamSettings;

/// Delays after the first, second, ... failed attempt, i.e. six attempts in total.
pub const RETRY_DELAYS: [Duration; 5] = [minutes(1), minutes(5), minutes(30), minutes(120), minutes(480)];

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

impl StreamSettings {
    /// With only one attempt, the default schedule's longest delay.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let schedule = if self.retry_delays.is_empty() { &RETRY_DELAYS[..] } else { &self.retry_delays };
        schedule.iter().copied().max().unwrap_or_default()
    }

    /// `attempt` counts from 1. `None` after the last one.
    #[must_use]
    pub fn retry_delay(&self, attempt: u32) -> Option<Duration> {
        let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
        self.retry_delays.get(index).copied()
    }

    /// The first attempt, and one after each delay.
    #[must_use]
    pub fn most_attempts(&self) -> usize {
        1 + self.retry_delays.len()
    }
}
