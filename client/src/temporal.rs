//! One batch, or one command, to one workflow, which starts if it is idle; and what the answer means.

use std::time::{Duration, Instant};

use temporalio_client::{
    RetryOptions, RpcOptions, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions,
    WorkflowUpdateWithStartOptions,
    errors::{WorkflowStartError, WorkflowUpdateError, WorkflowUpdateWithStartError},
    tonic::Code,
};
use temporalio_common::{
    SignalDefinition, UntypedWorkflow, UpdateDefinition,
    data_converters::RawValue,
    search_attributes::{SearchAttributeKey, SearchAttributes},
};
use tidings_model::{
    Key,
    command::{Reopen, Reopened},
    names,
};

use crate::{Error, Rejection};

/// The signal `events` of the workflow `digest`.
struct Events;

impl SignalDefinition for Events {
    type Workflow = UntypedWorkflow;
    type Input = RawValue;

    fn name(&self) -> &'static str {
        names::SIGNAL
    }
}

/// Sends `batch` and returns when Temporal has recorded it. Transient errors are retried under one request id, so that
/// the server records a batch once even if an acknowledgement was lost.
pub(crate) async fn signal(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    batch: RawValue,
    time_left: Duration,
) -> Result<(), Error> {
    let workflow = UntypedWorkflow::new(names::WORKFLOW_TYPE);
    let options = WorkflowStartOptions::new(task_queue, key.workflow_id())
        .id_reuse_policy(REUSE)
        .id_conflict_policy(CONFLICT)
        .search_attributes(search_attributes(key))
        .rpc_options(rpc_options(time_left))
        .build();
    // `RawValue::empty()` would be one empty argument.
    let call = temporal.signal_with_start_workflow(workflow, RawValue::default(), Events, batch, options);
    match timely(time_left, call).await? {
        Ok(_handle) => Ok(()),
        Err(error) => Err(not_started(error)),
    }
}

/// The update `reopen` of the workflow `digest`.
struct Reopening;

impl UpdateDefinition for Reopening {
    type Workflow = UntypedWorkflow;
    type Input = Reopen;
    type Output = Reopened;

    fn name(&self) -> &'static str {
        "reopen"
    }
}

/// Between a workflow task that failed and the next try.
const AGAIN: Duration = Duration::from_millis(100);

/// Asks for the digest and returns what the workflow answered.
pub(crate) async fn reopen(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    reopen: Reopen,
    time_left: Duration,
) -> Result<Reopened, Error> {
    let call = async {
        loop {
            let workflow = UntypedWorkflow::new(names::WORKFLOW_TYPE);
            let options = WorkflowUpdateWithStartOptions::new(task_queue, key.workflow_id(), CONFLICT)
                .id_reuse_policy(REUSE)
                .search_attributes(search_attributes(key))
                .rpc_options(rpc_options(time_left))
                .build();
            let (input, reopen) = (RawValue::default(), reopen.clone());
            match temporal.execute_update_with_start_workflow(workflow, input, Reopening, reopen, options).await {
                // An event came as the run was about to complete: the server has that workflow task done again, and has
                // forgotten the command.
                Err(WorkflowUpdateWithStartError::Update(WorkflowUpdateError::Rpc(status)))
                    if status.code() == Code::FailedPrecondition =>
                {
                    tokio::time::sleep(AGAIN).await;
                }
                answer => break answer,
            }
        }
    };
    timely(time_left, call).await?.map_err(|error| match error {
        WorkflowUpdateWithStartError::Start(error) => not_started(error),
        WorkflowUpdateWithStartError::Update(WorkflowUpdateError::Failed(failure)) => {
            Error::Rejected(Rejection::Other(failure.message))
        }
        WorkflowUpdateWithStartError::Update(WorkflowUpdateError::Rpc(status))
        | WorkflowUpdateWithStartError::Rpc(status) => Error::from(&status),
        other => Error::Rejected(Rejection::Other(other.to_string())),
    })
}

/// The key goes on with the run that there is, or starts another.
const CONFLICT: WorkflowIdConflictPolicy = WorkflowIdConflictPolicy::UseExisting;
const REUSE: WorkflowIdReusePolicy = WorkflowIdReusePolicy::AllowDuplicate;

/// What operators find the runs of a key by: set at each start, also by whoever starts one without this client.
#[must_use]
pub fn search_attributes(key: &Key) -> SearchAttributes {
    SearchAttributes::new([
        SearchAttributeKey::keyword(names::TENANT_ATTRIBUTE).value_set(key.tenant.clone()),
        SearchAttributeKey::keyword(names::DIGEST_TYPE_ATTRIBUTE).value_set(key.digest_type.clone()),
    ])
}

fn rpc_options(time_left: Duration) -> RpcOptions {
    let retry = RetryOptions::builder()
        .initial_interval(Duration::from_millis(100))
        .multiplier(2.0)
        .max_interval(Duration::from_secs(1))
        .max_elapsed_time(Some(time_left))
        .max_retries(0) // No limit but the time.
        .build();
    RpcOptions::builder().timeout(time_left).retry_options(retry).build()
}

async fn timely<T>(time_left: Duration, call: impl Future<Output = T>) -> Result<T, Error> {
    let started = Instant::now();
    let answer = tokio::time::timeout(time_left, call).await;
    answer.map_err(|_| Error::Unavailable(format!("no answer for {:?}", started.elapsed())))
}

fn not_started(error: WorkflowStartError) -> Error {
    match error {
        WorkflowStartError::Rpc(status) | WorkflowStartError::AlreadyStarted { source: status, .. } => {
            Error::from(&status)
        }
        other => Error::Rejected(Rejection::Other(other.to_string())),
    }
}
