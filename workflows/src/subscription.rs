//! Deliveries to a subscription. Each subscription has one workflow, which runs while there is something to
//! deliver.

use std::time::Duration;

use jiff::Timestamp;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination,
};
use tidings_model::{names, subscription::DeliverInput};

use self::state::{Decision, State};
use crate::{
    activities::SubscriptionActivities as Activities,
    driver::{CallMode::Delivery, Calls, Driven, call_remotely, now, wait},
    inbound::{CarriedState, Ignored, UnreadableState},
};

mod state;

pub use self::state::SubscriptionStatus;

/// Steps per run before it continues as new. Each adds a few events to the history.
const STEPS_PER_RUN: u32 = 500;

#[workflow]
pub struct Deliveries {
    state: Option<State>,
    unreadable: Option<UnreadableState>,
    steps: u32,
    calls: Calls,
}

#[workflow_methods]
impl Deliveries {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let name = names::subscription_name(ctx.workflow_id());
        let (state, unreadable) =
            carried.state(ctx.continued_from_run_id().is_some(), |state: &State| Some(state.name.as_str()) == name);
        let state = state.or_else(|| name.map(State::new));
        Self { state, unreadable, steps: 0, calls: Calls::new() }
    }

    /// Delivers until nothing waits, and completes with the counts.
    ///
    /// # Errors
    /// Cancelled. Waiting notices stay in the store, and the next notice starts the workflow again.
    #[run(name = "subscription")] // names::SUBSCRIPTION_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<SubscriptionStatus> {
        ctx.state(|w| w.unreadable.iter().for_each(UnreadableState::fail_task));
        loop {
            if ctx.cancellation_token().is_cancelled() {
                return Err(WorkflowTermination::cancelled());
            }
            let at = now(ctx);
            let decision = ctx.state(|w| w.state.as_ref().map_or(Decision::Finish, |state| state.decide(at)));
            if decision != Decision::Finish && ctx.state(|w| w.steps >= STEPS_PER_RUN) {
                let carried = ctx.state(|w| w.state.as_ref().map(CarriedState::new)).transpose()?;
                ctx.continue_as_new(carried.unwrap_or_default(), ContinueAsNewOptions::default())?;
            }
            ctx.state_mut(|w| w.steps += 1);
            match decision {
                Decision::Deliver => Self::deliver(ctx, at).await,
                Decision::Wait(until) => {
                    let woken = |w: &Self| w.state.as_ref().is_some_and(|state| state.woken);
                    wait(ctx, between(at, until), "the next notice".to_owned(), woken).await;
                }
                Decision::WaitForReceiver(until) => {
                    wait(ctx, between(at, until), "the receiver does not answer".to_owned(), |_| false).await;
                }
                Decision::Finish => {
                    return Ok(ctx.state(|w| w.state.clone().map(|state| state.status).unwrap_or_default()));
                }
            }
        }
    }

    #[signal(name = "notice")] // names::NOTICE_SIGNAL
    pub fn notice(&mut self, _: &mut SyncWorkflowContext<Self>, _: Ignored) {
        if let Some(state) = &mut self.state {
            state.woken = true;
        }
    }

    #[query(name = "status")]
    #[must_use]
    pub fn status(&self, _: &WorkflowContextView) -> SubscriptionStatus {
        self.state.clone().map(|state| state.status).unwrap_or_default()
    }
}

impl Deliveries {
    async fn deliver(ctx: &WorkflowContext<Self>, at: Timestamp) {
        let input = ctx.state_mut(|w| {
            let state = w.state.as_mut()?;
            state.begins();
            let probe = state.status.away > 0;
            Some(DeliverInput { subscription: state.name.clone(), asked_at: at, probe })
        });
        let Some(input) = input else { return };
        let Some(answer) = call_remotely(ctx, Delivery, Activities::deliver, input).await else {
            // Without a result, the notice is still waiting.
            ctx.state_mut(|w| w.state.iter_mut().for_each(|state| state.woken = true));
            return;
        };
        let answered_at = now(ctx);
        ctx.state_mut(|w| {
            if let Some(state) = &mut w.state {
                state.answered(answer, answered_at);
            }
        });
    }
}

fn between(now: Timestamp, until: Timestamp) -> Duration {
    until.duration_since(now).try_into().unwrap_or_default()
}

impl Driven for Deliveries {
    type State = State;

    fn state_mut(&mut self) -> Option<&mut State> {
        self.state.as_mut()
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    fn details(&self, _: Timestamp) -> String {
        self.calls.trouble()
    }

    /// Only a cancel stops a delivery.
    fn winds_down(&self) -> bool {
        false
    }
}
