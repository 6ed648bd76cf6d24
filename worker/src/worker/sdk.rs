//! Wraps the SDK's worker with a workaround for two bugs in temporalio-sdk 1.1.1 and temporalio-sdk-core
//! 0.10.1.
//!
//! In both, a query changes the order in which a run sees its events. No replay of the history repeats this
//! order, so every later worker fails the run's tasks.
//!
//! - **A query without a workflow task.** A worker may get such a query if another worker held the run and
//!   stalled. The history then ends with a fired timer, or with signals, that no workflow task has delivered
//!   yet. The SDK applies them anyway, at the time of the previous task, and keeps the run in this state. The
//!   run starts the fired timer again.
//! - **A query with a workflow task, during a local activity.** The SDK replies to the query and completes
//!   the task with it. If the activity ends meanwhile, it is recorded with this task. But the workflow sees
//!   the result with the next task, after the signals in between. A replay delivers the result with the first
//!   task, before those signals.
//!
//! Workaround: after such a query the worker evicts the run. The next workflow task replays its history.
//!
//! To check if a new version is fixed, build workers with [`Worker::new`] instead of [`create_worker`] and run the
//! tests in `tests/it/digest/queries.rs`. If they pass, delete this module.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use anyhow::Context;
use async_trait::async_trait;
use temporalio_client::{Client, NamespacedClient};
use temporalio_common::protos::coresdk::workflow_activation::{WorkflowActivation, workflow_activation_job::Variant};
use temporalio_sdk::{Worker, WorkerOptions, interceptors::WorkerInterceptor};
use temporalio_sdk_core::{CoreRuntime, RuntimeOptions, Worker as CoreWorker, init_worker};

use super::producer_faults::ProducerFaults;

const ALONE: &str = "legacy_query";

/// Shared by all workers in this process.
///
/// # Errors
/// Telemetry cannot be set up.
///
/// # Panics
/// Outside a tokio runtime.
pub fn runtime() -> anyhow::Result<CoreRuntime> {
    CoreRuntime::new_assume_tokio(RuntimeOptions::builder().build().map_err(anyhow::Error::msg)?)
}

/// Creates a worker that evicts a run after a query that changed it, and detects producers' mistakes.
///
/// # Errors
/// The options are wrong, or the client already has such a worker.
pub fn create_worker(runtime: &CoreRuntime, client: &Client, mut options: WorkerOptions) -> anyhow::Result<Worker> {
    let config = options.to_core_options(client.namespace(), client.identity()).map_err(anyhow::Error::msg)?;
    let core = Arc::new(init_worker(runtime, config, client.connection().clone())?);
    options.worker_interceptor(EvictAfterQuery { core: Arc::downgrade(&core), runs: Mutex::default() });
    options.worker_interceptor(ProducerFaults::new(client.clone(), options.task_queue.clone()));
    Worker::new_from_core_options(core, client.options().clone(), options).context("cannot create the worker")
}

struct EvictAfterQuery {
    core: Weak<CoreWorker>,
    runs: Mutex<HashMap<String, RunProgress>>,
}

/// How far the SDK has delivered a run's events to the workflow.
#[derive(Clone, Copy)]
struct RunProgress {
    /// Time of the latest workflow task, in seconds and nanoseconds. `None` before the first.
    task: Option<(i64, i32)>,
    events: u32,
    /// `true` if the workflow saw events that no workflow task has delivered.
    ahead: bool,
}

impl RunProgress {
    fn after(before: Option<Self>, activation: &WorkflowActivation) -> Self {
        let task = activation.timestamp.as_ref().map(|time| (time.seconds, time.nanos));
        let events = activation.history_length;
        // Further activations in the same task add no events, e.g. the result of a local activity.
        let more = before.is_some_and(|before| before.task == task && (before.ahead || before.events < events));
        Self { task, events, ahead: task.is_none() || more }
    }
}

#[async_trait(?Send)]
impl WorkerInterceptor for EvictAfterQuery {
    async fn on_workflow_activation(&self, activation: &WorkflowActivation) -> anyhow::Result<()> {
        let run = &activation.run_id;
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut resumed = false;
        for job in activation.jobs.iter().filter_map(|job| job.variant.as_ref()) {
            match job {
                Variant::RemoveFromCache(_) => {
                    runs.remove(run);
                }
                Variant::QueryWorkflow(query) => {
                    let ahead = runs.get(run).is_some_and(|progress| progress.ahead);
                    if (query.query_id != ALONE || ahead)
                        && let Some(core) = self.core.upgrade()
                    {
                        // The SDK replies to the query before it evicts the run.
                        core.request_workflow_eviction(run);
                    }
                }
                _ => resumed = true,
            }
        }
        if resumed {
            let progress = RunProgress::after(runs.get(run).copied(), activation);
            runs.insert(run.clone(), progress);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Returns if the run is ahead after each activation: the time of its latest task, and the events of its history.
    fn ahead<const N: usize>(activations: [(Option<u64>, u32); N]) -> [bool; N] {
        let mut progress = None;
        activations.map(|(task, history_length)| {
            let timestamp = task.map(|second| (UNIX_EPOCH + Duration::from_secs(second)).into());
            let next = RunProgress::after(
                progress,
                &WorkflowActivation { timestamp, history_length, ..WorkflowActivation::default() },
            );
            progress = Some(next);
            next.ahead
        })
    }

    #[test]
    fn a_run_that_saw_every_task_is_not_ahead() {
        // The second has an activity's answer; the third task brings nothing but itself.
        assert_eq!(ahead([(Some(1), 3), (Some(1), 3), (Some(5), 9), (Some(6), 12)]), [false; 4]);
    }

    #[test]
    fn a_run_that_saw_events_without_a_task_is_ahead() {
        assert_eq!(ahead([(None, 2), (None, 2), (Some(1), 3)]), [true, true, false]);
        assert_eq!(ahead([(Some(1), 3), (Some(1), 8), (Some(1), 8), (Some(9), 10)]), [false, true, true, false]);
    }
}
