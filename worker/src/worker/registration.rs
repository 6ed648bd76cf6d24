//! The only place to register workflows and activities, for production and for tests.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use temporalio_sdk::{
    WorkerOptions,
    activities::ActivityError,
    interceptors::{ActivityInboundInterceptor, ExecuteActivityInput, ExecuteActivityOutput, Next},
    runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder},
};
use tidings_activities::{DigestActivities, MessageActivities, RetentionActivities, SubscriptionActivities};
use tidings_model::{AlertName, names, settings::StreamName};
use tidings_services::StepServices;
use tidings_workflows::{Deliveries, Digest, Message, RetentionRun};

/// Shutdown grace. A delivery past the final dot should complete by itself.
const GRACE: Duration = Duration::from_secs(20);

/// About 63 KiB each. A task for an uncached workflow replays its history. With this limit, a worker stays
/// below 512 MiB (`./dev bench open`).
pub const CACHED: usize = 4_000;

/// Memory for a sending worker with an empty cache, and for each cached workflow with its share of the
/// messages in progress.
const WORKER_BYTES: u64 = 128 << 20;
const WORKFLOW_BYTES: u64 = 96 << 10;
const FEW_CACHED: usize = 100;

#[must_use]
pub fn cached_workflows(memory: Option<u64>) -> usize {
    let fits = memory.map(|memory| memory.saturating_sub(WORKER_BYTES) / WORKFLOW_BYTES);
    fits.map_or(CACHED, |fits| usize::try_from(fits).unwrap_or(CACHED).clamp(FEW_CACHED, CACHED))
}

/// A workflow task waits this long for the worker that has cached its workflow. Then any worker may take the
/// task and replay the history. The SDK's default of 10 s caused such replays at the end of every herd
/// (docs/benchmarks.md). After a kill -9 some tasks wait the full time, so this must be below the 30 s
/// timeout of commands and clients.
pub const STICKY: Duration = Duration::from_secs(25);

/// Per worker. While a slot is free, the server returns a delivery in the response to its workflow task;
/// otherwise through the task queue, which costs one more write and call.
const DELIVERIES: usize = 500;

/// Concurrent tasks of each other kind. This is the SDK's default.
const TASKS: usize = 100;

/// How a patch affects runs that reach it for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchMode {
    /// Take the new branch and record a marker. A worker with an older version that lacks this patch cannot
    /// continue the run.
    Active,
    /// Take the old branch until the run ends. docs/upgrades.md explains when to use this.
    Held,
}

impl PatchMode {
    /// Applies to all workflows of a worker. A run with a marker always takes the new branch.
    pub fn apply(self, worker: &mut WorkerOptions) {
        worker.patch_activation_callback = match self {
            Self::Active => None,
            Self::Held => Some(Arc::new(|_| false)),
        };
    }
}

#[must_use]
pub fn worker_tuner() -> TunerHolder {
    TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(DELIVERIES))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .build()
}

/// Also delivers single messages of the stream `bulk` queued here by an earlier version.
///
/// # Errors
/// Never in practice: the SDK rejects a workflow that is registered twice.
pub fn digest_worker(task_queue: &str, deps: StepServices) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.digest_rate();
    Ok(WorkerOptions::new(task_queue)
        .max_cached_workflows(CACHED)
        .sticky_queue_schedule_to_start_timeout(STICKY)
        .tuner(worker_tuner())
        // This effectively limits deliveries, because other activities run locally while the store responds.
        .maybe_max_task_queue_activities_per_second(rate)
        .register_workflow::<Digest>()?
        .register_workflow::<Message>()?
        .register_activities(DigestActivities { deps: deps.clone() })
        .register_activities(MessageActivities { deps })
        .activity_inbound_interceptor(ActivityFailureLogger)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Has its own queue, so transactional messages never wait behind digests.
///
/// # Errors
/// Never in practice: the SDK rejects a workflow that is registered twice.
pub fn transactional_worker(task_queue: &str, deps: StepServices) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.rate(StreamName::Transactional);
    message_worker(names::transactional_queue(task_queue), rate, deps)
}

/// Has its own queue, so single messages and the digests never wait for each other.
///
/// # Errors
/// Never in practice: the SDK rejects a workflow that is registered twice.
pub fn bulk_worker(task_queue: &str, deps: StepServices) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.bulk_message_rate();
    message_worker(names::bulk_queue(task_queue), rate, deps)
}

fn message_worker(task_queue: String, rate: Option<f64>, deps: StepServices) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(task_queue)
        .maybe_max_task_queue_activities_per_second(rate)
        .register_workflow::<Message>()?
        .register_activities(MessageActivities { deps })
        .activity_inbound_interceptor(ActivityFailureLogger)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Has its own queue.
///
/// # Errors
/// Never in practice: the SDK rejects a workflow that is registered twice.
pub fn retention_worker(task_queue: &str, activities: RetentionActivities) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(names::retention_schedule(task_queue))
        .register_workflow::<RetentionRun>()?
        .register_activities(activities)
        .activity_inbound_interceptor(ActivityFailureLogger)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Has its own queue.
///
/// # Errors
/// Never in practice: the SDK rejects a workflow that is registered twice.
pub fn subscription_worker(task_queue: &str, activities: SubscriptionActivities) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(names::subscriptions_queue(task_queue))
        .register_workflow::<Deliveries>()?
        .register_activities(activities)
        .activity_inbound_interceptor(ActivityFailureLogger)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Logs each failed attempt at an activity, with `alert=activity_failed`. The workflow is named in the SDK's
/// span.
pub struct ActivityFailureLogger;

impl ActivityInboundInterceptor for ActivityFailureLogger {
    fn execute_activity<'a>(
        &'a self,
        input: ExecuteActivityInput,
        next: Next<'a, ExecuteActivityInput, ExecuteActivityOutput<'a>>,
    ) -> ExecuteActivityOutput<'a> {
        let info = input.activity_info();
        let (activity, attempt) = (info.activity_type.clone(), info.attempt);
        let done = next.run(input).inspect(move |done| {
            if let Err(ActivityError::Application(failure)) = done {
                let next = if failure.is_non_retryable() {
                    "activity failed; the workflow waits for an operator and retries within an hour"
                } else {
                    "activity failed; Temporal will retry it"
                };
                tracing::warn!(alert = %AlertName::ActivityFailed, activity, attempt, why = %failure, "{next}");
            }
        });
        done.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_caches_as_many_workflows_as_its_memory_takes() {
        for (mebibytes, cached) in
            [(None, CACHED), (Some(512), CACHED), (Some(256), 1365), (Some(192), 682), (Some(96), 100)]
        {
            assert_eq!(cached_workflows(mebibytes.map(|mebibytes: u64| mebibytes << 20)), cached, "{mebibytes:?}");
        }
    }
}
