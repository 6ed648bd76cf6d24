//! The events and retracts that an earlier run received, read from its history. A run that was terminated, or that could
//! not reach the store, left them only there.

use futures::{Stream, StreamExt, stream};
use temporalio_client::{
    Client, NamespacedClient, WorkflowExecutionInfo, WorkflowFetchHistoryOptions, errors::WorkflowInteractionError,
};
use temporalio_common::protos::temporal::api::{common::v1::Payloads, history::v1::history_event::Attributes};
use tidings_model::{Key, names::SIGNAL};
use tidings_workflows::{Inbound, RunInput, UnreadableState};
use tracing::debug_span;

use crate::error::Error;

/// The inputs of the key's `run`, in the order of its history.
///
/// # Errors
/// The history cannot be read, or was deleted.
pub fn run_inputs(client: Client, key: &Key, run: &str) -> impl Stream<Item = Result<RunInput, Error>> + Send {
    let (key, run) = (key.clone(), run.to_owned());
    let execution = WorkflowExecutionInfo::builder()
        .namespace(client.namespace())
        .workflow_id(key.workflow_id())
        .run_id(&run)
        .build();
    let span = debug_span!("temporal", call = "fetch_history", %key, run);
    let mut history = execution.bind_untyped(client).fetch_history(WorkflowFetchHistoryOptions::default());
    let history = stream::poll_fn(move |context| span.in_scope(|| history.poll_next_unpin(context)));
    history.map(move |event| {
        let unreadable = |why: String| Error::History { run: run.clone(), why };
        match event {
            Ok(event) => input_of(event.attributes, &key).map_err(|error| unreadable(error.to_string())),
            Err(WorkflowInteractionError::NotFound(_)) => Err(Error::HistoryGone { run: run.clone() }),
            Err(error) => Err(unreadable(error.to_string())),
        }
    })
}

fn input_of(attributes: Option<Attributes>, key: &Key) -> Result<RunInput, UnreadableState> {
    let payloads = |payloads: Option<Payloads>| payloads.map(|payloads| payloads.payloads).unwrap_or_default();
    match attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => RunInput::from_started_event(started),
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) if signal.signal_name == SIGNAL => {
            // The run itself recorded its dead letters: the number here is never used.
            let sorted = Inbound::from(payloads(signal.input)).for_key(key, 0);
            Ok(RunInput { events: sorted.events, retracts: sorted.retracts, runs: Vec::new() })
        }
        _ => Ok(RunInput::default()),
    }
}
