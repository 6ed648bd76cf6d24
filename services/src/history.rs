//! Reads events, retracts and an operator's hold from an earlier run's history, which may be their only place.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use temporalio_client::{
    Client, HistoryEventFilterType, NamespacedClient, WorkflowExecutionInfo, WorkflowFetchHistoryOptions,
    errors::WorkflowInteractionError,
};
use temporalio_common::protos::temporal::api::{
    common::v1::Payloads,
    history::v1::{WorkflowExecutionTerminatedEventAttributes as Terminated, history_event::Attributes},
    update::v1::{Request, outcome::Value as Outcome},
};
use tidings_model::{
    Key, Retract,
    command::{DropResult, HoldCommand, HoldResult},
    names::SIGNAL,
};
use tidings_workflows::{InboundSignal, RunInput, UnreadableState};
use tracing::debug_span;

use crate::error::StepError;

/// Streams the run's inputs in order. A retract by id is limited to events received or occurred before it, so
/// repeating it is safe even after an alert fires again.
///
/// # Errors
/// If the history cannot be read, or was deleted.
pub fn run_inputs(
    client: Client,
    key: &Key,
    run: &str,
) -> impl Stream<Item = Result<RunInput, StepError>> + Send + use<> {
    let key = key.clone();
    let events = history(client, key.workflow_id(), run, HistoryEventFilterType::AllEvent);
    let run = run.to_owned();
    let mut retracts = RetractTimes::default();
    events.map(move |event| {
        let HistoryEntry { at, attributes } = event?;
        let input = input_of(attributes, &key);
        let input = input.map_err(|error| StepError::History { run: run.clone(), why: error.to_string() })?;
        Ok(retracts.date_retracts(input, at))
    })
}

struct HistoryEntry {
    at: Timestamp,
    attributes: Option<Attributes>,
}

#[derive(Default)]
struct RetractTimes {
    /// The latest `occurred_at` received per event id.
    got: BTreeMap<String, Timestamp>,
}

impl RetractTimes {
    fn date_retracts(&mut self, input: RunInput, at: Timestamp) -> RunInput {
        for event in &input.events {
            let got = self.got.entry(event.event_id.clone()).or_insert(event.occurred_at);
            *got = event.occurred_at.max(*got);
        }
        let dated = |retract: Retract| match &retract {
            Retract::Event(id) => {
                let until = self.got.get(id).copied().unwrap_or(at);
                retract.with_until(until)
            }
            _ => retract,
        };
        RunInput { retracts: input.retracts.into_iter().map(dated).collect(), ..input }
    }
}

/// Returns the hold at the end of the run, unless it has expired at `now`.
///
/// # Errors
/// As for [`run_inputs`].
pub async fn hold_of(client: Client, key: &Key, run: &str, now: Timestamp) -> Result<Option<HoldCommand>, StepError> {
    let mut events = Box::pin(history(client, key.workflow_id(), run, HistoryEventFilterType::AllEvent));
    let mut commands = HoldReplay::default();
    while let Some(event) = events.next().await {
        if let Some(attributes) = event?.attributes {
            commands.apply_event(attributes);
        }
    }
    Ok(commands.hold.filter(|hold| hold.until.is_none_or(|until| until > now)))
}

/// Returns the final event of a terminated run. `None` if it ended otherwise.
///
/// # Errors
/// As for [`run_inputs`].
pub async fn find_termination(client: Client, workflow_id: &str, run: &str) -> Result<Option<Terminated>, StepError> {
    let mut last = Box::pin(history(client, workflow_id.to_owned(), run, HistoryEventFilterType::CloseEvent));
    while let Some(event) = last.next().await {
        if let Some(Attributes::WorkflowExecutionTerminatedEventAttributes(terminated)) = event?.attributes {
            return Ok(Some(terminated));
        }
    }
    Ok(None)
}

fn history(
    client: Client,
    workflow_id: String,
    run: &str,
    filter: HistoryEventFilterType,
) -> impl Stream<Item = Result<HistoryEntry, StepError>> + Send + use<> {
    let span = debug_span!("temporal", call = "fetch_history", workflow = workflow_id, run);
    let execution =
        WorkflowExecutionInfo::builder().namespace(client.namespace()).workflow_id(workflow_id).run_id(run).build();
    let run = run.to_owned();
    let options = WorkflowFetchHistoryOptions::builder().event_filter_type(filter).build();
    let mut history = execution.bind_untyped(client).fetch_history(options);
    let history = stream::poll_fn(move |context| span.in_scope(|| history.poll_next_unpin(context)));
    history.map(move |event| match event {
        Ok(event) => {
            let at = event.event_time.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
            Ok(HistoryEntry { at: at.unwrap_or_else(Timestamp::now), attributes: event.attributes })
        }
        Err(WorkflowInteractionError::NotFound(_)) => Err(StepError::HistoryGone { run: run.clone() }),
        Err(error) => Err(StepError::History { run: run.clone(), why: error.to_string() }),
    })
}

#[derive(Default)]
struct HoldReplay {
    asked: BTreeMap<String, Request>,
    hold: Option<HoldCommand>,
}

/// The hold from a continued run's start argument.
#[derive(Deserialize)]
struct CarriedHold {
    hold: Option<HoldCommand>,
}

impl HoldReplay {
    fn apply_event(&mut self, attributes: Attributes) {
        match attributes {
            Attributes::WorkflowExecutionStartedEventAttributes(started) => {
                // The first run's argument comes from a producer, not from us.
                let continued = !started.continued_execution_run_id.is_empty();
                self.hold =
                    first_payload::<CarriedHold>(started.input.filter(|_| continued)).and_then(|carried| carried.hold);
            }
            Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted) => {
                self.record_request(admitted.request, None);
            }
            Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted) => {
                self.record_request(accepted.accepted_request, Some(accepted.protocol_instance_id));
            }
            Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed) => {
                let id = completed.meta.map(|meta| meta.update_id).unwrap_or_default();
                let answer = match completed.outcome.and_then(|outcome| outcome.value) {
                    Some(Outcome::Success(answer)) => Some(answer),
                    _ => None,
                };
                if let Some((request, answer)) = self.asked.remove(&id).zip(answer) {
                    self.carry_out(request, &answer);
                }
            }
            _ => {}
        }
    }

    /// After a reset, the admitted event contains the request, and the accepted event does not.
    fn record_request(&mut self, request: Option<Request>, id: Option<String>) {
        let Some(request) = request else { return };
        let of_request = request.meta.as_ref().map(|meta| meta.update_id.clone()).filter(|id| !id.is_empty());
        if let Some(id) = of_request.or(id) {
            self.asked.insert(id, request);
        }
    }

    fn carry_out(&mut self, request: Request, answer: &Payloads) {
        let Some(input) = request.input else { return };
        match input.name.as_str() {
            // Without pending events, a hold or drop has no effect.
            "hold"
                if first_payload::<HoldResult>(Some(answer.clone()))
                    .is_some_and(|held| held != HoldResult::default()) =>
            {
                self.hold = first_payload(input.args);
            }
            "drop"
                if first_payload::<DropResult>(Some(answer.clone()))
                    .is_some_and(|dropped| dropped != DropResult::default()) =>
            {
                self.hold = None;
            }
            "release" => self.hold = None,
            _ => {}
        }
    }
}

fn first_payload<T: DeserializeOwned>(payloads: Option<Payloads>) -> Option<T> {
    let payload = payloads?.payloads.into_iter().next()?;
    serde_json::from_slice(&payload.data).ok()
}

fn input_of(attributes: Option<Attributes>, key: &Key) -> Result<RunInput, UnreadableState> {
    let payloads = |payloads: Option<Payloads>| payloads.map(|payloads| payloads.payloads).unwrap_or_default();
    match attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => RunInput::from_started_event(started),
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) if signal.signal_name == SIGNAL => {
            // The run itself recorded its dead letters, so we never use this number.
            let sorted = InboundSignal::from(payloads(signal.input)).for_key(key, 0);
            Ok(RunInput { events: sorted.events, retracts: sorted.retracts, runs: Vec::new() })
        }
        _ => Ok(RunInput::default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use temporalio_common::protos::temporal::api::{
        common::v1::Payload,
        history::v1::{
            WorkflowExecutionStartedEventAttributes, WorkflowExecutionUpdateAcceptedEventAttributes,
            WorkflowExecutionUpdateAdmittedEventAttributes, WorkflowExecutionUpdateCompletedEventAttributes,
        },
        update::v1::{Input, Meta, Outcome as UpdateOutcome},
    };
    use tidings_model::{Event, command::CommandContext};

    use super::*;

    fn payloads(value: &Value) -> Payloads {
        Payloads { payloads: vec![Payload { data: value.to_string().into_bytes(), ..Payload::default() }] }
    }

    fn request(id: &str, name: &str, input: &Value) -> Request {
        let meta = Some(Meta { update_id: id.to_owned(), ..Meta::default() });
        let input = Some(Input { name: name.to_owned(), args: Some(payloads(input)), ..Input::default() });
        Request { meta, input, ..Request::default() }
    }

    fn accepted(id: &str, request: impl Into<Option<Request>>) -> Attributes {
        Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(WorkflowExecutionUpdateAcceptedEventAttributes {
            protocol_instance_id: id.to_owned(),
            accepted_request: request.into(),
            ..Default::default()
        })
    }

    fn completed(id: &str, answer: &Value) -> Attributes {
        let value = Some(Outcome::Success(payloads(answer)));
        Attributes::WorkflowExecutionUpdateCompletedEventAttributes(WorkflowExecutionUpdateCompletedEventAttributes {
            meta: Some(Meta { update_id: id.to_owned(), ..Meta::default() }),
            outcome: Some(UpdateOutcome { value }),
            ..Default::default()
        })
    }

    fn started(previous: &str, argument: &Value) -> Attributes {
        Attributes::WorkflowExecutionStartedEventAttributes(WorkflowExecutionStartedEventAttributes {
            continued_execution_run_id: previous.to_owned(),
            input: Some(payloads(argument)),
            ..Default::default()
        })
    }

    /// The operator who holds the key after these events.
    fn holder(history: impl IntoIterator<Item = Attributes>) -> Option<String> {
        let mut commands = HoldReplay::default();
        history.into_iter().for_each(|attributes| commands.apply_event(attributes));
        commands.hold.map(|HoldCommand { order: CommandContext { by, .. }, .. }| by)
    }

    #[test]
    fn a_retract_by_id_covers_what_its_run_had_got_and_not_the_next_firing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let firing = |second| -> Event {
            serde_json::from_value(json!({"event_id": "fp", "category": "outage", "occurred_at": at(second)})).unwrap()
        };
        let retract = |id: &str| Retract::Event(id.to_owned());
        let mut retracts = RetractTimes::default();
        let mut dated = |events: &[i64], retract: Retract| {
            let events = events.iter().map(|second| firing(*second)).collect();
            retracts.date_retracts(RunInput { events, retracts: vec![retract], runs: Vec::new() }, at(100)).retracts
        };
        let until = |id: &str, second| [retract(id).with_until(at(second))];
        assert_eq!(dated(&[], retract("fp")), until("fp", 100), "it came before its event");
        assert_eq!(dated(&[10], retract("fp")), until("fp", 10));
        assert_eq!(dated(&[20, 15], retract("other")), until("other", 100));
        assert_eq!(dated(&[5], retract("fp")), until("fp", 20));
        assert_eq!(dated(&[30], retract("fp").with_until(at(20))), until("fp", 20), "as the run handed it over");
    }

    #[test]
    fn the_hold_of_a_run_is_what_its_commands_left() {
        let hold = |by: &str| json!({"by": by, "why": "wrong prices"});
        let (some, nothing) = (json!({"events": 2, "delivering": null}), json!({"events": 0, "delivering": null}));
        let asked = |id: &str, name: &str, input: &Value| accepted(id, request(id, name, input));
        let held = || [started("", &json!(null)), asked("1", "hold", &hold("ann")), completed("1", &some)];
        assert_eq!(holder(held()).as_deref(), Some("ann"));
        for (then, expected) in [
            (vec![asked("2", "hold", &hold("bo")), completed("2", &some)], Some("bo")),
            (vec![asked("2", "hold", &hold("bo")), completed("2", &nothing)], Some("ann")),
            (vec![asked("2", "hold", &hold("bo"))], Some("ann")),
            (vec![asked("2", "release", &hold("bo")), completed("2", &json!({"held": true}))], None),
            (vec![asked("2", "drop", &hold("bo")), completed("2", &some)], None),
            (vec![asked("2", "drop", &hold("bo")), completed("2", &nothing)], Some("ann")),
            (vec![asked("2", "flush", &hold("bo")), completed("2", &some)], Some("ann")),
        ] {
            assert_eq!(holder(held().into_iter().chain(then)).as_deref(), expected);
        }
    }

    #[test]
    fn a_hold_is_carried_by_a_continued_run_and_admitted_again() {
        let carried = json!({"hold": {"by": "ann", "why": "wrong prices", "until": null}, "windows": 3});
        assert_eq!(holder([started("r0", &carried)]).as_deref(), Some("ann"));
        assert_eq!(holder([started("", &carried)]), None, "a producer wrote this one");
        let admitted = Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(
            WorkflowExecutionUpdateAdmittedEventAttributes {
                request: Some(request("1", "hold", &json!({"by": "bo", "why": "x"}))),
                ..Default::default()
            },
        );
        let answer = json!({"events": 1, "delivering": null});
        assert_eq!(holder([admitted, accepted("1", None), completed("1", &answer)]).as_deref(), Some("bo"));
    }
}
