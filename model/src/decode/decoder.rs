//! Turns payloads into events and retracts, in all encodings and shapes of docs/events.md. An invalid item
//! does not affect the rest of its batch.

use prost::Message;
use tidings_proto::v1;

use super::{
    dead_letters::DeadLetters,
    signal::{EVENT_BATCH, SignalPayload, wrong_encoding},
};
use crate::{
    decode::DeadLetter,
    limits::InvalidField,
    wire::{ContractEdition, WireItems, WireReader, split_items},
};

pub(super) const EVENT: &str = "tidings.v1.Event";
pub(super) const RETRACT: &str = "tidings.v1.Retract";

/// An error rejects just one event or retract.
pub(super) trait DecodeSink {
    fn accept_event(&mut self, wire: v1::Event) -> Result<(), InvalidField>;
    fn accept_retract(&mut self, wire: v1::Retract) -> Result<(), InvalidField>;
}

pub(super) struct PayloadDecoder<S> {
    sink: S,
    edition: ContractEdition,
    reader: WireReader,
    dead_letters: DeadLetters,
}

impl<S: DecodeSink> PayloadDecoder<S> {
    pub(super) fn new(edition: ContractEdition, sink: S, next_seq: u64) -> Self {
        Self { sink, edition, reader: WireReader::new(edition), dead_letters: DeadLetters::new(next_seq) }
    }

    /// Returns `true` if another edition could decode differently, e.g. accept something we rejected.
    pub(super) fn may_differ(&self) -> bool {
        self.reader.may_differ || !self.dead_letters.is_empty()
    }

    pub(super) fn finish(self) -> (S, Vec<DeadLetter>) {
        (self.sink, self.dead_letters.into_vec())
    }

    pub(super) fn reject_payload(&mut self, reason: &str, payload: &SignalPayload<'_>) {
        self.dead_letters.push(reason, payload);
    }

    pub(super) fn decode_payload(&mut self, payload: &SignalPayload<'_>) {
        let encoding = payload.encoding();
        let message = payload.message_type();
        let done = match (encoding.as_str(), message.as_str()) {
            ("json/plain", _) | ("json/protobuf", "" | EVENT | EVENT_BATCH | RETRACT) => {
                self.decode_json(payload.encoding, &message, payload.data).map_err(in_words)
            }
            ("binary/protobuf", EVENT) => self.binary_event(payload.data),
            ("binary/protobuf", RETRACT) => self.binary_retract(payload.data),
            ("binary/protobuf", EVENT_BATCH) => self.binary_batch(payload.encoding, payload.data),
            ("binary/protobuf", "") => self.decode_binary(payload.encoding, payload.data),
            ("json/protobuf" | "binary/protobuf", other) => {
                Err(format!("messageType is {other}; it must be {EVENT}, {RETRACT} or {EVENT_BATCH}"))
            }
            _ => Err(format!("{}; send json/plain, json/protobuf or binary/protobuf", wrong_encoding(&encoding))),
        };
        if let Err(reason) = done {
            self.reject_payload(&reason, payload);
        }
    }

    /// Accepts an event, a list of events, or an `EventBatch`. A retract differs from an event only by its
    /// message type.
    fn decode_json(&mut self, encoding: &[u8], message: &str, data: &[u8]) -> Result<(), InvalidField> {
        if message == RETRACT {
            return self.json_retract(data);
        }
        let WireItems { events, retracts, broken } = split_items(data, message == EVENT_BATCH)?;
        // The former edition rejected the whole text for any syntax error.
        if self.edition == ContractEdition::Former
            && let Err(error) = serde_json::from_slice::<serde_json::Value>(data)
        {
            return Err(InvalidField::new("", format!("is not JSON: {error}")));
        }
        self.reader.may_differ |= broken;
        if let ([event], []) = (&events[..], &retracts[..])
            && event.len() == data.len()
        {
            return self.json_event(event);
        }
        self.decode_each(encoding, EVENT, "events", &events, Self::json_event);
        self.decode_each(encoding, RETRACT, "retracts", &retracts, Self::json_retract);
        Ok(())
    }

    fn decode_each(
        &mut self,
        encoding: &[u8],
        message: &str,
        list: &str,
        items: &[&[u8]],
        take: fn(&mut Self, &[u8]) -> Result<(), InvalidField>,
    ) {
        for (index, data) in items.iter().enumerate() {
            if let Err(invalid) = take(self, data) {
                let place = if items.len() > 1 { format!(" ({list}[{index}])") } else { String::new() };
                let message_type = message.as_bytes();
                self.reject_payload(
                    &format!("{}{place}", in_words(invalid)),
                    &SignalPayload { encoding, message_type, data },
                );
            }
        }
    }

    fn json_event(&mut self, data: &[u8]) -> Result<(), InvalidField> {
        let wire = self.reader.event(data)?;
        self.sink.accept_event(wire)
    }

    fn json_retract(&mut self, data: &[u8]) -> Result<(), InvalidField> {
        let wire = self.reader.retract(data)?;
        self.sink.accept_retract(wire)
    }

    /// Without `messageType`. Unambiguous: every valid event has an `event_id`, and a batch never decodes as
    /// such an event.
    fn decode_binary(&mut self, encoding: &[u8], data: &[u8]) -> Result<(), String> {
        match v1::Event::decode(data) {
            Ok(event) if !event.event_id.is_empty() => self.binary_event(data),
            _ => self.binary_batch(encoding, data),
        }
    }

    fn binary_batch(&mut self, encoding: &[u8], data: &[u8]) -> Result<(), String> {
        let RawBatch { events, retracts } = from_binary(EVENT_BATCH, data)?;
        for event in events {
            if let Err(reason) = self.binary_event(&event) {
                self.reject_payload(&reason, &SignalPayload { encoding, message_type: EVENT.as_bytes(), data: &event });
            }
        }
        for retract in retracts {
            if let Err(reason) = self.binary_retract(&retract) {
                self.reject_payload(
                    &reason,
                    &SignalPayload { encoding, message_type: RETRACT.as_bytes(), data: &retract },
                );
            }
        }
        Ok(())
    }

    fn binary_event(&mut self, data: &[u8]) -> Result<(), String> {
        self.sink.accept_event(from_binary(EVENT, data)?).map_err(in_words)
    }

    fn binary_retract(&mut self, data: &[u8]) -> Result<(), String> {
        self.sink.accept_retract(from_binary(RETRACT, data)?).map_err(in_words)
    }
}

/// Wire-compatible with `tidings.v1.EventBatch`, but items can fail one by one.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RawBatch {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) events: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) retracts: Vec<Vec<u8>>,
}

fn from_binary<M: Message + Default>(name: &str, data: &[u8]) -> Result<M, String> {
    M::decode(data).map_err(|error| format!("is not a {name}: {error}"))
}

fn in_words(invalid: InvalidField) -> String {
    if invalid.field.is_empty() { invalid.problem } else { invalid.to_string() }
}
