//! Purges rows past their retention, batch by batch. A schedule starts this workflow every night.

use jiff::Timestamp;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, WorkflowContext, WorkflowContextView, WorkflowResult, WorkflowTermination,
};
use tidings_model::retention::CutoffsInput;

use self::state::{RetentionDecision, RetentionRunState};
use crate::{
    activities::RetentionActivities as Activities,
    driver::{ActivityCalls, CallMode::Remote, DrivenWorkflow, call_remotely, now},
    inbound::{CarriedState, UnreadableState},
};

mod state;

pub use self::state::RetentionReport;

/// Batches per run before it continues as new. Each adds a few events to the history.
const STEPS_PER_RUN: u32 = 500;

#[workflow]
pub struct RetentionRun {
    state: RetentionRunState,
    unreadable: Option<UnreadableState>,
    steps: u32,
    calls: ActivityCalls,
}

#[workflow_methods]
impl RetentionRun {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let (state, unreadable) = carried.carried_state(ctx.continued_from_run_id().is_some(), |_| true);
        Self { state: state.unwrap_or_default(), unreadable, steps: 0, calls: ActivityCalls::new() }
    }

    /// Completes with the counts of everything purged.
    ///
    /// # Errors
    /// Cancelled. A batch is purged completely or not at all, so the next run continues from here.
    #[run(name = "upkeep")] // names::RETENTION_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<RetentionReport> {
        ctx.state(|w| w.unreadable.iter().for_each(UnreadableState::fail_task));
        loop {
            if ctx.cancellation_token().is_cancelled() {
                return Err(WorkflowTermination::cancelled());
            }
            let decision = ctx.state(|w| w.state.decide());
            if decision != RetentionDecision::Finish && ctx.state(|w| w.steps >= STEPS_PER_RUN) {
                ctx.continue_as_new(ctx.state(|w| CarriedState::new(&w.state))?, ContinueAsNewOptions::default())?;
            }
            ctx.state_mut(|w| w.steps += 1);
            match decision {
                RetentionDecision::Ask => {
                    let input = CutoffsInput { asked_at: now(ctx) };
                    let Some(cutoffs) = call_remotely(ctx, Remote, Activities::cutoffs, input).await else { continue };
                    ctx.state_mut(|w| w.state.set_cutoffs(cutoffs));
                }
                RetentionDecision::Purge(cutoff) => {
                    let Some(batch) = call_remotely(ctx, Remote, Activities::purge, cutoff).await else { continue };
                    ctx.state_mut(|w| w.state.add_purged(cutoff, batch));
                }
                RetentionDecision::Finish => return Ok(ctx.state(|w| w.state.report.clone())),
            }
            ctx.set_current_details(ctx.state(|w| w.current_details(now(ctx))));
        }
    }

    #[query(name = "status")]
    #[must_use]
    pub fn status(&self, _: &WorkflowContextView) -> RetentionReport {
        self.state.report.clone()
    }
}

impl DrivenWorkflow for RetentionRun {
    type State = RetentionRunState;

    fn state_mut(&mut self) -> Option<&mut RetentionRunState> {
        Some(&mut self.state)
    }

    fn calls(&mut self) -> &mut ActivityCalls {
        &mut self.calls
    }

    fn current_details(&self, _: Timestamp) -> String {
        format!("{}{}", self.state.report, self.calls.trouble())
    }

    /// Only a cancel stops a batch.
    fn winds_down(&self) -> bool {
        false
    }
}
