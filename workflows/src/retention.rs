//! Purges rows past their retention, batch by batch. A schedule starts this workflow every night.

use jiff::Timestamp;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ContinueAsNewOptions, WorkflowContext, WorkflowContextView, WorkflowResult, WorkflowTermination,
};
use tidings_model::retention::CutoffsInput;

use self::state::{Decision, State};
use crate::{
    activities::RetentionActivities as Activities,
    driver::{CallMode::Remote, Calls, Driven, call_remotely, now},
    inbound::{CarriedState, UnreadableState},
};

mod state;

pub use self::state::Report;

/// Batches per run before it continues as new. Each adds a few events to the history.
const STEPS_PER_RUN: u32 = 500;

#[workflow]
pub struct RetentionRun {
    state: State,
    unreadable: Option<UnreadableState>,
    steps: u32,
    calls: Calls,
}

#[workflow_methods]
impl RetentionRun {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: CarriedState) -> Self {
        let (state, unreadable) = carried.state(ctx.continued_from_run_id().is_some(), |_| true);
        Self { state: state.unwrap_or_default(), unreadable, steps: 0, calls: Calls::new() }
    }

    /// Purges everything past its retention, and completes with the counts.
    ///
    /// # Errors
    /// Cancelled. A batch is purged completely or not at all, so the next run continues from here.
    #[run(name = "upkeep")] // names::RETENTION_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<Report> {
        ctx.state(|w| w.unreadable.iter().for_each(UnreadableState::fail_task));
        loop {
            if ctx.cancellation_token().is_cancelled() {
                return Err(WorkflowTermination::cancelled());
            }
            let decision = ctx.state(|w| w.state.decide());
            if decision != Decision::Finish && ctx.state(|w| w.steps >= STEPS_PER_RUN) {
                ctx.continue_as_new(ctx.state(|w| CarriedState::new(&w.state))?, ContinueAsNewOptions::default())?;
            }
            ctx.state_mut(|w| w.steps += 1);
            match decision {
                Decision::Ask => {
                    let input = CutoffsInput { asked_at: now(ctx) };
                    let Some(cutoffs) = call_remotely(ctx, Remote, Activities::cutoffs, input).await else { continue };
                    ctx.state_mut(|w| w.state.asked(cutoffs));
                }
                Decision::Purge(cutoff) => {
                    let Some(batch) = call_remotely(ctx, Remote, Activities::purge, cutoff).await else { continue };
                    ctx.state_mut(|w| w.state.purged(cutoff, batch));
                }
                Decision::Finish => return Ok(ctx.state(|w| w.state.report.clone())),
            }
            ctx.set_current_details(ctx.state(|w| w.details(now(ctx))));
        }
    }

    #[query(name = "status")]
    #[must_use]
    pub fn status(&self, _: &WorkflowContextView) -> Report {
        self.state.report.clone()
    }
}

impl Driven for RetentionRun {
    type State = State;

    fn state_mut(&mut self) -> Option<&mut State> {
        Some(&mut self.state)
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    fn details(&self, _: Timestamp) -> String {
        format!("{}{}", self.state.report, self.calls.trouble())
    }

    /// Only a cancel stops a batch.
    fn winds_down(&self) -> bool {
        false
    }
}
