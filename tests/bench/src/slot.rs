//! Full minutes, at which many windows are due at once.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use tokio::time::sleep;

/// The time between two slots.
pub const SLOT: Duration = Duration::from_mins(1);

/// The least time before a slot in which to open and plan windows. The workflow task that plans lags by tens of seconds
/// when thousands of windows open.
const OPENING: Duration = Duration::from_secs(50);

/// The first slot that is farther away than this time.
pub fn slot(now: Timestamp, ahead: Duration) -> Result<Timestamp> {
    let (length, soon) = (i64::try_from(SLOT.as_secs())?, now.as_second() + i64::try_from(ahead.as_secs())?);
    Ok(Timestamp::from_second((soon / length + 1) * length)?)
}

pub async fn sleep_until(then: Timestamp) {
    sleep(then.duration_since(Timestamp::now()).try_into().unwrap_or_default()).await;
}

/// The time to send the first event, so that all windows open in the minute before the same slot.
pub fn opening(now: Timestamp) -> Result<Timestamp> {
    let slot = slot(now, Duration::ZERO)?;
    Ok(if Duration::try_from(slot.duration_since(now))? >= OPENING { now } else { slot })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_open_at_the_next_minute_when_this_one_is_nearly_over() {
        let at = |second| {
            let now = Timestamp::from_second(second).unwrap();
            Duration::try_from(opening(now).unwrap().duration_since(now)).unwrap()
        };
        assert_eq!(at(120), Duration::ZERO);
        assert_eq!(at(130), Duration::ZERO);
        assert_eq!(at(131), Duration::from_secs(49));
        assert_eq!(at(179), Duration::from_secs(1));
    }
}
