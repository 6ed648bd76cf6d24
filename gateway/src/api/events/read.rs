//! Parses a request body into inbox items. A wrong item does not affect the others.

use jiff::Timestamp;
use serde::Deserialize;
use tidings_mail::render::event_warnings;
use tidings_model::{
    Event, EventContent,
    foreign_text::{WrongEncoding, is_utf16, skip_bom},
    inbox::InboxItem,
    limits::InvalidField,
    settings::Settings,
    wire::{self, WireItems},
};
use tidings_proto::v1;

use super::body::BodyFormat;
use crate::{
    api::{
        caller::ApiCaller,
        refusal::{ApiRefusal, Fault},
    },
    problem::Problem,
    request_body,
};

/// Most items per request.
const ITEMS: usize = 10_000;
/// Most JSON values per item. A payload will never have this many, because it is limited to 16 KiB.
const VALUES: usize = 20_000;

#[derive(Clone, Copy)]
pub(super) struct ItemChecks<'a> {
    pub caller: &'a ApiCaller,
    /// `Idempotency-Key`, used as the id if the request has a single event.
    pub key: Option<&'a str>,
    pub settings: &'a Settings,
    pub now: Timestamp,
}

#[derive(Debug)]
pub(super) struct ParsedItem {
    /// Empty if the id was unreadable.
    pub event_id: String,
    pub result: Result<ValidItem, ItemRefusal>,
}

#[derive(Debug)]
pub(super) struct ValidItem {
    pub item: InboxItem,
    /// `None` for a retract.
    pub content: Option<EventContent>,
    pub warnings: Vec<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ItemRefusal {
    pub fault: Fault,
    /// Set if this reason has its own problem type.
    pub problem: Option<Problem>,
}

impl<T: Into<Fault>> From<T> for ItemRefusal {
    fn from(fault: T) -> Self {
        Self { fault: fault.into(), problem: None }
    }
}

/// Returns the events first, then the retracts.
pub(super) fn items(kind: BodyFormat, bytes: &[u8], checks: ItemChecks<'_>) -> Result<Vec<ParsedItem>, ApiRefusal> {
    if is_utf16(bytes) {
        return Err(ApiRefusal::unreadable(WrongEncoding::Utf16.to_string()));
    }
    let bytes = skip_bom(bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(ApiRefusal::unreadable(
            "is empty; send an event, a list of events, or an object with events and retracts",
        ));
    }
    let lists = match kind {
        BodyFormat::Lines => WireItems::default(),
        BodyFormat::Json => wire::split_items(bytes, false).map_err(unreadable_body)?,
    };
    let lines = if kind == BodyFormat::Lines { bytes } else { &[] };
    let lines = lines.split(|byte| *byte == b'\n').map(skip_bom).filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<_> = lines.take(ITEMS + 1).collect();
    let count = lists.events.len() + lists.retracts.len() + lines.len();
    if count > ITEMS {
        return Err(Problem::TooManyItems.into());
    }
    let checks = ItemChecks { key: checks.key.filter(|_| count == 1), ..checks };
    let events = lists.events.into_iter().chain(lines);
    let retracts = lists.retracts.into_iter();
    Ok(events.map(|json| checks.event(json)).chain(retracts.map(|json| checks.retract(json))).collect())
}

fn unreadable_body(InvalidField { field, problem }: InvalidField) -> ApiRefusal {
    // The first line of NDJSON is valid JSON, so suggest the right media type.
    let hint = if problem.ends_with("trailing characters") { "; one event a line is application/x-ndjson" } else { "" };
    ApiRefusal::with_fault(Problem::Unreadable, &field, format!("{problem}{hint}"))
}

/// Rejects an item before parsing if it would need too much memory.
fn check_size(json: &[u8]) -> Result<(), InvalidField> {
    request_body::bound_values(json, VALUES).map_err(|problem| InvalidField { field: String::new(), problem })
}

/// Reads the id of a rejected item, so that its producer can find it. Empty if there is none.
fn id_of(json: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Identified {
        #[serde(alias = "eventId")]
        event_id: String,
    }
    serde_json::from_slice(json).map_or_else(|_| String::new(), |Identified { event_id }| event_id)
}

impl ItemChecks<'_> {
    fn event(self, json: &[u8]) -> ParsedItem {
        let mut wire = match check_size(json).and_then(|()| wire::parse_event(json)) {
            Ok(wire) => wire,
            Err(refused) => return ParsedItem { event_id: id_of(json), result: Err(refused.into()) },
        };
        if let (Some(key), true) = (self.key, wire.event_id.is_empty()) {
            key.clone_into(&mut wire.event_id);
        }
        let event_id = wire.event_id.clone();
        let result = match self.key {
            Some(key) if key != event_id => {
                Err(Fault::new("event_id", "is not the Idempotency-Key; send one of them").into())
            }
            _ => self
                .fill_tenant(&mut wire.tenant, &mut wire.digest)
                .map_err(ItemRefusal::from)
                .and_then(|()| self.check_event(wire)),
        };
        ParsedItem { event_id, result }
    }

    fn check_event(self, wire: v1::Event) -> Result<ValidItem, ItemRefusal> {
        let (key, event) = Event::from_wire(wire, None)?;
        let unknown = |invalid: InvalidField| ItemRefusal { problem: Some(Problem::UnknownDigest), ..invalid.into() };
        self.settings.check_digest(&key).map_err(unknown)?;
        let warnings = event_warnings(&event, self.now).into_iter().map(Fault::from).collect();
        Ok(ValidItem { item: InboxItem::from_event(key, &event)?, content: Some(event.content()), warnings })
    }

    /// Fills in the token's tenant or rejects a different one. Replaces former names.
    fn fill_tenant(self, tenant: &mut String, digest_type: &mut String) -> Result<(), Fault> {
        if tenant.is_empty() {
            *tenant = self.caller.own_tenant.clone().unwrap_or_default();
        }
        if !self.caller.covers(tenant) {
            return Err(Fault::new("tenant", "is not the token's tenant"));
        }
        let names = &self.settings.names;
        *tenant = names.tenant(tenant).to_owned();
        *digest_type = names.digest_type(digest_type).to_owned();
        Ok(())
    }

    /// A removed digest type is accepted, because its events may still be waiting.
    fn retract(self, json: &[u8]) -> ParsedItem {
        let mut wire = match check_size(json).and_then(|()| wire::parse_retract(json)) {
            Ok(wire) => wire,
            Err(refused) => return ParsedItem { event_id: id_of(json), result: Err(refused.into()) },
        };
        let event_id = wire.event_id.clone();
        let named = self.fill_tenant(&mut wire.tenant, &mut wire.digest);
        let result = named.map_err(ItemRefusal::from).and_then(|()| {
            let item = InboxItem::from_wire_retract(wire)?;
            let warnings = self.settings.check_digest(&item.key).err().map(Fault::from).into_iter().collect();
            Ok(ValidItem { item, content: None, warnings })
        });
        ParsedItem { event_id, result }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::LazyLock};

    use tidings_model::{
        Cadence, inbox,
        settings::{DigestSettings, FormerNames, Settings},
    };

    use super::*;
    use crate::routes::tests::settings;

    const EVENT: &str = r#"{"event_id":"e1","digest":"activity","user":"ann","category":"comment","occurred_at":"2026-01-31T08:00:00Z"}"#;

    fn caller(tenant: Option<&str>) -> ApiCaller {
        ApiCaller {
            by: String::new(),
            issuer: None,
            own_tenant: tenant.map(str::to_owned),
            former_tenants: Vec::new(),
            scopes: Vec::new(),
        }
    }

    /// With the digest type `activity`.
    fn checks<'a>(caller: &'a ApiCaller, key: Option<&'a str>) -> ItemChecks<'a> {
        static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
            let activity = DigestSettings::new("activity", Cadence::Never);
            Settings { digests: BTreeMap::from([("activity".to_owned(), activity)]), ..settings() }
        });
        ItemChecks { caller, key, settings: &SETTINGS, now: Timestamp::constant(1_800_000_000, 0) }
    }

    fn read(kind: BodyFormat, text: &str) -> Vec<ParsedItem> {
        items(kind, text.as_bytes(), checks(&caller(Some("acme")), None)).unwrap()
    }

    fn kinds(read: &[ParsedItem]) -> Vec<inbox::InboxItemKind> {
        read.iter().map(|read| read.result.as_ref().unwrap().item.kind).collect()
    }

    #[test]
    fn each_shape_of_a_body_is_read_and_the_tenant_filled_in() {
        use inbox::InboxItemKind::{Event, Retract};
        let retract = r#"{"event_id":"e0","digest":"activity","user":"ann"}"#;
        for (kind, text, read_as) in [
            (BodyFormat::Json, EVENT.to_owned(), vec![Event]),
            (BodyFormat::Json, format!(" [{EVENT},{EVENT}]"), vec![Event, Event]),
            (BodyFormat::Json, format!(r#"{{"retracts":[{retract}],"events":[{EVENT}]}}"#), vec![Event, Retract]),
            (BodyFormat::Json, format!(r#"{{"retracts":[{retract}]}}"#), vec![Retract]),
            (BodyFormat::Lines, format!("{EVENT}\r\n\n  \n{EVENT}"), vec![Event, Event]),
            (BodyFormat::Json, "[]".to_owned(), vec![]),
        ] {
            let read = read(kind, &text);
            assert_eq!(kinds(&read), read_as, "{text}");
            for read in read {
                let item = read.result.unwrap().item;
                assert_eq!(item.key.to_string(), "acme/activity/ann");
                assert!(!item.json.contains("acme") && !item.json.contains("\"user\""), "{}", item.json);
            }
        }
    }

    #[test]
    fn former_names_are_todays() {
        let was = |was: &str, today: &str| [(was.to_owned(), today.to_owned())].into();
        let names = FormerNames { digests: was("activity", "news"), tenants: was("acme", "initech") };
        let digests = BTreeMap::from([("news".to_owned(), DigestSettings::new("news", Cadence::Never))]);
        let settings = Settings { digests, names, ..settings() };
        let retract = r#"{"event_id":"e0","digest":"activity","tenant":"acme","user":"ann"}"#;
        let body = format!(r#"{{"events":[{EVENT}],"retracts":[{retract}]}}"#);
        let caller = caller(Some("acme")).with_current_names(&settings.names);
        let checks =
            ItemChecks { caller: &caller, key: None, settings: &settings, now: Timestamp::constant(1_800_000_000, 0) };
        for read in items(BodyFormat::Json, body.as_bytes(), checks).unwrap() {
            assert_eq!(read.result.unwrap().item.key.to_string(), "initech/news/ann");
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
            let read = read(BodyFormat::Json, &format!("[{item},{EVENT}]"));
            let refused = &read[0].result.as_ref().unwrap_err().fault;
            assert!(refused.field == field && refused.problem.contains(says), "{refused:?}");
            let has_id = item.contains("\"e1\"") && !item.contains("NaN");
            assert_eq!(read[0].event_id, if has_id { "e1" } else { "" }, "{item}");
            assert!(read[1].result.is_ok());
        }
        let latin =
            [&b"\xef\xbb\xbf"[..], EVENT.as_bytes(), b"\n", &EVENT.replace("e1", "?").into_bytes(), b"\n"].concat();
        let latin: Vec<_> = latin.into_iter().map(|byte| if byte == b'?' { 0xfc } else { byte }).collect();
        let read_latin = items(BodyFormat::Lines, &latin, checks(&caller(Some("acme")), None)).unwrap();
        assert!(read_latin[0].result.is_ok());
        assert_eq!(read_latin[1].result.as_ref().unwrap_err().fault, Fault::new("event_id", "is not UTF-8"));
        let read = read(BodyFormat::Lines, &format!("{EVENT}\nnot json\n{EVENT}"));
        assert_eq!(read.iter().map(|read| read.result.is_ok()).collect::<Vec<_>>(), [true, false, true]);
    }

    /// The model's table of invalid events: none of them affects another event.
    #[test]
    fn each_refusal_names_its_field_in_our_words() {
        #[derive(Deserialize)]
        struct Refused {
            event: String,
            field: String,
            says: String,
        }
        for line in include_str!("../../../../tests/data/refused.ndjson").lines() {
            let Refused { event, field, says } = serde_json::from_str(line).unwrap();
            for (kind, text) in
                [(BodyFormat::Json, format!("[{event},{EVENT}]")), (BodyFormat::Lines, format!("{event}\n{EVENT}"))]
            {
                let read = read(kind, &text);
                let refused = &read[0].result.as_ref().expect_err(&event).fault;
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
    fn an_unknown_digest_type_is_refused_alone_and_a_retract_of_it_only_doubted() {
        let unknown = EVENT.replace("\"activity\"", "\"activty\"");
        let retract = r#"{"event_id":"e0","digest":"activty","user":"ann"}"#;
        let read = read(BodyFormat::Json, &format!(r#"{{"events":[{unknown},{EVENT}],"retracts":[{retract}]}}"#));
        let refused = read[0].result.as_ref().unwrap_err();
        assert_eq!(refused.problem, Some(Problem::UnknownDigest));
        assert!(
            refused.fault.field == "digest" && refused.fault.problem.ends_with("did you mean activity?"),
            "{refused:?}"
        );
        assert_eq!(
            read[1].result.as_ref().unwrap().warnings,
            [Fault::new("payload.title", "is missing; a message shows the category in its place")]
        );
        assert_eq!(read[2].result.as_ref().unwrap().warnings, std::slice::from_ref(&refused.fault));
    }

    #[test]
    fn whole_numbers_and_fractions_of_seconds_are_exact() {
        let body = EVENT
            .replace("\"2026-01-31T08:00:00Z\"", "1795860000.123")
            .replace('}', r#","counts":{"n":2.0},"payload":{"id":1234567890123456789,"max":18446744073709551615}}"#);
        let json = read(BodyFormat::Json, &body).remove(0).result.unwrap().item.json;
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
        let read = |text: &str| {
            items(BodyFormat::Json, text.as_bytes(), checks(&caller(None), None)).unwrap().remove(0).result
        };
        assert_eq!(read(EVENT).unwrap_err().fault, Fault::new("tenant", "is required"));
        let named = read(&EVENT.replace('{', "{\"tenant\":\"zeta\","));
        assert_eq!(named.unwrap().item.key.tenant, "zeta");
    }

    #[test]
    fn an_idempotency_key_is_the_id_of_a_single_event() {
        let read =
            |text: &str| items(BodyFormat::Json, text.as_bytes(), checks(&caller(Some("acme")), Some("k1"))).unwrap();
        let without = EVENT.replace("\"event_id\":\"e1\",", "");
        let single = read(&without).remove(0);
        assert_eq!(single.event_id, "k1");
        assert!(single.result.unwrap().item.json.contains("\"k1\""));
        assert!(read(&EVENT.replace("e1", "k1"))[0].result.is_ok());
        assert_eq!(read(EVENT)[0].result.as_ref().unwrap_err().fault.field, "event_id");
        let two = read(&format!("[{EVENT},{without}]"));
        assert!(two[0].result.is_ok() && two[1].result.is_err(), "events of a list have ids of their own");
    }

    #[test]
    fn a_body_of_another_shape_or_with_too_many_items_is_refused() {
        let refused = |kind, text: &str| items(kind, text.as_bytes(), checks(&caller(None), None)).unwrap_err();
        for text in ["7", "{\"events\":7}", "{\"events\":[],\"more\":1}", "[1,", "\"x\""] {
            assert_eq!(refused(BodyFormat::Json, text).problem(), Problem::Unreadable, "{text}");
        }
        assert_eq!(refused(BodyFormat::Json, "{\"events\":7}").fields(), ["events"]);
        for (kind, text) in [(BodyFormat::Json, " \n"), (BodyFormat::Lines, "\n\n")] {
            assert!(matches!(&refused(kind, text), refusal if refusal.problem() == Problem::Unreadable), "{text:?}");
        }
        let lines = ApiRefusal::unreadable(
            "is not JSON at byte 5: trailing characters; one event a line is application/x-ndjson",
        );
        assert_eq!(refused(BodyFormat::Json, "{}\n {}"), lines);
        let many = format!("[{}]", vec!["1"; ITEMS + 1].join(","));
        assert_eq!(refused(BodyFormat::Json, &many), Problem::TooManyItems.into());
        assert_eq!(refused(BodyFormat::Lines, &"1\n".repeat(ITEMS + 1)), Problem::TooManyItems.into());
        let utf16 = items(BodyFormat::Json, b"[\0]\0", checks(&caller(None), None)).unwrap_err();
        assert_eq!(utf16, ApiRefusal::with_fault(Problem::Unreadable, "", "is UTF-16; save it as UTF-8"));
    }
}
