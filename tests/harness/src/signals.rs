//! Signals and updates as any program may send them, without the thin client.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use temporalio_client::{
    Client, UntypedSignal, WorkflowExecuteUpdateOptions, WorkflowIdConflictPolicy, WorkflowStartOptions,
    errors::{WorkflowStartError, WorkflowUpdateError},
    tonic::Code,
};
use temporalio_common::{
    UntypedWorkflow, UpdateDefinition, data_converters::RawValue, protos::temporal::api::common::v1::Payload,
    search_attributes::SearchAttributes,
};
use tidings_model::{Key, decode::BatchPayload, names};

use crate::wait::eventually;

/// A signal of events that are proto3-JSON already.
#[must_use]
pub fn json_events<'a>(events: impl IntoIterator<Item = &'a str>) -> RawValue {
    json_batch(events, [])
}

/// A signal of events and retracts that are proto3-JSON already.
#[must_use]
pub fn json_batch<'a>(
    events: impl IntoIterator<Item = &'a str>,
    retracts: impl IntoIterator<Item = &'a str>,
) -> RawValue {
    let BatchPayload { metadata, data } = BatchPayload::new(events, retracts);
    RawValue::new(vec![Payload { metadata: metadata.into(), data, ..Payload::default() }])
}

/// A signal that is not JSON, although its encoding says so.
#[must_use]
pub fn malformed() -> RawValue {
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    RawValue::new(vec![Payload { metadata, data: b"{".to_vec(), ..Payload::default() }])
}

/// Sends one SignalWithStart as a producer in another language would: without pacing, checks or search attributes.
/// Retries when the server reports that a resource is exhausted.
///
/// # Errors
/// When the server refuses it.
pub async fn signal(temporal: &Client, key: &Key, inbound: RawValue) -> Result<()> {
    signal_found_by(temporal, key, inbound, SearchAttributes::default()).await
}

/// Does the same as [`signal`]. A run that it starts has these search attributes.
///
/// # Errors
/// As for [`signal`].
pub async fn signal_found_by(
    temporal: &Client,
    key: &Key,
    inbound: RawValue,
    search_attributes: SearchAttributes,
) -> Result<()> {
    start_with(temporal, key, names::SIGNAL, inbound, search_attributes).await
}

/// Does the same as [`signal`] with a signal of another name.
///
/// # Errors
/// As for [`signal`].
pub async fn signal_named(temporal: &Client, key: &Key, name: &'static str, inbound: RawValue) -> Result<()> {
    start_with(temporal, key, name, inbound, SearchAttributes::default()).await
}

async fn start_with(
    temporal: &Client,
    key: &Key,
    name: &'static str,
    inbound: RawValue,
    search_attributes: SearchAttributes,
) -> Result<()> {
    eventually("the server takes the signal", Duration::from_mins(1), async || {
        let options = WorkflowStartOptions::new(names::TASK_QUEUE, key.workflow_id())
            .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
            .search_attributes(search_attributes.clone())
            .build();
        let workflow = UntypedWorkflow::new(names::WORKFLOW_TYPE);
        let events = UntypedSignal::new(name);
        let signal = inbound.clone();
        match temporal.signal_with_start_workflow(workflow, RawValue::default(), events, signal, options).await {
            Ok(_) => Ok(Some(())),
            Err(WorkflowStartError::Rpc(status)) if status.code() == Code::ResourceExhausted => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// An update by its name, with JSON that any program may send.
struct NamedUpdate(&'static str);

impl UpdateDefinition for NamedUpdate {
    type Workflow = UntypedWorkflow;
    type Input = Value;
    type Output = Value;

    fn name(&self) -> &str {
        self.0
    }
}

/// Runs an update of any workflow by the name of the update.
///
/// # Errors
/// When the run refuses the update.
pub async fn update_json(
    temporal: &Client,
    workflow_id: String,
    name: &'static str,
    input: Value,
) -> Result<Value, WorkflowUpdateError> {
    let workflow = temporal.get_workflow_handle::<UntypedWorkflow>(workflow_id);
    workflow.execute_update(NamedUpdate(name), input, WorkflowExecuteUpdateOptions::default()).await
}
