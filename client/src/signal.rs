//! One batch of events and retracts as a signal to the workflow of its key.

use std::time::{Duration, Instant};

use temporalio_client::{UntypedSignal, WorkflowStartOptions, errors::WorkflowStartError};
use temporalio_common::{UntypedWorkflow, data_converters::RawValue, protos::temporal::api::common::v1::Payload};
use tidings_model::{Key, decode::BatchPayload, inbox::Kind, names};
use tracing::instrument;

use crate::{
    Error, Rejection,
    start::{CONFLICT, REUSE, rpc_options, search_attributes},
};

/// Sends the batch, and starts the workflow if the key is idle. Returns when Temporal has recorded the batch.
///
/// Retries transient errors under one request id. The server records a batch once, even if an acknowledgement was lost.
#[instrument(name = "temporal", level = "debug", skip_all, fields(call = "signal_with_start", %key), err(level = "debug"))]
pub(crate) async fn send(
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
    let events = UntypedSignal::new(names::SIGNAL);
    // `RawValue::empty()` would be one empty argument.
    let call = temporal.signal_with_start_workflow(workflow, RawValue::default(), events, batch, options);
    let started = Instant::now();
    match tokio::time::timeout(time_left, call).await {
        Ok(Ok(_handle)) => Ok(()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Error::Unavailable(format!("no answer for {:?}", started.elapsed()))),
    }
}

/// Hands one batch of a key over, events and retracts as proto3-JSON without the key. The caller keeps to the pace of the key and
/// to the size of a signal ([`batch_len`](tidings_model::inbox::batch_len)).
///
/// # Errors
/// As for [`Client::emit`](crate::Client::emit).
pub async fn hand_over<'a>(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    items: impl IntoIterator<Item = (Kind, &'a str)>,
    time_left: Duration,
) -> Result<(), Error> {
    send(temporal, task_queue, key, batch(items), time_left).await
}

/// Hands payloads over as they are, as the argument of the signal `events`.
///
/// # Errors
/// As for [`Client::emit`](crate::Client::emit).
pub async fn hand_over_payloads(
    temporal: &temporalio_client::Client,
    task_queue: &str,
    key: &Key,
    payloads: Vec<Payload>,
    time_left: Duration,
) -> Result<(), Error> {
    send(temporal, task_queue, key, RawValue::new(payloads), time_left).await
}

/// The items as the one argument of a signal.
pub(crate) fn batch<'a>(items: impl IntoIterator<Item = (Kind, &'a str)>) -> RawValue {
    let (events, retracts): (Vec<_>, Vec<_>) = items.into_iter().partition(|(kind, _)| *kind == Kind::Event);
    let json = |items: Vec<(Kind, &'a str)>| items.into_iter().map(|(_, json)| json);
    let BatchPayload { metadata, data } = BatchPayload::new(json(events), json(retracts));
    RawValue::new(vec![Payload { metadata: metadata.into(), data, ..Payload::default() }])
}

impl From<WorkflowStartError> for Error {
    fn from(error: WorkflowStartError) -> Self {
        match error {
            WorkflowStartError::Rpc(status) | WorkflowStartError::AlreadyStarted { source: status, .. } => {
                Self::from(&status)
            }
            other => Self::Rejected(Rejection::Other(other.to_string())),
        }
    }
}
