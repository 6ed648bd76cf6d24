//! Commands to the workflow of a single message. Where none runs, one starts and takes the command.

use std::time::Duration;

use temporalio_client::{
    Client, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowUpdateWithStartOptions,
    errors::{WorkflowUpdateError, WorkflowUpdateWithStartError},
    tonic::Code,
};
use temporalio_common::{UntypedWorkflow, UpdateDefinition, data_converters::RawValue};
use tidings_model::{
    MessageKey,
    command::Order,
    message::{
        command::{Cancelled, Retry},
        contract::Retried,
    },
    names,
};

use super::{attributes, queue};

/// Between a workflow task that failed and the next try.
const AGAIN: Duration = Duration::from_millis(100);

/// The update `retry` of the workflow `message`.
#[derive(Clone, Copy)]
struct Retrying;

impl UpdateDefinition for Retrying {
    type Workflow = UntypedWorkflow;
    type Input = Retry;
    type Output = Retried;

    fn name(&self) -> &'static str {
        "retry"
    }
}

/// The update `cancel` of the workflow `message`.
#[derive(Clone, Copy)]
struct Cancelling;

impl UpdateDefinition for Cancelling {
    type Workflow = UntypedWorkflow;
    type Input = Order;
    type Output = Cancelled;

    fn name(&self) -> &'static str {
        "cancel"
    }
}

/// Where the workflow of a message is, or will be.
#[derive(Clone, Copy)]
pub struct Addressed<'a> {
    pub temporal: &'a Client,
    /// The digests' task queue, from which that of the stream follows.
    pub task_queue: &'a str,
    pub key: &'a MessageKey,
    /// The message's stream.
    pub stream: &'a str,
}

impl Addressed<'_> {
    /// Sends the message again, unless that could do harm. Waits for the answer as long as it takes.
    ///
    /// # Errors
    /// Temporal does not answer, or the workflow refuses the order.
    pub async fn retry(self, retry: Retry) -> Result<Retried, WorkflowUpdateWithStartError> {
        self.tell(Retrying, retry).await
    }

    /// Sends the message no more, and answers with its end. Waits for the answer as long as it takes.
    ///
    /// # Errors
    /// Temporal does not answer, or the workflow refuses the order.
    pub async fn cancel(self, order: Order) -> Result<Cancelled, WorkflowUpdateWithStartError> {
        self.tell(Cancelling, order).await
    }

    async fn tell<U>(self, update: U, input: U::Input) -> Result<U::Output, WorkflowUpdateWithStartError>
    where
        U: UpdateDefinition<Workflow = UntypedWorkflow, Input: Clone + Send> + Copy,
    {
        loop {
            let workflow = UntypedWorkflow::new(names::MESSAGE_WORKFLOW_TYPE);
            let task_queue = queue(self.task_queue, self.stream);
            let conflict = WorkflowIdConflictPolicy::UseExisting;
            let options = WorkflowUpdateWithStartOptions::new(task_queue, self.key.workflow_id(), conflict)
                .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
                .search_attributes(attributes(self.key))
                .build();
            let telling = self.temporal.execute_update_with_start_workflow(
                workflow,
                RawValue::default(),
                update,
                input.clone(),
                options,
            );
            match telling.await {
                // The run was about to complete: the server has that workflow task done again, and has forgotten the command.
                Err(WorkflowUpdateWithStartError::Update(WorkflowUpdateError::Rpc(status)))
                    if status.code() == Code::FailedPrecondition =>
                {
                    tokio::time::sleep(AGAIN).await;
                }
                answer => return answer,
            }
        }
    }
}
