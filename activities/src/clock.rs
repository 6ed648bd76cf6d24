//! The worker's clock against Temporal's (rule 59).
//!
//! The answer of an activity has times that its workflow waits for: the next attempt, the next look at a breaker, the end of a throttle. They
//! are by the worker's clock. A worker whose clock is ahead would hold a digest back for as long as it is ahead. Therefore it does not begin
//! with such an activity, and Temporal gives it to another worker, or to this one when its clock is right.

use std::time::SystemTime;

use jiff::Timestamp;
use temporalio_sdk::activities::ActivityContext;
use tidings_model::StoredWait;

use crate::error::Error;

/// Does the work unless the clock is ahead of Temporal's, which dated the start of this attempt.
///
/// # Errors
/// [`Error::ClockAhead`], and those of the work.
pub(crate) async fn unless_ahead<T>(
    ctx: &ActivityContext,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    check(ctx.info().started_time, Timestamp::now())?;
    work.await
}

/// A process that was frozen begins late, and looks as if its clock were ahead. It tries again, as its task may be another's by now.
fn check(started: Option<SystemTime>, now: Timestamp) -> Result<(), Error> {
    let started = started.and_then(|started| Timestamp::try_from(started).ok());
    match started {
        Some(started) if !StoredWait::PAST.believes(now, started) => Err(Error::ClockAhead { now, started }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_activity_does_not_begin_by_a_clock_that_is_more_than_a_minute_ahead() {
        let started = SystemTime::UNIX_EPOCH + Duration::from_hours(480_000);
        let begins = |seconds: i64| {
            let now = Timestamp::try_from(started).unwrap() + jiff::SignedDuration::from_secs(seconds);
            check(Some(started), now).is_ok()
        };
        // Temporal's time-skipping test server is ahead of every worker.
        for (seconds, expected) in [(-86_400, true), (0, true), (60, true), (61, false), (86_400, false)] {
            assert_eq!(begins(seconds), expected, "{seconds}");
        }
        assert!(check(None, Timestamp::MAX).is_ok());
    }
}
