//! Failures of a command.

use temporalio_client::{
    errors::{WorkflowInteractionError, WorkflowQueryError, WorkflowUpdateError, WorkflowUpdateWithStartError},
    tonic::{self, Code},
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
    /// The workflow is paused in Temporal, which forgets the command.
    #[error(
        "{workflow} is paused in Temporal, and takes no commands before `temporal workflow unpause --workflow-id '{workflow_id}'`; its \
         events collect"
    )]
    Paused {
        /// The key or the message.
        workflow: String,
        /// Its workflow id.
        workflow_id: String,
    },
    /// The workflow has not begun.
    #[error(
        "{workflow} has not begun: its producer set a start delay or a cron schedule; the next event begins it, and so does `tidings \
         flush`"
    )]
    NotStarted {
        /// The key or the message.
        workflow: String,
    },
    /// No worker can execute the workflow.
    #[error(
        "the workflow tasks of {workflow} fail, and it does nothing until a worker can execute them: the worker's log and the \
         Temporal UI have the reason, and `tidings runs list` a run of another workflow type"
    )]
    TasksFail {
        /// The key or the message.
        workflow: String,
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

impl From<WorkflowInteractionError> for Failure {
    fn from(error: WorkflowInteractionError) -> Self {
        match error {
            WorkflowInteractionError::NotFound(status) => Self::NotFound(status),
            WorkflowInteractionError::Rpc(status) => Self::Status(status),
            other => Self::Other(other.to_string()),
        }
    }
}

impl Failure {
    /// Returns the error for a query to `workflow`, whose run may be unable to answer.
    pub(super) fn of_query(self, workflow: &str) -> CommandError {
        let said = match &self {
            Self::Status(status) if status.code() == Code::FailedPrecondition => status.message(),
            _ => "",
        };
        if said.contains("not scheduled yet") {
            CommandError::NotStarted { workflow: workflow.to_owned() }
        } else if said.contains("Workflow Task in failed state") {
            CommandError::TasksFail { workflow: workflow.to_owned() }
        } else {
            self.of(workflow)
        }
    }

    /// Returns the error for a command to `workflow`.
    pub(super) fn of(self, workflow: &str) -> CommandError {
        match self {
            Self::Refused(why) => CommandError::Refused { workflow: workflow.to_owned(), why },
            Self::NotFound(status) | Self::Status(status) => CommandError::Temporal(Error::from(&status)),
            Self::Other(why) => CommandError::Temporal(Error::Rejected(Rejection::Other(why))),
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
            (failed, "Workflow task is not scheduled yet.", "has not begun"),
            (failed, "Unable to query workflow due to Workflow Task in failed state.", "tasks of acme/a/ann fail"),
            (failed, "query buffer is full", "query buffer is full"),
            (Code::Unavailable, "Workflow task is not scheduled yet.", "Unavailable"),
        ] {
            let error = Failure::Status(tonic::Status::new(code, message)).of_query("acme/a/ann");
            assert!(error.to_string().contains(says), "{message}: {error}");
        }
    }
}
