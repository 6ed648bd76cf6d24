//! Signed requests and classified events of the providers, from gateway/tests/data/webhooks.json.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidings_model::delivery_events::{Report, Reported, Which};

use super::*;

mod edges;
mod route;
mod signed;
mod sns;

/// The vectors, each provider's under its name.
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
fn now() -> Timestamp {
    at(1_795_262_460)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// Reads a payload as the provider's route would.
fn parsed(case: &Value) -> Parsed {
    let body = case["payload"].to_string();
    match text(&case["provider"]) {
        "ses" => ses::parse(&body, None, now()),
        "sendgrid" => sendgrid::parse(body.as_bytes(), now()),
        "mailgun" => mailgun::parse(body.as_bytes(), now()),
        "postmark" => postmark::parse(body.as_bytes(), now()),
        "resend" => resend::parse(body.as_bytes(), Some(text(&case["headers"]["svix-id"])), now()),
        "mailjet" => mailjet::parse(body.as_bytes(), now()),
        other => panic!("{other}"),
    }
}

#[test]
fn every_classified_payload_becomes_the_events_that_it_should() {
    let vectors = vectors();
    let cases = list(&vectors["classes"]["cases"]);
    assert_eq!(cases.len(), 94);
    for case in cases {
        let name = format!("{} {}", case["provider"], case["name"]);
        let Parsed { events, nameless, unreadable, .. } = parsed(case);
        assert_eq!((nameless as u64, unreadable), (case["unknown"].as_u64().unwrap_or(0), 0), "{name}");
        assert_eq!(events.len(), list(&case["events"]).len(), "{name}");
        for (event, expected) in events.into_iter().zip(list(&case["events"])) {
            let message = match &event.of[0] {
                Which::Id(id) => id.to_string(),
                Which::MessageId(id) => id.split('@').next().unwrap().to_owned(),
                Which::RelayId(id) => panic!("{name} by {id}"),
            };
            let found_by_message_id = case.get("by").is_some();
            assert_eq!(matches!(event.of[0], Which::MessageId(_)), found_by_message_id, "{name}");
            let Reported { report, event_id, .. } = event;
            let Report { kind, status, occurred_at, never_sent, machine, .. } = report;
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
fn one_element_that_cannot_be_read_spoils_no_other() {
    let body = br#"[{"event":"open","timestamp":1795262400,"sg_message_id":"a.b"}, 7, {"event":"ann@example.com"},
        {"event":"open","timestamp":"soon ann@example.com"}, {"event":"open","timestamp":99999999999999}]"#;
    let Parsed { events, unusable, unreadable, .. } = sendgrid::parse(body, now());
    assert_eq!((events.len(), unreadable), (1, 4));
    assert_eq!(events[0].of, [Which::RelayId("a".into())]);
    assert_eq!((unusable[0].head.as_str(), unusable[0].size), ("7", 1));
    for letter in &unusable {
        assert!(!letter.reason.contains("ann@") && !letter.head.contains("ann@"), "{letter:?}");
    }
    assert!(unusable[2].reason.contains("timestamp") || unusable[2].reason.contains("invalid type"), "{unusable:?}");
}

#[test]
fn a_body_without_an_event_is_one_dead_letter() {
    let deep = vec![b'['; 100_000];
    for body in [&b""[..], b"7", b"null", b"{}", b"\xff\xfe", b"[[]]", b"{\"event\":7}", &deep] {
        let read = [
            ses::parse(&String::from_utf8_lossy(body), None, now()),
            sendgrid::parse(body, now()),
            mailgun::parse(body, now()),
            postmark::parse(body, now()),
            resend::parse(body, Some("id"), now()),
            mailjet::parse(body, now()),
            generic::parse(body, now()),
        ];
        for parsed in read {
            assert_eq!((parsed.events.len(), parsed.unreadable, parsed.unusable.len()), (0, 1, 1));
            assert!(parsed.unusable[0].head.chars().count() <= 65_536);
        }
    }
    let many = format!("[7{}]", ",7".repeat(999));
    let many = sendgrid::parse(many.as_bytes(), now());
    assert_eq!((many.unreadable, many.unusable.len()), (1_000, 100));
}

/// `base` with the fields of `of`.
fn with(base: &Value, of: &Value) -> String {
    let mut event = base.clone();
    event.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
    event.to_string()
}

fn assert_rows<const N: usize>(rows: [(Parsed, &str); N]) {
    for (parsed, expected) in rows {
        assert_eq!(words(&parsed), expected, "{parsed:?}");
    }
}

const ID: &str = "01234567-89ab-5def-8123-456789abcdef";

#[test]
fn rows_of_ses_that_no_vector_has() {
    let base = json!({"mail": {"timestamp": "2026-11-21T11:59:58.000Z", "tags": {"tidings_message": [ID]}}});
    let ses = |of: Value| ses::parse(&with(&base, &of), Some("sns"), now());
    let at = "2026-11-21T11:59:59.000Z";
    let bounce = |kind: &str, sub: &str| json!({"eventType": "Bounce", "bounce": {"bounceType": kind, "bounceSubType": sub, "timestamp": at}});
    let topics = |new: &str, old: &str| {
        let preferences = |status: &str| json!({"unsubscribeAll": false, "topicSubscriptionStatus": [{"topicName": "a", "subscriptionStatus": status}]});
        json!({"eventType": "Subscription", "subscription": {"timestamp": at, "newTopicPreferences": preferences(new),
            "oldTopicPreferences": preferences(old)}})
    };
    assert_rows([
        (ses(bounce("Permanent", "NoEmail")), "bounced hard"),
        (ses(bounce("Permanent", "Suppressed")), "bounced hard never_sent"),
        (ses(bounce("Permanent", "EmailValidationSuppressed")), "bounced hard never_sent"),
        (ses(bounce("Transient", "CustomTimeoutExceeded")), "bounced soft"),
        (ses(bounce("Transient", "MessageTooLarge")), "bounced policy"),
        (ses(bounce("New", "General")), "unreadable"),
        (ses(json!({"eventType": "Bounce"})), "unreadable"),
        (ses(json!({"eventType": "Send"})), "nothing"),
        (ses(json!({"eventType": "Rendering Failure"})), "nothing"),
        (
            ses(json!({"eventType": "Complaint", "complaint": {"timestamp": at, "complaintFeedbackType": "fraud"}})),
            "complained",
        ),
        (
            ses(json!({"eventType": "Complaint", "complaint": {"timestamp": at, "complaintFeedbackType": "not-spam"}})),
            "nothing",
        ),
        (
            ses(json!({"eventType": "DeliveryDelay", "deliveryDelay": {"timestamp": at, "delayType": "MailboxFull",
                "delayedRecipients": [{"status": "4.2.2"}]}})),
            "deferred 4.2.2",
        ),
        (
            ses(
                json!({"eventType": "Subscription", "subscription": {"timestamp": at, "newTopicPreferences": {"unsubscribeAll": true}}}),
            ),
            "unsubscribed",
        ),
        (ses(topics("OptOut", "OptIn")), "unsubscribed"),
        (ses(topics("OptOut", "OptOut")), "nothing"),
        (ses(topics("OptIn", "OptOut")), "nothing"),
        (ses(json!({"eventType": "Quantum"})), "unreadable"),
    ]);
}

#[test]
fn rows_of_sendgrid_that_no_vector_has() {
    let base = json!({"timestamp": 1_795_262_399, "tidings_message": ID});
    let sendgrid = |of: Value| sendgrid::parse(format!("[{}]", with(&base, &of)).as_bytes(), now());
    assert_rows([
        (sendgrid(json!({"event": "deferred", "response": "451 4.2.0 later", "attempt": "2"})), "deferred"),
        (sendgrid(json!({"event": "bounce", "type": "blocked", "status": "5.7.1"})), "bounced policy 5.7.1"),
        (sendgrid(json!({"event": "bounce", "type": "blocked", "status": "5.2.2"})), "bounced soft 5.2.2"),
        (sendgrid(json!({"event": "bounce", "type": "bounce", "status": ""})), "bounced hard"),
        (sendgrid(json!({"event": "dropped", "reason": "Invalid"})), "bounced hard never_sent"),
        (sendgrid(json!({"event": "dropped", "reason": "Unsubscribed Address"})), "unsubscribed never_sent"),
        (
            sendgrid(json!({"event": "dropped", "reason": "Recipient List over Package Quota"})),
            "bounced policy never_sent",
        ),
        (sendgrid(json!({"event": "dropped"})), "bounced policy never_sent"),
        (sendgrid(json!({"event": "spamreport"})), "complained"),
        (sendgrid(json!({"event": "group_unsubscribe", "asm_group_id": 10})), "unsubscribed"),
        (sendgrid(json!({"event": "group_resubscribe"})), "nothing"),
        (sendgrid(json!({"event": "open", "sg_machine_open": false})), "opened person"),
        (sendgrid(json!({"event": "open", "sg_machine_open": true})), "opened machine"),
    ]);
}

#[test]
fn rows_of_mailgun_that_no_vector_has() {
    let base = json!({"timestamp": 1_795_262_399.25, "user-variables": {"tidings_message": ID}});
    let mailgun = |of: Value| mailgun::parse(format!("{{\"event-data\":{}}}", with(&base, &of)).as_bytes(), now());
    assert_rows([
        (mailgun(json!({"event": "stored"})), "nothing"),
        (mailgun(json!({"event": "delivered"})), "delivered"),
        (mailgun(json!({"event": "failed", "severity": "temporary", "delivery-status": {"code": 450}})), "deferred"),
        (
            mailgun(
                json!({"event": "failed", "severity": "permanent", "delivery-status": {"code": 550, "enhanced-code": "5.1.1"}}),
            ),
            "bounced hard 5.1.1",
        ),
        (
            mailgun(json!({"event": "failed", "severity": "permanent", "delivery-status": {"code": 605}})),
            "bounced hard never_sent",
        ),
        (
            mailgun(json!({"event": "failed", "severity": "permanent", "reason": "suppress-complaint"})),
            "complained never_sent",
        ),
        (mailgun(json!({"event": "unsubscribed"})), "unsubscribed"),
        (mailgun(json!({"event": "opened"})), "opened"),
        (
            mailgun(json!({"event": "opened", "client-info": {"client-type": "browser", "bot": "apple"}})),
            "opened machine",
        ),
        (mailgun(json!({"event": "opened", "client-info": {"bot": ""}})), "opened person"),
        (mailgun(json!({"event": "clicked", "client-info": {"bot": "generic"}})), "clicked machine"),
        (mailgun(json!({"event": "delivered", "client-info": {"bot": "apple"}})), "delivered"),
        (mailgun(json!({"event": "delivered", "timestamp": -1.0})), "unreadable"),
        (mailgun(json!({"event": "delivered", "timestamp": 1e300})), "unreadable"),
    ]);
}

#[test]
fn rows_of_mailjet_that_no_vector_has() {
    let base = json!({"time": 1_795_262_399, "CustomID": ID, "MessageID": u64::MAX});
    let mailjet = |of: Value| mailjet::parse(with(&base, &of).as_bytes(), now());
    assert_rows([
        (mailjet(json!({"event": "open"})), "opened"),
        (mailjet(json!({"event": "bounce", "error": "greylisted", "hard_bounce": true})), "bounced hard"),
        (mailjet(json!({"event": "bounce"})), "bounced soft"),
        (
            mailjet(json!({"event": "blocked", "error": "duplicate in campaign", "error_related_to": "mailjet"})),
            "nothing",
        ),
        (mailjet(json!({"event": "blocked", "error": "spam reporter"})), "complained never_sent"),
        (mailjet(json!({"event": "blocked", "error": "blacklisted"})), "bounced hard never_sent"),
        (mailjet(json!({"event": "blocked"})), "bounced policy never_sent"),
        (mailjet(json!({"event": "sent", "CustomID": "spring", "customcampaign": "sale"})), "nameless"),
        (mailjet(json!({"event": "sent", "CustomID": "", "customcampaign": ID})), "delivered"),
    ]);
}

#[test]
fn rows_of_postmark_that_no_vector_has() {
    let base = json!({"Metadata": {"tidings-message": ID}, "ChangedAt": "2026-11-21T11:59:59.1234567Z",
        "DeliveredAt": "2026-11-21T11:59:59Z", "ReceivedAt": "2026-11-21T06:59:59-05:00", "BouncedAt": "2026-11-21T11:59:59Z"});
    let postmark = |of: Value| postmark::parse(with(&base, &of).as_bytes(), now());
    let subscription = |origin: &str, reason: Value, suppress: bool| json!({"RecordType": "SubscriptionChange", "Origin": origin, "SuppressionReason": reason, "SuppressSending": suppress});
    assert_rows([
        (postmark(json!({"RecordType": "Delivery"})), "delivered"),
        (postmark(json!({"RecordType": "Open"})), "opened"),
        (postmark(json!({"RecordType": "Click", "OriginalLink": "https://app.example.com"})), "clicked"),
        (postmark(json!({"RecordType": "SpamComplaint", "ID": 42})), "complained"),
        (postmark(json!({"RecordType": "SMTPApiError", "Type": "SMTPApiError"})), "bounced policy"),
        (postmark(json!({"RecordType": "Bounce", "Type": "SpamNotification"})), "bounced policy"),
        (postmark(json!({"RecordType": "Bounce", "Type": "TemplateRenderingFailed"})), "bounced policy"),
        (postmark(json!({"RecordType": "Bounce", "Type": "Newest"})), "unreadable"),
        (postmark(json!({"RecordType": "Bounce", "Type": "HardBounce", "BouncedAt": null})), "unreadable"),
        (postmark(subscription("Recipient", json!("ManualSuppression"), true)), "unsubscribed"),
        (postmark(subscription("Recipient", Value::Null, false)), "nothing"),
    ]);
}

/// The event, or what else the body was.
fn words(parsed: &Parsed) -> String {
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

#[test]
fn a_message_of_ses_has_three_names() {
    let named = |mail: Value| {
        let event = json!({"eventType": "Open", "open": {"timestamp": "2026-11-21T11:59:59.000Z"}, "mail": mail});
        let event = ses::parse(&event.to_string(), None, now()).events.remove(0);
        event.of
    };
    let [tag, header] = ["01234567-89ab-5def-8123-456789abcdef", "11111111-1111-5111-8111-111111111111"];
    let id = |id: &str| vec![Which::Id(id.parse().unwrap())];
    let headers = json!([{"name": "x-tidings-MESSAGE", "value": header}, {"name": "message-id", "value": "<m@x>"}]);
    let tags = json!({"tidings_message": [tag, "other"]});
    assert_eq!(named(json!({"messageId": "0102", "tags": tags, "headers": headers})), id(tag));
    assert_eq!(named(json!({"tags": {"tidings_message": []}, "headers": headers})), id(header));
    let (message_id, relay_id) = (Which::MessageId("m@x".into()), Which::RelayId("0102".into()));
    let mail = json!({"messageId": "0102", "headers": [{"name": "message-id", "value": "<m@x>"}]});
    assert_eq!(named(mail), [message_id, relay_id.clone()]);
    assert_eq!(named(json!({"messageId": "0102", "tags": null})), [relay_id]);
}

#[test]
fn a_relay_of_your_own_reports_in_the_words_of_tidings() {
    let read = |of: Value| {
        let mut event =
            json!({"message": "01234567-89ab-5def-8123-456789abcdef", "occurred_at": "2026-11-21T12:00:00Z"});
        event.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        generic::parse(event.to_string().as_bytes(), now())
    };
    let full =
        read(json!({"kind": "bounced", "bounce": "hard", "status": "5.1.1", "diagnostic": "no", "event_id": "e",
        "message_id": "<m@x>", "relay_id": "4Xk", "never_sent": true, "machine": true, "url": "https://x"}));
    let event = &full.events[0];
    let Report { kind, never_sent, machine, url, .. } = &event.report;
    assert_eq!((kind.bounce().unwrap().name(), never_sent, machine), ("hard", &true, &Some(true)));
    assert_eq!((event.event_id.as_deref(), url.as_deref()), (Some("e"), Some("https://x")));
    for (wrong, says) in [
        (json!({"kind": "eaten"}), "kind \"eaten\" is not one that Tidings knows"),
        (json!({"kind": "bounced"}), "kind \"bounced\" needs bounce: hard, soft or policy"),
        (json!({"kind": "bounced", "bounce": "odd"}), "bounce \"odd\" is not one that Tidings knows"),
        (json!({"kind": "opened", "bounce": "hard"}), "kind \"opened\" has no bounce; leave the field out"),
        (json!({"kind": "opened", "bouncd": "hard"}), "unknown field `bouncd`"),
        (json!({"kind": "opened", "status": "550"}), "status: \"550\" is not an enhanced status code"),
        (json!({"kind": "opened", "message": "m"}), "message: \"m\" is not a UUID"),
        (
            json!({"kind": "opened", "occurred_at": "2026-11-23T12:00:00Z"}),
            "occurred_at: 2026-11-23T12:00:00Z is more than",
        ),
    ] {
        let parsed = read(wrong);
        assert!(parsed.unusable[0].reason.starts_with(says), "{:?}", parsed.unusable);
    }
    let both = format!("[{0}, {0}]", r#"{"kind":"opened","relay_id":"m","occurred_at":"2026-11-21T12:00:00Z"}"#);
    assert_eq!(generic::parse(both.as_bytes(), now()).events.len(), 2);
}
