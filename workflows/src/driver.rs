//! The driver of all four workflows: calls activities, waits, and reads the clock.
//!
//! A local activity costs one marker, but the workflow answers no query and no command while the activity runs. So a local
//! activity gets one short attempt. If the attempt fails, the same activity runs remotely: remote retries leave no trace in
//! history, and the run stays free to answer queries, to be cancelled and to continue as new.
//!
//! An error that no retry mends comes back to the workflow (rule 52): the run shows it, and tries again after ever longer waits, or as
//! soon as a command comes.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use jiff::{SignedDuration, Timestamp};
use temporalio_common::{
    ActivityDefinition, RetryPolicy, data_converters::TemporalDeserializable, error::IncomingError,
};
use temporalio_workflow::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, LocalActivityOptions, TimerOptions,
    WaitConditionOptions, WorkflowCancellationToken, WorkflowContext, workflows::select,
};

/// Time for the one local attempt, queueing included: long enough for a healthy store.
const LOCAL_ATTEMPT: Duration = Duration::from_secs(3);
/// After a failed local attempt, the run calls remotely at once for this time.
const LOCAL_COOLDOWN: Duration = Duration::from_mins(5);
/// Time for one remote attempt at a few queries.
const REMOTE_ATTEMPT: Duration = Duration::from_mins(1);
/// Time for one remote attempt at a delivery: longer than all of RFC 5321's phases together.
const DELIVERY_ATTEMPT: Duration = Duration::from_mins(45);
/// The server gives up a delivery of a silent worker after this time. A running delivery learns of a cancel within it.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The longest wait between two remote attempts.
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// The longest wait between two calls while a person must mend something.
const LONGEST_OPERATOR_WAIT: Duration = Duration::from_hours(1);

/// The patch that waits longer and longer for a person, and that a command wakes. Earlier versions called again each minute.
const OPERATOR_WAIT: &str = "operator-wait";

/// The answer of an update's validator.
pub(crate) type Checked = Result<(), Box<dyn Error + Send + Sync>>;

/// A workflow that the driver calls activities for.
pub(crate) trait Driven: Sized + 'static {
    /// The part of the workflow that decides.
    type State;

    /// The state; `None` if the workflow id is not a key.
    fn state_mut(&mut self) -> Option<&mut Self::State>;

    /// The record of the calls so far.
    fn calls(&mut self) -> &mut Calls;

    /// Reports that everything ends without a message. A remote call that was started before is asked to stop.
    fn winds_down(&self) -> bool;

    /// Reports that the run must continue as new before anything else. A remote call is asked to stop.
    fn must_continue_as_new(&self) -> bool {
        false
    }

    /// The number of commands so far, each of which may have mended what a call waits for.
    fn commands(&self) -> u32 {
        0
    }

    /// The present step with its trouble, for the Temporal UI.
    fn details(&self, now: Timestamp) -> String;

    /// Reports that a cancel stops a remote call of this mode.
    fn is_interruptible(_: CallMode) -> bool {
        true
    }
}

/// The record of a workflow's calls.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The error of the last activity, until one succeeds.
    pub last_error: Option<String>,
    /// Local attempts are tried again from this time on.
    local_retry_at: Timestamp,
    /// The activity that waits for a person, and its failed calls in a row.
    failed: Option<(String, u32)>,
}

impl Calls {
    pub const fn new() -> Self {
        Self { last_error: None, local_retry_at: Timestamp::MIN, failed: None }
    }

    /// The error in the words of a status.
    pub fn trouble(&self) -> String {
        self.last_error.as_ref().map(|trouble| format!("\n\nTrouble: {trouble}")).unwrap_or_default()
    }

    /// Reports that the next call waits for a person.
    pub const fn waits_for_operator(&self) -> bool {
        self.failed.is_some()
    }

    /// The wait after a failed call of the activity: twice as long each time.
    fn operator_wait(&mut self, activity: &str) -> Duration {
        let times = self.failed.as_ref().filter(|(name, _)| name == activity).map_or(0, |(_, times)| *times);
        self.failed = Some((activity.to_owned(), times.saturating_add(1)));
        Duration::from_secs(1 << times.min(12)).min(LONGEST_OPERATOR_WAIT)
    }
}

/// The place and the time limits of an activity call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// A few queries: locally, then remotely if that fails.
    LocalFirst,
    /// A few queries, remotely.
    Remote,
    /// A delivery, remotely.
    Delivery,
}

impl CallMode {
    /// The options of a remote call.
    fn options(self, token: WorkflowCancellationToken) -> ActivityOptions {
        let retries = RetryPolicy::builder().maximum_interval(LONGEST_BACKOFF).build();
        match self {
            Self::LocalFirst | Self::Remote => ActivityOptions::with_start_to_close_timeout(REMOTE_ATTEMPT)
                .cancellation_token(token)
                .retry_policy(retries)
                .build(),
            Self::Delivery => ActivityOptions::with_start_to_close_timeout(DELIVERY_ATTEMPT)
                .heartbeat_timeout(HEARTBEAT)
                .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
                .cancellation_token(token)
                .retry_policy(retries)
                .build(),
        }
    }
}

/// Calls an activity, and hands the answer to `apply`. Without an answer (the run must continue as new, was cancelled, or waited for a
/// person) nothing changes, and the workflow decides again.
pub(crate) async fn call<W, A>(
    ctx: &WorkflowContext<W>,
    mode: CallMode,
    activity: fn() -> A,
    input: impl FnOnce(&mut W::State, Timestamp) -> Option<A::Input>,
    apply: impl FnOnce(&mut W::State, &A::Input, A::Output, Timestamp),
) where
    W: Driven,
    A: ActivityDefinition<Input: Clone, Output: TemporalDeserializable>,
{
    let Some(input) = ctx.state_mut(|w| input(w.state_mut()?, now(ctx))) else { return };
    let local = mode == CallMode::LocalFirst && ctx.state_mut(|w| w.calls().local_retry_at <= now(ctx));
    let local = if local { call_locally(ctx, activity(), input.clone()).await } else { LocalCall::Failed };
    let answer = match local {
        LocalCall::Answered(answer) => Some(answer),
        LocalCall::Failed => call_remotely(ctx, mode, activity(), input.clone()).await,
        LocalCall::WaitsForOperator => None,
    };
    let Some(answer) = answer else { return };
    let now = now(ctx);
    ctx.state_mut(|w| {
        if let Some(state) = w.state_mut() {
            apply(state, &input, answer, now);
        }
    });
}

/// The end of a local call.
enum LocalCall<T> {
    Answered(T),
    /// The same activity is to be called remotely.
    Failed,
    /// The error was not one that a retry mends, and the wait is over.
    WaitsForOperator,
}

/// One short attempt.
async fn call_locally<W, A>(ctx: &WorkflowContext<W>, activity: A, input: A::Input) -> LocalCall<A::Output>
where
    W: Driven,
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    let name = activity.name().to_owned();
    let options = LocalActivityOptions::builder()
        .schedule_to_close_timeout(LOCAL_ATTEMPT)
        .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
        .cancellation_token(WorkflowCancellationToken::new())
        .build();
    match ctx.execute_local_activity(activity, input, options).await {
        Ok(answer) => {
            forget_error(ctx, &name);
            LocalCall::Answered(answer)
        }
        Err(error) if is_lasting(&error) && ctx.patched(OPERATOR_WAIT) => {
            wait_for_operator(ctx, &name, &error).await;
            LocalCall::WaitsForOperator
        }
        Err(error) => {
            record_error(ctx, &name, &error, None);
            let retry_at = after(now(ctx), LOCAL_COOLDOWN);
            ctx.state_mut(|w| w.calls().local_retry_at = retry_at);
            LocalCall::Failed
        }
    }
}

/// Attempts without limit; `None` after a cancel, and after the wait for a person if the activity failed for good. When the run must
/// continue as new or is cancelled, the activity is asked to stop. A delivery answers even so, and its answer counts.
pub(crate) async fn call_remotely<W, A>(
    ctx: &WorkflowContext<W>,
    mode: CallMode,
    activity: A,
    input: A::Input,
) -> Option<A::Output>
where
    W: Driven,
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    let name = activity.name().to_owned();
    let token = WorkflowCancellationToken::new();
    let mut running = ctx.execute_activity(activity, input, mode.options(token.clone()));
    // A call that ends things after a cancel must not be stopped by the same cancel.
    let detached = !W::is_interruptible(mode) || ctx.state(Driven::winds_down);
    let root = detached.then(WorkflowCancellationToken::new);
    let options = WaitConditionOptions::builder().maybe_cancellation_token(root).build();
    let stop = move |w: &W| w.must_continue_as_new() || (!detached && w.winds_down());
    let mut interrupted = Box::pin(ctx.wait_condition_with_options(stop, options));
    let answer = select! {
        answer = running => answer,
        _ = interrupted => {
            token.cancel();
            running.await
        }
    };
    match answer {
        Ok(answer) => {
            forget_error(ctx, &name);
            Some(answer)
        }
        Err(ActivityExecutionError::Cancelled(_)) => None,
        Err(error) => {
            wait_for_operator(ctx, &name, &error).await;
            None
        }
    }
}

/// Reports an error that no retry mends.
fn is_lasting(error: &ActivityExecutionError) -> bool {
    matches!(error.reason(), Some(IncomingError::Application(failure)) if failure.is_non_retryable())
}

/// Waits before the next call after an error that a person must mend: longer each time, or until a command comes.
async fn wait_for_operator<W: Driven>(ctx: &WorkflowContext<W>, activity: &str, error: &ActivityExecutionError) {
    if !ctx.patched(OPERATOR_WAIT) {
        record_error(ctx, activity, error, None);
        ctx.timer(TimerOptions::builder(LONGEST_BACKOFF).cancellation_token(WorkflowCancellationToken::new()).build())
            .await;
        return;
    }
    let length = ctx.state_mut(|w| w.calls().operator_wait(activity));
    record_error(ctx, activity, error, Some(after(now(ctx), length)));
    // What winds down already is not woken by that, nor by the cancel that it comes from.
    let winds_down = ctx.state(Driven::winds_down);
    let root = winds_down.then(WorkflowCancellationToken::new);
    let commands = ctx.state(Driven::commands);
    let woken = move |w: &W| w.commands() != commands || (!winds_down && w.winds_down()) || w.must_continue_as_new();
    wait_under(ctx, root, length, format!("{activity} waits for an operator"), woken).await;
}

/// Waits for this time, or until `woken` or a cancel. Returns `true` if the time is over.
pub(crate) async fn wait<W: Driven>(
    ctx: &WorkflowContext<W>,
    length: Duration,
    summary: String,
    woken: impl Fn(&W) -> bool,
) -> bool {
    wait_under(ctx, None, length, summary, woken).await
}

/// As [`wait`], with a token in the place of the run's own.
async fn wait_under<W: Driven>(
    ctx: &WorkflowContext<W>,
    root: Option<WorkflowCancellationToken>,
    length: Duration,
    summary: String,
    woken: impl Fn(&W) -> bool,
) -> bool {
    // temporalio-workflow 1.1.1 panics in every replay of a workflow task in which the timer fires and a cancel takes the
    // timer away. So the timer's token is not a child of the run's; the condition ends at a cancel, too. The fault is gone
    // when a cancel in the task in which the timer fires passes with the run's own token.
    let token = WorkflowCancellationToken::new();
    let mut timer = ctx.timer(TimerOptions::builder(length).cancellation_token(token.clone()).summary(summary).build());
    let options = WaitConditionOptions::builder().maybe_cancellation_token(root).build();
    let mut woke = Box::pin(ctx.wait_condition_with_options(woken, options));
    select! {
        _ = timer => true,
        _ = woke => {
            // Dropping a timer does not cancel the timer.
            token.cancel();
            false
        }
    }
}

/// Waits for a condition that comes true after a cancel, too.
pub(crate) async fn wait_until<W: Driven>(ctx: &WorkflowContext<W>, condition: impl Fn(&W) -> bool) {
    let detached = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
    // Only a cancel of this token could end the wait early, and no code cancels it.
    ctx.wait_condition_with_options(condition, detached).await.ok();
}

/// Shows the error, also while its call is repeated or waits.
fn record_error<W: Driven>(
    ctx: &WorkflowContext<W>,
    activity: &str,
    error: &ActivityExecutionError,
    again_at: Option<Timestamp>,
) {
    let cause = error.reason().map_or_else(|| error.to_string(), ToString::to_string);
    let again = again_at.map(|at| format!("; tried again at {at:.0}")).unwrap_or_default();
    ctx.state_mut(|w| w.calls().last_error = Some(format!("{activity}: {cause}{again}")));
    ctx.set_current_details(ctx.state(|w| w.details(now(ctx))));
}

/// Ends the trouble after an answer. Another activity's waits stay as long as they were: what failed has not been asked.
fn forget_error<W: Driven>(ctx: &WorkflowContext<W>, activity: &str) {
    let recovered = ctx.state_mut(|w| {
        let calls = w.calls();
        calls.failed.take_if(|(name, _)| name == activity);
        calls.last_error.take().is_some()
    });
    if recovered {
        ctx.set_current_details(ctx.state(|w| w.details(now(ctx))));
    }
}

/// The server's clock at the current workflow task.
pub(crate) fn now<W>(ctx: &WorkflowContext<W>) -> Timestamp {
    timestamp(ctx.workflow_time())
}

pub(crate) fn timestamp(time: Option<SystemTime>) -> Timestamp {
    time.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A delay after `now`, or the end of time if the sum is later.
pub(crate) fn after(now: Timestamp, delay: Duration) -> Timestamp {
    SignedDuration::try_from(delay).ok().and_then(|delay| now.saturating_add(delay).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_must_mend_is_tried_at_most_hourly() {
        let mut calls = Calls::new();
        assert!(!calls.waits_for_operator());
        let waits: Vec<_> = (0..15).map(|_| calls.operator_wait("load").as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600]);
        assert!(calls.waits_for_operator());
        assert_eq!(calls.operator_wait("claim").as_secs(), 1, "another activity has waits of its own");
    }
}
