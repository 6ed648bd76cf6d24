//! What a worker runs: the one place that registers workflows and activities, for production and for the tests.

use std::time::Duration;

use temporalio_sdk::{
    WorkerOptions,
    runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder},
};
use tidings_activities::{Deps, DigestActivities, MessageActivities, RetentionActivities};
use tidings_model::names;
use tidings_workflows::{Digest, Message, Upkeep};

use super::failures::Failures;

/// What is under way at shutdown may end by itself for so long; a delivery past the dot should.
const GRACE: Duration = Duration::from_secs(20);

/// Workflows that a worker keeps in memory, some 63 KiB each: what it does not, is replayed from its history before each of
/// its tasks. So many are under 512 MiB with the rest of a worker (`./dev bench open`).
pub const CACHED: usize = 4_000;

/// A workflow task waits for so long for the worker that has its workflow in memory; then any worker may take it, with all of
/// the history to be read and replayed. The SDK's 10 s made the server do that for the end of every herd (docs/benchmarks.md).
/// After a kill -9 some tasks wait for so long, so it is less than commands (30 s, `tidings_client::Commands`) and clients do by default.
pub const STICKY: Duration = Duration::from_secs(25);

/// Deliveries that a worker has at a time. As long as one of these slots is free, a delivery comes with the answer to the
/// workflow task that asked for it; otherwise by the task queue, with a write and a call more (docs/benchmarks.md).
const DELIVERIES: usize = 500;

/// Tasks of each other kind that a worker has at a time: as many as the SDK has by default.
const TASKS: usize = 100;

/// What a worker for digests has under way at a time.
#[must_use]
pub fn slots() -> TunerHolder {
    TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(DELIVERIES))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(TASKS))
        .build()
}

/// A worker on `task_queue`: for digests, and for single messages of the stream `bulk`.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn digests(task_queue: &str, deps: Deps) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.rate(&deps.settings.streams.bulk);
    Ok(WorkerOptions::new(task_queue)
        .max_cached_workflows(CACHED)
        .sticky_queue_schedule_to_start_timeout(STICKY)
        .tuner(slots())
        // In fair weather deliveries are the only activities that go by the queue.
        .maybe_max_task_queue_activities_per_second(rate)
        .register_workflow::<Digest>()?
        .register_workflow::<Message>()?
        .register_activities(DigestActivities { deps: deps.clone() })
        .register_activities(MessageActivities { deps })
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// A worker beside the one on `task_queue`: for single messages of the stream `transactional`, which wait for nobody.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn transactional(task_queue: &str, deps: Deps) -> anyhow::Result<WorkerOptions> {
    let rate = deps.settings.rate(&deps.settings.streams.transactional);
    Ok(WorkerOptions::new(names::transactional(task_queue))
        .maybe_max_task_queue_activities_per_second(rate)
        .register_workflow::<Message>()?
        .register_activities(MessageActivities { deps })
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}

/// A worker beside the one on `task_queue`, for the upkeep.
///
/// # Errors
/// Never in practice: the SDK refuses a workflow that is registered twice.
pub fn upkeep(task_queue: &str, activities: RetentionActivities) -> anyhow::Result<WorkerOptions> {
    Ok(WorkerOptions::new(names::upkeep(task_queue))
        .register_workflow::<Upkeep>()?
        .register_activities(activities)
        .activity_inbound_interceptor(Failures)
        .graceful_shutdown_period(GRACE)
        .build())
}
