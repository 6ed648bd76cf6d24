use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};
use tidings_proto::v1;

use super::{
    decoder::{EVENT, RETRACT, RawBatch},
    *,
};

fn key() -> Key {
    Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()
}

#[derive(Clone)]
struct Sent {
    encoding: String,
    message_type: String,
    data: Vec<u8>,
}

fn payload(encoding: &str, message_type: &str, data: impl Into<Vec<u8>>) -> Sent {
    Sent { encoding: encoding.to_owned(), message_type: message_type.to_owned(), data: data.into() }
}

fn payloads(sent: &[Sent]) -> impl Iterator<Item = SignalPayload<'_>> {
    sent.iter().map(|Sent { encoding, message_type, data }| SignalPayload {
        encoding: encoding.as_bytes(),
        message_type: message_type.as_bytes(),
        data,
    })
}

fn decoded_from(sent: &[Sent], next_seq: u64) -> DecodedSignal {
    decode(&key(), payloads(sent), next_seq)
}

fn event(id: &str) -> Value {
    json!({"tenant": "acme", "digest": "activity", "user": "ann", "event_id": id, "category": "comment",
           "occurred_at": "2026-01-31T08:00:00Z", "counts": {"critical": "2"}, "payload": {"title": "Plan", "n": 3}})
}

fn wire(id: &str) -> v1::Event {
    serde_json::from_value(event(id)).unwrap()
}

/// Retracts in wire form, with their meaning.
fn retracts() -> [(Value, Retract); 2] {
    let key = json!({"tenant": "acme", "digest": "activity", "user": "ann"});
    let of = |fields: Value| {
        let fields = [&key, &fields].into_iter().flat_map(|part| part.as_object().unwrap().clone());
        Value::Object(fields.collect())
    };
    let until: Timestamp = "2026-01-31T08:00:00Z".parse().unwrap();
    let about = |name: &str| name.to_owned();
    [
        (of(json!({"event_id": "e1"})), Retract::Event("e1".to_owned())),
        (
            of(
                json!({"category": "comment", "entity_type": "page", "entity_id": "7", "occurred_at": until.to_string()}),
            ),
            Retract::Entity { category: about("comment"), entity_type: about("page"), entity_id: about("7"), until },
        ),
    ]
}

fn decoded(payload: Sent) -> DecodedSignal {
    decoded_from(&[payload], 0)
}

fn ids(decoded: &DecodedSignal) -> Vec<&str> {
    decoded.events.iter().map(|event| event.event_id.as_str()).collect()
}

#[test]
fn one_event_is_the_same_event_in_every_encoding_and_shape() {
    let expected = Event::from_wire(wire("e1"), None).unwrap().1;
    assert_eq!(expected.counts["critical"], 2);
    let (text, binary) = (event("e1").to_string(), wire("e1").encode_to_vec());
    let batch = v1::EventBatch { events: vec![wire("e1")], retracts: vec![] }.encode_to_vec();
    for (encoding, message, data) in [
        ("json/plain", "", text.clone().into_bytes()),
        ("json/plain", "", json!([event("e1")]).to_string().into_bytes()),
        ("json/plain", "", json!({"events": [event("e1")]}).to_string().into_bytes()),
        ("json/protobuf", EVENT, text.clone().into_bytes()),
        ("json/protobuf", EVENT_BATCH, json!({"events": [event("e1")]}).to_string().into_bytes()),
        ("json/protobuf", "", text.into_bytes()),
        ("binary/protobuf", EVENT, binary.clone()),
        ("binary/protobuf", "", binary),
        ("binary/protobuf", EVENT_BATCH, batch.clone()),
        ("binary/protobuf", "", batch),
    ] {
        let decoded = decoded(payload(encoding, message, data));
        assert_eq!(decoded.dead_letters, [], "{encoding} {message}");
        assert_eq!(decoded.events, std::slice::from_ref(&expected), "{encoding} {message}");
    }
}

#[test]
fn a_retract_is_the_same_retract_in_every_encoding_and_shape() {
    for (json, expected) in retracts() {
        let wire: v1::Retract = serde_json::from_value(json.clone()).unwrap();
        let (text, binary) = (json.to_string(), wire.encode_to_vec());
        let list = json!({"retracts": [json]}).to_string();
        let batch = v1::EventBatch { events: vec![], retracts: vec![wire] }.encode_to_vec();
        for (encoding, message, data) in [
            ("json/plain", "", list.clone().into_bytes()),
            ("json/protobuf", EVENT_BATCH, list.clone().into_bytes()),
            ("json/protobuf", "", list.into_bytes()),
            ("json/protobuf", RETRACT, text.into_bytes()),
            ("binary/protobuf", RETRACT, binary),
            ("binary/protobuf", EVENT_BATCH, batch.clone()),
            ("binary/protobuf", "", batch),
        ] {
            let decoded = decoded(payload(encoding, message, data));
            assert_eq!(decoded.dead_letters, [], "{encoding} {message}");
            assert_eq!(decoded.retracts, std::slice::from_ref(&expected), "{encoding} {message}");
        }
    }
}

#[test]
fn a_bad_item_of_a_batch_spoils_no_other() {
    let [(one, first), (two, second)] = retracts();
    let text = json!({"retracts": [one, {"event_id": 7}, 7, two], "events": [event("e1"), {}]}).to_string();
    let decoded = decoded(payload("json/plain", "", text));
    assert_eq!(
        (ids(&decoded), decoded.retracts.clone(), decoded.dead_letters.len()),
        (vec!["e1"], vec![first, second], 3)
    );
}

#[test]
fn the_workflow_reads_the_payload_of_the_client() {
    let (one, two) = (event("e1").to_string(), event("e2").to_string());
    let both = decoded(payload("json/protobuf", EVENT_BATCH, batch_json([one.as_str(), two.as_str()], [])));
    assert_eq!((ids(&both), both.dead_letters.len()), (vec!["e1", "e2"], 0));

    let retract = r#"{"event_id":"e1"}"#;
    for (events, retracts) in [(vec![one.as_str()], vec![retract]), (vec![], vec![retract]), (vec![], vec![])] {
        let decoded = decoded(payload("json/protobuf", EVENT_BATCH, batch_json(events.clone(), retracts.clone())));
        assert_eq!((decoded.events.len(), decoded.retracts.len()), (events.len(), retracts.len()));
        assert_eq!(decoded.dead_letters, []);
    }
}

#[test]
fn an_event_without_a_key_is_of_the_workflow_s() {
    let bare = json!({"event_id": "e1", "category": "comment", "occurred_at": 1_774_000_000, "actor": null});
    assert_eq!(ids(&decoded(payload("json/plain", "", bare.to_string()))), ["e1"]);
    let bare: v1::Event = serde_json::from_value(json!({"event_id": "e1", "category": "c", "occurredAt": 1})).unwrap();
    assert_eq!(ids(&decoded(payload("binary/protobuf", "", bare.encode_to_vec()))), ["e1"]);
}

#[test]
fn an_event_of_another_key_is_refused_without_naming_that_key() {
    for field in ["tenant", "digest", "user"] {
        let mut foreign = event("e1");
        foreign[field] = json!("somebody@example.com");
        let decoded = decoded(payload("json/plain", "", foreign.to_string()));
        assert!(decoded.events.is_empty());
        assert!(decoded.dead_letters[0].reason.starts_with(field), "{}", decoded.dead_letters[0].reason);
        assert!(!decoded.dead_letters[0].reason.contains("somebody"));
    }
}

#[test]
fn a_retract_of_another_key_is_refused() {
    let bare = json!({"retracts": [{"event_id": "e1"}, {"event_id": "e1", "user": "bob@example.com"}]});
    let decoded = decoded(payload("json/plain", "", bare.to_string()));
    assert_eq!(decoded.retracts, [Retract::Event("e1".to_owned())]);
    assert_eq!(
        decoded.dead_letters[0].reason,
        "user: is not the one that the workflow id names; signal the workflow of the retract's own key (retracts[1])"
    );
}

#[test]
fn a_retract_names_one_event_or_a_category_and_a_time() {
    for (retract, reason) in [
        (json!({}), "event_id: is required, or else category and occurred_at"),
        (json!({"entity_id": "7"}), "event_id: is required, or else category and occurred_at"),
        (json!({"category": "comment"}), "occurred_at: is required"),
        (
            json!({"event_id": "e1", "category": "comment"}),
            "event_id: cannot be combined with category; give event_id alone",
        ),
        (json!({"event_id": "e1", "occurred_at": 1}), "event_id: cannot be combined with occurred_at"),
        (json!({"event_id": "x".repeat(256)}), "event_id: has 256 bytes, the limit is 255"),
        (json!({"category": "c", "entity_id": "a\nb", "occurred_at": 1}), "entity_id: has the control character"),
        (
            json!({"category": "c", "occurred_at": "0000-12-31T23:59:59Z"}),
            "occurred_at: is outside the years 1 to 9999",
        ),
        (json!({"category": "c", "occurred_at": "ann@example.com"}), "occurred_at: is not a time as in RFC 3339"),
        (
            json!({"category": "c", "occurred_at": "0001-01-01T00:00:00Z"}),
            "occurred_at: is the first instant of year 1",
        ),
        (json!({"event": "e1"}), "event: is an unknown field of a retract; did you mean event_id?"),
    ] {
        let decoded = decoded(payload("json/plain", "", json!({ "retracts": [retract] }).to_string()));
        assert_eq!(decoded.retracts, [], "{retract}");
        assert!(decoded.dead_letters[0].reason.contains(reason), "{retract}: {}", decoded.dead_letters[0].reason);
        assert!(!decoded.dead_letters[0].reason.contains("ann@"), "{}", decoded.dead_letters[0].reason);
    }
}

#[test]
fn one_bad_event_spoils_no_other_in_its_batch() {
    let mut bad = event("bad");
    bad["occurred_at"] = json!("yesterday");
    let text = json!({"events": [event("e1"), bad, 7, event("e2")]}).to_string();
    let decoded_json = decoded(payload("json/protobuf", EVENT_BATCH, text));
    assert_eq!((ids(&decoded_json), decoded_json.dead_letters.len()), (vec!["e1", "e2"], 2));

    let raw = RawBatch {
        events: vec![wire("e1").encode_to_vec(), vec![0xff; 9], wire("e2").encode_to_vec()],
        retracts: vec![vec![0xff; 9]],
    };
    let decoded_binary = decoded(payload("binary/protobuf", EVENT_BATCH, raw.encode_to_vec()));
    assert_eq!((ids(&decoded_binary), decoded_binary.dead_letters.len()), (vec!["e1", "e2"], 2));
    assert_eq!(decoded_binary.dead_letters[0].size, 9);
}

#[test]
fn several_payloads_are_read_one_after_another_and_letters_numbered_on() {
    let good = |id| payload("json/plain", "", event(id).to_string());
    let bad = payload("binary/plain", "", "abc");
    let decoded = decoded_from(&[good("e1"), bad.clone(), good("e2"), bad], 7);
    assert_eq!(ids(&decoded), ["e1", "e2"]);
    assert_eq!(decoded.dead_letters.iter().map(|letter| letter.seq).collect::<Vec<_>>(), [7, 8]);
    let letter = &decoded.dead_letters[0];
    assert_eq!((letter.encoding.as_str(), letter.size), ("binary/plain", 3));
    assert_eq!(letter.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); // FIPS 180-2, B.1
    assert_eq!(BASE64_STANDARD.decode(&letter.head).unwrap(), b"abc");
}

#[test]
fn a_reason_tells_what_to_mend() {
    let deep = "[".repeat(1_000_000);
    for (encoding, message, data, expected) in [
        ("json/plain", "", "{", "is not JSON"),
        ("json/plain", "", "7", "neither an event nor a list"),
        ("json/plain", "", "{}", "event_id: is required"),
        ("json/plain", "", r#"{"events": 7}"#, "events: is not a list"),
        ("json/plain", "", r#"{"retracts": {}}"#, "retracts: is not a list"),
        ("json/protobuf", RETRACT, "[]", "is a list, not a JSON object"),
        ("json/plain", "", r#"{"events": [], "tenant": "acme"}"#, "nothing else"),
        ("json/plain", "", r#"{"evnt_id": "e1"}"#, "evnt_id: is an unknown field of an event; did you mean event_id?"),
        ("json/plain", "", &deep, "is not JSON at byte"),
        ("json/protobuf", "acme.Order", "{}", "messageType is acme.Order"),
        ("binary/protobuf", EVENT, "\u{7f}", "is not a tidings.v1.Event"),
        ("binary/protobuf", RETRACT, "\u{7f}", "is not a tidings.v1.Retract"),
        ("binary/encrypted", "", "", "encoding is binary/encrypted: a payload codec"),
        ("binary/zlib", "", "", "encoding is binary/zlib: a payload codec"),
        ("binary/plain", "", "", "encoding is binary/plain: the argument is bytes"),
        ("binary/null", "", "", "encoding is binary/null: the argument is null"),
        ("", "", "", "has no encoding; send json/plain"),
    ] {
        let decoded = decoded(payload(encoding, message, data));
        assert!(decoded.dead_letters[0].reason.contains(expected), "{}", decoded.dead_letters[0].reason);
    }
    assert_eq!(decoded_from(&[], 0).dead_letters[0].reason, "the signal carries no payload");
}

#[test]
fn a_reason_never_quotes_a_value() {
    for (field, value) in [
        ("occurred_at", json!("ann@example.com")),
        ("urgent", json!("ann@example.com")),
        ("counts", json!({"critical": "ann@example.com"})),
        ("counts", json!("a \"quoted\", expected ann@example.com")),
        ("payload", json!("ann@example.com")),
    ] {
        let mut bad = event("e1");
        bad[field] = value;
        let decoded = decoded(payload("json/plain", "", bad.to_string()));
        assert!(decoded.dead_letters[0].reason.starts_with(field), "{}", decoded.dead_letters[0].reason);
        assert!(!decoded.dead_letters[0].reason.contains("ann@"), "{}", decoded.dead_letters[0].reason);
    }
}

#[test]
fn an_empty_batch_is_nothing() {
    for (encoding, message, data) in [
        ("json/plain", "", "[]"),
        ("json/plain", "", r#"{"events": []}"#),
        ("json/plain", "", r#"{"events": [], "retracts": []}"#),
        ("json/protobuf", EVENT_BATCH, r#"{"events": null}"#),
        ("json/protobuf", EVENT_BATCH, "{}"),
        ("binary/protobuf", EVENT_BATCH, ""),
    ] {
        assert_eq!(decoded(payload(encoding, message, data)), DecodedSignal::default(), "{data}");
    }
}

#[test]
fn a_million_malformed_events_in_one_signal_leave_bounded_letters() {
    let text = format!("[{}7]", "7,".repeat(1_000_000));
    let decoded = decoded(payload("json/plain", "", text));
    assert_eq!(decoded.dead_letters.len(), 101);
    let rest = &decoded.dead_letters[100];
    assert!(rest.reason.starts_with("999901 more"), "{}", rest.reason);
    assert_eq!(rest.size, 999_901, "one byte each");

    let big = payload("binary/plain", "", vec![0; 60_000]);
    let letters = decoded_from(&vec![big; 3], 0).dead_letters;
    let heads: Vec<_> = letters.iter().map(|letter| BASE64_STANDARD.decode(&letter.head).unwrap().len()).collect();
    assert_eq!(heads, [60_000, 64 * 1024 - 60_000, 0]);
}

#[test]
fn a_workflow_without_a_key_refuses_all() {
    let sent = vec![payload("json/plain", "", event("e1").to_string()); 2];
    let letters = reject_all(payloads(&sent), "workflow id: is not digest/TENANT/TYPE/USER", 3);
    assert_eq!(letters.iter().map(|letter| letter.seq).collect::<Vec<_>>(), [3, 4]);
}

/// A JSON list: a valid event, one with this field, and a valid one.
fn list_with(field: &str, value: &str) -> String {
    let middle = event("odd").to_string();
    let middle = middle.replacen('{', &format!(r#"{{"{field}":{value},"#), 1);
    let middle = match field {
        "counts" => middle.replace(r#","counts":{"critical":"2"}"#, "").replace(r#""counts":{"critical":"2"},"#, ""),
        "payload" => middle.replace(r#","payload":{"n":3,"title":"Plan"}"#, ""),
        "occurred_at" => middle.replace(r#","occurred_at":"2026-01-31T08:00:00Z""#, ""),
        _ => middle,
    };
    format!("[{},{middle},{}]", event("e1"), event("e2"))
}

#[test]
fn an_event_that_is_not_json_spoils_no_other() {
    for (field, value, reason) in [
        ("payload", r#"{"score":NaN}"#, "payload.score: NaN and Infinity are not JSON"),
        ("payload", r#"{"score":1e999}"#, "payload.score: is a number beyond the doubles"),
        ("entity_id", r#""\ud83d""#, "entity_id: has half of a surrogate pair"),
        ("payload", "undefined", "payload: is not JSON at byte 1"),
    ] {
        let text = list_with(field, value);
        let decoded = decoded(payload("json/plain", "", text.clone()));
        assert_eq!(ids(&decoded), ["e1", "e2"], "{text}");
        let [letter] = &decoded.dead_letters[..] else { panic!("{text}: {:?}", decoded.dead_letters) };
        assert!(letter.reason.starts_with(reason) && letter.reason.ends_with("(events[1])"), "{}", letter.reason);
        let head = BASE64_STANDARD.decode(&letter.head).unwrap();
        assert!(text.contains(str::from_utf8(&head).unwrap()), "the letter has the bytes of the signal");
    }
    let cut = decoded(payload("json/plain", "", list_with("actor", r#""Bo\ud83d""#)));
    assert_eq!((ids(&cut), cut.events[1].actor.as_str()), (vec!["e1", "odd", "e2"], "Bo\u{fffd}"));
    let latin = [b"[{\"event_id\":\"\xfc\"},".as_slice(), event("e1").to_string().as_bytes(), b"]"].concat();
    assert_eq!(ids(&decoded(payload("json/plain", "", latin))), ["e1"]);
}

/// Decodes in a run begun before the patch `json`, and in one begun after it.
fn before_and_after(text: &str) -> ([DecodedSignal; 2], bool) {
    let sent = [payload("json/plain", "", text)];
    let asked = std::cell::Cell::new(false);
    let run = |is_today| {
        decode_behind(&key(), payloads(&sent).collect::<Vec<_>>(), 0, || {
            asked.set(true);
            is_today
        })
    };
    ([run(false), run(true)], asked.get())
}

#[test]
fn a_run_goes_on_as_it_began() {
    // What a run took before the patch: the ids, and the number of letters.
    for (field, value, before, after) in [
        ("payload", r#"{"id":9007199254740992}"#, (2, 1), (3, 0)),
        ("payload", r#"{"id":[{"a":-9007199254740993}]}"#, (2, 1), (3, 0)),
        ("payload", r#"{"score":NaN}"#, (0, 1), (2, 1)),
        ("payload", r#"{"title":"\ud83d"}"#, (0, 1), (3, 0)),
        ("counts", r#"{"n":2.0}"#, (2, 1), (3, 0)),
        ("counts", r#"{"n":null}"#, (2, 1), (3, 0)),
        ("counts", r#"{"n":9007199254740993}"#, (3, 0), (2, 1)),
        ("occurred_at", "-1.5", (2, 1), (3, 0)),
        ("occurred_at", "1795860000.123", (3, 0), (3, 0)),
        ("occurred_at", r#""0001-01-01T00:00:00Z""#, (3, 0), (2, 1)),
        ("occurred_at", r#""9999-12-31T00:00:00Z""#, (2, 1), (3, 0)),
    ] {
        let (both, asked) = before_and_after(&list_with(field, value));
        let counts = both.map(|decoded| (decoded.events.len(), decoded.dead_letters.len()));
        assert_eq!((counts, asked), ([before, after], true), "{field}: {value}");
    }
    let (cut, _) = before_and_after(&list_with("occurred_at", "1795860000.123"));
    assert_eq!(cut.map(|decoded| decoded.events[1].occurred_at.subsec_millisecond()), [122, 123]);
}

#[test]
fn a_run_is_not_asked_where_both_editions_agree() {
    for (field, value) in [
        ("actor", "\"Bo\""),
        ("payload", r#"{"id":9007199254740991,"n":2.0,"big":123456789012345678901234567890}"#),
        ("counts", r#"{"n":"7"}"#),
        ("occurred_at", "1795860000"),
        ("occurred_at", "1795860000.5"),
        ("occurred_at", "1795860000123"),
        ("counts", r#"{"n":2.5}"#),
        ("kategory", "1"),
    ] {
        let ([before, after], asked) = before_and_after(&list_with(field, value));
        assert!(!asked, "{field}: {value}");
        assert_eq!((before.events, before.dead_letters.len()), (after.events, after.dead_letters.len()));
    }
}

proptest! {
    #[test]
    fn no_signal_fails_to_decode(
        parts in prop::collection::vec((
            prop::sample::select(vec!["json/plain", "json/protobuf", "binary/protobuf", "binary/null", ""]),
            prop::sample::select(vec![EVENT, EVENT_BATCH, RETRACT, "", "acme.Order"]),
            prop::collection::vec(any::<u8>(), 0..200),
        ), 0..4),
    ) {
        let payloads: Vec<_> = parts.into_iter().map(|(encoding, message, data)| payload(encoding, message, data)).collect();
        for letter in decoded_from(&payloads, 0).dead_letters {
            prop_assert!(letter.reason.len() <= 400 && !letter.reason.contains(char::is_control));
        }
    }

    #[test]
    fn the_editions_agree_unless_they_say_so(
        values in prop::collection::vec(prop::sample::select(vec![
            "1", "-1", "2.0", "1e400", "9007199254740991", "9007199254740992", "-9007199254740992", "18446744073709551615", "null",
            "\"7\"", "\"1e2\"", "\"x\"", "NaN", "[1]", "{}", "\"\\ud83d\"", "true", "1795860000.123", "\"2026-01-31T08:00:00Z\"",
        ]), 4),
        nulls in any::<bool>(),
    ) {
        let [id, at, count, value] = &values[..] else { unreachable!("four values") };
        let more = if nulls { r#","no_field":null"# } else { "" };
        let text = format!(
            r#"{{"events":[{{"event_id":"e1","category":"c","entity_id":{id},"occurred_at":{at},"counts":{{"n":{count}}},"payload":{{"x":[{value}]}}{more}}}]}}"#
        );
        let sent = [payload("json/plain", "", text)];
        let (today, may_differ) = decode_by(ContractEdition::Today, &key(), payloads(&sent), 0);
        let (former, _) = decode_by(ContractEdition::Former, &key(), payloads(&sent), 0);
        prop_assert!(may_differ || today == former, "{today:?} {former:?}");
    }

    #[test]
    fn a_cut_or_changed_message_never_panics(cut in 0..200_usize, at in 0..200_usize, byte in any::<u8>()) {
        for (encoding, message, mut data) in [
            ("json/plain", "", json!({"events": [event("e1")]}).to_string().into_bytes()),
            ("binary/protobuf", "", v1::EventBatch { events: vec![wire("e1")], retracts: vec![] }.encode_to_vec()),
            ("binary/protobuf", "", wire("e1").encode_to_vec()),
        ] {
            let at = at % data.len();
            data[at] = byte;
            data.truncate(data.len() - cut % data.len());
            let decoded = decoded(payload(encoding, message, data));
            prop_assert!(decoded.events.len() + decoded.dead_letters.len() >= 1 || encoding == "binary/protobuf");
        }
    }
}
