//! A workflow's start argument: the state of the previous run. It counts in a run that another one continues as, and for its own key only.
//! Producers start a workflow without an argument, and anybody may start one with any argument: "Start Workflow Like This One" of the
//! Temporal UI offers that of another run.

use serde::{Serialize, de::DeserializeOwned};
use temporalio_common::{
    data_converters::{PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable},
    protos::temporal::api::common::v1::Payload,
};

/// The state that one run hands to the next, as JSON; empty in the first run.
#[derive(Clone, Debug, Default)]
pub struct CarriedState(Vec<u8>);

/// The place at which the state of the previous run cannot be read. The state's text is left out, since users wrote parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the state of the previous run cannot be read, byte {byte} of {length}: a later version of the worker wrote it; start workers \
     of that version again"
)]
pub struct UnreadableState {
    pub(crate) byte: usize,
    pub(crate) length: usize,
}

impl CarriedState {
    /// Serializes a state.
    pub(crate) fn new(state: &impl Serialize) -> Result<Self, PayloadConversionError> {
        serde_json::to_vec(state).map(Self).map_err(|error| PayloadConversionError::EncodingError(error.into()))
    }

    /// The state that a run continues with, or the reason for [`UnreadableState::fail_task`] as soon as the workflow runs.
    /// `continued`: another run handed it over. `is_own`: the state is of the key that the workflow id names.
    pub(crate) fn state<S: DeserializeOwned>(
        &self,
        continued: bool,
        is_own: impl FnOnce(&S) -> bool,
    ) -> (Option<S>, Option<UnreadableState>) {
        match self.read(continued) {
            Ok(state) => (state.filter(is_own), None),
            Err(unreadable) => (None, Some(unreadable)),
        }
    }

    /// Ignores the argument of a first run.
    pub(crate) fn read<S: DeserializeOwned>(&self, continued: bool) -> Result<Option<S>, UnreadableState> {
        if !continued || self.0.is_empty() {
            return Ok(None);
        }
        // All of it is one line, so the column is the byte.
        let unreadable = |error: serde_json::Error| UnreadableState { byte: error.column(), length: self.0.len() };
        serde_json::from_slice(&self.0).map_err(unreadable)
    }
}

impl UnreadableState {
    /// Fails the workflow task. The server offers it again until a worker has it that can read the state; a run that went on
    /// without it would forget what was pending, and one that failed would not be taken up by any worker.
    ///
    /// # Panics
    /// Always: that is how a workflow fails a task. Not in `#[init]`, where it would end the worker.
    pub(crate) fn fail_task(&self) {
        panic!("{self}");
    }
}

impl From<Vec<Payload>> for CarriedState {
    fn from(payloads: Vec<Payload>) -> Self {
        Self(payloads.into_iter().next().map(|payload| payload.data).unwrap_or_default())
    }
}

impl TemporalSerializable for CarriedState {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        let data = if self.0.is_empty() { b"null".to_vec() } else { self.0.clone() };
        Ok(Payload { metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(), data, ..Payload::default() })
    }
}

impl TemporalDeserializable for CarriedState {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(payloads.into())
    }
}

#[cfg(test)]
mod tests {
    use temporalio_common::data_converters::{GenericPayloadConverter, PayloadConverter, SerializationContextData};

    use super::*;

    /// As the SDK writes the argument of the next run and reads its own.
    fn handed_over(state: &CarriedState) -> (Payload, CarriedState) {
        let (data, converter) = (SerializationContextData::None, PayloadConverter::default());
        let context = SerializationContext::new(&data, &converter);
        let payload = state.to_payload(&context).unwrap();
        (payload.clone(), converter.from_payloads(&context, vec![payload]).unwrap())
    }

    #[test]
    fn a_state_is_json_that_the_next_run_reads() {
        let json = |payload: &Payload| (payload.metadata["encoding"].clone(), payload.data.clone());
        let (payload, next) = handed_over(&CarriedState::new(&["comment"]).unwrap());
        assert_eq!(json(&payload), (b"json/plain".to_vec(), br#"["comment"]"#.to_vec()));
        let any = |_: &Vec<String>| true;
        assert_eq!(next.state(true, any), (Some(vec!["comment".to_owned()]), None));
        assert_eq!(next.state(true, |_: &Vec<String>| false), (None, None), "the state of another key");
        assert_eq!(next.state(false, any), (None, None), "the argument of a first run");
        let (payload, first) = handed_over(&CarriedState::default());
        assert_eq!(json(&payload), (b"json/plain".to_vec(), b"null".to_vec()));
        assert_eq!(first.state::<Vec<String>>(false, any), (None, None));
    }

    #[test]
    fn only_the_argument_of_a_first_run_may_be_unreadable() {
        let odd = CarriedState(br#"["a", 7]"#.to_vec());
        assert_eq!(odd.state::<Vec<String>>(false, |_| true), (None, None));
        assert_eq!(odd.state::<Vec<String>>(true, |_| true), (None, Some(UnreadableState { byte: 7, length: 8 })));
    }

    #[test]
    #[should_panic = "the state of the previous run cannot be read, byte 7 of 8"]
    fn an_unreadable_state_fails_the_task() {
        UnreadableState { byte: 7, length: 8 }.fail_task();
    }
}
