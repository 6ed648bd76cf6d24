//! Workflow updates, with retries while a run completes, and their errors.

use std::{future::pending, marker::PhantomData, time::Duration};

use temporalio_client::{
    Client, UntypedWorkflowHandle, WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowUpdateWithStartOptions,
    errors::{WorkflowInteractionError, WorkflowQueryError, WorkflowUpdateError, WorkflowUpdateWithStartError},
    tonic::{self, Code},
};
use temporalio_common::{
    QueryDefinition, UntypedWorkflow, UpdateDefinition,
    data_converters::{RawValue, TemporalDeserializable, TemporalSerializable},
    search_attributes::SearchAttributes,
};
use tokio::time::{sleep, timeout};

use crate::{
    BatchRejection, EmitError,
    signal::{CONFLICT, REUSE, rpc_options},
};

const PAUSE: Duration = Duration::from_millis(100);

/// Then we check if the workflow is paused. Most responses take milliseconds.
const LONG: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct UpdateClient {
    pub temporal: Client,
    pub task_queue: String,
    pub patience: Duration,
}

pub(super) struct NamedCall<I, O> {
    pub name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> NamedCall<I, O> {
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }
}

impl<I, O> Clone for NamedCall<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for NamedCall<I, O> {}

impl<I, O> UpdateDefinition for NamedCall<I, O>
where
    I: TemporalDeserializable + TemporalSerializable + 'static,
    O: TemporalDeserializable + TemporalSerializable + 'static,
{
    type Workflow = UntypedWorkflow;
    type Input = I;
    type Output = O;

    fn name(&self) -> &str {
        self.name
    }
}

impl<I, O> QueryDefinition for NamedCall<I, O>
where
    I: TemporalDeserializable + TemporalSerializable + 'static,
    O: TemporalDeserializable + TemporalSerializable + 'static,
{
    type Workflow = UntypedWorkflow;
    type Input = I;
    type Output = O;

    fn name(&self) -> &str {
        self.name
    }
}

/// Sends a command until a run accepts it. `None` if there was no response in time.
///
/// If a signal arrives while a run completes, the server repeats the workflow task, discards the command, and
/// returns `FailedPrecondition`. `send` is no async closure, because the compiler cannot prove its future to
/// be `Send`.
pub(super) async fn until_taken<T, E: Into<UpdateFailure>, F: Future<Output = Result<T, E>>>(
    patience: Duration,
    mut send: impl FnMut() -> F,
) -> Option<Result<T, UpdateFailure>> {
    let answer = async {
        loop {
            match Box::pin(send()).await.map_err(Into::into) {
                Err(UpdateFailure::Status(status)) if status.code() == Code::FailedPrecondition => sleep(PAUSE).await,
                answer => break answer,
            }
        }
    };
    timeout(patience, answer).await.ok()
}

pub(super) struct WorkflowPaused;

/// If the response takes long, checks once if the workflow is paused in Temporal.
pub(super) async fn unless_paused<T>(
    workflow: UntypedWorkflowHandle<Client>,
    answer: impl Future<Output = T>,
) -> Result<T, WorkflowPaused> {
    let until_paused = async {
        sleep(LONG).await;
        let described = Box::pin(workflow.describe(WorkflowDescribeOptions::default())).await;
        if !described.is_ok_and(|run| run.status() == WorkflowExecutionStatus::Paused) {
            pending::<()>().await;
        }
    };
    tokio::select! {
        answer = answer => Ok(answer),
        () = until_paused => Err(WorkflowPaused),
    }
}

pub(super) struct UpdateTarget {
    pub name: String,
    pub workflow_type: &'static str,
    pub workflow_id: String,
    pub task_queue: String,
    pub search_attributes: SearchAttributes,
}

impl UpdateTarget {
    pub async fn update<I, O>(
        &self,
        UpdateClient { temporal, patience, .. }: &UpdateClient,
        update: NamedCall<I, O>,
        input: I,
        update_id: Option<&str>,
    ) -> Result<O, CommandError>
    where
        I: TemporalDeserializable + TemporalSerializable + Clone + Send + 'static,
        O: TemporalDeserializable + TemporalSerializable + 'static,
    {
        let send = || {
            let workflow = UntypedWorkflow::new(self.workflow_type);
            let options = WorkflowUpdateWithStartOptions::new(&self.task_queue, &self.workflow_id, CONFLICT)
                .id_reuse_policy(REUSE)
                .search_attributes(self.search_attributes.clone())
                .maybe_update_id(update_id.map(str::to_owned))
                .rpc_options(rpc_options(*patience))
                .build();
            let input = input.clone();
            temporal.execute_update_with_start_workflow(workflow, RawValue::default(), update, input, options)
        };
        let (name, workflow_id) = (self.name.clone(), self.workflow_id.clone());
        let workflow = temporal.get_workflow_handle(workflow_id.clone());
        match unless_paused(workflow, until_taken(*patience, send)).await {
            Ok(Some(answer)) => answer.map_err(|failure| failure.command_error(&name)),
            Ok(None) => Err(CommandError::Unanswered { workflow: name, task_queue: self.task_queue.clone() }),
            Err(WorkflowPaused) => Err(CommandError::Paused { workflow: name, workflow_id }),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{workflow} does not answer; check that a worker runs on task queue {task_queue:?}")]
    Unanswered { workflow: String, task_queue: String },
    #[error(
        "{workflow} is paused in Temporal: it collects events but rejects commands; run `temporal workflow unpause \
         --workflow-id '{workflow_id}'`"
    )]
    Paused { workflow: String, workflow_id: String },
    #[error(
        "{workflow} has not started: its producer set a start delay or a cron schedule; the next event starts it, or \
         run `tidings flush`"
    )]
    NotStarted { workflow: String },
    #[error(
        "the workflow tasks of {workflow} fail, so it is stuck until a worker can execute them: see the worker's log \
         or the Temporal UI for the reason, or `tidings runs list` for a run with another workflow type"
    )]
    TasksFail { workflow: String },
    #[error("{workflow} rejected the command: {why}")]
    Refused { workflow: String, why: String },
    #[error(transparent)]
    Temporal(#[from] EmitError),
}

pub(super) enum UpdateFailure {
    NotFound(tonic::Status),
    Refused(String),
    Status(tonic::Status),
    Other(String),
}

impl From<WorkflowUpdateError> for UpdateFailure {
    fn from(error: WorkflowUpdateError) -> Self {
        match error {
            WorkflowUpdateError::NotFound(status) => Self::NotFound(status),
            WorkflowUpdateError::Failed(failure) => Self::Refused(failure.message),
            WorkflowUpdateError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<WorkflowUpdateWithStartError> for UpdateFailure {
    fn from(error: WorkflowUpdateWithStartError) -> Self {
        match error {
            WorkflowUpdateWithStartError::Update(error) => error.into(),
            WorkflowUpdateWithStartError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<WorkflowQueryError> for UpdateFailure {
    fn from(error: WorkflowQueryError) -> Self {
        match error {
            WorkflowQueryError::NotFound(status) => Self::NotFound(status),
            WorkflowQueryError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<WorkflowInteractionError> for UpdateFailure {
    fn from(error: WorkflowInteractionError) -> Self {
        match error {
            WorkflowInteractionError::NotFound(status) => Self::NotFound(status),
            WorkflowInteractionError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl UpdateFailure {
    pub fn query_error(self, workflow: &str) -> CommandError {
        let said = match &self {
            Self::Status(status) if status.code() == Code::FailedPrecondition => status.message(),
            _ => "",
        };
        if said.contains("not scheduled yet") {
            CommandError::NotStarted { workflow: workflow.to_owned() }
        } else if said.contains("Workflow Task in failed state") {
            CommandError::TasksFail { workflow: workflow.to_owned() }
        } else {
            self.command_error(workflow)
        }
    }

    pub fn command_error(self, workflow: &str) -> CommandError {
        match self {
            Self::Refused(why) => CommandError::Refused { workflow: workflow.to_owned(), why },
            Self::NotFound(status) | Self::Status(status) => CommandError::Temporal(EmitError::from(&status)),
            Self::Other(why) => CommandError::Temporal(EmitError::Rejected(BatchRejection::Other(why))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_cannot_answer_a_query_says_why() {
        let failed = Code::FailedPrecondition;
        for (code, message, says) in [
            (failed, "Workflow task is not scheduled yet.", "has not started"),
            (failed, "Unable to query workflow due to Workflow Task in failed state.", "tasks of acme/a/ann fail"),
            (failed, "query buffer is full", "query buffer is full"),
            (Code::Unavailable, "Workflow task is not scheduled yet.", "Unavailable"),
        ] {
            let error = UpdateFailure::Status(tonic::Status::new(code, message)).query_error("acme/a/ann");
            assert!(error.to_string().contains(says), "{message}: {error}");
        }
    }
}
