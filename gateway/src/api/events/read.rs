//! From the bytes of a request to items of the inbox. A wrong item spoils no other.

use serde::Deserialize;
use serde_json::value::RawValue;
use tidings_model::inbox::Item;
use tidings_proto::v1;

use super::body::Kind;
use crate::{
    api::{body::parsed, caller::Caller, refusal::Fault},
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

/// An object with lists. Each item keeps its bytes, so that a wrong one is refused alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists<'a> {
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    retracts: Vec<&'a RawValue>,
}

/// Reads the items of a body: the events, and then the retracts. `key` is the id of a single event.
pub(super) fn items(kind: Kind, bytes: &[u8], caller: &Caller, key: Option<&str>) -> Result<Vec<Read>, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::Unreadable)?;
    let lists = match kind {
        Kind::Lines => Lists { events: Vec::new(), retracts: Vec::new() },
        Kind::Json => lists(text)?,
    };
    let lines = if kind == Kind::Lines { text } else { "" };
    let lines: Vec<_> = lines.lines().filter(|line| !line.trim().is_empty()).take(ITEMS + 1).collect();
    let count = lists.events.len() + lists.retracts.len() + lines.len();
    if count > ITEMS {
        return Err(Problem::TooManyItems);
    }
    let key = key.filter(|_| count == 1);
    let events = lists.events.into_iter().map(RawValue::get).chain(lines);
    let retracts = lists.retracts.into_iter().map(RawValue::get);
    Ok(events.map(|json| event(json, caller, key)).chain(retracts.map(|json| retract(json, caller))).collect())
}

/// The lists of a JSON body in any of its three shapes.
fn lists(text: &str) -> Result<Lists<'_>, Problem> {
    let wrong = |_| Problem::Unreadable;
    if text.trim_start().starts_with('[') {
        return Ok(Lists { events: serde_json::from_str(text).map_err(wrong)?, retracts: Vec::new() });
    }
    let fields: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(wrong)?;
    if fields.contains_key("events") || fields.contains_key("retracts") {
        return serde_json::from_str(text).map_err(wrong);
    }
    Ok(Lists { events: vec![serde_json::from_str(text).map_err(wrong)?], retracts: Vec::new() })
}

fn event(json: &str, caller: &Caller, key: Option<&str>) -> Read {
    let mut wire: v1::Event = match parsed(json) {
        Ok(wire) => wire,
        Err(refused) => return Read { event_id: String::new(), result: Err(refused) },
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

fn retract(json: &str, caller: &Caller) -> Read {
    let mut wire: v1::Retract = match parsed(json) {
        Ok(wire) => wire,
        Err(refused) => return Read { event_id: String::new(), result: Err(refused) },
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
            ("7".to_owned(), "", "invalid type"),
        ] {
            let read = read(Kind::Json, &format!("[{item},{EVENT}]"));
            let refused = read[0].result.as_ref().unwrap_err();
            assert!(refused.field == field && refused.problem.contains(says), "{refused:?}");
            assert!(read[1].result.is_ok());
        }
        let read = read(Kind::Lines, &format!("{EVENT}\nnot json\n{EVENT}"));
        assert_eq!(read.iter().map(|read| read.result.is_ok()).collect::<Vec<_>>(), [true, false, true]);
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
            assert_eq!(refused(Kind::Json, text), Problem::Unreadable, "{text}");
        }
        let many = format!("[{}]", vec!["1"; ITEMS + 1].join(","));
        assert_eq!(refused(Kind::Json, &many), Problem::TooManyItems);
        assert_eq!(refused(Kind::Lines, &"1\n".repeat(ITEMS + 1)), Problem::TooManyItems);
        assert_eq!(items(Kind::Json, b"[\"\xff\"]", &caller(None), None).unwrap_err(), Problem::Unreadable);
    }
}
