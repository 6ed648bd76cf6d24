//! Whole minutes, at which many windows are due at once.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use tokio::time::sleep;

/// From one slot to the next.
pub const SLOT: Duration = Duration::from_mins(1);

/// The first one that is more than so far away.
pub fn slot(now: Timestamp, ahead: Duration) -> Result<Timestamp> {
    let (length, soon) = (i64::try_from(SLOT.as_secs())?, now.as_second() + i64::try_from(ahead.as_secs())?);
    Ok(Timestamp::from_second((soon / length + 1) * length)?)
}

pub async fn sleep_until(then: Timestamp) {
    sleep(then.duration_since(Timestamp::now()).try_into().unwrap_or_default()).await;
}
