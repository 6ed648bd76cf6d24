//! Deliveries to a subscription, by one workflow, which runs while there is something to deliver.

use std::time::Duration;

use jiff::Timestamp;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination,
};
use tidings_model::{names, subscription::DeliverInput};

use self::state::{SubscriptionDecision, SubscriptionRunState};
use crate::{
    activities::SubscriptionActivities as Activities,
    driver::{ActivityCalls, CallMode::Delivery, DrivenWorkflow, call_remotely, now, wait},
    inbound::{CarriedState, IgnoredPayload, UnreadableState},
};

mod state;

pub use self::state::SubscriptionStatus;

/// Steps per run before it continues as new. Each adds a few events to the history.
const STEPS_PER_RUN: u32 = 500;

#[workflow]
pub struct Deliveries {
    state: Option<SubscriptionRunState>,
    unreadable: Option<UnreadableState>,
    steps: u32,
    calls: ActivityCalls,
}

#[workflow_methods]
impl Deliveries {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let name = names::subscription_name(ctx.workflow_id());
        let (state, unreadable) = carried
            .carried_state(ctx.continued_from_run_id().is_some(), |state: &SubscriptionRunState| {
                Some(state.name.as_str()) == name
            });
        let state = state.or_else(|| name.map(SubscriptionRunState::new));
        Self { state, unreadable, steps: 0, calls: ActivityCalls::new() }
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
            let decision =
                ctx.state(|w| w.state.as_ref().map_or(SubscriptionDecision::Finish, |state| state.decide(at)));
            if decision != SubscriptionDecision::Finish && ctx.state(|w| w.steps >= STEPS_PER_RUN) {
                let carried = ctx.state(|w| w.state.as_ref().map(CarriedState::new)).transpose()?;
                ctx.continue_as_new(carried.unwrap_or_default(), ContinueAsNewOptions::default())?;
            }
            ctx.state_mut(|w| w.steps += 1);
            match decision {
                SubscriptionDecision::Deliver => Self::deliver(ctx, at).await,
                SubscriptionDecision::Wait(until) => {
                    let woken = |w: &Self| w.state.as_ref().is_some_and(|state| state.woken);
                    wait(ctx, between(at, until), "the next notice".to_owned(), woken).await;
                }
                SubscriptionDecision::WaitForReceiver(until) => {
                    wait(ctx, between(at, until), "the receiver does not answer".to_owned(), |_| false).await;
                }
                SubscriptionDecision::Finish => {
                    return Ok(ctx.state(|w| w.state.clone().map(|state| state.status).unwrap_or_default()));
                }
            }
        }
    }

    #[signal(name = "notice")] // names::NOTICE_SIGNAL
    pub fn notice(&mut self, _: &mut SyncWorkflowContext<Self>, _: IgnoredPayload) {
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
            state.begin_delivery();
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
                state.apply_answer(answer, answered_at);
            }
        });
    }
}

fn between(now: Timestamp, until: Timestamp) -> Duration {
    until.duration_since(now).try_into().unwrap_or_default()
}

impl DrivenWorkflow for Deliveries {
    type State = SubscriptionRunState;

    fn state_mut(&mut self) -> Option<&mut SubscriptionRunState> {
        self.state.as_mut()
    }

    fn calls(&mut self) -> &mut ActivityCalls {
        &mut self.calls
    }

    fn current_details(&self, _: Timestamp) -> String {
        self.calls.trouble()
    }

    /// Only a cancel stops a delivery.
    fn winds_down(&self) -> bool {
        false
    }
}
