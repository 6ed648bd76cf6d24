//! What a run of the digest workflow was given, for who reads its history after its end.

use temporalio_common::protos::temporal::api::history::v1::WorkflowExecutionStartedEventAttributes as Started;
use tidings_model::{Event, Key, Retract};

use super::state::State;
use crate::carried::{CarriedState, UnreadableState};

/// The events and retracts that a run of the digest workflow received with one entry of its history.
#[derive(Debug, Default)]
pub struct RunInput {
    /// The pending events of a start argument, or the valid events of a signal.
    pub events: Vec<Event>,
    /// The retracts; those of a start argument were not in the store yet.
    pub retracts: Vec<Retract>,
    /// Still earlier runs whose histories are to be read, too. Only a start argument has them.
    pub runs: Vec<String>,
}

impl RunInput {
    /// The input that a run of the digest workflow got from the previous run.
    ///
    /// # Errors
    /// A previous run handed over a state that cannot be read.
    pub fn from_started_event(started: Started) -> Result<Self, UnreadableState> {
        let continued = !started.continued_execution_run_id.is_empty();
        let carried = CarriedState::from(started.input.map(|input| input.payloads).unwrap_or_default());
        // A server may leave the id out.
        let id = started.workflow_id;
        let is_own = |state: &State| id.is_empty() || state.key == Key::from_workflow_id(&id).ok();
        let state = carried.read::<State>(continued)?.filter(is_own);
        let Some(state) = state else { return Ok(Self::default()) };
        let retracts = state.dated_retracts();
        let runs = state.open.into_iter().flat_map(|open| open.runs).collect();
        Ok(Self { events: state.pending.into_events(), retracts, runs })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{from_value, json};
    use temporalio_common::{
        data_converters::{
            PayloadConverter, SerializationContext, SerializationContextData, TemporalSerializable as _,
        },
        protos::temporal::api::common::v1::{Payload, Payloads},
    };

    use super::*;

    #[test]
    fn the_input_of_a_run_is_what_the_previous_run_handed_over() {
        let event: Event = from_value(json!({
            "event_id": "e1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"
        }))
        .unwrap();
        let retract = Retract::Event("e2".into());
        let mut state = State::new(None, "first".into());
        assert!(state.pending.push(event.clone(), Timestamp::UNIX_EPOCH, None));
        state.retracts.insert(retract.clone());
        let carried = CarriedState::new(&state).unwrap();
        let (data, converter) = (SerializationContextData::None, PayloadConverter::default());
        let payload = carried.to_payload(&SerializationContext::new(&data, &converter)).unwrap();

        let input = RunInput::from_started_event(started("previous", payload.clone())).unwrap();
        assert_eq!((input.events, input.retracts, input.runs), (vec![event], vec![retract], vec![]));

        let cut = Payload { data: payload.data[..9].to_vec(), ..payload };
        let unreadable = RunInput::from_started_event(started("previous", cut.clone())).unwrap_err();
        assert_eq!(unreadable, UnreadableState { byte: 9, length: 9 });
        let first = RunInput::from_started_event(started("", cut)).unwrap();
        assert_eq!((first.events, first.retracts, first.runs), (vec![], vec![], vec![]));
    }

    fn started(previous: &str, argument: Payload) -> Started {
        let input = Some(Payloads { payloads: vec![argument] });
        Started { continued_execution_run_id: previous.to_owned(), input, ..Started::default() }
    }
}
