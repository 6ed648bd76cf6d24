//! The upkeep workflow: its schedule starts one at a time. It carries out what [`State::decide`] decides, and nothing else.

use temporalio_common::{ActivityDefinition, data_converters::TemporalDeserializable};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{
    ActivityExecutionError, ContinueAsNewOptions, WorkflowContext, WorkflowContextView, WorkflowResult,
    WorkflowTermination,
};
use tidings_model::retention::CutoffsInput;

use super::{
    Report,
    activities::UpkeepActivities as Activities,
    state::{Decision, State},
};
use crate::{
    call::{self, How},
    carried::{Carried, Unreadable},
};

/// Batches that one run takes before it continues as new: each is a few events of history.
const STEPS_PER_RUN: u32 = 500;

/// See the module.
#[workflow]
pub struct Upkeep {
    state: State,
    unreadable: Option<Unreadable>,
    steps: u32,
}

type Ctx = WorkflowContext<Upkeep>;

#[workflow_methods]
impl Upkeep {
    #[init]
    fn new(ctx: &WorkflowContextView, carried: Carried) -> Self {
        let (state, unreadable) = carried.state(ctx);
        Self { state: state.unwrap_or_default(), unreadable, steps: 0 }
    }

    /// Purges what is older than its retention, and completes with the counts.
    ///
    /// # Errors
    /// Cancelled. Each batch is whole or not there at all, so that the next upkeep goes on where this one ended.
    #[run(name = "upkeep")] // names::UPKEEP_WORKFLOW_TYPE
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<Report> {
        ctx.state(|w| w.unreadable.iter().for_each(Unreadable::fail_task));
        loop {
            if ctx.cancellation_token().is_cancelled() {
                return Err(WorkflowTermination::cancelled());
            }
            let decision = ctx.state(|w| w.state.decide());
            if decision != Decision::Finish && ctx.state(|w| w.steps >= STEPS_PER_RUN) {
                ctx.continue_as_new(ctx.state(|w| Carried::new(&w.state))?, ContinueAsNewOptions::default())?;
            }
            ctx.state_mut(|w| w.steps += 1);
            match decision {
                Decision::Ask => {
                    let input = CutoffsInput { asked_at: call::timestamp(ctx.workflow_time()) };
                    let Some(cutoffs) = call(ctx, Activities::cutoffs, input).await? else { continue };
                    ctx.state_mut(|w| w.state.asked(cutoffs));
                }
                Decision::Purge(cutoff) => {
                    let Some(batch) = call(ctx, Activities::purge, cutoff).await? else { continue };
                    ctx.state_mut(|w| w.state.purged(cutoff, batch));
                }
                Decision::Finish => return Ok(ctx.state(|w| w.state.report.clone())),
            }
            ctx.set_current_details(ctx.state(|w| w.state.report.to_string()));
        }
    }

    /// What is done so far.
    #[query(name = "status")]
    pub fn status(&self, _: &WorkflowContextView) -> Report {
        self.state.report.clone()
    }
}

/// As many attempts as it takes; `None`: it was cancelled.
async fn call<A>(ctx: &Ctx, activity: A, input: A::Input) -> Result<Option<A::Output>, WorkflowTermination>
where
    A: ActivityDefinition<Output: TemporalDeserializable>,
{
    // A child of it would be dropped with the options, and hear of nothing.
    let token = ctx.cancellation_token();
    match ctx.execute_activity(activity, input, How::Quickly.options(token)).await {
        Ok(answer) => Ok(Some(answer)),
        Err(ActivityExecutionError::Cancelled(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
