//! Tasks of each build and their failures, read from the histories of all runs.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use temporalio_client::{Client, WorkflowFetchHistoryOptions, WorkflowListOptions};
use temporalio_common::protos::temporal::api::{
    enums::v1::WorkflowTaskFailedCause as Cause,
    history::v1::{HistoryEvent, WorkflowTaskFailedEventAttributes, history_event::Attributes},
};
use tidings_harness::server::run_handle;

use crate::{Build, Processes};

/// Histories that are fetched at the same time.
const AT_ONCE: usize = 8;
/// Expected failures of a workflow task: a signal or an update arrived while the worker completed the run, or a worker
/// left with a task. The server itself fails a task with `ForceCloseCommand` when its run is terminated.
const USUAL: [Cause; 4] =
    [Cause::UnhandledCommand, Cause::UnhandledUpdate, Cause::ResetStickyTaskQueue, Cause::ForceCloseCommand];

/// Counts of tasks over all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    pub runs: u64,
    /// Runs with workflow tasks of both builds.
    pub on_both: u64,
    /// Runs that continued as new.
    pub continued: u64,
    /// Completed workflow tasks, and activities completed from the task queue.
    pub workflow_tasks: BTreeMap<Build, u64>,
    pub activities: BTreeMap<Build, u64>,
    /// Expected failures of workflow tasks.
    pub usual: u64,
    /// Other failures: the workflow and the reason.
    pub failed: Vec<String>,
}

impl Tasks {
    /// Counts the tasks of all runs so far.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn of(processes: &Processes) -> Result<Self> {
        let temporal = processes.server.client().await?;
        let runs: Vec<_> = temporal.list_workflows(String::new(), WorkflowListOptions::default()).try_collect().await?;
        let histories = runs.iter().map(|run| history(&temporal, run.id(), run.run_id()));
        let mut histories = stream::iter(histories).buffer_unordered(AT_ONCE);
        let mut tasks = Self::default();
        while let Some((id, events)) = histories.try_next().await? {
            tasks.count(&id, &events, &processes.pids);
        }
        Ok(tasks)
    }

    fn count(&mut self, id: &str, events: &[HistoryEvent], pids: &[(u32, Build)]) {
        let (mut old, mut new) = (false, false);
        for event in events {
            match &event.attributes {
                Some(Attributes::WorkflowTaskCompletedEventAttributes(task)) => {
                    let Some(build) = build(&task.identity, pids) else { continue };
                    *self.workflow_tasks.entry(build).or_default() += 1;
                    old |= build == Build::Old;
                    new |= build == Build::New;
                }
                Some(Attributes::ActivityTaskCompletedEventAttributes(task)) => {
                    let Some(build) = build(&task.identity, pids) else { continue };
                    *self.activities.entry(build).or_default() += 1;
                }
                Some(Attributes::WorkflowTaskFailedEventAttributes(task)) if USUAL.contains(&task.cause()) => {
                    self.usual += 1;
                }
                Some(Attributes::WorkflowTaskFailedEventAttributes(task)) => {
                    self.failed.push(format!("{id}: {}", failure(task, pids)));
                }
                Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_)) => self.continued += 1,
                _ => {}
            }
        }
        self.runs += 1;
        self.on_both += u64::from(old && new);
    }
}

async fn history(temporal: &Client, id: &str, run: &str) -> Result<(String, Vec<HistoryEvent>)> {
    let history = run_handle(temporal, id.to_owned(), Some(run)).fetch_history(WorkflowFetchHistoryOptions::default());
    Ok((id.to_owned(), history.into_events().await?))
}

/// The build of an identity `tidings VERSION (process PID)`.
fn build(identity: &str, pids: &[(u32, Build)]) -> Option<Build> {
    let last = identity.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?;
    let pid: u32 = last.parse().ok()?;
    pids.iter().find(|(known, _)| *known == pid).map(|(_, build)| *build)
}

fn failure(task: &WorkflowTaskFailedEventAttributes, pids: &[(u32, Build)]) -> String {
    let by = build(&task.identity, pids).map_or_else(|| task.identity.clone(), |build| format!("the {build:?} build"));
    let why = task.failure.as_ref().map_or("", |failure| &failure.message);
    format!("{} by {by}: {why}", task.cause().as_str_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_belongs_to_the_build_of_its_identitys_process() {
        let pids = [(17, Build::Old), (170, Build::New)];
        assert_eq!(build("tidings 0.1.0 (process 17)", &pids), Some(Build::Old));
        assert_eq!(build("tidings 0.1.0 (process 170)", &pids), Some(Build::New));
        assert_eq!(build("tidings 0.1.0 (process 1)", &pids), None);
        assert_eq!(build("temporal-cli", &pids), None);
    }
}
