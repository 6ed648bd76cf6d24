//! Driver for all four workflows: calls activities, waits, and reads the clock.
//!
//! A local activity costs only one marker, but blocks queries and commands. So it gets one short attempt; if
//! this fails, we run the same activity remotely. Remote retries leave no trace in history, and the run can
//! still handle queries, be cancelled and continue as new.
//!
//! The workflow gets an error that retrying cannot fix (rule 52). The run shows it, and tries again with
//! increasing backoff, or as soon as a command arrives.

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

/// Timeout for the single local attempt, with queueing. Enough for a healthy store.
const LOCAL_ATTEMPT: Duration = Duration::from_secs(3);
/// After a failed local attempt, call remotely for this long.
const LOCAL_COOLDOWN: Duration = Duration::from_mins(5);
/// For activities with a few queries.
const REMOTE_ATTEMPT: Duration = Duration::from_mins(1);
/// Timeout for one remote delivery attempt: longer than all RFC 5321 phases together.
const DELIVERY_ATTEMPT: Duration = Duration::from_mins(45);
/// The server times out a delivery after this long without a heartbeat. A delivery notices a cancel within this
/// time.
const HEARTBEAT: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// Maximum backoff between calls while an operator must fix something.
const LONGEST_OPERATOR_WAIT: Duration = Duration::from_hours(1);

/// Patch: increase the backoff while waiting for an operator, and wake on a command. Before, one call a minute.
const OPERATOR_WAIT: &str = "operator-wait";

pub(crate) type ValidatorResult = Result<(), Box<dyn Error + Send + Sync>>;

pub(crate) trait DrivenWorkflow: Sized + 'static {
    type State;

    /// `None` if the workflow id is not a key.
    fn state_mut(&mut self) -> Option<&mut Self::State>;

    fn calls(&mut self) -> &mut ActivityCalls;

    /// Returns `true` if everything should end without a message. This cancels remote calls started before.
    fn winds_down(&self) -> bool;

    /// Returns `true` if the run must continue as new first. This cancels remote calls.
    fn must_continue_as_new(&self) -> bool {
        false
    }

    /// Each may have fixed what a call is waiting for.
    fn command_count(&self) -> u32 {
        0
    }

    fn current_details(&self, now: Timestamp) -> String;

    fn is_interruptible(_: CallMode) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct ActivityCalls {
    pub last_error: Option<String>,
    /// Skip local attempts until then.
    local_retry_at: Timestamp,
    /// Activity waiting for an operator, with its consecutive failures.
    failed: Option<(String, u32)>,
}

impl ActivityCalls {
    pub const fn new() -> Self {
        Self { last_error: None, local_retry_at: Timestamp::MIN, failed: None }
    }

    pub fn trouble(&self) -> String {
        self.last_error.as_ref().map(|trouble| format!("\n\nTrouble: {trouble}")).unwrap_or_default()
    }

    pub const fn waits_for_operator(&self) -> bool {
        self.failed.is_some()
    }

    /// Backoff after a failure; doubles each time.
    fn operator_wait(&mut self, activity: &str) -> Duration {
        let times = self.failed.as_ref().filter(|(name, _)| name == activity).map_or(0, |(_, times)| *times);
        self.failed = Some((activity.to_owned(), times.saturating_add(1)));
        Duration::from_secs(1 << times.min(12)).min(LONGEST_OPERATOR_WAIT)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// For activities with a few queries; falls back to a remote call.
    LocalFirst,
    /// For activities with a few queries.
    Remote,
    /// For one delivery attempt.
    Delivery,
}

impl CallMode {
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

/// Passes an activity's result to `apply`. If there is none (because the run must continue as new, was
/// cancelled, or waited for an operator), nothing changes, and the workflow should decide again.
pub(crate) async fn call_activity<W, A>(
    ctx: &WorkflowContext<W>,
    mode: CallMode,
    activity: fn() -> A,
    input: impl FnOnce(&mut W::State, Timestamp) -> Option<A::Input>,
    apply: impl FnOnce(&mut W::State, &A::Input, A::Output, Timestamp),
) where
    W: DrivenWorkflow,
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

enum LocalCall<T> {
    Answered(T),
    Failed,
    WaitsForOperator,
}

async fn call_locally<W, A>(ctx: &WorkflowContext<W>, activity: A, input: A::Input) -> LocalCall<A::Output>
where
    W: DrivenWorkflow,
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
            let retry_at = after_delay(now(ctx), LOCAL_COOLDOWN);
            ctx.state_mut(|w| w.calls().local_retry_at = retry_at);
            LocalCall::Failed
        }
    }
}

/// Retries without limit. Returns `None` after a cancel, or after waiting for an operator if the activity
/// failed for good. If the run must continue as new or is cancelled, we cancel the activity. A delivery's late
/// result still counts.
pub(crate) async fn call_remotely<W, A>(
    ctx: &WorkflowContext<W>,
    mode: CallMode,
    activity: A,
    input: A::Input,
) -> Option<A::Output>
where
    W: DrivenWorkflow,
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    let name = activity.name().to_owned();
    let token = WorkflowCancellationToken::new();
    let mut running = ctx.execute_activity(activity, input, mode.options(token.clone()));
    // A call that cleans up after a cancel must not be stopped by the same cancel.
    let detached = !W::is_interruptible(mode) || ctx.state(DrivenWorkflow::winds_down);
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

/// Returns `true` if retrying cannot fix the error.
fn is_lasting(error: &ActivityExecutionError) -> bool {
    matches!(error.reason(), Some(IncomingError::Application(failure)) if failure.is_non_retryable())
}

/// Backs off after an error that an operator must fix: longer each time, or until a command arrives.
async fn wait_for_operator<W: DrivenWorkflow>(
    ctx: &WorkflowContext<W>,
    activity: &str,
    error: &ActivityExecutionError,
) {
    if !ctx.patched(OPERATOR_WAIT) {
        record_error(ctx, activity, error, None);
        ctx.timer(TimerOptions::builder(LONGEST_BACKOFF).cancellation_token(WorkflowCancellationToken::new()).build())
            .await;
        return;
    }
    let length = ctx.state_mut(|w| w.calls().operator_wait(activity));
    record_error(ctx, activity, error, Some(after_delay(now(ctx), length)));
    // If already winding down, don't let that (or the cancel behind it) wake us.
    let winds_down = ctx.state(DrivenWorkflow::winds_down);
    let root = winds_down.then(WorkflowCancellationToken::new);
    let commands = ctx.state(DrivenWorkflow::command_count);
    let woken =
        move |w: &W| w.command_count() != commands || (!winds_down && w.winds_down()) || w.must_continue_as_new();
    wait_under(ctx, root, length, format!("{activity} waits for an operator"), woken).await;
}

/// Waits for this time, `woken` or a cancel. Returns `true` if the time has passed.
pub(crate) async fn wait<W: DrivenWorkflow>(
    ctx: &WorkflowContext<W>,
    length: Duration,
    summary: String,
    woken: impl Fn(&W) -> bool,
) -> bool {
    wait_under(ctx, None, length, summary, woken).await
}

/// Like [`wait`], but with a separate token.
async fn wait_under<W: DrivenWorkflow>(
    ctx: &WorkflowContext<W>,
    root: Option<WorkflowCancellationToken>,
    length: Duration,
    summary: String,
    woken: impl Fn(&W) -> bool,
) -> bool {
    // temporalio-workflow 1.1.1 panics in every replay of a workflow task in which the timer fires and a
    // cancel removes it. So this token is not a child of the run's; the condition also ends on a cancel. Use
    // the run's token again once a cancel in the task in which the timer fires passes with it.
    let token = WorkflowCancellationToken::new();
    let mut timer = ctx.timer(TimerOptions::builder(length).cancellation_token(token.clone()).summary(summary).build());
    let options = WaitConditionOptions::builder().maybe_cancellation_token(root).build();
    let mut woke = Box::pin(ctx.wait_condition_with_options(woken, options));
    select! {
        _ = timer => true,
        _ = woke => {
            token.cancel();
            false
        }
    }
}

/// This also works after a cancel.
pub(crate) async fn wait_until<W: DrivenWorkflow>(ctx: &WorkflowContext<W>, condition: impl Fn(&W) -> bool) {
    let detached = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
    ctx.wait_condition_with_options(condition, detached).await.ok();
}

/// Shows the error, including while the call is retried.
fn record_error<W: DrivenWorkflow>(
    ctx: &WorkflowContext<W>,
    activity: &str,
    error: &ActivityExecutionError,
    again_at: Option<Timestamp>,
) {
    let cause = error.reason().map_or_else(|| error.to_string(), ToString::to_string);
    let again = again_at.map(|at| format!("; tried again at {at:.0}")).unwrap_or_default();
    ctx.state_mut(|w| w.calls().last_error = Some(format!("{activity}: {cause}{again}")));
    ctx.set_current_details(ctx.state(|w| w.current_details(now(ctx))));
}

/// Clears the error after a success. Other activities keep their backoff, since they have not been called
/// again.
fn forget_error<W: DrivenWorkflow>(ctx: &WorkflowContext<W>, activity: &str) {
    let recovered = ctx.state_mut(|w| {
        let calls = w.calls();
        calls.failed.take_if(|(name, _)| name == activity);
        calls.last_error.take().is_some()
    });
    if recovered {
        ctx.set_current_details(ctx.state(|w| w.current_details(now(ctx))));
    }
}

pub(crate) fn now<W>(ctx: &WorkflowContext<W>) -> Timestamp {
    timestamp(ctx.workflow_time())
}

pub(crate) fn timestamp(time: Option<SystemTime>) -> Timestamp {
    time.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Saturates.
pub(crate) fn after_delay(now: Timestamp, delay: Duration) -> Timestamp {
    SignedDuration::try_from(delay).ok().and_then(|delay| now.saturating_add(delay).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_must_mend_is_tried_at_most_hourly() {
        let mut calls = ActivityCalls::new();
        assert!(!calls.waits_for_operator());
        let waits: Vec<_> = (0..15).map(|_| calls.operator_wait("load").as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600]);
        assert!(calls.waits_for_operator());
        assert_eq!(calls.operator_wait("claim").as_secs(), 1, "another activity has waits of its own");
    }
}
