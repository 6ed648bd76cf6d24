//! Answers of commands that wait for a local activity: each in a workflow task of its own.
//!
//! A task that also answers a query ends with the query, and records an activity that has ended meanwhile. The workflow sees the
//! result, and the command ends, in the next task. If a worker replays the run in between, it delivers the result in the replay
//! of the first task. A command that ends in a replay, and that no history ends, stops the run: temporalio-sdk-core 0.10.1 sends
//! the command of the answer without its message (`IssueNewMessage` in `workflow_machines.rs`), and the server refuses this task
//! and each later one. A timer that fires ends the replay. The fault is gone when the tests `comes_with_a_query` pass without the
//! timer.

use std::time::Duration;

use temporalio_workflow::{TimerOptions, WorkflowCancellationToken, WorkflowContext};

use super::{Digest, State};
use crate::driver::wait_until;

/// The patch that answers in a workflow task of its own. Earlier versions answered in the task that brought the result.
const ANSWER_ALONE: &str = "answer-alone";

/// The shortest timer that the server knows.
const NEXT_TASK: Duration = Duration::from_millis(1);

/// Waits until a command is `answered`, and takes the answer.
pub(super) async fn answer_alone<T>(
    ctx: &WorkflowContext<Digest>,
    answered: impl Fn(&Digest) -> bool,
    take: impl FnOnce(&mut State) -> T,
) -> T {
    // Asked before the activity ends: in the replay that brings its result, the patch would be unknown.
    let alone = ctx.patched(ANSWER_ALONE);
    wait_until(ctx, answered).await;
    let answer = ctx.state_mut(|w| {
        w.answers += 1;
        take(&mut w.state)
    });
    if alone {
        let detached = WorkflowCancellationToken::new();
        ctx.timer(TimerOptions::builder(NEXT_TASK).cancellation_token(detached).build()).await;
    }
    ctx.state_mut(|w| w.answers -= 1);
    answer
}
