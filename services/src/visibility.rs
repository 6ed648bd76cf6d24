//! Queries Temporal for open runs and task queues. A run is open while it is running, or paused in Temporal.

use std::future::ready;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::{
    Client, WorkflowCountOptions, WorkflowExecution, WorkflowExecutionStatus, WorkflowListOptions, errors::ClientError,
    tonic::Code,
};
use tidings_model::troubled_run::{FoundRun, RunId, RunTrouble};

const OPEN: &str = "ExecutionStatus IN ('Running', 'Paused')";
/// Servers before 1.30 reject the whole query if it contains the paused status.
const OPEN_BEFORE_PAUSES: &str = "ExecutionStatus = 'Running'";

type StatusConditions = [&'static str; 2];

const OPEN_ONLY: StatusConditions = [OPEN, OPEN_BEFORE_PAUSES];
/// Includes terminated, timed out and failed runs, which may have left events in their histories.
const UNFINISHED: StatusConditions = [
    "ExecutionStatus IN ('Running', 'Paused', 'Terminated', 'TimedOut', 'Failed')",
    "ExecutionStatus IN ('Running', 'Terminated', 'TimedOut', 'Failed')",
];

pub fn list_open(
    temporal: &Client,
    condition: &str,
    options: WorkflowListOptions,
) -> impl Stream<Item = Result<WorkflowExecution, ClientError>> + Send + use<> {
    list_of(temporal, OPEN_ONLY, condition, options)
}

pub fn list_unfinished(
    temporal: &Client,
    condition: &str,
    options: WorkflowListOptions,
) -> impl Stream<Item = Result<WorkflowExecution, ClientError>> + Send + use<> {
    list_of(temporal, UNFINISHED, condition, options)
}

fn list_of(
    temporal: &Client,
    [statuses, before_pauses]: StatusConditions,
    condition: &str,
    options: WorkflowListOptions,
) -> impl Stream<Item = Result<WorkflowExecution, ClientError>> + Send + use<> {
    let (temporal, condition) = (temporal.clone(), condition.to_owned());
    let found = async move {
        let mut found = temporal.list_workflows(format!("{statuses} AND {condition}"), options.clone()).fuse();
        match found.next().await {
            Some(Err(error)) if knows_no_pause(&error) => {
                temporal.list_workflows(format!("{before_pauses} AND {condition}"), options).left_stream()
            }
            first => stream::iter(first).chain(found).right_stream(),
        }
    };
    stream::once(found).flatten()
}

pub fn list_paused(
    temporal: &Client,
    condition: &str,
    options: WorkflowListOptions,
) -> impl Stream<Item = Result<WorkflowExecution, ClientError>> + Send + use<> {
    let paused = temporal.list_workflows(format!("ExecutionStatus = 'Paused' AND {condition}"), options);
    paused.filter(|found| ready(!found.as_ref().is_err_and(knows_no_pause)))
}

/// # Errors
/// If Temporal fails.
pub async fn count_open(temporal: &Client, condition: &str) -> Result<u64, ClientError> {
    let count =
        |open: &str| temporal.count_workflows(format!("{open} AND {condition}"), WorkflowCountOptions::default());
    let counted = match count(OPEN).await {
        Err(error) if knows_no_pause(&error) => count(OPEN_BEFORE_PAUSES).await?,
        counted => counted?,
    };
    Ok(counted.count() as u64)
}

/// Lists matching runs in any status.
///
/// # Errors
/// If Temporal fails.
pub async fn list(temporal: &Client, condition: String, limit: usize) -> Result<Vec<WorkflowExecution>, ClientError> {
    let options = WorkflowListOptions::builder().limit(limit).build();
    temporal.list_workflows(condition, options).try_collect().await
}

fn knows_no_pause(error: &ClientError) -> bool {
    let ClientError::Rpc(status) = error else { return false };
    status.code() == Code::InvalidArgument && status.message().contains("Paused")
}

#[must_use]
pub fn ended_run(run: &WorkflowExecution) -> Option<FoundRun> {
    let trouble = match run.status() {
        WorkflowExecutionStatus::Terminated => RunTrouble::Terminated,
        WorkflowExecutionStatus::TimedOut => RunTrouble::TimedOut,
        WorkflowExecutionStatus::Failed => RunTrouble::Failed,
        _ => return None,
    };
    Some(FoundRun { id: id_of(run), trouble, since: Timestamp::try_from(run.close_time()?).ok()? })
}

#[must_use]
pub fn id_of(run: &WorkflowExecution) -> RunId {
    RunId { workflow_id: run.id().to_owned(), run_id: run.run_id().to_owned() }
}

/// Tasks of one kind waiting in a task queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskQueue))]
pub struct TaskQueueBacklog {
    pub name: String,
    pub kind: TaskKind,
    /// The approximate number of waiting tasks. `None` if the server is older than 1.28 and does not report
    /// it.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub backlog: Option<u64>,
    /// The approximate age of the oldest task, also since 1.28.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub backlog_seconds: Option<f64>,
    /// Workers which polled the queue in the last minutes.
    pub pollers: u64,
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TaskKind {
    Workflow,
    Activity,
}

impl TaskKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Activity => "activity",
        }
    }
}

#[cfg(test)]
mod tests {
    use temporalio_client::tonic::Status;

    use super::*;

    #[test]
    fn only_a_server_without_pauses_is_asked_again() {
        let rpc = |code, message: &str| ClientError::Rpc(Status::new(code, message));
        for (error, again) in [
            (rpc(Code::InvalidArgument, "invalid query: invalid ExecutionStatus value 'Paused'"), true),
            (rpc(Code::InvalidArgument, "Namespace default has no mapping defined for search attribute X"), false),
            (rpc(Code::Unavailable, "Paused"), false),
        ] {
            assert_eq!(knows_no_pause(&error), again, "{error}");
        }
    }
}
