//! Registration: the one place that registers workflows and activities, for production and for the tests.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use temporalio_sdk::{
    WorkerOptions,
    activities::ActivityError,
    interceptors::{ActivityInboundInterceptor, ExecuteActivityInput, ExecuteActivityOutput, Next},
    runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder},
};
use tidings_activities::{DigestActivities, MessageActivities, RetentionActivities, SubscriptionActivities};
use tidings_model::{Alert, names, settings::StreamName};
use tidings_services::Deps;
use tidings_workflows::{Deliveries, Digest, Message, RetentionRun};

/// The time for activities in progress to end at shutdown. A delivery past the dot should end by itself.
const GRACE: Duration = Duration::from_secs(20);

/// The number of workflows that a worker caches, some 63 KiB each. Every task of another workflow needs a replay of its
/// history. With this number, a worker stays below 512 MiB (`./dev bench open`).
pub const CACHED: usize = 4_000;

/// Memory of a worker with no workflow in its cache while it sends, and memory of a workflow in it with its part of what is being sent.
const WORKER_BYTES: u64 = 128 << 20;
const WORKFLOW_BYTES: u64 = 96 << 10;
/// Workflows that any worker caches, however little memory it has.
const FEW_CACHED: usize = 100;

/// Returns the number of workflows that a worker with this memory caches.
#[must_use]
pub fn cached_workflows(memory: Option<u64>) -> usize {
    let fits = memory.map(|memory| memory.saturating_sub(WORKER_BYTES) / WORKFLOW_BYTES);
    fits.map_or(CACHED, |fits| usize::try_from(fits).unwrap_or(CACHED).clamp(FEW_CACHED, CACHED))
}

/// The time that a workflow task waits for the worker that has its workflow in memory. Then any worker may take the task, and
/// replay the history. The SDK's default of 10 s caused such replays at the end of every herd (docs/benchmarks.md). After a
/// kill -9 some tasks wait the full time, so the value is below the 30 s of commands and clients.
pub const STICKY: Duration = Duration::from_secs(25);

/// The number of deliveries that a worker runs at a time. While a slot is free, the server hands a delivery to the worker with
/// the response to the workflow task. Otherwise the delivery goes through the task queue, which costs one more write and call.
const DELIVERIES: usize = 500;

/// The number of tasks of each other kind, as in the SDK's defaults.
const TASKS: usize = 100;

/// The effect of a patch on runs that meet it for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patches {
    /// They take the new way, and record a marker. A worker of a version that does not know the marker cannot continue them.
    Active,
    /// They go the way of earlier versions to their end. docs/upgrades.md says when to use this.
    Held,
}

impl Patches {
    /// Sets this for all workflows of a worker. A run that has a marker goes on with the new way in any case.
    pub fn apply(self, worker: &mut WorkerOptions) {
        worker.patch_activation_callback = match self {
            Self::Active => None,
            Self::Held => Some(Arc::new(|_| false)),
        };
    }
}

/// Returns the numbers of tasks that a worker for digests runs at a time.
#[must_use]
pub fn worker_tuner() -> TunerHolder {
    TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(DELIVERIES))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .build()
}

/// Returns the worker on `task_queue`, for digests. The worker also delivers the single messages of the stream `bulk` that an
/// earlier version put there.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn digests(task_queue: &str, deps: Deps) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.digest_rate();
    Ok(WorkerOptions::new(task_queue)
        .max_cached_workflows(CACHED)
        .sticky_queue_schedule_to_start_timeout(STICKY)
        .tuner(worker_tuner())
        // While the store answers, deliveries are the only activities that go through the queue.
        .maybe_max_task_queue_activities_per_second(rate)
        .register_workflow::<Digest>()?
        .register_workflow::<Message>()?
        .register_activities(DigestActivities { deps: deps.clone() })
        .register_activities(MessageActivities { deps })
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Returns the worker next to the one on `task_queue`, for single messages of the stream `transactional`. They never queue
/// behind digests.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn transactional(task_queue: &str, deps: Deps) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.rate(StreamName::Transactional);
    messages(names::transactional(task_queue), rate, deps)
}

/// Returns the worker next to the one on `task_queue`, for single messages of the stream `bulk`. They and the digests never
/// queue behind each other.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn bulk(task_queue: &str, deps: Deps) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.bulk_message_rate();
    messages(names::bulk(task_queue), rate, deps)
}

fn messages(task_queue: String, rate: Option<f64>, deps: Deps) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(task_queue)
        .maybe_max_task_queue_activities_per_second(rate)
        .register_workflow::<Message>()?
        .register_activities(MessageActivities { deps })
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Returns the worker next to the one on `task_queue`, for the purge.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn retention(task_queue: &str, activities: RetentionActivities) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(names::retention(task_queue))
        .register_workflow::<RetentionRun>()?
        .register_activities(activities)
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Returns the worker next to the one on `task_queue`, for deliveries to subscriptions.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn subscriptions(task_queue: &str, activities: SubscriptionActivities) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(names::subscriptions(task_queue))
        .register_workflow::<Deliveries>()?
        .register_activities(activities)
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// Logs each attempt at an activity that fails, under `alert=activity_failed`. The SDK's span around it has the workflow.
pub struct Failures;

impl ActivityInboundInterceptor for Failures {
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
                    "the workflow waits for you, and tries it again within an hour"
                } else {
                    "Temporal tries it again"
                };
                tracing::warn!(alert = %Alert::ActivityFailed, activity, attempt, why = %failure, "{next}");
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
