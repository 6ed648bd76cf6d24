//! The page through its route and a real store.

use std::time::Duration;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::Method,
};
use jiff::ToSpan as _;
use tempfile::TempDir;
use tidings_model::{
    Event, Key, PersonId, PreferencesLink,
    attempt::{AttemptClass, AttemptPhase},
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind},
    link_keys::LinkKeys,
    offered_cadences::OfferedCadences,
    records::{
        AttemptEnd, AttemptStart, AuditActor, AuditEntry, MessageOrigin, OutboxMessage, Recipient, RenderedClaim,
    },
    settings::{Settings, StreamName},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_store::{SqliteStore, prelude::*};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::*;
use crate::routes::tests::{over, public, settings, sqlite};

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Without direction marks, and with plain spaces.
fn plain(page: &[u8]) -> String {
    let page = std::str::from_utf8(page).unwrap();
    page.replace(['\u{2068}', '\u{2069}'], "").replace(['\u{a0}', '\u{202f}'], " ")
}

struct Bench {
    _folder: TempDir,
    store: Arc<SqliteStore>,
    router: Router,
}

fn ann() -> Key {
    Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()
}

async fn bench(locale: &str) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(folder.path()).await;
    store.migrate().await.unwrap();
    let (tenant, user, zone) = ("acme".into(), "ann".into(), String::new());
    let (address, name, locale) = ("ann@example.net".into(), "Ann".into(), locale.into());
    let recipient = Recipient { tenant, user, address, name, zone, locale };
    store.put_recipients(&[recipient], Timestamp::now()).await.unwrap();
    let activity = DigestSettings {
        title: Some("Activity".into()),
        adapt: true,
        // Its own cadence can be pinned all the same.
        choices: OfferedCadences::new(vec!["weekly".parse().unwrap()]),
        ..DigestSettings::new("activity", "daily 08:00".parse().unwrap())
    };
    let configured = Settings {
        digests: [("activity".to_owned(), activity)].into(),
        link_keys: Some(KEY.parse().unwrap()),
        ..settings()
    };
    Bench { router: public(over(store.clone(), configured)), store, _folder: folder }
}

impl Bench {
    async fn send(&self, method: Method) -> (StatusCode, String) {
        let link = AsBeforeLink { key: ann(), message: Uuid::from_u128(7), generation: 0 };
        let token = link.token(&KEY.parse::<LinkKeys>().unwrap()).unwrap();
        let request = Request::builder().method(method).uri(format!("/b/{token}"));
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 500_000).await.unwrap();
        (parts.status, plain(&body))
    }

    async fn preferences(&self) -> String {
        let link = PreferencesLink { key: ann(), message: Uuid::from_u128(7), generation: 0 };
        let token = link.token(&KEY.parse::<LinkKeys>().unwrap()).unwrap();
        let request = Request::builder().uri(format!("/p/{token}")).body(Body::empty()).unwrap();
        let body = self.router.clone().oneshot(request).await.unwrap().into_body();
        plain(&to_bytes(body, 500_000).await.unwrap())
    }

    async fn facts(&self) -> KeyFacts {
        self.store.facts(&ann()).await.unwrap()
    }
}

#[tokio::test]
async fn a_link_of_an_erased_person_pins_nothing_of_the_next_one() {
    let bench = bench("").await;
    bench.store.raise_generation(&PersonId::from_key(&ann())).await.unwrap();
    for method in [Method::GET, Method::POST] {
        assert_eq!(bench.send(method).await, (StatusCode::NOT_FOUND, String::new()));
    }
    assert_eq!(bench.facts().await.preferences, Preferences::default());
}

#[tokio::test]
async fn a_get_shows_one_button_and_changes_nothing() {
    let bench = bench("").await;
    for method in [Method::GET, Method::HEAD] {
        assert_eq!(bench.send(method).await.0, StatusCode::OK);
    }
    let (_, page) = bench.send(Method::GET).await;
    assert_eq!(page.matches("<button>Get them as often as before</button>").count(), 1, "{page}");
    assert!(page.contains("How often the “Activity” emails come: every day at 8:00 AM."), "{page}");
    assert_eq!((bench.facts().await.preferences, bench.facts().await.revision), (Preferences::default(), 0));
}

#[tokio::test]
async fn a_post_pins_the_cadence_as_the_recipients_own_choice() {
    let bench = bench("de").await;
    for _ in 0..2 {
        let (status, page) = bench.send(Method::POST).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        assert!(page.contains("So oft kommen die E-Mails „Activity“: jeden Tag um 08:00."), "{page}");
        let facts = bench.facts().await;
        assert_eq!((facts.preferences.cadence.as_deref(), facts.revision), (Some("daily 08:00"), 1));
    }
}

#[tokio::test]
async fn a_cadence_that_was_chosen_since_stays() {
    let bench = bench("").await;
    let chosen = Preferences { cadence: Some("weekly fri 09:00".into()), ..Preferences::default() };
    let entry = AuditEntry {
        at: Timestamp::now(),
        actor: AuditActor::Recipient,
        action: "preferences".into(),
        why: "x".into(),
    };
    bench.store.put_preferences(&ann(), &chosen, None, &entry).await.unwrap();
    let (status, page) = bench.send(Method::POST).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("every Friday at 9:00 AM."), "{page}");
    assert_eq!(bench.facts().await.preferences, chosen);
}

/// Six digests of ann since forty days ago. A person opened the first.
async fn away(store: &SqliteStore) {
    let now = Timestamp::now();
    for (n, days) in (1..).zip([40, 35, 28, 21, 14, 7]) {
        let at = now - (days * 24).hours();
        let (id, event_id) = (Uuid::from_u128(n), n.to_string());
        let window = Window { key: ann(), digest_id: id, opened_at: at, due_at: at };
        let event = Event {
            event_id,
            category: "comment".into(),
            other_categories: BTreeSet::new(),
            entity_type: String::new(),
            entity_id: String::new(),
            actor: String::new(),
            occurred_at: at,
            counts: BTreeMap::new(),
            urgent: false,
            payload: tidings_model::EventPayload::default(),
        };
        let message = OutboxMessage {
            id,
            origin: MessageOrigin::Digest(ann()),
            stream: StreamName::Bulk,
            envelope_from: "digest@acme.example".into(),
            envelope_to: "ann@example.net".into(),
            message_id: format!("{id}@acme.example"),
            subject: "News".into(),
            bytes: b"news".to_vec(),
            template: "activity".into(),
            counted: true,
            made_from: String::new(),
            thread: None,
            made_at: at,
        };
        let claim = RenderedClaim {
            window: &window,
            events: &[event],
            planned: None,
            message: &message,
            slot_at: None,
            now: at,
        };
        assert!(store.claim_rendered(claim).await.unwrap());
        let AttemptStart::Proceed { number, .. } = store.begin_attempt(id, "own", Duration::ZERO, at).await.unwrap()
        else {
            panic!("the message is closed")
        };
        assert!(store.mark_in_doubt(id, number, at).await.unwrap());
        let end = AttemptEnd {
            phase: AttemptPhase::Done,
            class: AttemptClass::Sent,
            reply: "250 ok".into(),
            relay_id: None,
            closed: Some(WindowEnd { outcome: DigestOutcome::Sent, why: String::new() }),
            return_events: false,
            suppress: None,
            consecutive: 1,
        };
        store.end_attempt(id, number, &end, at).await.unwrap();
        if n == 1 {
            let report = DeliveryReport { machine: Some(false), ..DeliveryReport::new(ReportKind::Opened, at) };
            let of = vec![MessageReference::Id(id)];
            let event =
                CheckedDeliveryEvent { relay: None, reports_for: Vec::new(), tenant: None, of, report, event_id: None };
            store.put_delivery_event(&event, 5, at).await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn the_page_of_preferences_says_that_the_cadence_is_adapted() {
    let bench = bench("").await;
    away(&bench.store).await;
    let told = "You have not opened these emails for a while, so they come once a week now.";
    let page = bench.preferences().await;
    assert!(page.contains(told) && page.contains("Mon, "), "{page}");
    assert!(page.contains("<option value=\"default\" selected>As usual: every day at 8:00 AM</option>"), "{page}");
    bench.send(Method::POST).await;
    assert!(!bench.preferences().await.contains(told));
}
