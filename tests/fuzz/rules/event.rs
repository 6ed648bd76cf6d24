//! Signals in the three encodings: nothing in them is lost, what decodes means the same in every encoding, and what does
//! not becomes a bounded dead letter.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::tz::TimeZone;
use prost::Message as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_model::{
    Event, Key, Retract,
    decode::{DeadLetter, DecodedSignal, SignalPayload, decode, decode_again},
    limits,
    records::{DeadLetterId, DeadLetterRecord, KeptLetter},
};
use tidings_proto::v1;

use super::presentable::assert_presentable;

const EVENT: &str = "tidings.v1.Event";
const RETRACT: &str = "tidings.v1.Retract";
const BATCH: &str = "tidings.v1.EventBatch";
/// Letters of one signal, with the one that stands for the rest.
const LETTERS: usize = 101;
const HEAD_BYTES: usize = 64 * 1024;

/// The first line says encoding and message type, the rest is one payload of a signal to the workflow of acme's ann.
///
/// # Panics
/// Where a rule is broken.
pub fn event(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (header, data) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
    let header = String::from_utf8_lossy(header);
    let (encoding, message) = header.split_once(' ').unwrap_or((&header, ""));
    let sorted = through(encoding, message, data);
    nothing_is_lost(&sorted, items(encoding, message, data));
    letters(&sorted.dead_letters, 7);
    for event in &sorted.events {
        within_the_contract(event);
        same_in_every_encoding(event);
    }
    for retract in &sorted.retracts {
        same_retract_in_every_encoding(retract);
    }
    assert_eq!(through(encoding, message, data), sorted, "the same signal twice");
}

fn through(encoding: &str, message: &str, data: &[u8]) -> DecodedSignal {
    let payload = SignalPayload { encoding: encoding.as_bytes(), message_type: message.as_bytes(), data };
    let key = Key { tenant: "acme".into(), digest_type: "activity".into(), user: "ann".into() };
    decode(&key, [payload], 7)
}

/// The number of good and bad events and retracts in the data. `None` if only the decoder can count them.
fn items(encoding: &str, message: &str, data: &[u8]) -> Option<usize> {
    match (encoding, message) {
        // A list that is not JSON is taken apart by its brackets.
        ("json/plain", _) | ("json/protobuf", "" | EVENT | RETRACT | BATCH) => {
            serde_json::from_slice::<Value>(data).is_ok().then(|| json_items(message, data))
        }
        ("binary/protobuf", "") => None,
        ("binary/protobuf", BATCH) => {
            v1::EventBatch::decode(data).ok().map(|batch| batch.events.len() + batch.retracts.len())
        }
        _ => Some(1),
    }
}

fn json_items(message: &str, data: &[u8]) -> usize {
    match serde_json::from_slice(data) {
        Ok(_) if message == RETRACT => 1,
        Ok(Value::Array(events)) => events.len(),
        Ok(Value::Object(fields)) => {
            let lists = ["events", "retracts"].map(|name| fields.get(name));
            let is_batch = message == BATCH || lists.iter().any(Option::is_some);
            let known = lists.iter().flatten().count() == fields.len();
            let sizes = lists.map(|list| match list {
                None | Some(Value::Null) => Some(0),
                Some(list) => list.as_array().map(Vec::len),
            });
            match sizes {
                [Some(events), Some(retracts)] if is_batch && known => events + retracts,
                _ => 1,
            }
        }
        _ => 1,
    }
}

fn nothing_is_lost(DecodedSignal { events, retracts, dead_letters }: &DecodedSignal, items: Option<usize>) {
    let good = events.len() + retracts.len();
    let Some(items) = items else { return };
    if let (LETTERS, Some(last)) = (dead_letters.len(), dead_letters.last()) {
        let rest = items - good - (LETTERS - 1);
        assert!(last.reason.starts_with(&format!("{rest} more of ")), "{items} items, {good} good: {}", last.reason);
    } else {
        assert_eq!(good + dead_letters.len(), items, "{dead_letters:?}");
    }
}

fn letters(letters: &[DeadLetter], first_seq: u64) {
    assert!(letters.len() <= LETTERS, "{} letters", letters.len());
    let mut heads = 0;
    for (letter, seq) in letters.iter().zip(first_seq..) {
        assert_eq!(letter.seq, seq);
        assert!(!letter.reason.is_empty());
        // A control character becomes a space, which may be shorter.
        assert_presentable("a reason", &letter.reason, 400);
        assert_presentable("an encoding", &letter.encoding, 64);
        let head = BASE64_STANDARD.decode(&letter.head).expect("a head is base64");
        heads += head.len();
        assert!(head.len() as u64 <= letter.size);
        let whole = head.len() as u64 == letter.size;
        let hash: String = Sha256::digest(&head).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(letter.sha256.len() == 64 && (!whole || letter.sha256 == hash), "{letter:?}");
        decoded_again(letter, head);
    }
    assert!(heads <= HEAD_BYTES, "{heads} bytes of heads");
}

/// A dead letter of a retract never becomes an event.
fn decoded_again(letter: &DeadLetter, head: Vec<u8>) {
    let record = DeadLetterRecord {
        id: DeadLetterId { run_id: "run".into(), seq: letter.seq },
        workflow_id: "digest/acme/activity/ann".into(),
        buried_at: jiff::Timestamp::UNIX_EPOCH,
        reason: letter.reason.clone(),
        encoding: letter.encoding.clone(),
        message_type: letter.message_type.clone(),
        size: letter.size,
        sha256: letter.sha256.clone(),
        emitted: None,
    };
    let events = decode_again(&KeptLetter { record, head }).map_or(0, |again| again.events.len());
    assert!(events == 0 || letter.message_type.as_deref() != Some(RETRACT), "{letter:?}");
}

fn within_the_contract(event: &Event) {
    let Event { event_id, category, entity_type, entity_id, actor, .. } = event;
    assert!(!event_id.is_empty() && !category.is_empty(), "{event:?}");
    for id in [event_id, category, entity_type, entity_id, actor].into_iter().chain(event.counts.keys()) {
        assert_presentable("an id", id, limits::ID_BYTES);
    }
    let year = event.occurred_at.to_zoned(TimeZone::UTC).year();
    assert!((1..=9999).contains(&year), "{event:?}");
    assert!(event.counts.len() <= limits::COUNTS);
    assert!(event.payload.as_json().len() <= limits::PAYLOAD_BYTES);
}

fn same_in_every_encoding(event: &Event) {
    let json = serde_json::to_string(event).expect("an event is JSON");
    let wire: v1::Event = serde_json::from_str(&json).expect("its JSON is the contract's");
    let wire_json = serde_json::to_vec(&wire).expect("a wire event is JSON");
    let binary = wire.encode_to_vec();
    let is_exact = v1::Event::decode(&binary[..]).is_ok_and(|decoded| decoded == wire);
    let batch = v1::EventBatch { events: vec![wire], retracts: Vec::new() }.encode_to_vec();
    let list = format!("[{json}]");
    let in_json = [
        ("json/plain", "", json.as_bytes()),
        ("json/plain", "", list.as_bytes()),
        ("json/protobuf", EVENT, &wire_json),
    ];
    let in_binary =
        [("binary/protobuf", EVENT, &binary[..]), ("binary/protobuf", "", &binary), ("binary/protobuf", "", &batch)];
    // Binary protobuf rounds whole numbers over 2^53 in a payload.
    let in_binary = in_binary.into_iter().filter(|_| is_exact);
    for (encoding, message, data) in in_json.into_iter().chain(in_binary) {
        let again = through(encoding, message, data);
        assert_eq!(
            again,
            DecodedSignal { events: vec![event.clone()], ..DecodedSignal::default() },
            "{encoding} {message}: {json}"
        );
    }
}

fn same_retract_in_every_encoding(retract: &Retract) {
    let wire = match retract.clone() {
        Retract::Event(event_id) | Retract::EventUntil { event_id, .. } => {
            v1::Retract { event_id, ..v1::Retract::default() }
        }
        Retract::Entity { category, entity_type, entity_id, until } => {
            v1::Retract { category, entity_type, entity_id, occurred_at: Some(until.into()), ..v1::Retract::default() }
        }
    };
    let only = DecodedSignal { retracts: vec![retract.clone()], ..DecodedSignal::default() };
    let json = serde_json::to_vec(&wire).expect("a wire retract is JSON");
    assert_eq!(through("json/plain", RETRACT, &json), only);
    assert_eq!(through("binary/protobuf", RETRACT, &wire.encode_to_vec()), only);
    let batch = v1::EventBatch { events: Vec::new(), retracts: vec![wire] };
    assert_eq!(through("binary/protobuf", BATCH, &batch.encode_to_vec()), only);
}
