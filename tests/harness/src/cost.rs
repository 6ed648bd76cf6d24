//! Counts the cost of a workflow in its histories, and by what the server says about its runs.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use prost::Message;
use temporalio_client::{Client, UntypedWorkflowHandle, WorkflowDescribeOptions};
use temporalio_common::protos::temporal::api::{
    enums::v1::EventType,
    history::v1::{HistoryEvent, history_event::Attributes},
};

/// The cost of all runs of a workflow.
#[derive(Debug)]
pub struct HistoryCost {
    /// History events.
    pub events: usize,
    /// Bytes of history, as protobuf.
    pub bytes: usize,
    /// Workflow tasks.
    pub tasks: usize,
    /// Actions as Temporal Cloud counts them: docs.temporal.io/cloud/actions.
    pub actions: usize,
    /// State transitions: the writes of a run's state by Temporal's history service.
    pub transitions: usize,
}

/// The state transitions of a run, as the server counts them.
///
/// # Errors
/// When the server does not answer, or knows no such run.
pub async fn transitions(run: &UntypedWorkflowHandle<Client>) -> Result<usize> {
    let described = run.describe(WorkflowDescribeOptions::default()).await?.raw_description;
    let info = described.workflow_execution_info.context("a description without its run")?;
    Ok(usize::try_from(info.state_transition_count)?)
}

impl HistoryCost {
    /// Counts the histories of all runs, one after the other. `transitions` is the sum of theirs.
    ///
    /// # Errors
    /// When an event has no attributes.
    pub fn of(history: &[HistoryEvent], transitions: usize) -> Result<Self> {
        let of = |wanted| history.iter().filter(|event| event.event_type() == wanted).count();
        // All local activities of one workflow task are one action.
        let mut local = BTreeSet::new();
        let (mut run, mut attempts) = (0, 0);
        for event in history {
            match event.attributes.as_ref().context("an event without attributes")? {
                Attributes::WorkflowExecutionStartedEventAttributes(_) => run += 1,
                Attributes::MarkerRecordedEventAttributes(marker) => {
                    local.insert((run, marker.workflow_task_completed_event_id));
                }
                Attributes::ActivityTaskStartedEventAttributes(started) => {
                    attempts += usize::try_from(started.attempt)?;
                }
                _ => {}
            }
        }
        // A SignalWithStart is one action, and so is a run that continues another.
        let signals = of(EventType::WorkflowExecutionSignaled) + of(EventType::WorkflowExecutionContinuedAsNew);
        Ok(Self {
            events: history.len(),
            bytes: history.iter().map(Message::encoded_len).sum(),
            tasks: of(EventType::WorkflowTaskStarted),
            actions: signals + of(EventType::TimerStarted) + local.len() + attempts,
            transitions,
        })
    }
}
