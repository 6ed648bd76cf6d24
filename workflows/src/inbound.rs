//! Signals as they arrive. Anybody may send one with any payload, and a handler that cannot read its argument would fail each workflow task
//! for ever.

use temporalio_common::{
    data_converters::{PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable},
    protos::temporal::api::common::v1::Payload,
};
use tidings_model::{
    Key,
    decode::{self, DeadLetter, Decoded, SignalPayload},
    names,
};

/// The metadata of a payload that came by a signal of this name.
const SENT_AS: &str = "tidings-signal";
/// Characters of that name in the reason of a dead letter.
const SENT_AS_CHARS: usize = 64;

/// The payloads of one signal, not decoded yet. Taking a signal in can never fail, because a failure would wedge the workflow for
/// ever.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inbound(Vec<Payload>);

impl Inbound {
    /// The payloads of a signal of another name, to be handed over again as the signal `events`: each becomes a dead letter that names
    /// the right signal.
    #[must_use]
    pub fn misnamed(name: &str, mut payloads: Vec<Payload>) -> Vec<Payload> {
        if payloads.is_empty() {
            payloads.push(Payload::default());
        }
        for payload in &mut payloads {
            payload.metadata.insert(SENT_AS.to_owned(), name.as_bytes().to_vec());
        }
        payloads
    }

    /// Decodes the events and retracts of `key`; see [`decode::decode`].
    #[must_use]
    pub fn for_key(&self, key: &Key, next_seq: u64) -> Decoded {
        self.refused_by_name(next_seq).unwrap_or_else(|| decode::decode(key, self.payloads(), next_seq))
    }

    /// Decodes for a run, which may have begun before today's edition of the contract; see [`decode::decode_behind`].
    #[must_use]
    pub fn for_run(&self, key: &Key, next_seq: u64, is_today: impl FnOnce() -> bool) -> Decoded {
        let decoded = || decode::decode_behind(key, self.payloads(), next_seq, is_today);
        self.refused_by_name(next_seq).unwrap_or_else(decoded)
    }

    /// The dead letters of a signal that came under another name.
    fn refused_by_name(&self, next_seq: u64) -> Option<Decoded> {
        let name = self.0.first().map(|payload| metadata(payload, SENT_AS)).filter(|name| !name.is_empty())?;
        let name: String = String::from_utf8_lossy(name).chars().take(SENT_AS_CHARS).collect();
        let right = names::SIGNAL;
        let reason = format!("the signal is named {name:?}, and events are handed over by the signal {right:?}");
        Some(Decoded { dead_letters: self.refuse(&reason, next_seq), ..Decoded::default() })
    }

    /// Refuses everything for one reason, for a workflow that stands for no key.
    #[must_use]
    pub fn refuse(&self, reason: &str, next_seq: u64) -> Vec<DeadLetter> {
        decode::refuse(self.payloads(), reason, next_seq)
    }

    /// Bytes of the payloads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|payload| payload.data.len()).sum()
    }

    fn payloads(&self) -> impl Iterator<Item = SignalPayload<'_>> + Clone {
        self.0.iter().map(signal_payload)
    }
}

/// The payload as the model reads it.
pub(crate) fn signal_payload(payload: &Payload) -> SignalPayload<'_> {
    SignalPayload {
        encoding: metadata(payload, "encoding"),
        message_type: metadata(payload, "messageType"),
        data: &payload.data,
    }
}

fn metadata<'a>(payload: &'a Payload, name: &str) -> &'a [u8] {
    payload.metadata.get(name).map(Vec::as_slice).unwrap_or_default()
}

impl From<Vec<Payload>> for Inbound {
    fn from(payloads: Vec<Payload>) -> Self {
        Self(payloads)
    }
}

impl TemporalDeserializable for Inbound {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self(payloads))
    }
}

/// The payloads of a signal without content, whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored;

impl TemporalDeserializable for Ignored {
    fn from_payloads(_: &SerializationContext<'_>, _: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self)
    }
}

/// As other SDKs send an argument that is nothing.
impl TemporalSerializable for Ignored {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        Ok(Payload { metadata: [("encoding".to_owned(), b"binary/null".to_vec())].into(), ..Payload::default() })
    }
}

/// The SDK asks for it of every signal; clients send payloads of their own.
impl TemporalSerializable for Inbound {}

#[cfg(test)]
mod tests {
    use temporalio_common::data_converters::{GenericPayloadConverter, PayloadConverter, SerializationContextData};
    use tidings_model::decode::BatchPayload;

    use super::*;

    #[test]
    fn a_signal_of_any_payloads_is_taken_in() {
        let batch = Payload { data: br#"{"events":[]}"#.to_vec(), ..Payload::default() };
        for payloads in [vec![], vec![batch.clone()], vec![odd()], vec![odd(), batch]] {
            let converter = PayloadConverter::default();
            let data = SerializationContextData::None;
            let context = SerializationContext::new(&data, &converter);
            let inbound: Inbound = converter.from_payloads(&context, payloads.clone()).unwrap();
            assert_eq!(inbound, Inbound(payloads));
        }
    }

    #[test]
    fn a_signal_is_decoded_by_its_metadata_and_measured() {
        let event = r#"{"tenant": "acme", "digest": "activity", "user": "ann", "event_id": "e1", "category": "comment",
            "occurred_at": "2026-01-31T08:00:00Z"}"#;
        let batch = BatchPayload::new([event], []);
        let length = batch.data.len();
        let good = Payload { metadata: batch.metadata.into(), data: batch.data, ..Payload::default() };
        let inbound = Inbound::from(vec![good, odd()]);
        assert_eq!(inbound.bytes(), length + 9);

        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        let decoded = inbound.for_key(&key, 7);
        let ids: Vec<_> = decoded.events.iter().map(|event| event.event_id.as_str()).collect();
        assert_eq!((ids, numbered(&decoded.dead_letters)), (vec!["e1"], vec![(7, "binary/odd", 9)]));

        let refused = inbound.refuse("no key", 3);
        let size = u64::try_from(length).unwrap();
        assert_eq!(numbered(&refused), [(3, "json/protobuf", size), (4, "binary/odd", 9)]);
        assert!(refused.iter().all(|letter| letter.reason == "no key"));
    }

    #[test]
    fn a_signal_of_another_name_becomes_dead_letters_that_name_the_right_one() {
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        for (payloads, letters) in [(vec![], 1), (vec![odd()], 1), (vec![odd(), odd()], 2)] {
            let inbound = Inbound::from(Inbound::misnamed("event", payloads));
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
}
