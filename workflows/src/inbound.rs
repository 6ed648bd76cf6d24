//! What the signal `events` carries, as it arrives. Decoding the signal can never fail, because a failure would wedge
//! the workflow for ever; what is malformed becomes a dead letter instead. docs/events.md is the contract.

use prost::Message;
use serde::{Deserialize, de::value::MapDeserializer};
use serde_json::{Map, Value};
use temporalio_common::{
    data_converters::{
        ErasedSerdePayloadConverter, PayloadConversionError, SerializationContext, TemporalDeserializable,
        TemporalSerializable,
    },
    protos::temporal::api::common::v1::Payload,
};
use tidings_proto::v1;

use crate::{Event, Key, contract::DeadLetter};

mod refusals;
#[cfg(test)]
mod tests;

use refusals::Refusals;

const EVENT: &str = "tidings.v1.Event";
const EVENT_BATCH: &str = "tidings.v1.EventBatch";

/// The payloads of one signal, not looked at yet: [`Inbound::for_key`] does that.
///
/// Any number of payloads is fine, of any size that Temporal lets through (2 MiB); the limits of a batch bind
/// producers, those of an event are checked here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inbound(Vec<Payload>);

/// What [`Inbound`] holds for a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted {
    /// The good events, in the order in which they were sent.
    pub events: Vec<Event>,
    /// One letter for each malformed payload or event, numbered on. All heads of one signal together have at most
    /// 64 KiB, and there are at most 101 letters: the last then stands for all that are left out.
    pub refused: Vec<DeadLetter>,
}

impl Inbound {
    /// A batch of events that are proto3-JSON already, as a `tidings.v1.EventBatch` that the Temporal UI shows readably.
    #[must_use]
    pub fn from_json_events<'a>(events: impl IntoIterator<Item = &'a str>) -> Self {
        let events = events.into_iter().collect::<Vec<_>>().join(",");
        Self(vec![Payload {
            metadata: [("encoding", "json/protobuf"), ("messageType", EVENT_BATCH)]
                .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
                .into(),
            data: format!(r#"{{"events":[{events}]}}"#).into_bytes(),
            ..Payload::default()
        }])
    }

    /// Decodes the events and checks that each belongs to `key`. One bad event spoils no other. Letters are numbered
    /// from `next_seq`.
    #[must_use]
    pub fn for_key(&self, key: &Key, next_seq: u64) -> Sorted {
        let mut sorter = Sorter { key, events: Vec::new(), refusals: Refusals::new(next_seq) };
        if self.0.is_empty() {
            sorter.refusals.push("the signal carries no payload", "", &[]);
        }
        for payload in &self.0 {
            sorter.payload(payload);
        }
        Sorted { events: sorter.events, refused: sorter.refusals.into_letters() }
    }

    /// Refuses everything for one reason, for a workflow that stands for no key.
    #[must_use]
    pub fn refuse(&self, reason: &str, next_seq: u64) -> Vec<DeadLetter> {
        let mut refusals = Refusals::new(next_seq);
        for payload in &self.0 {
            refusals.push(reason, &metadata(payload, "encoding"), &payload.data);
        }
        refusals.into_letters()
    }
}

impl From<Vec<Payload>> for Inbound {
    fn from(payloads: Vec<Payload>) -> Self {
        Self(payloads)
    }
}

impl TemporalDeserializable for Inbound {
    fn from_serde(
        _: &dyn ErasedSerdePayloadConverter,
        _: &SerializationContext<'_>,
        payload: Payload,
    ) -> Result<Self, PayloadConversionError> {
        Ok(Self(vec![payload]))
    }

    fn from_payload(_: &SerializationContext<'_>, payload: Payload) -> Result<Self, PayloadConversionError> {
        Ok(Self(vec![payload]))
    }

    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self(payloads))
    }
}

impl TemporalSerializable for Inbound {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        match self.0.as_slice() {
            [payload] => Ok(payload.clone()),
            _ => Err(PayloadConversionError::WrongEncoding),
        }
    }

    fn to_payloads(&self, _: &SerializationContext<'_>) -> Result<Vec<Payload>, PayloadConversionError> {
        Ok(self.0.clone())
    }
}

struct Sorter<'a> {
    key: &'a Key,
    events: Vec<Event>,
    refusals: Refusals,
}

impl Sorter<'_> {
    fn payload(&mut self, payload: &Payload) {
        let encoding = metadata(payload, "encoding");
        let message = metadata(payload, "messageType");
        let done = match (encoding.as_str(), message.as_str()) {
            ("json/plain", _) | ("json/protobuf", "" | EVENT | EVENT_BATCH) => {
                self.json(&encoding, &message, &payload.data)
            }
            ("binary/protobuf", EVENT) => self.binary_event(&payload.data),
            ("binary/protobuf", EVENT_BATCH) => self.binary_batch(&encoding, &payload.data),
            ("binary/protobuf", "") => self.binary(&encoding, &payload.data),
            ("json/protobuf" | "binary/protobuf", other) => {
                Err(format!("messageType is {other}; it must be {EVENT} or {EVENT_BATCH}"))
            }
            _ => Err("encoding is not json/plain, json/protobuf or binary/protobuf".to_owned()),
        };
        if let Err(reason) = done {
            self.refusals.push(&reason, &encoding, &payload.data);
        }
    }

    /// One event, a list of them, or an `EventBatch`: the shape tells. `serde_json` refuses to nest deeper than 128.
    fn json(&mut self, encoding: &str, message: &str, data: &[u8]) -> Result<(), String> {
        let batch = match serde_json::from_slice(data).map_err(|error| format!("is not JSON: {error}"))? {
            Value::Array(events) => events,
            Value::Object(object) if message == EVENT_BATCH || object.contains_key("events") => json_batch(object)?,
            Value::Object(object) => {
                let event = json_event(&object).and_then(|event| self.accept(event))?;
                self.events.push(event);
                return Ok(());
            }
            _ => return Err("is neither an event nor a list of events".to_owned()),
        };
        for value in batch {
            let event = match &value {
                Value::Object(object) => json_event(object).and_then(|event| self.accept(event)),
                _ => Err("is not a JSON object".to_owned()),
            };
            match event {
                Ok(event) => self.events.push(event),
                Err(reason) => self.refusals.push(&reason, encoding, value.to_string().as_bytes()),
            }
        }
        Ok(())
    }

    /// Without a `messageType`: every good event has an `event_id`, and no batch reads as an event that has one.
    fn binary(&mut self, encoding: &str, data: &[u8]) -> Result<(), String> {
        match v1::Event::decode(data) {
            Ok(event) if !event.event_id.is_empty() => self.binary_event(data),
            _ => self.binary_batch(encoding, data),
        }
    }

    fn binary_batch(&mut self, encoding: &str, data: &[u8]) -> Result<(), String> {
        let batch = RawBatch::decode(data).map_err(|error| format!("is not a {EVENT_BATCH}: {error}"))?;
        for event in batch.events {
            if let Err(reason) = self.binary_event(&event) {
                self.refusals.push(&reason, encoding, &event);
            }
        }
        Ok(())
    }

    fn binary_event(&mut self, data: &[u8]) -> Result<(), String> {
        let event = v1::Event::decode(data).map_err(|error| format!("is not a {EVENT}: {error}"))?;
        self.events.push(self.accept(event)?);
        Ok(())
    }

    fn accept(&self, wire: v1::Event) -> Result<Event, String> {
        let (key, event) = Event::from_wire(wire, Some(self.key)).map_err(|error| error.to_string())?;
        match key {
            key if key == *self.key => Ok(event),
            key if key.tenant != self.key.tenant => Err(foreign("tenant")),
            key if key.digest_type != self.key.digest_type => Err(foreign("digest")),
            _ => Err(foreign("user")),
        }
    }
}

/// Says nothing of the other key: a careless producer's user ids may be addresses.
fn foreign(field: &str) -> String {
    format!("{field}: is not the one that the workflow id names; signal the workflow of the event's own key")
}

/// Wire-compatible with `tidings.v1.EventBatch`, and leaves each event to be decoded by itself.
#[derive(Clone, PartialEq, prost::Message)]
struct RawBatch {
    #[prost(bytes = "vec", repeated, tag = "1")]
    events: Vec<Vec<u8>>,
}

fn json_batch(mut object: Map<String, Value>) -> Result<Vec<Value>, String> {
    let events = object.remove("events");
    if !object.is_empty() {
        return Err(format!("a batch has `events` and nothing else, not {} more fields", object.len()));
    }
    match events {
        Some(Value::Array(events)) => Ok(events),
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(_) => Err("events: is not a list".to_owned()),
    }
}

/// proto3-JSON: `null` is the same as leaving a field out.
fn json_event(object: &Map<String, Value>) -> Result<v1::Event, String> {
    let fields = object.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value));
    v1::Event::deserialize(MapDeserializer::new(fields))
        .map_err(|error: serde_json::Error| format!("is not a {EVENT}: {}", without_values(&error.to_string())))
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

fn metadata(payload: &Payload, name: &str) -> String {
    let value = payload.metadata.get(name).map(Vec::as_slice).unwrap_or_default();
    refusals::printable(&String::from_utf8_lossy(value), 64)
}
