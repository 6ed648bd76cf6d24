//! For activities: a clock check (rule 59), heartbeats, and cancellation.
//!
//! Activities return times for the workflow to wait for. A clock ahead would delay the digest. So such a worker
//! fails the activity at the start, and Temporal gives it to another worker.
//!
//! For a local activity, the SDK sets the start time from the very clock in question, so we use the workflow
//! task's time, which is seconds old. A process frozen since then appears to be ahead. This costs little: the
//! same activity is then queued.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::StoredWait;
use tidings_services::error::StepError;

/// Does the work unless the clock is ahead of Temporal's. `asked_at` is when the workflow scheduled this, if
/// known.
///
/// # Errors
/// [`StepError::ClockAhead`], or any error from the work.
pub(crate) async fn unless_ahead<T>(
    ctx: &ActivityContext,
    asked_at: Option<Timestamp>,
    work: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    let info = ctx.info();
    check_clock(started_at(info.is_local, asked_at, info.started_time), Timestamp::now())?;
    work.await
}

fn started_at(is_local: bool, asked_at: Option<Timestamp>, started: Option<SystemTime>) -> Option<Timestamp> {
    if is_local { asked_at } else { started.and_then(|started| Timestamp::try_from(started).ok()) }
}

/// A frozen process starts late and should fail here, because its task may belong to another worker by now.
fn check_clock(started: Option<Timestamp>, now: Timestamp) -> Result<(), StepError> {
    match started {
        Some(started) if !StoredWait::PAST.is_plausible(now, started) => Err(StepError::ClockAhead { now, started }),
        _ => Ok(()),
    }
}

/// Well below the heartbeat timeout, so neither a busy moment nor the SDK's throttling looks like a dead
/// worker.
const INTERVAL: Duration = Duration::from_secs(3);

/// Sends heartbeats until `work` is done.
///
/// The first one is delayed: most deliveries finish before it, and the server writes each heartbeat to its
/// database.
pub(crate) async fn with_heartbeats<T>(ctx: &ActivityContext, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = send_heartbeats(ctx) => match never {},
    }
}

async fn send_heartbeats(ctx: &ActivityContext) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // The server detects missing heartbeats, so we can ignore a failure to send one.
        ctx.record_heartbeat(()).await.ok();
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancellableResult<T> {
    Done(T),
    /// Temporal cancelled the step before it had any effect.
    Cancelled,
}

impl<T> CancellableResult<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> CancellableResult<U> {
        match self {
            Self::Done(answer) => CancellableResult::Done(change(answer)),
            Self::Cancelled => CancellableResult::Cancelled,
        }
    }

    pub(crate) fn into_activity(self) -> Result<T, ActivityError> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Cancelled => Err(ActivityError::cancelled()),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn an_activity_does_not_begin_by_a_clock_that_is_more_than_a_minute_ahead() {
        let started = Timestamp::from_second(1_800_000_000).unwrap();
        let begins = |seconds: i64| check_clock(Some(started), started + SignedDuration::from_secs(seconds)).is_ok();
        // Temporal's time-skipping test server is ahead of every worker.
        for (seconds, expected) in [(-86_400, true), (0, true), (60, true), (61, false), (86_400, false)] {
            assert_eq!(begins(seconds), expected, "{seconds}");
        }
        assert!(check_clock(None, Timestamp::MAX).is_ok());
    }

    #[test]
    fn a_local_attempt_is_measured_by_the_workflow_task_as_the_sdk_dates_it_by_this_clock() {
        let asked = Timestamp::from_second(1_800_000_000).unwrap();
        let now = asked + SignedDuration::from_hours(24);
        let by_this_clock = Some(SystemTime::from(now));
        for (is_local, begins) in [(true, false), (false, true)] {
            assert_eq!(
                check_clock(started_at(is_local, Some(asked), by_this_clock), now).is_ok(),
                begins,
                "{is_local}"
            );
        }
        assert!(
            check_clock(started_at(true, None, by_this_clock), now).is_ok(),
            "a workflow of an earlier version does not say when it asked"
        );
    }
}
