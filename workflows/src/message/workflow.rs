//! The message workflow: one per idempotency key. It carries out what [`State::decide`] decides, and nothing else.

use std::error::Error;

use jiff::Timestamp;
use temporalio_common::{ActivityDefinition, data_converters::TemporalDeserializable, error::ApplicationFailure};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ActivityExecutionError, ContinueAsNewOptions, TimerOptions, WaitConditionOptions, WorkflowCancellationToken,
    WorkflowContext, WorkflowContextView, WorkflowResult, WorkflowTermination, workflows::select,
};
use tidings_model::{
    MessageKey,
    command::Order,
    contract::Closed,
    message::{
        command::{Cancelled, Retry},
        contract::Retried,
    },
};

use super::{
    Status,
    activities::MessageActivities as Activities,
    state::{Decision, State},
};
use crate::{
    call::{self, How},
    carried::{Carried, Unreadable},
};

/// Decisions that one run carries out before it continues as new: a relay may be at fault for weeks.
const STEPS_PER_RUN: u32 = 500;

const NO_KEY: &str = "the workflow id is not message/TENANT/KEY with each part percent-encoded";

/// See the module.
#[workflow]
pub struct Message {
    /// `None`: the workflow id is no key.
    state: Option<State>,
    unreadable: Option<Unreadable>,
    steps: u32,
    /// What an activity last complained about.
    trouble: Option<String>,
}

type Ctx = WorkflowContext<Message>;

#[workflow_methods]
impl Message {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: Carried) -> Self {
        let (state, unreadable) = carried.state(ctx);
        let state = state.or_else(|| MessageKey::from_workflow_id(ctx.workflow_id()).map(State::new));
        Self { state, unreadable, steps: 0, trouble: None }
    }

    /// Delivers the message, and completes with its end.
    ///
    /// # Errors
    /// Cancelled, after the outbox learned of it; failed, when the workflow id is no key.
    #[run(name = "message")] // names::MESSAGE_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<Closed> {
        ctx.state(|w| w.unreadable.iter().for_each(Unreadable::fail_task));
        loop {
            let cancelled = ctx.cancellation_token().is_cancelled();
            ctx.state_mut(|w| {
                w.steps += 1;
                w.state.iter_mut().for_each(|state| state.cancelled |= cancelled);
            });
            let Some(decision) = ctx.state(Self::decision) else {
                return Err(ApplicationFailure::non_retryable(NO_KEY).into());
            };
            if let Some(status) = ctx.state(Self::told) {
                ctx.set_current_details(status.to_string());
            }
            match decision {
                Decision::Finish if ctx.all_handlers_finished() => return Self::finish(ctx),
                // A command that waits for its answer gets it first; another one may start it all over.
                Decision::Finish => {
                    until(ctx, |w| w.decision() != Some(Decision::Finish) || ctx.all_handlers_finished()).await;
                }
                Decision::Wait(at) => {
                    Self::roll(ctx)?;
                    wait(ctx, at).await;
                }
                Decision::Send | Decision::Retry | Decision::Close => act(ctx, decision).await,
            }
        }
    }

    /// What the message is doing, and why.
    #[query(name = "status")]
    pub fn status(&self, _: &WorkflowContextView) -> Option<Status> {
        self.told()
    }

    /// Sends a message again that came to nothing, or that waits.
    #[update(name = "retry")]
    pub async fn retry(ctx: &mut WorkflowContext<Self>, retry: Retry) -> Retried {
        let refused = ctx.state_mut(|w| match &mut w.state {
            Some(state) => state.retry(retry),
            None => Some(Retried::Refused { why: NO_KEY.to_owned() }),
        });
        if let Some(refused) = refused {
            return refused;
        }
        let answered = |w: &Self| w.state.as_ref().is_none_or(|state| state.retried.is_some());
        until(ctx, answered).await;
        let answer = ctx.state_mut(|w| w.state.as_mut().and_then(|state| state.retried.take()));
        answer.unwrap_or_else(|| Retried::Refused { why: NO_KEY.to_owned() })
    }

    /// Sends nothing more. Answers when the message has its end.
    #[update(name = "cancel")]
    pub async fn cancel(ctx: &mut WorkflowContext<Self>, order: Order) -> Cancelled {
        ctx.state_mut(|w| {
            if let Some(state) = &mut w.state {
                state.cancel(order);
            }
        });
        until(ctx, |w| w.state.as_ref().is_none_or(|state| state.closed.is_some())).await;
        ctx.state(|w| w.state.as_ref().map(State::cancelled)).unwrap_or_default()
    }

    #[update_validator(retry)]
    fn check_retry(&self, _: &WorkflowContextView, retry: &Retry) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(retry.order.check()?)
    }

    #[update_validator(cancel)]
    fn check_cancel(&self, _: &WorkflowContextView, order: &Order) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(order.check()?)
    }
}

impl Message {
    fn decision(&self) -> Option<Decision> {
        self.state.as_ref().map(State::decide)
    }

    fn winds_down(&self) -> bool {
        self.state.as_ref().is_some_and(State::winds_down)
    }

    fn told(&self) -> Option<Status> {
        self.state.as_ref().map(|state| Status::new(state, self.trouble.clone()))
    }

    /// Between two attempts, when the run is long enough: the next run waits on.
    fn roll(ctx: &Ctx) -> Result<(), WorkflowTermination> {
        if ctx.state(|w| w.steps >= STEPS_PER_RUN) && ctx.all_handlers_finished() {
            ctx.continue_as_new(ctx.state(|w| Carried::new(&w.state))?, ContinueAsNewOptions::default())?;
        }
        Ok(())
    }

    fn finish(ctx: &Ctx) -> WorkflowResult<Closed> {
        ctx.state(|w| match w.state.clone() {
            Some(State { cancelled: false, closed: Some(closed), .. }) => Ok(closed),
            _ => Err(WorkflowTermination::cancelled()),
        })
    }
}

/// Calls the decision's activity, and keeps its answer. Without one (it failed for good, or was cancelled) nothing changes.
async fn act(ctx: &Ctx, decision: Decision) {
    let Some(state) = ctx.state(|w| w.state.clone()) else { return };
    let asked_at = call::timestamp(ctx.workflow_time());
    match decision {
        Decision::Send => {
            let answer = call(ctx, How::Remotely, Activities::send, state.send_input(asked_at)).await;
            let now = call::timestamp(ctx.workflow_time());
            apply(ctx, answer, |state, answer| state.attempted(answer, now));
        }
        Decision::Close => {
            let answer = call(ctx, How::Quickly, Activities::close, state.close_input(asked_at)).await;
            apply(ctx, answer, State::ended);
        }
        Decision::Retry => {
            let Some(input) = state.retry_input(asked_at) else { return };
            let answer = call(ctx, How::Quickly, Activities::retry, input).await;
            apply(ctx, answer, State::retried);
        }
        Decision::Wait(_) | Decision::Finish => {}
    }
}

fn apply<T>(ctx: &Ctx, answer: Option<T>, change: impl FnOnce(&mut State, T)) {
    ctx.state_mut(|w| {
        if let (Some(state), Some(answer)) = (&mut w.state, answer) {
            w.trouble = None;
            change(state, answer);
        }
    });
}

/// As many attempts as it takes. When the message is to be sent no more, a delivery is asked to stop; it may answer even so,
/// and its answer counts.
async fn call<A>(ctx: &Ctx, how: How, activity: A, input: A::Input) -> Option<A::Output>
where
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    let name = activity.name().to_owned();
    let token = WorkflowCancellationToken::new();
    let mut running = ctx.execute_activity(activity, input, how.options(token.clone()));
    let answer = if how == How::Remotely {
        let mut interrupted = Box::pin(ctx.wait_condition(Message::winds_down));
        select! {
            answer = running => answer,
            _ = interrupted => {
                token.cancel();
                running.await
            }
        }
    } else {
        running.await
    };
    match answer {
        Ok(answer) => return Some(answer),
        Err(ActivityExecutionError::Cancelled(_)) => {}
        Err(error) => {
            // The retry policy has no end, so this is no outage but a fault. Look again, slowly.
            let cause = error.reason().map_or_else(|| error.to_string(), ToString::to_string);
            ctx.state_mut(|w| w.trouble = Some(format!("{name}: {cause}")));
            let detached = WorkflowCancellationToken::new();
            ctx.timer(TimerOptions::builder(call::LONGEST_BACKOFF).cancellation_token(detached).build()).await;
        }
    }
    None
}

/// Waits until then, or until something else is to be done.
async fn wait(ctx: &Ctx, at: Timestamp) {
    let now = call::timestamp(ctx.workflow_time());
    let length = at.duration_since(now).try_into().unwrap_or_default();
    // As in `call::wait`: a cancel must not take away a timer that has fired.
    let token = WorkflowCancellationToken::new();
    let summary = format!("until {at:.0}");
    let mut timer = ctx.timer(TimerOptions::builder(length).cancellation_token(token.clone()).summary(summary).build());
    let mut woke = Box::pin(ctx.wait_condition(|w| w.decision() != Some(Decision::Wait(at))));
    select! {
        _ = timer => ctx.state_mut(|w| w.state.iter_mut().for_each(State::waited)),
        // Also after a cancel. Dropping a timer does not cancel it.
        _ = woke => token.cancel(),
    }
}

/// Waits for something that comes also after a cancel.
async fn until(ctx: &Ctx, condition: impl Fn(&Message) -> bool) {
    let detached = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
    // Only a cancel could end it before, and this one has no one to cancel it.
    ctx.wait_condition_with_options(condition, detached).await.ok();
}
