//! How each decision of the digest workflow is carried out: which activity is called, and who reads its answer.

use temporalio_workflow::WorkflowContext;

use super::{Decision, Digest, State, activities::DigestActivities as Activities};
use crate::call::{
    How::{Quickly, Remotely},
    call, wait,
};

pub(crate) async fn act(ctx: &WorkflowContext<Digest>, decision: Decision) {
    match decision {
        Decision::Wait(until) => wait(ctx, until).await,
        Decision::Plan => call(ctx, Quickly, || Activities::plan, State::plan_input, State::planned).await,
        Decision::Stash => call(ctx, Quickly, || Activities::stash, State::stash_input, State::stashed).await,
        Decision::Retract => call(ctx, Quickly, || Activities::retract, State::retract_input, State::retracted).await,
        Decision::Load => call(ctx, Quickly, || Activities::load, State::load_input, State::loaded).await,
        Decision::Render => call(ctx, Quickly, || Activities::render, State::render_input, State::rendered).await,
        Decision::Send => call(ctx, Remotely, || Activities::send, State::send_input, State::sent).await,
        Decision::Close => call(ctx, Quickly, || Activities::close, State::close_input, State::closed).await,
        Decision::Reopen => call(ctx, Quickly, || Activities::reopen, State::reopen_input, State::resumed).await,
        Decision::Audit => call(ctx, Quickly, || Activities::audit, State::audit_input, State::audited).await,
        Decision::Bury => {
            let workflow_id = ctx.workflow_id().to_owned();
            let input = |state: &mut State, _| Some(state.bury_input(workflow_id));
            call(ctx, Quickly, || Activities::bury, input, State::buried).await;
        }
        Decision::Finish => {}
    }
}
