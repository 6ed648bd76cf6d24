//! Signals a batch of events and retracts to its key's workflow.

use std::time::{Duration, Instant};

use temporalio_client::{
    NamespacedClient as _, RetryOptions, RpcOptions, UntypedSignal, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
    WorkflowStartOptions, errors::WorkflowStartError, tonic::IntoRequest as _,
};
use temporalio_common::{
    UntypedWorkflow,
    data_converters::RawValue,
    protos::temporal::api::{
        common::v1::{Payload, Payloads, WorkflowType},
        enums::v1::{WorkflowIdConflictPolicy as ConflictPolicy, WorkflowIdReusePolicy as ReusePolicy},
        taskqueue::v1::TaskQueue,
        workflowservice::v1::SignalWithStartWorkflowExecutionRequest,
    },
    search_attributes::{SearchAttributeKey, SearchAttributes},
};
use tidings_model::{Key, MessageKey, decode::BatchPayload, inbox::InboxItemKind, names, settings::StreamName};
use tracing::instrument;
use uuid::Uuid;

use crate::{BatchRejection, EmitError};

/// Returns once Temporal has recorded the batch, starting the workflow if needed.
///
/// Transient errors are retried with the same request id, so a batch is recorded once even if an
/// acknowledgement was lost.
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "signal_with_start", %key), err(level = "debug"))]
pub(crate) async fn send(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    batch: RawValue,
    time_left: Duration,
) -> Result<(), EmitError> {
    let workflow = UntypedWorkflow::new(names::WORKFLOW_TYPE);
    let options = WorkflowStartOptions::new(task_queue, key.workflow_id())
        .id_reuse_policy(REUSE)
        .id_conflict_policy(CONFLICT)
        .search_attributes(search_attributes(key))
        .rpc_options(rpc_options(time_left))
        .build();
    let events = UntypedSignal::new(names::SIGNAL);
    // `RawValue::empty()` would send one empty argument.
    let call = temporal.signal_with_start_workflow(workflow, RawValue::default(), events, batch, options);
    let started = Instant::now();
    match tokio::time::timeout(time_left, call).await {
        Ok(Ok(_handle)) => Ok(()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(EmitError::Unavailable(format!("no answer for {:?}", started.elapsed()))),
    }
}

/// Sends one batch for a key, with events and retracts as proto3-JSON without the key. Respect the key's rate
/// limit and a signal's size ([`batch_len`](tidings_model::inbox::batch_len)).
///
/// # Errors
/// As for [`Client::emit`](crate::Client::emit).
pub async fn hand_over<'a>(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    items: impl IntoIterator<Item = (InboxItemKind, &'a str)>,
    time_left: Duration,
) -> Result<(), EmitError> {
    send(temporal, task_queue, key, encode_batch(items), time_left).await
}

/// Sends payloads unchanged as the argument of the signal `events`. Within a run, calls with the same
/// `request` count once.
///
/// # Errors
/// As for [`Client::emit`](crate::Client::emit).
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "signal_with_start", %key), err(level = "debug"))]
pub async fn hand_over_payloads(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    payloads: Vec<Payload>,
    request: Uuid,
) -> Result<(), EmitError> {
    start(temporal, signal_with_start(temporal, task_queue, key, payloads, request)).await
}

/// Like [`hand_over`], but a new run's first workflow task waits for `delay` or for the next signal or
/// update, so a command sent right after this arrives first. Calls with the same `request` count once.
///
/// # Errors
/// As for [`Client::emit`](crate::Client::emit).
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "signal_with_start", %key), err(level = "debug"))]
pub async fn start_later<'a>(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    items: impl IntoIterator<Item = (InboxItemKind, &'a str)>,
    delay: Duration,
    request: Uuid,
) -> Result<(), EmitError> {
    let request = SignalWithStartWorkflowExecutionRequest {
        workflow_start_delay: delay.try_into().ok(),
        ..signal_with_start(temporal, task_queue, key, vec![batch_payload(items)], request)
    };
    start(temporal, request).await
}

/// Makes the call ourselves, because temporalio-client 1.1.1 does not let us choose the request id.
fn signal_with_start(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    payloads: Vec<Payload>,
    request: Uuid,
) -> SignalWithStartWorkflowExecutionRequest {
    SignalWithStartWorkflowExecutionRequest {
        namespace: temporal.namespace(),
        workflow_id: key.workflow_id(),
        workflow_type: Some(WorkflowType { name: names::WORKFLOW_TYPE.to_owned() }),
        task_queue: Some(TaskQueue { name: task_queue.to_owned(), ..TaskQueue::default() }),
        identity: temporal.identity(),
        request_id: request.to_string(),
        workflow_id_reuse_policy: ReusePolicy::AllowDuplicate.into(),
        workflow_id_conflict_policy: ConflictPolicy::UseExisting.into(),
        signal_name: names::SIGNAL.to_owned(),
        signal_input: Some(Payloads { payloads }),
        search_attributes: Some(search_attributes(key).into_proto()),
        ..SignalWithStartWorkflowExecutionRequest::default()
    }
}

async fn start(
    temporal: &temporalio_client::Client,
    request: SignalWithStartWorkflowExecutionRequest,
) -> Result<(), EmitError> {
    let mut service = temporal.connection().workflow_service();
    let started = service.signal_with_start_workflow_execution(request.into_request()).await;
    started.map(drop).map_err(|status| EmitError::from(&status))
}

pub(crate) fn encode_batch<'a>(items: impl IntoIterator<Item = (InboxItemKind, &'a str)>) -> RawValue {
    RawValue::new(vec![batch_payload(items)])
}

fn batch_payload<'a>(items: impl IntoIterator<Item = (InboxItemKind, &'a str)>) -> Payload {
    let (events, retracts): (Vec<_>, Vec<_>) = items.into_iter().partition(|(kind, _)| *kind == InboxItemKind::Event);
    let json = |items: Vec<(InboxItemKind, &'a str)>| items.into_iter().map(|(_, json)| json);
    let BatchPayload { metadata, data } = BatchPayload::new(json(events), json(retracts));
    Payload { metadata: metadata.into(), data, ..Payload::default() }
}

impl From<WorkflowStartError> for EmitError {
    fn from(error: WorkflowStartError) -> Self {
        match error {
            WorkflowStartError::Rpc(status) | WorkflowStartError::AlreadyStarted { source: status, .. } => {
                Self::from(&status)
            }
            other => Self::Rejected(BatchRejection::Other(other.to_string())),
        }
    }
}

/// A running workflow receives the signal or update; otherwise a new run starts.
pub(crate) const CONFLICT: WorkflowIdConflictPolicy = WorkflowIdConflictPolicy::UseExisting;
pub(crate) const REUSE: WorkflowIdReusePolicy = WorkflowIdReusePolicy::AllowDuplicate;

/// A digest workflow's search attributes. Every start must set these, because operators use them to find
/// runs.
#[must_use]
pub fn search_attributes(key: &Key) -> SearchAttributes {
    SearchAttributes::new([
        SearchAttributeKey::keyword(names::TENANT_ATTRIBUTE).value_set(key.tenant.clone()),
        SearchAttributeKey::keyword(names::DIGEST_TYPE_ATTRIBUTE).value_set(key.digest_type.clone()),
    ])
}

#[must_use]
pub fn message_search_attributes(key: &MessageKey) -> SearchAttributes {
    SearchAttributes::new([SearchAttributeKey::keyword(names::TENANT_ATTRIBUTE).value_set(key.tenant.clone())])
}

/// `task_queue` should be the digest queue.
#[must_use]
pub fn message_task_queue(task_queue: &str, stream: StreamName) -> String {
    match stream {
        StreamName::Transactional => names::transactional_queue(task_queue),
        StreamName::Bulk => names::bulk_queue(task_queue),
    }
}

/// Retries transient errors for this long.
pub(crate) fn rpc_options(time_left: Duration) -> RpcOptions {
    let retry = RetryOptions::builder()
        .initial_interval(Duration::from_millis(100))
        .multiplier(2.0)
        .max_interval(Duration::from_secs(1))
        .max_elapsed_time(Some(time_left))
        .max_retries(0) // No limit but the time.
        .build();
    RpcOptions::builder().timeout(time_left).retry_options(retry).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_waits_in_the_queue_of_the_digests() {
        let queues = [StreamName::Transactional, StreamName::Bulk].map(|stream| message_task_queue("tidings", stream));
        assert_eq!(queues, ["tidings-transactional", "tidings-bulk"]);
    }
}
