//! From the bytes of a request to items of the inbox. A wrong item spoils no other.

use tidings_model::{
    inbox::Item,
    wire::{self, Items},
};

use super::body::Kind;
use crate::{
    api::{
        caller::Caller,
        refusal::{Fault, Refusal},
    },
    problem::Problem,
};

/// Items of a request.
const ITEMS: usize = 10_000;

/// An item that was read.
#[derive(Debug)]
pub(super) struct Read {
    /// The id of the event, as far as it could be read.
    pub event_id: String,
    pub result: Result<Item, Fault>,
}

/// Reads the items of a body: the events, and then the retracts. `key` is the id of a single event.
pub(super) fn items(kind: Kind, bytes: &[u8], caller: &Caller, key: Option<&str>) -> Result<Vec<Read>, Refusal> {
    let unreadable = |fault: Fault| Refusal::of(Problem::Unreadable, &fault.field, fault.problem);
    let text = str::from_utf8(bytes)
        .map_err(|error| unreadable(Fault::new("", format!("is not UTF-8 at byte {}", error.valid_up_to() + 1))))?;
    let lists = match kind {
        Kind::Lines => Items::default(),
        Kind::Json => wire::items(bytes, false).map_err(|invalid| unreadable(invalid.into()))?,
    };
    let lines = if kind == Kind::Lines { text } else { "" };
    let lines: Vec<_> = lines.lines().filter(|line| !line.trim().is_empty()).take(ITEMS + 1).collect();
    let count = lists.events.len() + lists.retracts.len() + lines.len();
    if count > ITEMS {
        return Err(Problem::TooManyItems.into());
    }
    let key = key.filter(|_| count == 1);
    let events = lists.events.into_iter().chain(lines.into_iter().map(str::as_bytes));
    let retracts = lists.retracts.into_iter();
    Ok(events.map(|json| event(json, caller, key)).chain(retracts.map(|json| retract(json, caller))).collect())
}

fn event(json: &[u8], caller: &Caller, key: Option<&str>) -> Read {
    let mut wire = match wire::event(json) {
        Ok(wire) => wire,
        Err(refused) => return Read { event_id: String::new(), result: Err(refused.into()) },
    };
    if let (Some(key), true) = (key, wire.event_id.is_empty()) {
        key.clone_into(&mut wire.event_id);
    }
    let event_id = wire.event_id.clone();
    let result = match key {
        Some(key) if key != event_id => Err(Fault::new("event_id", "is not the Idempotency-Key; send one of them")),
        _ => within(&mut wire.tenant, caller).and_then(|()| Ok(Item::event(wire)?)),
    };
    Read { event_id, result }
}

fn retract(json: &[u8], caller: &Caller) -> Read {
    let mut wire = match wire::retract(json) {
        Ok(wire) => wire,
        Err(refused) => return Read { event_id: String::new(), result: Err(refused.into()) },
    };
    let event_id = wire.event_id.clone();
    let result = within(&mut wire.tenant, caller).and_then(|()| Ok(Item::retract(wire)?));
    Read { event_id, result }
}

/// Fills in the token's tenant, or refuses another one.
fn within(tenant: &mut String, caller: &Caller) -> Result<(), Fault> {
    if tenant.is_empty() {
        *tenant = caller.own_tenant.clone().unwrap_or_default();
    }
    if caller.covers(tenant) { Ok(()) } else { Err(Fault::new("tenant", "is not the token's tenant")) }
}

#[cfg(test)]
mod tests {
    use tidings_model::inbox;

    use super::*;

    const EVENT: &str = r#"{"event_id":"e1","digest":"activity","user":"ann","category":"comment","occurred_at":"2026-01-31T08:00:00Z"}"#;

    fn caller(tenant: Option<&str>) -> Caller {
        Caller { by: String::new(), own_tenant: tenant.map(str::to_owned), scopes: Vec::new() }
    }

    fn read(kind: Kind, text: &str) -> Vec<Read> {
        items(kind, text.as_bytes(), &caller(Some("acme")), None).unwrap()
    }

    fn kinds(read: &[Read]) -> Vec<inbox::Kind> {
        read.iter().map(|read| read.result.as_ref().unwrap().kind).collect()
    }

    #[test]
    fn each_shape_of_a_body_is_read_and_the_tenant_filled_in() {
        use inbox::Kind::{Event, Retract};
        let retract = r#"{"event_id":"e0","digest":"activity","user":"ann"}"#;
        for (kind, text, read_as) in [
            (Kind::Json, EVENT.to_owned(), vec![Event]),
            (Kind::Json, format!(" [{EVENT},{EVENT}]"), vec![Event, Event]),
            (Kind::Json, format!(r#"{{"retracts":[{retract}],"events":[{EVENT}]}}"#), vec![Event, Retract]),
            (Kind::Json, format!(r#"{{"retracts":[{retract}]}}"#), vec![Retract]),
            (Kind::Lines, format!("{EVENT}\r\n\n  \n{EVENT}"), vec![Event, Event]),
            (Kind::Json, "[]".to_owned(), vec![]),
        ] {
            let read = read(kind, &text);
            assert_eq!(kinds(&read), read_as, "{text}");
            for read in read {
                let item = read.result.unwrap();
                assert_eq!(item.key.to_string(), "acme/activity/ann");
                assert!(!item.json.contains("acme") && !item.json.contains("\"user\""), "{}", item.json);
            }
        }
    }

    #[test]
    fn a_wrong_item_is_refused_alone_with_its_field() {
        let wrong = |from: &str, to: &str| EVENT.replace(from, to);
        for (item, field, says) in [
            (wrong("2026-01-31T08:00:00Z", "yesterday"), "occurred_at", "RFC 3339"),
            (wrong("category", "kategory"), "kategory", "unknown field"),
            (wrong("\"e1\"", "\"\""), "event_id", "is required"),
            (wrong("{", "{\"tenant\":\"other\","), "tenant", "is not the token's tenant"),
            ("7".to_owned(), "", "is a number"),
            (wrong("}", ",\"payload\":{\"score\":NaN}}"), "payload.score", "json.dumps"),
        ] {
            let read = read(Kind::Json, &format!("[{item},{EVENT}]"));
            let refused = read[0].result.as_ref().unwrap_err();
            assert!(refused.field == field && refused.problem.contains(says), "{refused:?}");
            assert!(read[1].result.is_ok());
        }
        let read = read(Kind::Lines, &format!("{EVENT}\nnot json\n{EVENT}"));
        assert_eq!(read.iter().map(|read| read.result.is_ok()).collect::<Vec<_>>(), [true, false, true]);
    }

    /// The table of the model, sent to this door: what is not an event by itself would spoil no other one.
    #[test]
    fn each_refusal_names_its_field_in_our_words() {
        #[derive(serde::Deserialize)]
        struct Refused {
            event: String,
            field: String,
            says: String,
        }
        for line in include_str!("../../../../tests/data/refused.ndjson").lines() {
            let Refused { event, field, says } = serde_json::from_str(line).unwrap();
            for (kind, text) in [(Kind::Json, format!("[{event},{EVENT}]")), (Kind::Lines, format!("{event}\n{EVENT}"))]
            {
                let read = read(kind, &text);
                let refused = read[0].result.as_ref().expect_err(&event);
                assert!(refused.field == field && refused.problem.contains(&says), "{event}: {refused:?}");
                for phrase in
                    ["untagged", "google.protobuf", "invalid digit", "out of range integral", "invalid type", "line 1"]
                {
                    assert!(!refused.problem.contains(phrase), "{event}: {refused:?}");
                }
                assert!(read[1].result.is_ok(), "{event}");
            }
        }
    }

    #[test]
    fn whole_numbers_and_fractions_of_seconds_are_exact() {
        let body = EVENT
            .replace("\"2026-01-31T08:00:00Z\"", "1795860000.123")
            .replace('}', r#","counts":{"n":2.0},"payload":{"id":1234567890123456789,"max":18446744073709551615}}"#);
        let json = read(Kind::Json, &body).remove(0).result.unwrap().json;
        for part in [
            r#""payload":{"id":1234567890123456789,"max":18446744073709551615}"#,
            r#""occurred_at":"2026-11-28T10:00:00.123Z""#,
            r#""counts":{"n":2}"#,
        ] {
            assert!(json.contains(part), "{json}");
        }
    }

    #[test]
    fn a_token_for_every_tenant_must_name_one() {
        let read = |text: &str| items(Kind::Json, text.as_bytes(), &caller(None), None).unwrap().remove(0).result;
        assert_eq!(read(EVENT).unwrap_err(), Fault::new("tenant", "is required"));
        let named = read(&EVENT.replace('{', "{\"tenant\":\"zeta\","));
        assert_eq!(named.unwrap().key.tenant, "zeta");
    }

    #[test]
    fn an_idempotency_key_is_the_id_of_a_single_event() {
        let read = |text: &str| items(Kind::Json, text.as_bytes(), &caller(Some("acme")), Some("k1")).unwrap();
        let without = EVENT.replace("\"event_id\":\"e1\",", "");
        let single = read(&without).remove(0);
        assert_eq!(single.event_id, "k1");
        assert!(single.result.unwrap().json.contains("\"k1\""));
        assert!(read(&EVENT.replace("e1", "k1"))[0].result.is_ok());
        assert_eq!(read(EVENT)[0].result.as_ref().unwrap_err().field, "event_id");
        let two = read(&format!("[{EVENT},{without}]"));
        assert!(two[0].result.is_ok() && two[1].result.is_err(), "events of a list have ids of their own");
    }

    #[test]
    fn a_body_of_another_shape_or_with_too_many_items_is_refused() {
        let refused = |kind, text: &str| items(kind, text.as_bytes(), &caller(None), None).unwrap_err();
        for text in ["", "7", "{\"events\":7}", "{\"events\":[],\"more\":1}", "[1,", "\"x\""] {
            assert_eq!(refused(Kind::Json, text).problem(), Problem::Unreadable, "{text}");
        }
        assert_eq!(refused(Kind::Json, "{\"events\":7}").fields(), ["events"]);
        let many = format!("[{}]", vec!["1"; ITEMS + 1].join(","));
        assert_eq!(refused(Kind::Json, &many), Problem::TooManyItems.into());
        assert_eq!(refused(Kind::Lines, &"1\n".repeat(ITEMS + 1)), Problem::TooManyItems.into());
        let latin = items(Kind::Json, b"[\"\xff\"]", &caller(None), None).unwrap_err();
        assert_eq!(latin, Refusal::of(Problem::Unreadable, "", "is not UTF-8 at byte 3"));
    }
}
