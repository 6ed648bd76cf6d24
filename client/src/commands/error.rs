//! Failures of a command.

use temporalio_client::{
    errors::{WorkflowQueryError, WorkflowUpdateError, WorkflowUpdateWithStartError},
    tonic,
};

use crate::{Error, Rejection};

/// A command that failed, or whose answer did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No worker answered in time. Temporal keeps the command, so a worker may still carry it out.
    #[error("{workflow} does not answer; is a worker running on task queue {task_queue:?}?")]
    Unanswered {
        /// The key or the message.
        workflow: String,
        /// The task queue of the workflow.
        task_queue: String,
    },
    /// The workflow refused the command.
    #[error("{workflow} refuses: {why}")]
    Refused {
        /// The key or the message.
        workflow: String,
        /// The reason of the workflow.
        why: String,
    },
    /// Temporal did not take the command.
    #[error(transparent)]
    Temporal(#[from] Error),
}

/// One failed attempt at a call.
pub(super) enum Failure {
    /// The run does not exist, or the namespace does not.
    NotFound(tonic::Status),
    /// The workflow refused the command.
    Refused(String),
    /// The server answered with a status.
    Status(tonic::Status),
    /// The call failed on this side.
    Other(String),
}

impl From<WorkflowUpdateError> for Failure {
    fn from(error: WorkflowUpdateError) -> Self {
        match error {
            WorkflowUpdateError::NotFound(status) => Self::NotFound(status),
            WorkflowUpdateError::Failed(failure) => Self::Refused(failure.message),
            WorkflowUpdateError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<WorkflowUpdateWithStartError> for Failure {
    fn from(error: WorkflowUpdateWithStartError) -> Self {
        match error {
            WorkflowUpdateWithStartError::Update(error) => error.into(),
            WorkflowUpdateWithStartError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<WorkflowQueryError> for Failure {
    fn from(error: WorkflowQueryError) -> Self {
        match error {
            WorkflowQueryError::NotFound(status) => Self::NotFound(status),
            WorkflowQueryError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl Failure {
    /// Returns the error for a command to `workflow`.
    pub(super) fn of(self, workflow: &str) -> CommandError {
        match self {
            Self::Refused(why) => CommandError::Refused { workflow: workflow.to_owned(), why },
            Self::NotFound(status) | Self::Status(status) => CommandError::Temporal(Error::from(&status)),
            Self::Other(why) => CommandError::Temporal(Error::Rejected(Rejection::Other(why))),
        }
    }
}
