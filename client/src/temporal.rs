//! One batch to one workflow: `SignalWithStart`, and what its answer means.

use std::time::{Duration, Instant};

use temporalio_client::{
    RetryOptions, RpcOptions, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions,
    errors::WorkflowStartError,
};
use temporalio_common::{
    SignalDefinition, UntypedWorkflow,
    data_converters::RawValue,
    search_attributes::{SearchAttributeKey, SearchAttributes},
};
use tidings_workflows::{Inbound, Key, names};

use crate::{Error, Rejection};

/// The signal `events` of the workflow `digest`.
struct Events;

impl SignalDefinition for Events {
    type Workflow = UntypedWorkflow;
    type Input = Inbound;

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
    batch: Inbound,
    time_left: Duration,
) -> Result<(), Error> {
    let workflow = UntypedWorkflow::new(names::WORKFLOW_TYPE);
    let options = options(task_queue, key, time_left);
    // `RawValue::empty()` would be one empty argument.
    let call = temporal.signal_with_start_workflow(workflow, RawValue::default(), Events, batch, options);
    let started = Instant::now();
    match tokio::time::timeout(time_left, call).await {
        Ok(Ok(_handle)) => Ok(()),
        Ok(Err(WorkflowStartError::Rpc(status) | WorkflowStartError::AlreadyStarted { source: status, .. })) => {
            Err(Error::from(&status))
        }
        Ok(Err(other)) => Err(Error::Rejected(Rejection::Other(other.to_string()))),
        Err(_) => Err(Error::Unavailable(format!("no answer for {:?}", started.elapsed()))),
    }
}

fn options(task_queue: &str, key: &Key, time_left: Duration) -> WorkflowStartOptions {
    let attributes = SearchAttributes::new([
        SearchAttributeKey::keyword(names::TENANT_ATTRIBUTE).value_set(key.tenant.clone()),
        SearchAttributeKey::keyword(names::DIGEST_TYPE_ATTRIBUTE).value_set(key.digest_type.clone()),
    ]);
    let retry = RetryOptions::builder()
        .initial_interval(Duration::from_millis(100))
        .multiplier(2.0)
        .max_interval(Duration::from_secs(1))
        .max_elapsed_time(Some(time_left))
        .max_retries(0) // No limit but the time.
        .build();
    WorkflowStartOptions::new(task_queue, key.workflow_id())
        .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
        .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
        .search_attributes(attributes)
        .rpc_options(RpcOptions::builder().timeout(time_left).retry_options(retry).build())
        .build()
}
