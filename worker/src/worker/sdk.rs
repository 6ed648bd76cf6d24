//! The SDK's worker, without two faults of its version 1.1.1: queries change what a run does, so that no replay of its history
//! does the same, and from then on each worker fails the run's tasks.
//!
//! - A query may come to a worker before the task that waits for somebody: when another worker had the run and stands still.
//!   The history that comes with it ends with a timer's firing, or with signals, and no task has told of them yet. The SDK
//!   tells the workflow all the same, by the time of the task before, and keeps the run like that. It arms a timer again that
//!   has fired.
//! - A query that comes with a task is answered while a local activity runs, and the task ends with the query. An activity that
//!   ends meanwhile is written with that task, and the workflow is told of it with the next one, after the signals that came
//!   in between. A replay tells of it with the first, before them.
//!
//! So the worker forgets such a run when the query has its answer, and replays it from its history when it has a task.

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

/// The id of a query that comes without a task.
const ALONE: &str = "legacy_query";

/// What the workers of a process share.
///
/// # Errors
/// Telemetry cannot be set up.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn runtime() -> anyhow::Result<CoreRuntime> {
    CoreRuntime::new_assume_tokio(RuntimeOptions::builder().build().map_err(anyhow::Error::msg)?)
}

/// As [`Worker::new`], see the module.
///
/// # Errors
/// The options are wrong, or the client has such a worker already.
pub fn worker(runtime: &CoreRuntime, client: &Client, mut options: WorkerOptions) -> anyhow::Result<Worker> {
    let config = options.to_core_options(client.namespace(), client.identity()).map_err(anyhow::Error::msg)?;
    let core = Arc::new(init_worker(runtime, config, client.connection().clone())?);
    options.worker_interceptor(Forget { core: Arc::downgrade(&core), runs: Mutex::default() });
    Worker::new_from_core_options(core, client.options().clone(), options).context("the worker cannot be made")
}

struct Forget {
    core: Weak<CoreWorker>,
    runs: Mutex<HashMap<String, Told>>,
}

/// How far the workflow of a run was told.
#[derive(Clone, Copy)]
struct Told {
    /// The time of its latest task, in seconds and nanoseconds; `None`: it had none.
    task: Option<(i64, i32)>,
    /// Events of its history.
    events: u32,
    /// It was told of events, and of no task that brings them.
    ahead: bool,
}

impl Told {
    fn then(before: Option<Self>, activation: &WorkflowActivation) -> Self {
        let task = activation.timestamp.as_ref().map(|time| (time.seconds, time.nanos));
        let events = activation.history_length;
        // Several activations of one task (a local activity has its answer) are told of no events.
        let more = before.is_some_and(|before| before.task == task && (before.ahead || before.events < events));
        Self { task, events, ahead: task.is_none() || more }
    }
}

#[async_trait(?Send)]
impl WorkerInterceptor for Forget {
    async fn on_workflow_activation(&self, activation: &WorkflowActivation) -> anyhow::Result<()> {
        let run = &activation.run_id;
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = false;
        for job in activation.jobs.iter().filter_map(|job| job.variant.as_ref()) {
            match job {
                Variant::RemoveFromCache(_) => {
                    runs.remove(run);
                }
                Variant::QueryWorkflow(query) => {
                    let ahead = runs.get(run).is_some_and(|told| told.ahead);
                    if (query.query_id != ALONE || ahead)
                        && let Some(core) = self.core.upgrade()
                    {
                        // It does so when the query is answered.
                        core.request_workflow_eviction(run);
                    }
                }
                _ => told = true,
            }
        }
        if told {
            let told = Told::then(runs.get(run).copied(), activation);
            runs.insert(run.clone(), told);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Whether the run is ahead after each of these: the second of its latest task, and the events of its history.
    fn ahead<const N: usize>(activations: [(Option<u64>, u32); N]) -> [bool; N] {
        let mut told = None;
        activations.map(|(task, history_length)| {
            let timestamp = task.map(|second| (UNIX_EPOCH + Duration::from_secs(second)).into());
            let next =
                Told::then(told, &WorkflowActivation { timestamp, history_length, ..WorkflowActivation::default() });
            told = Some(next);
            next.ahead
        })
    }

    #[test]
    fn a_run_that_had_each_task_is_not_ahead() {
        // The second has an activity's answer; the third task brings nothing but itself.
        assert_eq!(ahead([(Some(1), 3), (Some(1), 3), (Some(5), 9), (Some(6), 12)]), [false; 4]);
    }

    #[test]
    fn a_run_that_was_told_of_events_without_a_task_is_ahead_until_it_has_one() {
        assert_eq!(ahead([(None, 2), (None, 2), (Some(1), 3)]), [true, true, false]);
        assert_eq!(ahead([(Some(1), 3), (Some(1), 8), (Some(1), 8), (Some(9), 10)]), [false, true, true, false]);
    }
}
