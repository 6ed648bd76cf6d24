//! A single message: one email sent by a service under an idempotency key. Delivers from the outbox like a
//! digest's workflow, but collects nothing.

use jiff::Timestamp;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination,
};
use tidings_model::{
    MessageKey,
    command::CommandContext,
    message::{
        command::{CancelResult, RetryCommand},
        contract::RetryResult,
    },
    window::WindowEnd,
};

use self::state::{MessageDecision, MessageRunState};
use crate::{
    activities::MessageActivities as Activities,
    driver::{
        ActivityCalls,
        CallMode::{self, Delivery, Remote},
        DrivenWorkflow, ValidatorResult, call_activity, now, timestamp, wait, wait_until,
    },
    inbound::{CarriedState, CommandArgument, IgnoredPayload, UnreadableState},
};

mod state;
mod status;

pub use self::status::{MessageStage, MessageStatus};

/// Decisions per run before it continues as new, since a relay may be down for weeks.
const STEPS_PER_RUN: u32 = 500;

const NO_KEY: &str = "the workflow id is not message/TENANT/KEY with each part percent-encoded";

#[workflow]
pub struct Message {
    state: Option<MessageRunState>,
    unreadable: Option<UnreadableState>,
    steps: u32,
    calls: ActivityCalls,
    /// Commands, and signals about a pause.
    commands: u32,
}

type MessageContext = WorkflowContext<Message>;

#[workflow_methods]
impl Message {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let key = MessageKey::from_workflow_id(ctx.workflow_id());
        let (state, unreadable) = carried
            .carried_state(ctx.continued_from_run_id().is_some(), |state: &MessageRunState| {
                Some(&state.key) == key.as_ref()
            });
        let state = state.or_else(|| key.map(MessageRunState::new));
        Self { state, unreadable, steps: 0, calls: ActivityCalls::new(), commands: 0 }
    }

    /// Completes once the message has ended.
    ///
    /// # Errors
    /// Cancelled, after the outbox recorded the outcome. Failed, if the workflow id is not a key.
    #[run(name = "message")] // names::MESSAGE_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<WindowEnd> {
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
            ctx.set_current_details(ctx.state(|w| w.current_details(now(ctx))));
            match decision {
                MessageDecision::Finish if ctx.all_handlers_finished() => return Self::finish_run(ctx),
                // Let waiting commands return first. Another command may also give this run more to do.
                MessageDecision::Finish => {
                    wait_until(ctx, |w| w.decision() != Some(MessageDecision::Finish) || ctx.all_handlers_finished())
                        .await;
                }
                MessageDecision::Wait(at) => {
                    Self::continue_as_new(ctx)?;
                    wait_for_decision(ctx, at).await;
                }
                MessageDecision::Send | MessageDecision::Retry | MessageDecision::Close => {
                    if ctx.state(|w| w.calls.waits_for_operator()) {
                        Self::continue_as_new(ctx)?;
                    }
                    carry_out(ctx, decision).await;
                }
            }
        }
    }

    #[query(name = "status")]
    #[must_use]
    pub fn status(&self, _: &WorkflowContextView) -> Option<MessageStatus> {
        self.current_status()
    }

    #[signal(name = "preferences")] // names::PREFERENCES_SIGNAL
    pub fn facts_changed(&mut self, ctx: &mut SyncWorkflowContext<Self>, _: IgnoredPayload) {
        let now = timestamp(ctx.workflow_time());
        self.commands = self.commands.wrapping_add(1);
        self.state.iter_mut().for_each(|state| state.look_again(now));
    }

    /// Also sends a message waiting for its next attempt.
    #[update(name = "retry")]
    pub async fn retry(ctx: &mut WorkflowContext<Self>, retry: CommandArgument<RetryCommand>) -> RetryResult {
        let refused = ctx.state_mut(|w| {
            w.commands = w.commands.wrapping_add(1);
            match &mut w.state {
                Some(state) => state.retry(retry.command()),
                None => Some(RetryResult::Refused { why: NO_KEY.to_owned() }),
            }
        });
        if let Some(refused) = refused {
            return refused;
        }
        let answered = |w: &Self| w.state.as_ref().is_none_or(|state| state.retried.is_some());
        wait_until(ctx, answered).await;
        let answer = ctx.state_mut(|w| w.state.as_mut().and_then(|state| state.retried.take()));
        answer.unwrap_or_else(|| RetryResult::Refused { why: NO_KEY.to_owned() })
    }

    /// Stops sending. Returns once the message has ended.
    #[update(name = "cancel")]
    pub async fn cancel(ctx: &mut WorkflowContext<Self>, order: CommandArgument<CommandContext>) -> CancelResult {
        ctx.state_mut(|w| {
            if let Some(state) = &mut w.state {
                state.cancel(order.command());
            }
        });
        wait_until(ctx, |w| w.state.as_ref().is_none_or(|state| state.closed.is_some())).await;
        ctx.state(|w| w.state.as_ref().map(MessageRunState::cancel_result)).unwrap_or_default()
    }

    #[update_validator(retry)]
    fn check_retry(&self, _: &WorkflowContextView, argument: &CommandArgument<RetryCommand>) -> ValidatorResult {
        argument.check(Timestamp::MIN)
    }

    #[update_validator(cancel)]
    fn check_cancel(&self, _: &WorkflowContextView, argument: &CommandArgument<CommandContext>) -> ValidatorResult {
        argument.check(Timestamp::MIN)
    }
}

impl Message {
    fn decision(&self) -> Option<MessageDecision> {
        self.state.as_ref().map(MessageRunState::decide)
    }

    fn current_status(&self) -> Option<MessageStatus> {
        self.state.as_ref().map(|state| MessageStatus::new(state, self.calls.last_error.clone()))
    }

    /// The next run continues the wait.
    fn continue_as_new(ctx: &MessageContext) -> Result<(), WorkflowTermination> {
        if ctx.state(|w| w.steps >= STEPS_PER_RUN) && ctx.all_handlers_finished() {
            ctx.continue_as_new(ctx.state(|w| CarriedState::new(&w.state))?, ContinueAsNewOptions::default())?;
        }
        Ok(())
    }

    fn finish_run(ctx: &MessageContext) -> WorkflowResult<WindowEnd> {
        ctx.state(|w| match w.state.clone() {
            Some(MessageRunState { cancelled: false, closed: Some(closed), .. }) => Ok(closed),
            _ => Err(WorkflowTermination::cancelled()),
        })
    }
}

async fn carry_out(ctx: &MessageContext, decision: MessageDecision) {
    let send = |state: &mut MessageRunState, now| Some(state.begin_send(now));
    let close = |state: &mut MessageRunState, now| Some(state.close_input(now));
    let retry = |state: &mut MessageRunState, now| state.retry_input(now);
    match decision {
        MessageDecision::Send => {
            call_activity(
                ctx,
                Delivery,
                || Activities::send,
                send,
                |state, _, answer, now| state.apply_attempt(answer, now),
            )
            .await;
        }
        MessageDecision::Close => {
            call_activity(ctx, Remote, || Activities::close, close, |state, _, answer, _| state.apply_close(answer))
                .await;
        }
        MessageDecision::Retry => {
            call_activity(ctx, Remote, || Activities::retry, retry, |state, _, answer, _| state.apply_retry(answer))
                .await;
        }
        MessageDecision::Wait(_) | MessageDecision::Finish => {}
    }
}

async fn wait_for_decision(ctx: &MessageContext, at: Timestamp) {
    let length = at.duration_since(now(ctx)).try_into().unwrap_or_default();
    if wait(ctx, length, format!("until {at:.0}"), |w| w.decision() != Some(MessageDecision::Wait(at))).await {
        ctx.state_mut(|w| w.state.iter_mut().for_each(MessageRunState::end_wait));
    }
}

impl DrivenWorkflow for Message {
    type State = MessageRunState;

    fn state_mut(&mut self) -> Option<&mut MessageRunState> {
        self.state.as_mut()
    }

    fn calls(&mut self) -> &mut ActivityCalls {
        &mut self.calls
    }

    fn winds_down(&self) -> bool {
        self.state.as_ref().is_some_and(MessageRunState::winds_down)
    }

    fn command_count(&self) -> u32 {
        self.commands
    }

    fn current_details(&self, _: Timestamp) -> String {
        self.current_status().map(|status| status.to_string()).unwrap_or_default()
    }

    /// We need the results of all other activities.
    fn is_interruptible(mode: CallMode) -> bool {
        mode == Delivery
    }
}
