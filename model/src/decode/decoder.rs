//! From payloads to events and retracts: the encodings and shapes of docs/events.md. What breaks a rule is refused by
//! itself, and the rest of its batch is taken.

use prost::Message;
use serde::{Deserialize, de::value::MapDeserializer};
use serde_json::{Map, Value};
use tidings_proto::v1;

use super::{
    dead_letters::DeadLetters,
    signal::{EVENT_BATCH, SignalPayload},
};
use crate::step::DeadLetter;

pub(super) const EVENT: &str = "tidings.v1.Event";
pub(super) const RETRACT: &str = "tidings.v1.Retract";

/// Takes the messages of a payload, or refuses one with the reason.
pub(super) trait Sink {
    fn event(&mut self, wire: v1::Event) -> Result<(), String>;
    fn retract(&mut self, wire: v1::Retract) -> Result<(), String>;
}

pub(super) struct Decoder<S> {
    sink: S,
    dead_letters: DeadLetters,
}

impl<S: Sink> Decoder<S> {
    pub(super) fn new(sink: S, next_seq: u64) -> Self {
        Self { sink, dead_letters: DeadLetters::new(next_seq) }
    }

    /// Returns the taken messages and the refused ones.
    pub(super) fn finish(self) -> (S, Vec<DeadLetter>) {
        (self.sink, self.dead_letters.into_vec())
    }

    pub(super) fn refuse(&mut self, reason: &str, payload: &SignalPayload<'_>) {
        self.dead_letters.push(reason, payload);
    }

    pub(super) fn payload(&mut self, payload: &SignalPayload<'_>) {
        let encoding = payload.encoding();
        let message = payload.message_type();
        let done = match (encoding.as_str(), message.as_str()) {
            ("json/plain", _) | ("json/protobuf", "" | EVENT | EVENT_BATCH | RETRACT) => {
                self.json(payload.encoding, &message, payload.data)
            }
            ("binary/protobuf", EVENT) => self.binary_event(payload.data),
            ("binary/protobuf", RETRACT) => self.binary_retract(payload.data),
            ("binary/protobuf", EVENT_BATCH) => self.binary_batch(payload.encoding, payload.data),
            ("binary/protobuf", "") => self.binary(payload.encoding, payload.data),
            ("json/protobuf" | "binary/protobuf", other) => {
                Err(format!("messageType is {other}; it must be {EVENT}, {RETRACT} or {EVENT_BATCH}"))
            }
            _ => Err("encoding is not json/plain, json/protobuf or binary/protobuf".to_owned()),
        };
        if let Err(reason) = done {
            self.refuse(&reason, payload);
        }
    }

    /// One event, a list of them, or an `EventBatch`: the shape tells. Only the message type tells a retract from an
    /// event. `serde_json` refuses to nest deeper than 128.
    fn json(&mut self, encoding: &[u8], message: &str, data: &[u8]) -> Result<(), String> {
        let value = serde_json::from_slice(data).map_err(|error| format!("is not JSON: {error}"))?;
        match (message, value) {
            (RETRACT, value) => self.json_retract(&value)?,
            (_, Value::Array(events)) => self.each(encoding, EVENT, &events, Self::json_event),
            (message, Value::Object(object)) if message == EVENT_BATCH || is_batch(&object) => {
                let [events, retracts] = lists(object)?;
                self.each(encoding, EVENT, &events, Self::json_event);
                self.each(encoding, RETRACT, &retracts, Self::json_retract);
            }
            (_, event @ Value::Object(_)) => self.json_event(&event)?,
            _ => return Err("is neither an event nor a list of events".to_owned()),
        }
        Ok(())
    }

    fn each(
        &mut self,
        encoding: &[u8],
        message: &str,
        values: &[Value],
        take: fn(&mut Self, &Value) -> Result<(), String>,
    ) {
        for value in values {
            if let Err(reason) = take(self, value) {
                let data = value.to_string();
                let message_type = message.as_bytes();
                self.refuse(&reason, &SignalPayload { encoding, message_type, data: data.as_bytes() });
            }
        }
    }

    fn json_event(&mut self, value: &Value) -> Result<(), String> {
        self.sink.event(from_json(EVENT, value)?)
    }

    fn json_retract(&mut self, value: &Value) -> Result<(), String> {
        self.sink.retract(from_json(RETRACT, value)?)
    }

    /// Without a `messageType`: every good event has an `event_id`, and no batch reads as an event that has one.
    fn binary(&mut self, encoding: &[u8], data: &[u8]) -> Result<(), String> {
        match v1::Event::decode(data) {
            Ok(event) if !event.event_id.is_empty() => self.binary_event(data),
            _ => self.binary_batch(encoding, data),
        }
    }

    fn binary_batch(&mut self, encoding: &[u8], data: &[u8]) -> Result<(), String> {
        let RawBatch { events, retracts } = from_binary(EVENT_BATCH, data)?;
        for event in events {
            if let Err(reason) = self.binary_event(&event) {
                self.refuse(&reason, &SignalPayload { encoding, message_type: EVENT.as_bytes(), data: &event });
            }
        }
        for retract in retracts {
            if let Err(reason) = self.binary_retract(&retract) {
                self.refuse(&reason, &SignalPayload { encoding, message_type: RETRACT.as_bytes(), data: &retract });
            }
        }
        Ok(())
    }

    fn binary_event(&mut self, data: &[u8]) -> Result<(), String> {
        self.sink.event(from_binary(EVENT, data)?)
    }

    fn binary_retract(&mut self, data: &[u8]) -> Result<(), String> {
        self.sink.retract(from_binary(RETRACT, data)?)
    }
}

/// Wire-compatible with `tidings.v1.EventBatch`, and leaves each message to be decoded by itself.
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

fn is_batch(object: &Map<String, Value>) -> bool {
    ["events", "retracts"].iter().any(|name| object.contains_key(*name))
}

fn lists(mut object: Map<String, Value>) -> Result<[Vec<Value>; 2], String> {
    let mut list = |name: &str| match object.remove(name) {
        Some(Value::Array(values)) => Ok(values),
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(_) => Err(format!("{name}: is not a list")),
    };
    let lists = [list("events")?, list("retracts")?];
    if object.is_empty() {
        return Ok(lists);
    }
    Err(format!("a batch has `events`, `retracts` and nothing else, not {} more fields", object.len()))
}

/// proto3-JSON: `null` is the same as leaving a field out.
fn from_json<'a, M: Deserialize<'a>>(name: &str, value: &'a Value) -> Result<M, String> {
    let Value::Object(object) = value else { return Err("is not a JSON object".to_owned()) };
    let fields = object.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value));
    M::deserialize(MapDeserializer::new(fields))
        .map_err(|error: serde_json::Error| format!("is not a {name}: {}", without_values(&error.to_string())))
}

/// serde quotes the value it did not expect; a reason is for logs and dashboards and must not.
fn without_values(error: &str) -> String {
    let (found, expected) = error.rsplit_once(", expected ").unwrap_or((error, ""));
    match (found.find('"'), expected) {
        (Some(quote), _) => format!("{}, expected {expected}", found[..quote].trim_end()),
        (None, "") => found.to_owned(),
        (None, _) => format!("{found}, expected {expected}"),
    }
}
