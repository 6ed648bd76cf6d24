//! Ledger routes: only rows of the tenant, in pages, without addresses.

use serde_json::{Value, json};
use tidings_model::{
    Event, Key,
    api_token::TokenScope,
    decode::DeadLetter,
    inbox::InboxLimits,
    pause::{PauseDetails, PauseScope},
    step::{AuditInput, AuditNote, DeadLettersInput},
    window::Window,
};

use super::*;
use crate::api::tests::{Answer, Env};

const AT: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LETTER: &str = "0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1";

fn key(tenant: &str) -> Key {
    Key::new(tenant.into(), "activity".into(), "ann".into()).unwrap()
}

/// For each of two tenants: an open window, an audit entry with an address, a dead letter and a pause.
async fn ledger() -> Env {
    let env = Env::start(InboxLimits::default()).await;
    for (tenant, run) in
        [("acme", "0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52"), ("zeta", "0192f0c1-7a55-7e0c-8f0e-000000000000")]
    {
        let key = key(tenant);
        for n in [1, 2] {
            let opened_at = AT + jiff::SignedDuration::from_secs(n);
            let window = Window {
                key: key.clone(),
                digest_id: key.digest_id("run", n.unsigned_abs()),
                opened_at,
                due_at: opened_at,
            };
            let event = Event {
                event_id: format!("e{n}"),
                category: "comment".into(),
                other_categories: std::collections::BTreeSet::new(),
                entity_type: String::new(),
                entity_id: String::new(),
                actor: String::new(),
                occurred_at: AT,
                counts: std::collections::BTreeMap::new(),
                urgent: false,
                payload: tidings_model::EventPayload::default(),
            };
            env.store.stash_events(&window, &[event], None, opened_at).await.unwrap();
        }
        let why = "asked for by ann@example.com".to_owned();
        let notes = vec![AuditNote { at: AT, by: "carol".into(), action: "hold".into(), why }];
        env.store.record_audit(&AuditInput { key: key.clone(), notes }).await.unwrap();
        let letter = DeadLetter {
            seq: 1,
            reason: "is not JSON".into(),
            encoding: "json/plain".into(),
            message_type: Some("tidings.v1.Event".into()),
            size: 3,
            sha256: "ab".into(),
            head: "YWJj".into(),
        };
        let input = DeadLettersInput { workflow_id: key.workflow_id(), run_id: run.into(), letters: vec![letter] };
        env.store.put_dead_letters(&input, AT).await.unwrap();
        let paused = PauseDetails { by: "carol".into(), why: "wrong prices".into(), since: AT, until: None };
        let scope = PauseScope { tenant: Some(tenant.into()), digest_type: None };
        env.store.pause(&scope, false, &paused).await.unwrap();
    }
    env
}

async fn get(env: &Env, token: &str, path: &str) -> Answer {
    env.ask(token, "GET", path, Value::Null).await
}

fn ids(answer: &Answer, name: &str) -> Vec<String> {
    let rows = answer.json()["rows"].as_array().unwrap().clone();
    rows.iter().map(|row| row[name].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_window_is_a_span_before_now_or_two_times() {
    let at = |text: &str| Some(text.parse().unwrap());
    for (text, window) in [
        ("1h", (at("2027-01-15T07:00:00Z"), None)),
        ("2026-11-24T00:00:00Z/2026-11-25T00:00:00Z", (at("2026-11-24T00:00:00Z"), at("2026-11-25T00:00:00Z"))),
        ("2h/1h", (at("2027-01-15T06:00:00Z"), at("2027-01-15T07:00:00Z"))),
    ] {
        assert_eq!(super::window(text, AT), Ok(window), "{text}");
    }
    for wrong in ["daily", "1h/", "/1h", "1h/2h/3h"] {
        assert!(super::window(wrong, AT).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn digests_are_listed_in_pages_by_type_and_window() {
    let env = ledger().await;
    let token = env.token(Some("acme"), &[TokenScope::DigestsRead], None).await;
    let [first, second] = [1, 2].map(|n| key("acme").digest_id("run", n).to_string());
    let path = "/v1/ledger/digests?digest_type=activity&window=2027-01-15T08:00:00Z/2027-01-15T08:00:09Z&limit=1";
    let page = get(&env, &token, path).await;
    assert_eq!((page.status.as_u16(), ids(&page, "digest_id")), (200, vec![second]));
    let next = page.json()["next"].as_str().unwrap().to_owned();
    let rest = get(&env, &token, &format!("{path}&after={next}")).await;
    assert_eq!((ids(&rest, "digest_id"), &rest.json()["next"]), (vec![first], &Value::Null));
    for none in [
        "digest_type=other",
        "window=2027-01-15T09:00:00Z/2027-01-15T10:00:00Z",
        "user=bo",
        "state=closed",
        "overdue=true",
    ] {
        let listed = get(&env, &token, &format!("/v1/ledger/digests?{none}")).await;
        assert_eq!(listed.json(), json!({"rows": []}), "{none}");
    }
    let all = env.token(None, &[TokenScope::DigestsRead], None).await;
    for (query, rows) in [("", 4), ("?tenant=zeta", 2), ("?tenant=acme&user=ann", 2)] {
        assert_eq!(
            ids(&get(&env, &all, &format!("/v1/ledger/digests{query}")).await, "digest_id").len(),
            rows,
            "{query}"
        );
    }
    for (wrong, field) in [
        ("user=ann", "user"),
        ("window=1h&since=1h", "window"),
        ("overdue=true&outcome=sent", "overdue"),
        ("outcome=lost", "outcome"),
    ] {
        let refused = get(&env, &all, &format!("/v1/ledger/digests?{wrong}")).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (400, "wrong-parameter"), "{wrong}");
        assert_eq!(refused.json()["errors"][0]["field"], field, "{wrong}");
    }
}

#[tokio::test]
async fn a_foreign_digest_or_letter_is_answered_like_a_missing_one() {
    let env = ledger().await;
    let token = env.token(Some("zeta"), &TokenScope::ALL, None).await;
    let all = env.token(None, &TokenScope::ALL, None).await;
    let digest = key("acme").digest_id("run", 1);
    let why = || json!({"why": "a walk"});
    for (method, there, missing, body) in [
        ("GET", format!("/v1/ledger/digests/{digest}"), format!("/v1/ledger/digests/{}", Uuid::nil()), Value::Null),
        ("GET", format!("/v1/dead-letters/{LETTER}"), "/v1/dead-letters/run.1".to_owned(), Value::Null),
        ("POST", format!("/v1/dead-letters/{LETTER}/emit"), "/v1/dead-letters/run.1/emit".to_owned(), why()),
    ] {
        let foreign = env.ask(&token, method, &there, body.clone()).await;
        let missing = env.ask(&token, method, &missing, body.clone()).await;
        assert_eq!((foreign.status.as_u16(), &foreign.text), (404, &missing.text), "{there}");
        let named = env.ask(&all, method, &format!("{there}?tenant=zeta"), body.clone()).await;
        assert_eq!((named.status.as_u16(), &named.text), (404, &missing.text), "{there}");
        let right = env.ask(&all, method, &format!("{there}?tenant=acme"), body).await;
        assert_ne!(right.status, 404, "{there}: {right:?}");
    }
    for (path, rows) in [("/v1/audit", 3), ("/v1/dead-letters", 1), ("/v1/pauses", 1), ("/v1/ledger/digests", 2)] {
        let own = get(&env, &token, path).await;
        assert_eq!((own.json()["rows"].as_array().unwrap().len(), own.text.contains("acme")), (rows, false), "{path}");
        let every = get(&env, &all, path).await;
        assert_eq!(every.json()["rows"].as_array().unwrap().len(), 2 * rows, "{path}");
    }
}

#[tokio::test]
async fn addresses_are_shown_only_to_a_token_that_reads_recipients() {
    let env = ledger().await;
    let digest = key("acme").digest_id("run", 1);
    let (audit, show) = ("/v1/audit?action=hold".to_owned(), format!("/v1/ledger/digests/{digest}?limit=9"));
    let scopes = [TokenScope::DigestsRead, TokenScope::AuditRead];
    let without = env.token(Some("acme"), &scopes, None).await;
    let with = env.token(Some("acme"), &[&scopes[..], &[TokenScope::RecipientsRead]].concat(), None).await;
    for path in [audit, show] {
        for token in [&without, &with] {
            let answer = get(&env, token, &path).await;
            assert!(answer.status == 200 && !answer.text.contains("example.com"), "{path}: {answer:?}");
        }
        let refused = get(&env, &without, &format!("{path}&addresses=true")).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (403, "missing-scope"), "{path}");
        let shown = get(&env, &with, &format!("{path}&addresses=true")).await;
        assert_eq!(shown.text.contains("ann@example.com"), path.starts_with("/v1/audit"), "{path}: {shown:?}");
    }
}

#[tokio::test]
async fn a_letter_shows_its_reason_and_that_it_cannot_be_emitted() {
    let env = ledger().await;
    let token = env.token(Some("acme"), &[TokenScope::DigestsRead, TokenScope::DigestsOperate], None).await;
    let shown = get(&env, &token, &format!("/v1/dead-letters/{LETTER}")).await.json();
    assert_eq!((&shown["id"], &shown["reason"], &shown["kept"]), (&json!(LETTER), &json!("is not JSON"), &json!(3)));
    assert!(shown["refused"].is_string(), "{shown}");
    let refused = env.ask(&token, "POST", &format!("/v1/dead-letters/{LETTER}/emit"), json!({"why": "x"})).await;
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (503, "no-answer"), "Temporal is away");
    for (body, field) in [(json!({}), "why"), (json!({"why": ""}), "why"), (json!({"why": "x", "by": "ann"}), "by")] {
        let refused = env.ask(&token, "POST", &format!("/v1/dead-letters/{LETTER}/emit"), body.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (400, "wrong-body"), "{body}");
        assert_eq!(refused.json()["errors"][0]["field"], field, "{body}");
    }
}
