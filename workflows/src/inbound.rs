//! What the signal `events` carries, as it arrives. Decoding the signal can never fail, because a failure would wedge
//! the workflow for ever; what is malformed becomes a dead letter instead. docs/events.md is the contract.

use temporalio_common::{
    data_converters::{
        ErasedSerdePayloadConverter, PayloadConversionError, SerializationContext, TemporalDeserializable,
        TemporalSerializable,
    },
    protos::temporal::api::common::v1::Payload,
};

use crate::{Event, Key, Retract, contract::DeadLetter};

mod refusals;
mod sorter;
#[cfg(test)]
mod tests;

use refusals::Refusals;
use sorter::Sorter;

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
    /// The good retracts. They cover events of any place, also in the same batch.
    pub retracts: Vec<Retract>,
    /// One letter for each malformed payload, event or retract, numbered on. All heads of one signal together have at most
    /// 64 KiB, and there are at most 101 letters: the last then stands for all that are left out.
    pub refused: Vec<DeadLetter>,
}

impl Inbound {
    /// A batch of events that are proto3-JSON already, as a `tidings.v1.EventBatch` that the Temporal UI shows readably.
    #[must_use]
    pub fn from_json_events<'a>(events: impl IntoIterator<Item = &'a str>) -> Self {
        Self::from_json(events, [])
    }

    /// Like [`Inbound::from_json_events`], with retracts beside the events.
    #[must_use]
    pub fn from_json<'a>(
        events: impl IntoIterator<Item = &'a str>,
        retracts: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let list =
            |name: &str, items: Vec<&str>| (!items.is_empty()).then(|| format!("\"{name}\":[{}]", items.join(",")));
        let lists = [list("events", events.into_iter().collect()), list("retracts", retracts.into_iter().collect())];
        let fields = lists.into_iter().flatten().collect::<Vec<_>>().join(",");
        Self(vec![Payload {
            metadata: [("encoding", "json/protobuf"), ("messageType", EVENT_BATCH)]
                .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
                .into(),
            data: format!("{{{fields}}}").into_bytes(),
            ..Payload::default()
        }])
    }

    /// Decodes the events and retracts and checks that each belongs to `key`. A bad one spoils no other. Letters are
    /// numbered from `next_seq`.
    #[must_use]
    pub fn for_key(&self, key: &Key, next_seq: u64) -> Sorted {
        let mut sorter = Sorter::new(key, next_seq);
        if self.0.is_empty() {
            sorter.refuse("the signal carries no payload", "", &[]);
        }
        for payload in &self.0 {
            sorter.payload(payload);
        }
        sorter.into_sorted()
    }

    /// Bytes of the payloads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|payload| payload.data.len()).sum()
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

fn metadata(payload: &Payload, name: &str) -> String {
    let value = payload.metadata.get(name).map(Vec::as_slice).unwrap_or_default();
    refusals::printable(&String::from_utf8_lossy(value), 64)
}
