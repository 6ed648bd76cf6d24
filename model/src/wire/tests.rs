//! Rules for all inputs. HTTP and file imports use tests/data/refused.ndjson, too.

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::{Event, Retract};

/// Library phrases that nobody should have to read.
const PHRASES: [&str; 8] = [
    "untagged enum",
    "google.protobuf",
    "invalid digit",
    "out of range integral",
    "invalid type",
    "invalid value",
    "expected struct",
    "at line 1",
];

#[derive(Deserialize)]
struct Refused {
    event: String,
    field: String,
    says: String,
}

fn refused() -> Vec<Refused> {
    let table = include_str!("../../../tests/data/refused.ndjson");
    table.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn checked(json: &[u8]) -> Result<Event, InvalidField> {
    Ok(Event::from_wire(parse_event(json)?, None)?.1)
}

#[test]
fn each_refusal_names_its_field_in_our_words() {
    for Refused { event, field, says } in refused() {
        let invalid = checked(event.as_bytes()).expect_err(&event);
        assert_eq!(invalid.field, field, "{event}: {invalid}");
        assert!(invalid.problem.contains(&says), "{event}: {invalid}");
        assert!(!PHRASES.iter().any(|phrase| invalid.problem.contains(phrase)), "{event}: {invalid}");
    }
}

#[test]
fn each_unknown_field_is_named() {
    let two = with("occured_at", "1").replace("\"user\":", "\"uzer\":1,\"user\":");
    let invalid = checked(two.as_bytes()).unwrap_err();
    assert_eq!(invalid.field, "occured_at");
    assert!(invalid.problem.contains("did you mean occurred_at?"), "{invalid}");
    assert!(invalid.problem.contains("; uzer is an unknown field of an event; did you mean user?"), "{invalid}");
    let many = (0..9).map(|n| format!("\"x{n}\":1,")).collect::<String>();
    let invalid = checked(with("urgent", "true").replacen('{', &format!("{{{many}"), 1).as_bytes()).unwrap_err();
    assert!(invalid.problem.ends_with("; 5 more fields are unknown"), "{invalid}");
}

fn with(field: &str, value: &str) -> String {
    format!(
        r#"{{"tenant":"acme","digest":"activity","user":"ann","event_id":"e1","category":"comment",
             "occurred_at":"2026-01-31T08:00:00Z","{field}":{value}}}"#
    )
}

#[test]
fn counts_are_whole_numbers_however_a_language_writes_them() {
    let counts =
        |value: &str| checked(with("counts", &format!(r#"{{"n":{value}}}"#)).as_bytes()).map(|event| event.counts);
    for (value, expected) in [
        ("2", 2),
        ("\"2\"", 2),
        ("2.0", 2),
        ("1E+2", 100),
        ("\"1e2\"", 100),
        ("\"2.0\"", 2),
        ("-7", -7),
        ("9007199254740992", 9_007_199_254_740_992),
        ("-9007199254740992", -9_007_199_254_740_992),
    ] {
        assert_eq!(counts(value).unwrap()["n"], expected, "{value}");
    }
    assert!(counts("null").unwrap().is_empty());
}

#[test]
fn a_whole_number_in_a_payload_has_all_its_digits() {
    for number in ["9007199254740992", "1234567890123456789", "-9007199254740993", "18446744073709551615"] {
        let event = checked(with("payload", &format!(r#"{{"rows":[{{"id":{number}}}]}}"#)).as_bytes()).unwrap();
        assert_eq!(event.payload.as_json(), format!(r#"{{"rows":[{{"id":{number}}}]}}"#));
    }
    let event = checked(with("payload", r#"{"id":123456789012345678901234567890}"#).as_bytes()).unwrap();
    assert_eq!(Value::Object(event.payload.fields()), json!({"id": 1.234_567_890_123_456_8e29}));
}

#[test]
fn half_of_a_character_is_replaced_in_what_is_only_shown() {
    let event = checked(with("payload", r#"{"title":"cut \ud83d","a\ude00":1}"#).as_bytes()).unwrap();
    assert_eq!(Value::Object(event.payload.fields()), json!({"title": "cut \u{fffd}", "a\u{fffd}": 1}));
    assert_eq!(checked(with("actor", r#""Bo\ud83d""#).as_bytes()).unwrap().actor, "Bo\u{fffd}");
    let two = with("payload", r#"{"title":"\ud83d","score":NaN}"#);
    assert_eq!(checked(two.as_bytes()).unwrap_err().field, "payload.score");
}

#[test]
fn null_is_the_same_as_leaving_out() {
    for field in ["actor", "entity_id", "counts", "payload", "urgent", "no_field"] {
        assert_eq!(checked(with(field, "null").as_bytes()), checked(with("actor", "\"\"").as_bytes()), "{field}");
    }
}

#[test]
fn a_retract_meets_the_event_of_its_instant_in_any_form() {
    for ms in [1, 7, 57, 123, 500, 999] {
        let forms = [format!("\"2026-11-28T10:00:00.{ms:03}Z\""), format!("1795860000.{ms:03}")];
        for of_event in &forms {
            let about = with("actor", "null").replace("\"2026-01-31T08:00:00Z\"", of_event);
            let about = checked(about.as_bytes()).unwrap();
            for until in &forms {
                let json =
                    format!(r#"{{"tenant":"a","digest":"b","user":"c","category":"comment","occurred_at":{until}}}"#);
                let (_, retract) = Retract::from_wire(parse_retract(json.as_bytes()).unwrap(), None).unwrap();
                assert!(retract.covers(&about), "{of_event} {until}");
            }
        }
    }
}

#[test]
fn a_retract_has_no_payload_and_no_counts() {
    for field in ["payload", "counts", "urgent", "actor"] {
        let invalid = parse_retract(format!(r#"{{"event_id":"e1","{field}":{{}}}}"#).as_bytes()).unwrap_err();
        assert!(invalid.field == field && invalid.problem.contains("unknown field of a retract"), "{invalid}");
    }
}

#[test]
fn a_broken_item_is_told_from_the_others() {
    let items = |text: &'static str| split_items(text.as_bytes(), false);
    let texts =
        |items: Vec<&'static [u8]>| items.into_iter().map(|item| str::from_utf8(item).unwrap()).collect::<Vec<_>>();
    for (text, broken) in [
        (r#"[{"a":1},{"b":2}]"#, false),
        (r#"[{"a":1},{"b":NaN}]"#, true),
        (r#" {"events":[{"a":1},{"b":Infinity}],"retracts":null} "#, true),
    ] {
        let items = items(text).unwrap();
        assert_eq!((items.events.len(), items.retracts.len(), items.broken), (2, 0, broken), "{text}");
        assert_eq!(texts(items.events)[0], r#"{"a":1}"#);
    }
    for list in ["[null]", "[[]]", "[7]"] {
        assert_eq!(items(list).unwrap().events.len(), 1, "{list} is a list with one item");
    }
    for (text, says) in [
        ("[{\"a\":1}", "is not JSON at byte 8: EOF"),
        ("{\"a\":NaN", "is not JSON at byte 6: NaN and Infinity are not JSON; Python's json.dumps"),
        ("\"[]\"", "turned into JSON twice?"),
        ("7", "is a number, neither an event nor a list"),
        ("nope", "is not JSON at byte 2"),
    ] {
        let invalid = items(text).unwrap_err();
        assert!(invalid.problem.contains(says), "{text}: {invalid}");
    }
}
