//! A single message: one email sent by a service under an idempotency key. This workflow delivers from the
//! outbox like a digest's, but collects nothing.

use jiff::Timestamp;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination,
};
use tidings_model::{
    MessageKey,
    command::Order,
    message::{
        command::{Cancelled, Retry},
        contract::Retried,
    },
    window::Closed,
};

use self::state::{Decision, State};
use crate::{
    activities::MessageActivities as Activities,
    driver::{
        CallMode::{self, Delivery, Remote},
        Calls, Checked, Driven, call, now, timestamp, wait, wait_until,
    },
    inbound::{CarriedState, CommandArgument, Ignored, UnreadableState},
};

mod state;
mod status;

pub use self::status::{Stage, Status};

/// Decisions per run before it continues as new, since a relay may be down for weeks.
const STEPS_PER_RUN: u32 = 500;

const NO_KEY: &str = "the workflow id is not message/TENANT/KEY with each part percent-encoded";

#[workflow]
pub struct Message {
    state: Option<State>,
    unreadable: Option<UnreadableState>,
    steps: u32,
    calls: Calls,
    /// Number of commands, and of signals about a pause.
    commands: u32,
}

type Ctx = WorkflowContext<Message>;

#[workflow_methods]
impl Message {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let key = MessageKey::from_workflow_id(ctx.workflow_id());
        let (state, unreadable) =
            carried.state(ctx.continued_from_run_id().is_some(), |state: &State| Some(&state.key) == key.as_ref());
        let state = state.or_else(|| key.map(State::new));
        Self { state, unreadable, steps: 0, calls: Calls::new(), commands: 0 }
    }

    /// Delivers the message, and completes once it has ended.
    ///
    /// # Errors
    /// Cancelled, after the outbox recorded the outcome. Failed, if the workflow id is not a key.
    #[run(name = "message")] // names::MESSAGE_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<Closed> {
        ctx.state(|w| w.unreadable.iter().for_each(UnreadableState::fail_task));
        loop {
            let cancelled = ctx.cancellation_token().is_cancelled();
            ctx.state_mut(|w| {
                w.steps += 1;
                w.state.iter_mut().for_each(|state| state.cancelled |= cancelled);
            });
            let Some(decision) = ctx.state(Self::decision) else {
                return Err(ApplicationFailure::non_retryable(NO_KEY).into());
            };
            ctx.set_current_details(ctx.state(|w| w.details(now(ctx))));
            match decision {
                Decision::Finish if ctx.all_handlers_finished() => return Self::finish(ctx),
                // Let waiting commands return first. Another command may also give this run more to do.
                Decision::Finish => {
                    wait_until(ctx, |w| w.decision() != Some(Decision::Finish) || ctx.all_handlers_finished()).await;
                }
                Decision::Wait(at) => {
                    Self::continue_as_new(ctx)?;
                    wait_for_decision(ctx, at).await;
                }
                Decision::Send | Decision::Retry | Decision::Close => {
                    if ctx.state(|w| w.calls.waits_for_operator()) {
                        Self::continue_as_new(ctx)?;
                    }
                    act(ctx, decision).await;
                }
            }
        }
    }

    /// Current step and its reason.
    #[query(name = "status")]
    #[must_use]
    pub fn status(&self, _: &WorkflowContextView) -> Option<Status> {
        self.current_status()
    }

    #[signal(name = "preferences")] // names::PREFERENCES_SIGNAL
    pub fn facts_changed(&mut self, ctx: &mut SyncWorkflowContext<Self>, _: Ignored) {
        let now = timestamp(ctx.workflow_time());
        self.commands = self.commands.wrapping_add(1);
        self.state.iter_mut().for_each(|state| state.look_again(now));
    }

    /// Also sends a message waiting for its next attempt.
    #[update(name = "retry")]
    pub async fn retry(ctx: &mut WorkflowContext<Self>, retry: CommandArgument<Retry>) -> Retried {
        let refused = ctx.state_mut(|w| {
            w.commands = w.commands.wrapping_add(1);
            match &mut w.state {
                Some(state) => state.retry(retry.command()),
                None => Some(Retried::Refused { why: NO_KEY.to_owned() }),
            }
        });
        if let Some(refused) = refused {
            return refused;
        }
        let answered = |w: &Self| w.state.as_ref().is_none_or(|state| state.retried.is_some());
        wait_until(ctx, answered).await;
        let answer = ctx.state_mut(|w| w.state.as_mut().and_then(|state| state.retried.take()));
        answer.unwrap_or_else(|| Retried::Refused { why: NO_KEY.to_owned() })
    }

    /// Stops sending. Returns once the message has ended.
    #[update(name = "cancel")]
    pub async fn cancel(ctx: &mut WorkflowContext<Self>, order: CommandArgument<Order>) -> Cancelled {
        ctx.state_mut(|w| {
            if let Some(state) = &mut w.state {
                state.cancel(order.command());
            }
        });
        wait_until(ctx, |w| w.state.as_ref().is_none_or(|state| state.closed.is_some())).await;
        ctx.state(|w| w.state.as_ref().map(State::cancelled)).unwrap_or_default()
    }

    #[update_validator(retry)]
    fn check_retry(&self, _: &WorkflowContextView, argument: &CommandArgument<Retry>) -> Checked {
        argument.check(Timestamp::MIN)
    }

    #[update_validator(cancel)]
    fn check_cancel(&self, _: &WorkflowContextView, argument: &CommandArgument<Order>) -> Checked {
        argument.check(Timestamp::MIN)
    }
}

impl Message {
    fn decision(&self) -> Option<Decision> {
        self.state.as_ref().map(State::decide)
    }

    fn current_status(&self) -> Option<Status> {
        self.state.as_ref().map(|state| Status::new(state, self.calls.last_error.clone()))
    }

    /// The next run continues the wait.
    fn continue_as_new(ctx: &Ctx) -> Result<(), WorkflowTermination> {
        if ctx.state(|w| w.steps >= STEPS_PER_RUN) && ctx.all_handlers_finished() {
            ctx.continue_as_new(ctx.state(|w| CarriedState::new(&w.state))?, ContinueAsNewOptions::default())?;
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

async fn act(ctx: &Ctx, decision: Decision) {
    let send = |state: &mut State, now| Some(state.begin_send(now));
    let close = |state: &mut State, now| Some(state.close_input(now));
    let retry = |state: &mut State, now| state.retry_input(now);
    match decision {
        Decision::Send => {
            call(ctx, Delivery, || Activities::send, send, |state, _, answer, now| state.attempted(answer, now)).await;
        }
        Decision::Close => {
            call(ctx, Remote, || Activities::close, close, |state, _, answer, _| state.ended(answer)).await;
        }
        Decision::Retry => {
            call(ctx, Remote, || Activities::retry, retry, |state, _, answer, _| state.retried(answer)).await;
        }
        Decision::Wait(_) | Decision::Finish => {}
    }
}

async fn wait_for_decision(ctx: &Ctx, at: Timestamp) {
    let length = at.duration_since(now(ctx)).try_into().unwrap_or_default();
    if wait(ctx, length, format!("until {at:.0}"), |w| w.decision() != Some(Decision::Wait(at))).await {
        ctx.state_mut(|w| w.state.iter_mut().for_each(State::waited));
    }
}

impl Driven for Message {
    type State = State;

    fn state_mut(&mut self) -> Option<&mut State> {
        self.state.as_mut()
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    fn winds_down(&self) -> bool {
        self.state.as_ref().is_some_and(State::winds_down)
    }

    fn commands(&self) -> u32 {
        self.commands
    }

    fn details(&self, _: Timestamp) -> String {
        self.current_status().map(|status| status.to_string()).unwrap_or_default()
    }

    /// Only a delivery may be stopped. We need the results of all other activities.
    fn is_interruptible(mode: CallMode) -> bool {
        mode == Delivery
    }
}
