//! How the workflow waits, and how it calls activities: locally in fair weather, remotely in bad.
//!
//! A local activity costs one marker, but while it runs the workflow answers nobody. So it gets one short attempt.
//! When that fails, the same activity runs remotely: its retries leave no trace in history, and the run stays free to
//! answer queries, to be cancelled and to continue as new.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use temporalio_common::{ActivityDefinition, RetryPolicy, data_converters::TemporalDeserializable};
use temporalio_workflow::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, LocalActivityOptions, TimerOptions,
    WaitConditionOptions, WorkflowCancellationToken, WorkflowContext, workflows::select,
};

use crate::digest::{Decision, Digest, State, after, decide};

/// The one local attempt, queueing included: long enough for a healthy store.
const LOCAL_ATTEMPT: Duration = Duration::from_secs(3);
/// For so long after a failed local attempt the run calls remotely at once.
const BAD_WEATHER: Duration = Duration::from_secs(300);
/// One remote attempt at what takes a few queries.
const REMOTE_ATTEMPT: Duration = Duration::from_secs(60);
/// One remote attempt at a delivery: longer than all of RFC 5321's phases together.
const DELIVERY_ATTEMPT: Duration = Duration::from_secs(45 * 60);
/// The server gives up on a delivery of a silent worker after this long, and a running one learns of a cancel as fast.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Remote attempts back off to this.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// The longest single timer: what lies further away is looked at again.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 24 * 3600);

type Ctx = WorkflowContext<Digest>;

/// Waits until then, or until the state decides something else.
pub(crate) async fn wait(ctx: &Ctx, until: Timestamp) {
    let now = now(ctx);
    let length = Duration::try_from(until.duration_since(now)).unwrap_or_default().min(LONGEST_WAIT);
    // Not a child of the run's token: a cancel would take the timer away at once, and where it has fired by the same workflow
    // task the SDK panics, over and over. The condition ends at a cancel, too.
    let token = WorkflowCancellationToken::new();
    let summary = if until == Timestamp::MAX { "until it is released".to_owned() } else { format!("until {until:.0}") };
    let mut timer = ctx.timer(TimerOptions::builder(length).cancellation_token(token.clone()).summary(summary).build());
    let mut woke = Box::pin(ctx.wait_condition(|w| w.must_roll() || decide(&w.state, now) != Decision::Wait(until)));
    select! {
        _ = timer => {}
        // Dropping a timer does not cancel it.
        _ = woke => token.cancel(),
    }
}

/// Waits for something that comes also after a cancel.
pub(crate) async fn until(ctx: &Ctx, condition: impl Fn(&Digest) -> bool) {
    let detached = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
    // Only a cancel could end it before, and this one has no one to cancel it.
    ctx.wait_condition_with_options(condition, detached).await.ok();
}

/// How an activity is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// A few queries: locally, or remotely if that fails.
    Quickly,
    /// A delivery: remotely.
    Remotely,
}

/// Calls an activity, and hands its answer to `apply`. Without an answer (the run must roll, or was cancelled) nothing
/// changes, and the state decides again.
pub(crate) async fn call<A>(
    ctx: &Ctx,
    how: How,
    activity: fn() -> A,
    input: impl FnOnce(&mut State, Timestamp) -> Option<A::Input>,
    apply: impl FnOnce(&mut State, &A::Input, A::Output, Timestamp),
) where
    A: ActivityDefinition<Input: Clone, Output: TemporalDeserializable>,
{
    let Some(input) = ctx.state_mut(|w| input(&mut w.state, now(ctx))) else { return };
    let fair_weather = how == How::Quickly && ctx.state(|w| w.fair_weather_from <= now(ctx));
    let mut answer = if fair_weather { locally(ctx, activity(), input.clone()).await } else { None };
    if answer.is_none() {
        answer = remotely(ctx, how, activity(), input.clone()).await;
    }
    let Some(answer) = answer else { return };
    let now = now(ctx);
    ctx.state_mut(|w| {
        w.trouble = None;
        apply(&mut w.state, &input, answer, now);
    });
}

/// One short attempt. When it fails there is bad weather.
async fn locally<A>(ctx: &Ctx, activity: A, input: A::Input) -> Option<A::Output>
where
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    let name = activity.name().to_owned();
    let options = LocalActivityOptions::builder()
        .schedule_to_close_timeout(LOCAL_ATTEMPT)
        .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
        .cancellation_token(WorkflowCancellationToken::new())
        .build();
    let answer = ctx.execute_local_activity(activity, input, options).await;
    if let Err(error) = &answer {
        complain(ctx, &name, error);
        ctx.state_mut(|w| w.fair_weather_from = after(now(ctx), BAD_WEATHER));
    }
    answer.ok()
}

/// As many attempts as it takes. When the run must roll or is cancelled, the activity is asked to stop; a delivery
/// answers even so, and its answer counts.
async fn remotely<A>(ctx: &Ctx, how: How, activity: A, input: A::Input) -> Option<A::Output>
where
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    let name = activity.name().to_owned();
    let token = WorkflowCancellationToken::new();
    let mut running = ctx.execute_activity(activity, input, how.options(token.clone()));
    // A run that is winding down after a cancel or a drop has nothing left to be interrupted for but the roll.
    let winds_down = ctx.state(|w| w.state.winds_down());
    let root = winds_down.then(WorkflowCancellationToken::new);
    let interruptible = WaitConditionOptions::builder().maybe_cancellation_token(root).build();
    let mut interrupted = Box::pin(
        ctx.wait_condition_with_options(|w| w.must_roll() || (!winds_down && w.state.winds_down()), interruptible),
    );
    let answer = select! {
        answer = running => answer,
        _ = interrupted => {
            token.cancel();
            running.await
        }
    };
    match answer {
        Ok(answer) => return Some(answer),
        Err(ActivityExecutionError::Cancelled(_)) => {}
        Err(error) => {
            // The retry policy has no end, so this is no outage but a fault. Look again, slowly.
            complain(ctx, &name, &error);
            let detached = WorkflowCancellationToken::new();
            ctx.timer(TimerOptions::builder(LONGEST_BACKOFF).cancellation_token(detached).build()).await;
        }
    }
    None
}

impl How {
    /// The options of a remote call.
    pub(crate) fn options(self, token: WorkflowCancellationToken) -> ActivityOptions {
        let retries = RetryPolicy::builder().maximum_interval(LONGEST_BACKOFF).build();
        match self {
            Self::Quickly => ActivityOptions::with_start_to_close_timeout(REMOTE_ATTEMPT)
                .cancellation_token(token)
                .retry_policy(retries)
                .build(),
            Self::Remotely => ActivityOptions::with_start_to_close_timeout(DELIVERY_ATTEMPT)
                .heartbeat_timeout(HEARTBEAT)
                .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
                .cancellation_token(token)
                .retry_policy(retries)
                .build(),
        }
    }
}

fn complain(ctx: &Ctx, activity: &str, error: &ActivityExecutionError) {
    let cause = error.reason().map_or_else(|| error.to_string(), ToString::to_string);
    ctx.state_mut(|w| w.trouble = Some(format!("{activity}: {cause}")));
}

/// The server's clock at the current workflow task.
pub(crate) fn now(ctx: &Ctx) -> Timestamp {
    timestamp(ctx.workflow_time())
}

pub(crate) fn timestamp(time: Option<SystemTime>) -> Timestamp {
    time.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}
