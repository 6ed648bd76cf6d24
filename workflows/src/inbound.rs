//! Incoming signals, start and update arguments. Anybody can send these with any payload, and a handler that
//! failed to decode its argument would fail every workflow task for ever (rule 4).

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use temporalio_common::{
    data_converters::{PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable},
    protos::temporal::api::common::v1::Payload,
};
use tidings_model::{
    Key,
    command::{OperatorArgument, OperatorCommand},
    decode::{self, DeadLetter, DecodedSignal, SignalPayload},
    limits::InvalidField,
    names,
};

use crate::driver::ValidatorResult;

/// Metadata key for the original name of a misnamed signal.
const SENT_AS: &str = "tidings-signal";
const SENT_AS_CHARS: usize = 64;

/// Raw payloads of one signal. Accepting one must never fail, because this would wedge the workflow for ever.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboundSignal(Vec<Payload>);

impl InboundSignal {
    /// Wraps a signal with an unknown name as the signal `events`. Each payload becomes a dead letter that
    /// names the right signal.
    #[must_use]
    pub fn misnamed_signal(name: &str, mut payloads: Vec<Payload>) -> Vec<Payload> {
        if payloads.is_empty() {
            payloads.push(Payload::default());
        }
        for payload in &mut payloads {
            payload.metadata.insert(SENT_AS.to_owned(), name.as_bytes().to_vec());
        }
        payloads
    }

    /// See [`decode::decode`].
    #[must_use]
    pub fn for_key(&self, key: &Key, next_seq: u64) -> DecodedSignal {
        self.refused_by_name(next_seq).unwrap_or_else(|| decode::decode(key, self.payloads(), next_seq))
    }

    /// The run may have started with an earlier edition of the contract; see [`decode::decode_behind`].
    #[must_use]
    pub fn for_run(&self, key: &Key, next_seq: u64, is_today: impl FnOnce() -> bool) -> DecodedSignal {
        let decoded = || decode::decode_behind(key, self.payloads(), next_seq, is_today);
        self.refused_by_name(next_seq).unwrap_or_else(decoded)
    }

    fn refused_by_name(&self, next_seq: u64) -> Option<DecodedSignal> {
        let name = self.0.first().map(|payload| metadata(payload, SENT_AS)).filter(|name| !name.is_empty())?;
        let name: String = String::from_utf8_lossy(name).chars().take(SENT_AS_CHARS).collect();
        let right = names::SIGNAL;
        let reason = format!("the signal is named {name:?}, and events are handed over by the signal {right:?}");
        Some(DecodedSignal { dead_letters: self.refuse_all(&reason, next_seq), ..DecodedSignal::default() })
    }

    /// For a workflow id that is not a key.
    #[must_use]
    pub fn refuse_all(&self, reason: &str, next_seq: u64) -> Vec<DeadLetter> {
        decode::reject_all(self.payloads(), reason, next_seq)
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|payload| payload.data.len()).sum()
    }

    fn payloads(&self) -> impl Iterator<Item = SignalPayload<'_>> + Clone {
        self.0.iter().map(signal_payload)
    }
}

fn signal_payload(payload: &Payload) -> SignalPayload<'_> {
    SignalPayload {
        encoding: metadata(payload, "encoding"),
        message_type: metadata(payload, "messageType"),
        data: &payload.data,
    }
}

fn encoded(encoding: &str, data: Vec<u8>) -> Payload {
    let metadata = [("encoding".to_owned(), encoding.as_bytes().to_vec())].into();
    Payload { metadata, data, ..Payload::default() }
}

fn metadata<'a>(payload: &'a Payload, name: &str) -> &'a [u8] {
    payload.metadata.get(name).map(Vec::as_slice).unwrap_or_default()
}

impl From<Vec<Payload>> for InboundSignal {
    fn from(payloads: Vec<Payload>) -> Self {
        Self(payloads)
    }
}

impl TemporalDeserializable for InboundSignal {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self(payloads))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredPayload;

impl TemporalDeserializable for IgnoredPayload {
    fn from_payloads(_: &SerializationContext<'_>, _: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self)
    }
}

/// Encoded like other SDKs encode an empty argument.
impl TemporalSerializable for IgnoredPayload {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        Ok(encoded("binary/null", Vec::new()))
    }
}

/// The SDK requires this for every signal, but clients send their own payloads.
impl TemporalSerializable for InboundSignal {}

// A workflow's start argument is the previous run's state. We accept it only when continuing as new, and only
// for the same key. Producers start workflows without an argument, but anybody may pass one: "Start Workflow
// Like This One" in the Temporal UI copies it from another run.

/// As JSON. Empty for the first run.
#[derive(Clone, Debug, Default)]
pub struct CarriedState(Vec<u8>);

/// Where the previous run's state could not be read. Does not show its text, because parts come from users.
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
    pub(crate) fn new(state: &impl Serialize) -> Result<Self, PayloadConversionError> {
        serde_json::to_vec(state).map(Self).map_err(|error| PayloadConversionError::EncodingError(error.into()))
    }

    /// Returns the state to continue with, or an error for [`UnreadableState::fail_task`] once the workflow
    /// runs. `continued`: another run passed it on. `is_own`: the state's key matches the workflow id.
    pub(crate) fn carried_state<S: DeserializeOwned>(
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
        // It is all on one line, so the column is the byte offset.
        let unreadable = |error: serde_json::Error| UnreadableState { byte: error.column(), length: self.0.len() };
        serde_json::from_slice(&self.0).map_err(unreadable)
    }
}

impl UnreadableState {
    /// The server retries the task until a worker can read the state. If we continued without it, we would lose
    /// pending events; if we failed the run, no worker would pick it up again.
    ///
    /// # Panics
    /// Always, because this is how a workflow fails a task. Do not call this in `#[init]`, where it would end
    /// the worker.
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
        Ok(encoded("json/plain", data))
    }
}

impl TemporalDeserializable for CarriedState {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(payloads.into())
    }
}

/// An operator's command, or why it cannot be decoded. The SDK would only return `Wrong encoding`. The
/// validator names the field and what it expects.
#[derive(Clone, Debug)]
pub struct CommandArgument<C>(Result<OperatorArgument<C>, InvalidField>);

impl<C: OperatorCommand> CommandArgument<C> {
    pub(crate) fn check(&self, now: Timestamp) -> ValidatorResult {
        Ok(self.0.as_ref().map_err(InvalidField::clone)?.check(now)?)
    }

    /// The validator has checked it. If a replay contains a command from a later version, this fails the task
    /// until a newer worker takes over.
    pub(crate) fn command(self) -> C {
        self.0.expect("the validator refuses what cannot be read").command
    }
}

impl<C> From<C> for CommandArgument<C> {
    fn from(command: C) -> Self {
        Self(Ok(command.into()))
    }
}

impl<C: OperatorCommand + DeserializeOwned> TemporalDeserializable for CommandArgument<C> {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        let payloads: Vec<_> = payloads.iter().map(signal_payload).collect();
        Ok(Self(OperatorArgument::parse_payloads(&payloads)))
    }
}

impl<C: Serialize> TemporalSerializable for CommandArgument<C> {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        let argument = self.0.as_ref().map_err(|_| PayloadConversionError::WrongEncoding)?;
        let data = serde_json::to_vec(argument).map_err(|error| PayloadConversionError::EncodingError(error.into()))?;
        Ok(encoded("json/plain", data))
    }
}

#[cfg(test)]
mod tests {
    use temporalio_common::data_converters::{
        GenericPayloadConverter as _, PayloadConverter, SerializationContextData,
    };
    use tidings_model::{
        command::{CommandContext, HoldCommand},
        decode::BatchPayload,
    };

    use super::*;

    #[test]
    fn a_signal_of_any_payloads_is_taken_in() {
        let batch = Payload { data: br#"{"events":[]}"#.to_vec(), ..Payload::default() };
        for payloads in [vec![], vec![batch.clone()], vec![odd()], vec![odd(), batch]] {
            let converter = PayloadConverter::default();
            let data = SerializationContextData::None;
            let context = SerializationContext::new(&data, &converter);
            let inbound: InboundSignal = converter.from_payloads(&context, payloads.clone()).unwrap();
            assert_eq!(inbound, InboundSignal(payloads));
        }
    }

    #[test]
    fn a_signal_is_decoded_by_its_metadata_and_measured() {
        let event = r#"{"tenant": "acme", "digest": "activity", "user": "ann", "event_id": "e1", "category": "comment",
            "occurred_at": "2026-01-31T08:00:00Z"}"#;
        let batch = BatchPayload::new([event], []);
        let length = batch.data.len();
        let good = Payload { metadata: batch.metadata.into(), data: batch.data, ..Payload::default() };
        let inbound = InboundSignal::from(vec![good, odd()]);
        assert_eq!(inbound.bytes(), length + 9);

        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        let decoded = inbound.for_key(&key, 7);
        let ids: Vec<_> = decoded.events.iter().map(|event| event.event_id.as_str()).collect();
        assert_eq!((ids, numbered(&decoded.dead_letters)), (vec!["e1"], vec![(7, "binary/odd", 9)]));

        let refused = inbound.refuse_all("no key", 3);
        let size = u64::try_from(length).unwrap();
        assert_eq!(numbered(&refused), [(3, "json/protobuf", size), (4, "binary/odd", 9)]);
        assert!(refused.iter().all(|letter| letter.reason == "no key"));
    }

    #[test]
    fn a_signal_of_another_name_becomes_dead_letters_that_name_the_right_one() {
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        for (payloads, letters) in [(vec![], 1), (vec![odd()], 1), (vec![odd(), odd()], 2)] {
            let inbound = InboundSignal::from(InboundSignal::misnamed_signal("event", payloads));
            let decoded = inbound.for_run(&key, 7, || true);
            assert_eq!(decoded, inbound.for_key(&key, 7));
            assert_eq!((decoded.events.len(), decoded.dead_letters.len()), (0, letters));
            let reason = "the signal is named \"event\", and events are handed over by the signal \"events\"";
            assert!(decoded.dead_letters.iter().all(|letter| letter.reason == reason), "{:?}", decoded.dead_letters);
        }
    }

    fn odd() -> Payload {
        let metadata = [("encoding".to_owned(), b"binary/odd".to_vec())].into();
        Payload { metadata, data: vec![0xff; 9], ..Payload::default() }
    }

    fn numbered(letters: &[DeadLetter]) -> Vec<(u64, &str, u64)> {
        letters.iter().map(|letter| (letter.seq, letter.encoding.as_str(), letter.size)).collect()
    }

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
        assert_eq!(next.carried_state(true, any), (Some(vec!["comment".to_owned()]), None));
        assert_eq!(next.carried_state(true, |_: &Vec<String>| false), (None, None), "the state of another key");
        assert_eq!(next.carried_state(false, any), (None, None), "the argument of a first run");
        let (payload, first) = handed_over(&CarriedState::default());
        assert_eq!(json(&payload), (b"json/plain".to_vec(), b"null".to_vec()));
        assert_eq!(first.carried_state::<Vec<String>>(false, any), (None, None));
    }

    #[test]
    fn only_the_argument_of_a_first_run_may_be_unreadable() {
        let odd = CarriedState(br#"["a", 7]"#.to_vec());
        assert_eq!(odd.carried_state::<Vec<String>>(false, |_| true), (None, None));
        assert_eq!(
            odd.carried_state::<Vec<String>>(true, |_| true),
            (None, Some(UnreadableState { byte: 7, length: 8 }))
        );
    }

    #[test]
    #[should_panic = "the state of the previous run cannot be read, byte 7 of 8"]
    fn an_unreadable_state_fails_the_task() {
        UnreadableState { byte: 7, length: 8 }.fail_task();
    }

    fn read(payloads: Vec<Payload>) -> CommandArgument<HoldCommand> {
        let (converter, data) = (PayloadConverter::default(), SerializationContextData::None);
        converter.from_payloads(&SerializationContext::new(&data, &converter), payloads).unwrap()
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let hold = HoldCommand { order: CommandContext { by: "ann".into(), why: "x".into() }, until: None };
        let (converter, data) = (PayloadConverter::default(), SerializationContextData::None);
        let context = SerializationContext::new(&data, &converter);
        let argument = read(converter.to_payloads(&context, &CommandArgument::from(hold.clone())).unwrap());
        assert!(argument.check(Timestamp::MIN).is_ok());
        assert_eq!(argument.command(), hold);
    }

    #[test]
    fn a_missing_or_encrypted_argument_is_refused_with_what_is_needed() {
        let encrypted =
            Payload { metadata: [("encoding".to_owned(), b"binary/encrypted".to_vec())].into(), ..Payload::default() };
        for (payloads, says) in
            [(vec![], "argument: is missing"), (vec![encrypted], "argument: encoding is binary/encrypted")]
        {
            let error = read(payloads).check(Timestamp::MIN).unwrap_err().to_string();
            assert!(error.starts_with(says) && error.ends_with("its fields are by, why, until"), "{error}");
        }
    }
}
