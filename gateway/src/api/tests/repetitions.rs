//! Events with an id already in the ledger, and strict handling.

use tidings_model::{
    Event,
    records::{CloseRequest, MessageOrigin, OutboxMessage, RenderedClaim},
    settings::StreamName,
    window::{DigestOutcome, Window, WindowEnd},
    wire,
};

use super::*;

/// `e1` with its window.
fn first_event() -> (Window, Event) {
    let wire = wire::parse_event(event("e1").to_string().as_bytes()).unwrap();
    let (key, event) = Event::from_wire(wire, None).unwrap();
    let window =
        Window { digest_id: key.digest_id("run", 0), opened_at: event.occurred_at, due_at: event.occurred_at, key };
    (window, event)
}

/// `e1` in a dropped digest.
async fn over_event(env: &Env) {
    let (window, event) = first_event();
    let closed = WindowEnd { outcome: DigestOutcome::Dropped, why: "a test".into() };
    let closing = CloseRequest {
        window: &window,
        events: &[event],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: Timestamp::now(),
    };
    env.store.close_digest(closing).await.unwrap();
}

/// `e1` in a waiting message.
async fn waiting_event(env: &Env) -> Window {
    let (window, event) = first_event();
    let (id, now) = (window.digest_id, Timestamp::now());
    let message = OutboxMessage {
        id,
        origin: MessageOrigin::Digest(window.key.clone()),
        stream: StreamName::Bulk,
        envelope_from: "digest@acme.example".into(),
        envelope_to: "ann@example.net".into(),
        message_id: format!("{id}@acme.example"),
        subject: "News".into(),
        bytes: b"news".to_vec(),
        template: "activity".into(),
        counted: false,
        made_from: String::new(),
        thread: None,
        made_at: now,
    };
    let claim =
        RenderedClaim { window: &window, events: &[event], planned: None, message: &message, slot_at: None, now };
    assert!(env.store.claim_rendered(claim).await.unwrap());
    window
}

fn corrected(id: &str) -> Value {
    let mut event = event(id);
    event["payload"]["title"] = json!("Bob replied to all");
    event
}

#[tokio::test]
async fn the_answer_names_what_the_ledger_knows_of_an_id() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    over_event(&env).await;
    let answer =
        env.post(&token, json!([event("e1"), corrected("e1"), event("e2"), corrected("e2"), event("e2")]).to_string());
    let answer = answer.await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let results = answer.json()["results"].clone();
    let words = |index: usize| (results[index]["status"].clone(), results[index]["result"].clone());
    assert_eq!(words(0), (json!("duplicate"), json!("known, same content")));
    assert_eq!(words(1), (json!("duplicate"), json!("known, other content")));
    assert_eq!(words(2), (json!("accepted"), Value::Null));
    assert_eq!(words(3), (json!("accepted"), Value::Null), "other content of a pending event replaces it");
    assert_eq!(words(4), (json!("duplicate"), Value::Null), "the same event of the request");
    assert_eq!(env.store.inbox_depth().await.unwrap().events, 4);
}

#[tokio::test]
async fn strict_handling_refuses_other_content_and_stores_nothing() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    over_event(&env).await;
    for (prefer, items, status) in [
        ("handling=strict", json!([event("e3"), corrected("e1")]), 409),
        ("respond-async, Handling=Strict; x=1", json!([corrected("e1")]), 409),
        ("handling=strict", json!([event("e1"), event("e3")]), 202),
        ("handling=lenient", json!([corrected("e1")]), 202),
    ] {
        let before = env.store.inbox_depth().await.unwrap().events;
        let request = Request::post("/v1/events").header("prefer", prefer);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        let answer = env.answer(request.body(Body::from(items.to_string())).unwrap()).await;
        assert_eq!(answer.status.as_u16(), status, "{prefer}: {answer:?}");
        let stored = env.store.inbox_depth().await.unwrap().events - before;
        if status == 409 {
            assert_eq!((answer.problem().as_str(), stored), ("other-content", 0));
            let problem = "known, other content; send it under an id of its own";
            let index = items.as_array().unwrap().len() - 1;
            let error = json!({"index": index, "event_id": "e1", "field": "event_id", "problem": problem});
            assert_eq!(answer.json()["errors"], json!([error]));
        } else {
            let applied = answer.headers.get("preference-applied").map(|value| value.to_str().unwrap());
            assert_eq!(applied, Some("handling=strict").filter(|_| prefer.contains("strict")));
            assert_eq!(stored, items.as_array().unwrap().len() as u64);
        }
    }
}

#[tokio::test]
async fn other_content_of_an_event_in_a_message_that_waits_makes_the_message_again() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let window = waiting_event(&env).await;
    let mut later = corrected("e1");
    later["occurred_at"] = json!(window.opened_at + SignedDuration::from_secs(1));
    let answer = env.post(&token, json!([event("e1"), later]).to_string()).await;
    let results = answer.json()["results"].clone();
    let words = |index: usize| (results[index]["status"].clone(), results[index]["result"].clone());
    assert_eq!(words(0), (json!("duplicate"), json!("known, same content")));
    assert_eq!(words(1), (json!("accepted"), json!("pending, other content")));
    let (_, waiting) = env.store.facts_for_attempt(&window.key, window.digest_id).await.unwrap();
    assert!(waiting.unwrap().outdated);
    let repeated = env.post(&token, json!([later]).to_string()).await;
    assert_eq!(repeated.json()["results"][0]["result"], "known, same content");
}
