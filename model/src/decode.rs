//! Decoding of the signal `events`. It can never fail, because a failure would wedge the workflow for ever; what is malformed
//! becomes a dead letter instead. docs/events.md is the contract.

use jiff::Timestamp;

use crate::{Event, Key, Retract, wire::Edition};

mod again;
mod dead_letters;
mod decoder;
mod own;
mod signal;
#[cfg(test)]
mod tests;

pub use again::{Again, decode_again};
pub use dead_letters::DeadLetter;
use dead_letters::DeadLetters;
use decoder::Decoder;
use own::Own;
pub(crate) use signal::wrong_encoding;
pub use signal::{EVENT_BATCH, SignalPayload};

/// The contents of a signal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The good events, in the order in which they were sent.
    pub events: Vec<Event>,
    /// The good retracts. They cover events of any place, also in the same batch.
    pub retracts: Vec<Retract>,
    /// One letter for each malformed payload, event or retract, numbered on. All heads of one signal together have at most
    /// 64 KiB, and there are at most 101 letters: the last then stands for all that are left out.
    pub dead_letters: Vec<DeadLetter>,
}

/// Decodes the events and retracts and checks that each belongs to `key`. A bad one spoils no other. Letters are numbered from
/// `next_seq`.
pub fn decode<'a>(key: &Key, payloads: impl IntoIterator<Item = SignalPayload<'a>>, next_seq: u64) -> Decoded {
    decode_by(Edition::Today, key, payloads, next_seq).0
}

/// Decodes as [`decode`] does. What would take another course by the former edition of the contract takes it, unless `is_today` says
/// that the run reads by today's: a replay must decide as the run did (docs/upgrades.md). `is_today` is asked only then.
pub fn decode_behind<'a>(
    key: &Key,
    payloads: impl IntoIterator<Item = SignalPayload<'a>> + Clone,
    next_seq: u64,
    is_today: impl FnOnce() -> bool,
) -> Decoded {
    let (today, may_differ) = decode_by(Edition::Today, key, payloads.clone(), next_seq);
    if !may_differ {
        return today;
    }
    let (former, _) = decode_by(Edition::Former, key, payloads, next_seq);
    if today.has_the_course_of(&former) || is_today() { today } else { former }
}

/// Also reports if the other edition may decode otherwise.
fn decode_by<'a>(
    edition: Edition,
    key: &Key,
    payloads: impl IntoIterator<Item = SignalPayload<'a>>,
    next_seq: u64,
) -> (Decoded, bool) {
    let mut decoder = Decoder::new(edition, Own::of(key, edition), next_seq);
    let mut payloads = payloads.into_iter().peekable();
    if payloads.peek().is_none() {
        decoder.refuse("the signal carries no payload", &SignalPayload::NONE);
    }
    for payload in payloads {
        decoder.payload(&payload);
    }
    let may_differ = decoder.may_differ();
    let (Own { events, retracts, .. }, dead_letters) = decoder.finish();
    // The former edition refused the last 26 hours of 9999, which are read as this time.
    let is_last = |retract: &Retract| matches!(retract, Retract::Entity { until, .. } if *until == Timestamp::MAX);
    let may_differ =
        may_differ || events.iter().any(|event| event.occurred_at == Timestamp::MAX) || retracts.iter().any(is_last);
    (Decoded { events, retracts, dead_letters }, may_differ)
}

impl Decoded {
    /// Reports that a workflow goes on with both in the same way. It compares times in milliseconds, and letters only by their number.
    fn has_the_course_of(&self, other: &Self) -> bool {
        let event = |event: &Event| Event { occurred_at: in_milliseconds(event.occurred_at), ..event.clone() };
        let retract = |retract: &Retract| match retract.clone() {
            Retract::Entity { category, entity_type, entity_id, until } => {
                Retract::Entity { category, entity_type, entity_id, until: in_milliseconds(until) }
            }
            of_event @ (Retract::Event(_) | Retract::EventUntil { .. }) => of_event,
        };
        self.dead_letters.len() == other.dead_letters.len()
            && self.events.iter().map(event).eq(other.events.iter().map(event))
            && self.retracts.iter().map(retract).eq(other.retracts.iter().map(retract))
    }
}

fn in_milliseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// Refuses everything for one reason, for a workflow that stands for no key.
pub fn refuse<'a>(
    payloads: impl IntoIterator<Item = SignalPayload<'a>>,
    reason: &str,
    next_seq: u64,
) -> Vec<DeadLetter> {
    let mut letters = DeadLetters::new(next_seq);
    for payload in payloads {
        letters.push(reason, &payload);
    }
    letters.into_vec()
}

/// A batch as the one payload of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPayload {
    /// The metadata by name.
    pub metadata: [(String, Vec<u8>); 2],
    pub data: Vec<u8>,
}

impl BatchPayload {
    /// A `tidings.v1.EventBatch` in JSON, which the Temporal UI shows readably. Its events and retracts are proto3-JSON already.
    #[must_use]
    pub fn new<'a>(events: impl IntoIterator<Item = &'a str>, retracts: impl IntoIterator<Item = &'a str>) -> Self {
        let metadata = [("encoding", "json/protobuf"), ("messageType", EVENT_BATCH)];
        Self {
            metadata: metadata.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())),
            data: batch_json(events, retracts).into_bytes(),
        }
    }
}

/// The JSON of a `tidings.v1.EventBatch` whose events and retracts are proto3-JSON already.
#[must_use]
pub fn batch_json<'a>(
    events: impl IntoIterator<Item = &'a str>,
    retracts: impl IntoIterator<Item = &'a str>,
) -> String {
    let list = |name: &str, items: Vec<&str>| (!items.is_empty()).then(|| format!("\"{name}\":[{}]", items.join(",")));
    let lists = [list("events", events.into_iter().collect()), list("retracts", retracts.into_iter().collect())];
    let fields = lists.into_iter().flatten().collect::<Vec<_>>().join(",");
    format!("{{{fields}}}")
}
