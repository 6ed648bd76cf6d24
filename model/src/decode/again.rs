//! Decodes a dead letter to emit it again. Each item names its own key, because the signal may have gone to
//! another key's workflow.

use std::collections::BTreeSet;

use tidings_proto::v1;

use super::{
    decoder::{DecodeSink, PayloadDecoder},
    signal::SignalPayload,
};
use crate::{Event, Key, Retract, limits::InvalidField, records::KeptLetter, wire::ContractEdition};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedLetter {
    pub events: Vec<v1::Event>,
    pub retracts: Vec<v1::Retract>,
    pub keys: BTreeSet<Key>,
}

/// Uses this version's rules. Missing key parts come from the workflow which received the signal; another
/// tenant is rejected.
///
/// # Errors
/// Why the letter, or part of it, cannot be emitted. Nothing is returned then.
pub fn decode_again(letter: &KeptLetter) -> Result<DecodedLetter, String> {
    let KeptLetter { record, head } = letter;
    if !letter.is_whole() {
        let (kept, size) = (head.len(), record.size);
        return Err(format!("only {kept} of its {size} bytes are kept; its producer must emit it again"));
    }
    // Otherwise a malformed retract would be read as an event.
    let Some(message_type) = &record.message_type else { return Err(UNTYPED.to_owned()) };
    let workflow = record.key();
    let addressed = AddressedSink { workflow: workflow.as_ref(), again: DecodedLetter::default() };
    let mut decoder = PayloadDecoder::new(ContractEdition::Today, addressed, 0);
    let (encoding, message_type) = (record.encoding.as_bytes(), message_type.as_bytes());
    decoder.decode_payload(&SignalPayload { encoding, message_type, data: head });
    let (AddressedSink { again, .. }, refused) = decoder.finish();
    match refused.into_iter().next() {
        Some(letter) => Err(letter.reason),
        None if again.keys.is_empty() => Err("it has neither events nor retracts".to_owned()),
        None => Ok(again),
    }
}

const UNTYPED: &str = "an earlier version recorded it without its message type; write its payload to a file and emit the events from there";

struct AddressedSink<'a> {
    /// `None` if the workflow id is no key.
    workflow: Option<&'a Key>,
    again: DecodedLetter,
}

impl AddressedSink<'_> {
    fn check(&self, key: &Key) -> Result<(), InvalidField> {
        match self.workflow {
            Some(workflow) if workflow.tenant != key.tenant => Err(InvalidField::new("tenant", FOREIGN)),
            _ => Ok(()),
        }
    }
}

const FOREIGN: &str = "is not the one that the workflow id names; its producer must emit it again";

impl DecodeSink for AddressedSink<'_> {
    fn accept_event(&mut self, wire: v1::Event) -> Result<(), InvalidField> {
        let (key, _) = Event::from_wire(wire.clone(), self.workflow)?;
        self.check(&key)?;
        let Key { tenant, digest_type: digest, user } = key.clone();
        self.again.events.push(v1::Event { tenant, digest, user, ..wire });
        self.again.keys.insert(key);
        Ok(())
    }

    fn accept_retract(&mut self, wire: v1::Retract) -> Result<(), InvalidField> {
        let (key, _) = Retract::from_wire(wire.clone(), self.workflow)?;
        self.check(&key)?;
        let Key { tenant, digest_type: digest, user } = key.clone();
        self.again.retracts.push(v1::Retract { tenant, digest, user, ..wire });
        self.again.keys.insert(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use jiff::Timestamp;
    use prost::Message as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        decode::{DeadLetter, decode, decoder::RETRACT, reject_all},
        records::{DeadLetterId, DeadLetterRecord},
    };

    const ANN: &str = "digest/acme/activity/ann";

    /// The letters from this signal to the workflow.
    fn letters(workflow_id: &str, encoding: &str, message_type: &str, data: &[u8]) -> Vec<KeptLetter> {
        let payload = SignalPayload { encoding: encoding.as_bytes(), message_type: message_type.as_bytes(), data };
        let letters = match Key::from_workflow_id(workflow_id) {
            Ok(key) => decode(&key, [payload], 0).dead_letters,
            Err(_) => reject_all([payload], "the workflow id is malformed", 0),
        };
        letters.into_iter().map(|letter| kept(workflow_id, letter)).collect()
    }

    fn kept(workflow_id: &str, letter: DeadLetter) -> KeptLetter {
        let DeadLetter { seq, reason, encoding, message_type, size, sha256, head } = letter;
        let id = DeadLetterId { run_id: "run".to_owned(), seq };
        let (workflow_id, buried_at) = (workflow_id.to_owned(), Timestamp::UNIX_EPOCH);
        let record = DeadLetterRecord {
            id,
            workflow_id,
            buried_at,
            reason,
            encoding,
            message_type,
            size,
            sha256,
            emitted: None,
        };
        KeptLetter { record, head: BASE64_STANDARD.decode(head).unwrap() }
    }

    fn json_letter(workflow_id: &str, data: &Value) -> KeptLetter {
        let mut letters = letters(workflow_id, "json/plain", "", data.to_string().as_bytes());
        assert_eq!(letters.len(), 1, "{data}");
        letters.remove(0)
    }

    fn event(user: &str) -> Value {
        json!({"tenant": "acme", "digest": "activity", "user": user, "event_id": "e1", "category": "comment",
               "occurred_at": "2026-01-31T08:00:00Z"})
    }

    fn wire(user: &str) -> v1::Event {
        serde_json::from_value(event(user)).unwrap()
    }

    fn key(user: &str) -> Key {
        Key::new("acme".into(), "activity".into(), user.into()).unwrap()
    }

    #[test]
    fn an_event_that_went_to_another_key_reaches_its_own() {
        let (text, binary) = (event("bo").to_string(), wire("bo").encode_to_vec());
        let batch = v1::EventBatch { events: vec![wire("ann"), wire("bo")], retracts: vec![] }.encode_to_vec();
        for (encoding, data) in [
            ("json/plain", text.as_bytes()),
            ("json/protobuf", format!("[{text}]").as_bytes()),
            ("binary/protobuf", &binary),
            ("binary/protobuf", &batch),
        ] {
            let letters = letters(ANN, encoding, "", data);
            let again = decode_again(&letters[0]).unwrap();
            assert_eq!((letters.len(), again.events), (1, vec![wire("bo")]), "{encoding}");
            assert_eq!((again.retracts, again.keys), (vec![], [key("bo")].into()), "{encoding}");
        }
    }

    #[test]
    fn a_signal_to_a_malformed_workflow_id_reaches_the_keys_it_names() {
        let retract = json!({"tenant": "acme", "digest": "activity", "user": "cy", "event_id": "e1"});
        let letter = json_letter("order 7", &json!({"events": [event("ann"), event("bo")], "retracts": [retract]}));
        let again = decode_again(&letter).unwrap();
        assert_eq!((again.events.len(), again.retracts.len()), (2, 1));
        assert_eq!(again.keys, ["ann", "bo", "cy"].map(key).into());

        let bare = json!({"event_id": "e1", "category": "comment", "occurred_at": 1});
        assert_eq!(decode_again(&json_letter("order 7", &bare)), Err("tenant: is required".to_owned()));
    }

    #[test]
    fn a_message_takes_the_missing_parts_of_its_key_from_the_workflow() {
        let mut foreign = event("bo");
        foreign["tenant"] = Value::Null;
        foreign["digest"] = Value::Null;
        let again = decode_again(&json_letter(ANN, &foreign)).unwrap();
        assert_eq!((again.events, again.keys), (vec![wire("bo")], [key("bo")].into()));
        // A batch that an earlier version refused.
        let mut letter = json_letter("order 7", &json!({"events": [event("ann")]}));
        letter.record.workflow_id = ANN.to_owned();
        let bare = json!({"event_id": "e1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"});
        letter.head = json!({"events": [bare], "retracts": [{"event_id": "e0"}]}).to_string().into_bytes();
        letter.record.size = letter.head.len() as u64;
        let again = decode_again(&letter).unwrap();
        let Key { tenant, digest_type: digest, user } = key("ann");
        let retract = v1::Retract { tenant, digest, user, event_id: "e0".into(), ..v1::Retract::default() };
        assert_eq!((again.events, again.retracts), (vec![wire("ann")], vec![retract]));
        assert_eq!(again.keys, [key("ann")].into());
    }

    #[test]
    fn a_retract_stays_a_retract() {
        let foreign = json!({"event_id": "e1", "user": "bo"});
        let wire = v1::Retract { event_id: "e1".into(), user: "bo".into(), ..v1::Retract::default() };
        let batch = v1::EventBatch { events: vec![], retracts: vec![wire.clone()] }.encode_to_vec();
        for (encoding, message_type, data) in [
            ("json/plain", "", json!({"retracts": [foreign]}).to_string().into_bytes()),
            ("json/protobuf", RETRACT, foreign.to_string().into_bytes()),
            ("binary/protobuf", RETRACT, wire.encode_to_vec()),
            ("binary/protobuf", "", batch),
        ] {
            let again = decode_again(&letters(ANN, encoding, message_type, &data)[0]).unwrap();
            let whole = v1::Retract { tenant: "acme".into(), digest: "activity".into(), ..wire.clone() };
            assert_eq!((again.retracts, again.keys), (vec![whole], [key("bo")].into()), "{encoding} {message_type}");
            assert_eq!(again.events, [], "{encoding} {message_type}");
        }
    }

    #[test]
    fn a_malformed_retract_with_the_fields_of_an_event_becomes_none() {
        let both = json!({"event_id": "e1", "category": "comment", "occurred_at": 1});
        let mut letter = json_letter(ANN, &json!({ "retracts": [both] }));
        assert_eq!(decode_again(&letter), Err(letter.record.reason.clone()));
        letter.record.message_type = None;
        assert!(decode_again(&letter).unwrap_err().contains("without its message type"));
    }

    #[test]
    fn a_malformed_letter_is_refused_again_with_its_reason() {
        let (mut late, mut misspelt) = (event("ann"), event("ann"));
        late["occurred_at"] = json!("yesterday");
        misspelt["evnt_id"] = json!("e1");
        for data in [json!(7), json!({"events": 7}), late, misspelt, json!([{}])] {
            let letter = json_letter(ANN, &data);
            assert_eq!(decode_again(&letter), Err(letter.record.reason.clone()), "{data}");
        }
        let letter = &letters(ANN, "binary/encrypted", "", b"x")[0];
        assert_eq!(decode_again(letter), Err(letter.record.reason.clone()));
    }

    #[test]
    fn an_event_of_another_tenant_is_refused() {
        let mut foreign = event("ann");
        foreign["tenant"] = json!("other");
        assert!(decode_again(&json_letter(ANN, &foreign)).unwrap_err().starts_with("tenant: is not the one"));
    }

    #[test]
    fn one_malformed_event_keeps_the_others_of_its_letter() {
        let letter = json_letter("order 7", &json!([event("bo"), {}]));
        assert_eq!(decode_again(&letter), Err("tenant: is required (events[1])".to_owned()));
    }

    #[test]
    fn a_letter_without_all_of_its_bytes_or_without_events_is_refused() {
        let mut letter = json_letter("order 7", &json!([]));
        assert!(decode_again(&letter).unwrap_err().contains("neither events nor retracts"));
        letter.record.size = 70_000;
        assert!(decode_again(&letter).unwrap_err().starts_with("only 2 of its 70000 bytes are kept"));
    }
}
