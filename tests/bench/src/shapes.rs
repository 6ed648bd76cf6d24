//! Workflows to compare with. They do nothing, with the commands of a digest or of other designs.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use temporalio_common::RetryPolicy;
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::{
    ActivityOptions, LocalActivityOptions, SyncWorkflowContext, TimerOptions, WorkerOptions, WorkflowContext,
    WorkflowResult,
    activities::{ActivityContext, ActivityError},
    workflows::select,
};
use tidings::registration::{CACHED, STICKY, worker_tuner};
use tidings_workflows::InboundSignal;
use tokio::sync::watch;

use crate::slot::slot;

/// The time from a window's first event until it is due, in workflows that re-arm the timer with each event.
const DELAY: Duration = Duration::from_secs(15);
/// The same time as a cadence.
pub const CADENCE: &str = "after 15s";
/// Longer than any measurement.
const ATTEMPT: Duration = Duration::from_mins(10);

/// The commands of a workflow that a window's first event starts.
#[derive(Clone, Copy)]
pub enum Shape {
    /// The digest workflow without faults: plan, timer, load, render and send. Only send is a remote activity.
    /// Its worker has the cache and the slots of Tidings; the other workers have the SDK's defaults.
    Same,
    /// Timer, load, render and send, all three remotely.
    Textbook,
    /// The textbook's commands, with a timer that each signal re-arms.
    Rearmed,
}

impl Shape {
    /// A worker for this shape on `task_queue`. Each activity `send` counts one.
    ///
    /// # Errors
    /// When the SDK refuses the registration.
    pub fn worker(self, task_queue: &str, sent: watch::Sender<usize>) -> anyhow::Result<WorkerOptions> {
        let options = WorkerOptions::new(task_queue).register_activities(Nothing { sent });
        Ok(match self {
            Self::Same => options
                .max_cached_workflows(CACHED)
                .sticky_queue_schedule_to_start_timeout(STICKY)
                .tuner(worker_tuner())
                .register_workflow::<Same>()?
                .build(),
            Self::Textbook => options.register_workflow::<Textbook>()?.build(),
            Self::Rearmed => options.register_workflow::<Rearmed>()?.build(),
        })
    }
}

struct Nothing {
    sent: watch::Sender<usize>,
}

#[activities]
#[expect(clippy::unused_async, reason = "the SDK runs an activity that is not async on a thread of its own")]
impl Nothing {
    #[activity(name = "nothing")]
    async fn nothing(self: std::sync::Arc<Self>, _: ActivityContext, (): ()) -> Result<(), ActivityError> {
        Ok(())
    }

    #[activity(name = "send")]
    async fn send(self: std::sync::Arc<Self>, _: ActivityContext, (): ()) -> Result<(), ActivityError> {
        self.sent.send_modify(|count| *count += 1);
        Ok(())
    }
}

/// The time from a workflow's time to the next slot, for windows that no event re-arms.
fn until_slot(now: Option<SystemTime>) -> Duration {
    let now = now.and_then(|now| Timestamp::try_from(now).ok()).unwrap_or_default();
    slot(now, Duration::ZERO).ok().and_then(|slot| slot.duration_since(now).try_into().ok()).unwrap_or_default()
}

#[workflow]
#[derive(Default)]
struct Same;

#[workflow_methods]
impl Same {
    #[run(name = "digest")]
    async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        let local = || {
            let once = RetryPolicy::builder().maximum_attempts(1).build();
            LocalActivityOptions::builder().schedule_to_close_timeout(ATTEMPT).retry_policy(once).build()
        };
        ctx.execute_local_activity(Nothing::nothing, (), local()).await?;
        let wait = until_slot(ctx.workflow_time());
        ctx.timer(TimerOptions::builder(wait).build()).await;
        ctx.execute_local_activity(Nothing::nothing, (), local()).await?;
        ctx.execute_local_activity(Nothing::nothing, (), local()).await?;
        ctx.execute_activity(Nothing::send, (), ActivityOptions::start_to_close_timeout(ATTEMPT)).await?;
        Ok(())
    }

    #[signal(name = "events")]
    fn events(&mut self, _: &mut SyncWorkflowContext<Self>, _: InboundSignal) {}
}

#[workflow]
#[derive(Default)]
struct Textbook;

#[workflow_methods]
impl Textbook {
    #[run(name = "digest")]
    async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        let options = || ActivityOptions::start_to_close_timeout(ATTEMPT);
        let wait = until_slot(ctx.workflow_time());
        ctx.timer(TimerOptions::builder(wait).build()).await;
        ctx.execute_activity(Nothing::nothing, (), options()).await?;
        ctx.execute_activity(Nothing::nothing, (), options()).await?;
        ctx.execute_activity(Nothing::send, (), options()).await?;
        Ok(())
    }

    #[signal(name = "events")]
    fn events(&mut self, _: &mut SyncWorkflowContext<Self>, _: InboundSignal) {}
}

#[workflow]
#[derive(Default)]
struct Rearmed {
    signals: u32,
}

#[workflow_methods]
impl Rearmed {
    #[run(name = "digest")]
    async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        loop {
            let signals = ctx.state(|w| w.signals);
            let token = ctx.cancellation_token().child_token();
            let mut quiet = ctx.timer(TimerOptions::builder(DELAY).cancellation_token(token.clone()).build());
            let waiting = ctx.clone();
            let mut more = waiting.wait_condition(|w| w.signals > signals);
            select! {
                _ = quiet => break,
                _ = more => token.cancel(),
            }
        }
        let options = || ActivityOptions::start_to_close_timeout(ATTEMPT);
        ctx.execute_activity(Nothing::nothing, (), options()).await?;
        ctx.execute_activity(Nothing::nothing, (), options()).await?;
        ctx.execute_activity(Nothing::send, (), options()).await?;
        Ok(())
    }

    #[signal(name = "events")]
    fn events(&mut self, _: &mut SyncWorkflowContext<Self>, _: InboundSignal) {
        self.signals += 1;
    }
}
