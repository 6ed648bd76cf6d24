//! Mistakes of people new to the API. Each response should say what to do.

use std::collections::BTreeMap;

use tidings_model::{Cadence, records::Recipient, settings::DigestSettings};

use super::*;

/// Phrases of libraries, which help nobody.
const PHRASES: [&str; 6] =
    ["google.protobuf", "untagged enum", "invalid digit", "invalid type", "invalid value", "did not match any variant"];

/// With the digest type `activity` and the recipient ann.
async fn started() -> Env {
    let activity = DigestSettings::new("activity", Cadence::Never);
    let settings = Settings { digests: BTreeMap::from([("activity".to_owned(), activity)]), ..settings() };
    let env = Env::start_with(InboxLimits::default(), settings, None).await;
    env.store.put_recipients(&[ann()], Timestamp::now()).await.unwrap();
    env
}

fn ann() -> Recipient {
    let text = |text: &str| text.to_owned();
    let (zone, locale) = Default::default();
    Recipient {
        tenant: text("acme"),
        user: text("ann"),
        address: text("ann@example.net"),
        name: text("Ann"),
        zone,
        locale,
    }
}

/// A valid event with these fields merged in.
fn changed(fields: &Value) -> Value {
    let mut event = json!({
        "event_id": "e1", "digest": "activity", "user": "ann", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z",
        "payload": {"title": "Bob replied to you"},
    });
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

#[tokio::test]
async fn each_mistake_in_an_event_is_answered_with_its_field_and_what_is_right() {
    let env = started().await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let ahead = Timestamp::now() + SignedDuration::from_hours(24 * 3650);
    for (fields, status, field, says) in [
        (json!({"occured_at": "2026-01-31T08:00:00Z"}), 400, "occured_at", "did you mean occurred_at?"),
        (
            json!({"uzer": "ann", "titel": "x"}),
            400,
            "titel",
            "; uzer is an unknown field of an event; did you mean user?",
        ),
        (json!({"occurred_at": null}), 400, "occurred_at", "is required"),
        (json!({"user": ""}), 400, "user", "is required"),
        (json!({"tenant": "zeta"}), 400, "tenant", "is not the token's tenant"),
        (json!({"payload": {"title": "x".repeat(17_000)}}), 400, "payload", "the limit is 16384"),
        (json!({"occurred_at": "yesterday"}), 400, "occurred_at", "RFC 3339"),
        (json!({"event_id": 1}), 400, "event_id", "write it in quotes"),
        (json!({"payload": "x"}), 400, "payload", "object"),
        (json!({"counts": {"a": "x"}}), 400, "counts.a", "whole number"),
        (
            json!({"digest": "activty"}),
            422,
            "digest",
            "is activty, a digest type that no table has; did you mean activity?",
        ),
        (json!({"user": "bo"}), 202, "user", "is not in the directory"),
        (json!({"occurred_at": ahead}), 202, "occurred_at", "more than a day ahead"),
        (json!({"payload": {}}), 202, "payload.title", "is missing"),
        (json!({"payload": {"title": "T", "url": "javascript:alert(1)"}}), 202, "payload.url", "http, https or mailto"),
    ] {
        let answer = env.post(&token, changed(&fields).to_string()).await;
        assert_eq!(answer.status, status, "{fields}: {answer:?}");
        let answered = answer.json();
        let found = match status {
            202 => &answered["results"][0]["warnings"],
            _ => &answered["errors"],
        };
        assert_eq!(found.as_array().map(Vec::len), Some(1), "{fields}: {answered}");
        assert_eq!(found[0]["field"], field, "{fields}: {answered}");
        assert!(found[0]["problem"].as_str().unwrap().contains(says), "{fields}: {answered}");
        assert!(!PHRASES.iter().any(|phrase| answer.text.contains(phrase)), "{fields}: {answered}");
    }
    let right = env.post(&token, changed(&json!({})).to_string()).await;
    assert_eq!(right.json()["results"], json!([{"status": "accepted", "event_id": "e1"}]));
}

#[tokio::test]
async fn an_unknown_digest_type_is_refused_for_its_event_only() {
    let env = started().await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let unknown = changed(&json!({"event_id": "e2", "digest": "activty"}));
    let some = env.post(&token, json!([changed(&json!({})), unknown]).to_string()).await;
    assert_eq!(some.status, StatusCode::OK);
    let results = &some.json()["results"];
    assert_eq!(results[0], json!({"status": "accepted", "event_id": "e1"}));
    assert_eq!((&results[1]["status"], &results[1]["type"]), (&json!("refused"), &json!("/problems/unknown-digest")));
    for (others, status, problem) in [(vec![], 422, "unknown-digest"), (vec![json!(7)], 400, "nothing-accepted")] {
        let items: Vec<_> = [vec![unknown.clone()], others].concat();
        let none = env.post(&token, json!(items).to_string()).await;
        assert_eq!((none.status.as_u16(), none.problem().as_str()), (status, problem));
        assert_eq!(none.json()["errors"][0]["type"], "/problems/unknown-digest");
    }
    assert_eq!(env.store.inbox_depth().await.unwrap().events, 1);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_answered_with_its_place_and_an_example() {
    let env = started().await;
    let token = env.token(Some("acme"), &TokenScope::ALL, None).await;
    let send = async |path: &str, kind: &'static str, body: &'static str| {
        let request = Request::post(path).header(header::AUTHORIZATION, format!("Bearer {token}"));
        env.answer(request.header(header::CONTENT_TYPE, kind).body(Body::from(body)).unwrap()).await
    };
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    for (path, kind, body, status, says) in [
        ("/v1/events", json, "{\"event_id\": \"e1\",}", 400, "is not JSON at byte 1"),
        ("/v1/events", json, "event_id=e1", 400, "is not JSON at byte 1"),
        ("/v1/events", json, "", 400, "is empty"),
        ("/v1/events", json, "[]", 400, "send at least one"),
        (
            "/v1/events",
            form,
            "{}",
            415,
            "which curl sends by default; send Content-Type: application/json or application/x-ndjson",
        ),
        ("/v1/messages", form, "{}", 415, "send Content-Type: application/json"),
        ("/v1/messages", json, "", 400, "is empty"),
        ("/v1/pauses", json, "{\"why\":", 400, "is not JSON at byte 7"),
        ("/v1/recipients", json, "{}", 415, "send Content-Type: application/x-ndjson or text/csv"),
    ] {
        let answer = send(path, kind, body).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        let answered = answer.json();
        assert!(answered["errors"][0]["problem"].as_str().unwrap().contains(says), "{path} {body}: {answered}");
        assert!(!answered["example"].is_null(), "{path} {body}: {answered}");
    }
    let example = send("/v1/events", json, "").await.json()["example"].to_string();
    assert_eq!(env.post(&token, example).await.status, StatusCode::ACCEPTED, "an example is right");
}

#[tokio::test]
async fn a_wrong_token_scope_path_or_port_is_answered_with_what_to_do() {
    let env = started().await;
    let reads = env.token(None, &[TokenScope::DigestsRead], None).await;
    let writes = env.token(None, &[TokenScope::EventsWrite], None).await;
    let unknown = ApiToken::generate().unwrap().reveal();
    for (method, path, token, status, says) in [
        ("POST", "/v1/events", unknown.as_str(), 401, "tidings tokens list"),
        ("POST", "/v1/events", &reads, 403, "tidings tokens create --scope events:write"),
        ("GET", "/v1/events", &writes, 405, "Allow"),
        ("POST", "/v1/event", &reads, 404, "did you mean /v1/events?"),
        ("GET", "/v1/digest/activity/ann", &reads, 404, "did you mean /v1/digests/{digest_type}/{user}?"),
        ("GET", "/v1/digests", &reads, 404, "it is called /v1/ledger/digests now"),
        ("GET", "/api/v2/nothing/at/all", &reads, 404, "GET /openapi.json has all paths"),
        ("POST", "/webhooks/ses", &reads, 404, "public listener"),
        ("GET", "/v1/digests/activity/ann", &reads, 400, "the token is for all tenants"),
    ] {
        let answer = env.ask(token, method, path, Value::Null).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.text.contains(says), "{method} {path}: {answer:?}");
    }
    let public = public(over(env.store.clone(), settings()));
    for (path, says) in
        [("/v1/events", "gateway.api_listen"), ("/v1/x", "gateway.api_listen"), ("/v2", ""), ("/u/x", "")]
    {
        let answer = public.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        let text = String::from_utf8(to_bytes(answer.into_body(), 4096).await.unwrap().to_vec()).unwrap();
        assert!(text.contains(says) && text.is_empty() == says.is_empty(), "{path}: {text}");
    }
}

#[tokio::test]
async fn the_type_of_each_problem_is_an_address_that_answers_on_both_listeners() {
    let env = started().await;
    let public = public(over(env.store.clone(), settings()));
    for problem in Problem::ALL {
        let get = || Request::get(problem.type_path()).body(Body::empty()).unwrap();
        let answer = env.answer(get()).await;
        let (status, kind, ..) = problem.parts();
        assert_eq!((answer.status, answer.text.lines().next()), (StatusCode::OK, Some(kind)));
        assert!(answer.text.contains(&format!("**{}**", status.as_u16())), "{kind}: {}", answer.text);
        assert_eq!(public.clone().oneshot(get()).await.unwrap().status(), StatusCode::OK, "{kind}");
    }
    let nothing = env.answer(Request::get("/problems/nothing").body(Body::empty()).unwrap()).await;
    assert_eq!((nothing.status.as_u16(), nothing.problem().as_str()), (404, "not-found"));
}
