//! Signed requests and classified events of the providers, from gateway/tests/data/webhooks.json.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidings_model::{
    Provider,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, OneTimeToken},
};

use super::{
    basic::BasicCredentials,
    providers::{mailgun::SigningKey, sendgrid::PublicKey},
    *,
};

mod edges;
mod route;
mod signed;
mod sns;

/// By provider.
fn vectors() -> Value {
    serde_json::from_str(include_str!("../../tests/data/webhooks.json")).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    let header = |(name, value): (&str, &str)| {
        (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    headers.into_iter().map(header).collect()
}

fn headers_of(vector: &Value) -> HeaderMap {
    headers(vector["headers"].as_object().unwrap().iter().map(|(name, value)| (name.as_str(), text(value))))
}

fn body_of(vector: &Value) -> Vec<u8> {
    STANDARD.decode(text(&vector["body_b64"])).unwrap()
}

/// A minute after the events of the vectors.
pub(super) fn now() -> Timestamp {
    at(1_795_262_460)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// Reads a payload like the provider's route.
fn parsed(case: &Value) -> ParsedBody {
    let provider = Provider::named(text(&case["provider"])).unwrap();
    let id = case["headers"]["svix-id"].as_str();
    webhook_for(provider).parse(case["payload"].to_string().as_bytes(), id, now())
}

#[test]
fn every_classified_payload_becomes_the_events_that_it_should() {
    let vectors = vectors();
    let cases = list(&vectors["classes"]["cases"]);
    assert_eq!(cases.len(), 94);
    for case in cases {
        let name = format!("{} {}", case["provider"], case["name"]);
        let ParsedBody { events, nameless, unreadable, .. } = parsed(case);
        assert_eq!((nameless as u64, unreadable), (case["unknown"].as_u64().unwrap_or(0), 0), "{name}");
        assert_eq!(events.len(), list(&case["events"]).len(), "{name}");
        for (event, expected) in events.into_iter().zip(list(&case["events"])) {
            let message = match &event.of[0] {
                MessageReference::Id(id) => id.to_string(),
                MessageReference::MessageId(id) => id.split('@').next().unwrap().to_owned(),
                MessageReference::RelayId(id) => panic!("{name} by {id}"),
            };
            let found_by_message_id = case.get("by").is_some();
            assert_eq!(matches!(event.of[0], MessageReference::MessageId(_)), found_by_message_id, "{name}");
            let CheckedDeliveryEvent { report, event_id, .. } = event;
            let DeliveryReport { kind, status, occurred_at, never_sent, machine, .. } = report;
            let mut found = json!({"message": message, "kind": kind.name(), "at_ms": occurred_at.as_millisecond()});
            let fields = found.as_object_mut().unwrap();
            fields.extend(kind.bounce().map(|bounce| ("bounce".to_owned(), bounce.name().into())));
            fields.extend(status.map(|status| ("status".to_owned(), status.to_string().into())));
            fields.extend(event_id.map(|id| ("event_id".to_owned(), id.into())));
            fields.extend(never_sent.then(|| ("never_sent".to_owned(), true.into())));
            fields.extend(machine.map(|machine| ("machine".to_owned(), machine.into())));
            assert_eq!(&found, expected, "{name}");
        }
    }
}

#[test]
fn a_body_without_an_event_is_one_dead_letter() {
    let deep = vec![b'['; 100_000];
    for body in [&b""[..], b"7", b"null", b"{}", b"\xff\xfe", b"[[]]", b"{\"event\":7}", &deep] {
        for provider in Provider::ALL {
            let parsed = webhook_for(provider).parse(body, Some("id"), now());
            assert_eq!((parsed.events.len(), parsed.unreadable, parsed.unusable.len()), (0, 1, 1));
            assert!(parsed.unusable[0].head.chars().count() <= 65_536);
        }
    }
    let many = format!("[7{}]", ",7".repeat(999));
    let many = webhook_for(Provider::SendGrid).parse(many.as_bytes(), None, now());
    assert_eq!((many.unreadable, many.unusable.len()), (1_000, 100));
}

/// `base` with the fields of `of`.
pub(super) fn with(base: &Value, of: &Value) -> String {
    let mut event = base.clone();
    event.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
    event.to_string()
}

pub(super) fn assert_rows<const N: usize>(rows: [(ParsedBody, &str); N]) {
    for (parsed, expected) in rows {
        assert_eq!(words(&parsed), expected, "{parsed:?}");
    }
}

pub(super) const ID: &str = "01234567-89ab-5def-8123-456789abcdef";

fn words(parsed: &ParsedBody) -> String {
    let [event] = parsed.events.as_slice() else {
        return match (parsed.nameless, parsed.unreadable) {
            (0, 0) => "nothing".to_owned(),
            (1, 0) => "nameless".to_owned(),
            (0, 1) => "unreadable".to_owned(),
            other => panic!("{other:?}"),
        };
    };
    let report = &event.report;
    let machine = report.machine.map(|machine| if machine { "machine" } else { "person" });
    let words = [
        Some(report.kind.name().to_owned()),
        report.kind.bounce().map(|bounce| bounce.name().to_owned()),
        report.status.map(|status| status.to_string()),
        report.never_sent.then(|| "never_sent".to_owned()),
        machine.map(str::to_owned),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Makes a secret from a word. `None` if we cannot sign for this provider.
pub(crate) fn secret(provider: Provider, word: &str) -> Option<String> {
    let standard = format!("whsec_{}", STANDARD.encode(format!("only for tests: {word}")));
    let made = [standard, format!("tidings:only-for-tests-{word}")];
    made.into_iter().find(|secret| RelayWebhook::new(provider).add_secret(secret).is_ok())
}

fn proven_token(body: &[u8], keys: &[SigningKey], now: Timestamp) -> Result<OneTimeToken, VerifyError> {
    SigningKey::verify(&HeaderMap::new(), body, keys, now).map(|proof| proof.token.unwrap())
}
