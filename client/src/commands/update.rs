//! Workflow updates, and their retry while a run completes.

use std::{future::pending, marker::PhantomData, time::Duration};

use temporalio_client::{
    Client, UntypedWorkflowHandle, WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowUpdateWithStartOptions,
    tonic::Code,
};
use temporalio_common::{
    QueryDefinition, UntypedWorkflow, UpdateDefinition,
    data_converters::{RawValue, TemporalDeserializable, TemporalSerializable},
    search_attributes::SearchAttributes,
};
use tokio::time::{sleep, timeout};

use super::error::Failure;
use crate::start::{CONFLICT, REUSE, rpc_options};

/// The pause before a command is sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// An answer after this time takes long. Most take some milliseconds.
const LONG: Duration = Duration::from_secs(2);

/// The connection of the commands.
#[derive(Clone)]
pub(super) struct Caller {
    pub temporal: Client,
    /// The task queue of the digests.
    pub task_queue: String,
    /// The time for an answer.
    pub patience: Duration,
}

/// An update or a query by its name, with the types of its input and its answer.
pub(super) struct Named<I, O> {
    pub name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Named<I, O> {
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }
}

impl<I, O> Clone for Named<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Named<I, O> {}

impl<I, O> UpdateDefinition for Named<I, O>
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

impl<I, O> QueryDefinition for Named<I, O>
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

/// Sends a command until a run takes it; `None` if no answer came in time.
///
/// A signal may arrive while a run is about to complete. The server then repeats the workflow task, forgets the command,
/// and answers `FailedPrecondition`.
///
/// `send` is no async closure: the compiler cannot tell that the future of one can be sent between threads.
pub(super) async fn until_taken<T, E: Into<Failure>, F: Future<Output = Result<T, E>>>(
    patience: Duration,
    mut send: impl FnMut() -> F,
) -> Option<Result<T, Failure>> {
    let answer = async {
        loop {
            match Box::pin(send()).await.map_err(Into::into) {
                Err(Failure::Status(status)) if status.code() == Code::FailedPrecondition => sleep(PAUSE).await,
                answer => break answer,
            }
        }
    };
    timeout(patience, answer).await.ok()
}

/// The workflow is paused in Temporal.
pub(super) struct Paused;

/// Waits for an answer. An answer that takes long may wait for a workflow that is paused in Temporal: asks once.
pub(super) async fn unless_paused<T>(
    workflow: UntypedWorkflowHandle<Client>,
    answer: impl Future<Output = T>,
) -> Result<T, Paused> {
    let until_paused = async {
        sleep(LONG).await;
        let described = Box::pin(workflow.describe(WorkflowDescribeOptions::default())).await;
        if !described.is_ok_and(|run| run.status() == WorkflowExecutionStatus::Paused) {
            pending::<()>().await;
        }
    };
    tokio::select! {
        answer = answer => Ok(answer),
        () = until_paused => Err(Paused),
    }
}

/// A workflow that starts to take an update.
pub(super) struct Target {
    pub workflow_type: &'static str,
    pub workflow_id: String,
    pub task_queue: String,
    pub search_attributes: SearchAttributes,
}

impl Target {
    /// Sends the update to the running workflow, or to a new run; `None` if no answer came in time.
    pub async fn update<I, O>(
        &self,
        Caller { temporal, patience, .. }: &Caller,
        update: Named<I, O>,
        input: I,
        update_id: Option<&str>,
    ) -> Option<Result<O, Failure>>
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
        until_taken(*patience, send).await
    }
}
