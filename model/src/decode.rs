//! Decodes the signal `events`. This cannot fail, because a failure would block the workflow forever.
//! Malformed input becomes a dead letter instead; docs/events.md is the contract (rule 4).

use jiff::Timestamp;

use crate::{Event, Key, Retract, wire::ContractEdition};

mod again;
mod dead_letters;
mod decoder;
mod own;
mod signal;
#[cfg(test)]
mod tests;

pub use again::{DecodedLetter, decode_again};
pub use dead_letters::DeadLetter;
use dead_letters::DeadLetters;
use decoder::PayloadDecoder;
use own::OwnKeySink;
pub(crate) use signal::wrong_encoding;
pub use signal::{EVENT_BATCH, SignalPayload};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedSignal {
    /// Valid events, in order.
    pub events: Vec<Event>,
    /// These cover events anywhere, including the same batch.
    pub retracts: Vec<Retract>,
    /// One per malformed payload, event or retract. At most 101 letters (the last stands for the rest) with
    /// 64 KiB of payload heads together.
    pub dead_letters: Vec<DeadLetter>,
}

/// Decodes events and retracts and checks that each belongs to `key`; an invalid one does not affect the
/// rest. Letters are numbered from `next_seq`.
pub fn decode<'a>(key: &Key, payloads: impl IntoIterator<Item = SignalPayload<'a>>, next_seq: u64) -> DecodedSignal {
    decode_by(ContractEdition::Today, key, payloads, next_seq).0
}

/// Like [`decode`], but a replay has to decide as the original run did (docs/upgrades.md). If the former
/// edition of the contract gives another result, we use it unless `is_today` (only called in this case)
/// returns `true`, because the run uses today's.
pub fn decode_behind<'a>(
    key: &Key,
    payloads: impl IntoIterator<Item = SignalPayload<'a>> + Clone,
    next_seq: u64,
    is_today: impl FnOnce() -> bool,
) -> DecodedSignal {
    let (today, may_differ) = decode_by(ContractEdition::Today, key, payloads.clone(), next_seq);
    if !may_differ {
        return today;
    }
    let (former, _) = decode_by(ContractEdition::Former, key, payloads, next_seq);
    if today.has_the_course_of(&former) || is_today() { today } else { former }
}

/// Also returns `true` if the other edition may decode differently.
fn decode_by<'a>(
    edition: ContractEdition,
    key: &Key,
    payloads: impl IntoIterator<Item = SignalPayload<'a>>,
    next_seq: u64,
) -> (DecodedSignal, bool) {
    let mut decoder = PayloadDecoder::new(edition, OwnKeySink::for_key(key, edition), next_seq);
    let mut payloads = payloads.into_iter().peekable();
    if payloads.peek().is_none() {
        decoder.reject_payload("the signal carries no payload", &SignalPayload::NONE);
    }
    for payload in payloads {
        decoder.decode_payload(&payload);
    }
    let may_differ = decoder.may_differ();
    let (OwnKeySink { events, retracts, .. }, dead_letters) = decoder.finish();
    // The former edition rejected the last 26 hours of 9999, which are read as this time.
    let is_last = |retract: &Retract| matches!(retract, Retract::Entity { until, .. } if *until == Timestamp::MAX);
    let may_differ =
        may_differ || events.iter().any(|event| event.occurred_at == Timestamp::MAX) || retracts.iter().any(is_last);
    (DecodedSignal { events, retracts, dead_letters }, may_differ)
}

impl DecodedSignal {
    /// Returns `true` if a workflow would continue identically. Compares times in milliseconds, and only
    /// counts letters.
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

/// For a workflow id which is no key.
pub fn reject_all<'a>(
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPayload {
    pub metadata: [(String, Vec<u8>); 2],
    pub data: Vec<u8>,
}

impl BatchPayload {
    /// Encodes a `tidings.v1.EventBatch` as JSON, which the Temporal UI can show. Inputs should be
    /// proto3-JSON.
    #[must_use]
    pub fn new<'a>(events: impl IntoIterator<Item = &'a str>, retracts: impl IntoIterator<Item = &'a str>) -> Self {
        let metadata = [("encoding", "json/protobuf"), ("messageType", EVENT_BATCH)];
        Self {
            metadata: metadata.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())),
            data: batch_json(events, retracts).into_bytes(),
        }
    }
}

/// Inputs should be proto3-JSON.
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
