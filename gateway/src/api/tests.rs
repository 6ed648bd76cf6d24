//! Every API route with every kind of token, and `POST /v1/events`. Other routes have separate files.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{StatusCode, header},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidings_answers::Document;
use tidings_mail::{dkim::TenantSigners, render::TemplateRenderer};
use tidings_model::{
    Key,
    api_token::{ApiToken, TokenRecord, TokenScope},
    inbox::InboxLimits,
    records::{AuditActor, AuditEntry, ClaimLimits},
    settings::{DigestCategories, Settings},
    window::Window,
};
use tidings_store::{Store, StoredToken};
use tower::ServiceExt as _;

use super::*;
use crate::{
    inbox::EventInbox,
    routes::tests::{over, public, settings, sqlite},
};

mod messages;
mod mistakes;
mod preferences;
mod recipients;
mod repetitions;
mod suppressions;

/// An API with its own store, without Temporal.
pub(crate) struct Env {
    pub store: Arc<dyn Store>,
    router: Router,
    _folder: tempfile::TempDir,
}

impl Env {
    pub async fn start(limits: InboxLimits) -> Self {
        let making = RenderContext {
            renderer: Arc::new(TemplateRenderer::new(None).unwrap()),
            signers: TenantSigners::default(),
        };
        Self::start_with(limits, settings(), Some(making)).await
    }

    pub async fn start_with(limits: InboxLimits, settings: Settings, making: Option<RenderContext>) -> Self {
        Self::over(|store| over(store, settings), limits, making).await
    }

    async fn over(
        state: impl FnOnce(Arc<dyn Store>) -> crate::GatewayState,
        limits: InboxLimits,
        making: Option<RenderContext>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite(folder.path()).await;
        store.migrate().await.unwrap();
        let store: Arc<dyn Store> = store;
        let state = state(store.clone());
        let inbox = EventInbox::new(store.clone(), limits);
        let making = making.map(Arc::new);
        let api = ApiState { state, task_queue: "tidings".into(), inbox, archive: None, making };
        let router = router(api, None, AdmissionLimits::default());
        Self { store, router, _folder: folder }
    }

    pub async fn token(&self, tenant: Option<&str>, scopes: &[TokenScope], expires_at: Option<Timestamp>) -> String {
        let token = ApiToken::generate().unwrap();
        let record = TokenRecord {
            id: token.id().to_owned(),
            tenant: tenant.map(str::to_owned),
            scopes: scopes.to_vec(),
            note: String::new(),
            created_at: Timestamp::now(),
            created_by: "ann".into(),
            expires_at,
            revoked_at: None,
            last_used_on: None,
        };
        let stored = StoredToken { record, hash: token.hash() };
        self.store.put_token(&stored, &entry()).await.unwrap();
        token.reveal()
    }

    /// Checks the response against the `OpenAPI` document.
    pub async fn answer(&self, request: Request) -> Answer {
        static DOCUMENT: LazyLock<Document> = LazyLock::new(|| Document::new(openapi::document()).unwrap());
        let (method, target) = (request.method().clone(), request.uri().to_string());
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = to_bytes(body, 1 << 22).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        DOCUMENT.check(method.as_str(), &target, parts.status.as_u16(), &text).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// Null sends no body.
    pub async fn ask(&self, token: &str, method: &str, path: &str, body: Value) -> Answer {
        let request = Request::builder().method(method).uri(path).header("x-request-id", "asked");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        self.answer(request.header(header::AUTHORIZATION, format!("Bearer {token}")).body(body).unwrap()).await
    }

    async fn send(&self, method: &str, path: &str, token: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        self.answer(request.body(body.into()).unwrap()).await
    }

    async fn post(&self, token: &str, body: impl Into<Body>) -> Answer {
        self.send("POST", "/v1/events", token, body).await
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn problem(&self) -> String {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json", "{self:?}");
        self.json()["type"].as_str().unwrap().trim_start_matches("/problems/").to_owned()
    }
}

pub(crate) fn entry() -> AuditEntry {
    AuditEntry { at: Timestamp::now(), actor: AuditActor::Tidings, action: "test".into(), why: "test".into() }
}

/// A valid request of tenant `acme`.
pub(crate) fn request(endpoint: Endpoint, authorization: Option<&str>) -> Request {
    let body = match endpoint {
        Endpoint::PostEvents => event("e1").to_string(),
        Endpoint::PostMessage => {
            json!({"key": "k", "to": {"user": "ann"}, "subject": "Hi", "text": "Hello"}).to_string()
        }
        Endpoint::PostJob => json!({"order": "flush", "filter": "digest_type=activity", "why": "a walk"}).to_string(),
        Endpoint::PutRecipient => json!({"address": "ann@example.net"}).to_string(),
        Endpoint::PutSuppression => json!({"reason": "complaint"}).to_string(),
        Endpoint::PutPreferences => "{}".to_owned(),
        Endpoint::PutConsent => json!({"consent": true}).to_string(),
        Endpoint::PatchRecipient => json!({"name": "Ann"}).to_string(),
        Endpoint::PostRecipients => "{\"user\":\"ann\",\"address\":\"ann@example.net\"}".to_owned(),
        _ => json!({"why": "a walk"}).to_string(),
    };
    let request = Request::builder().method(endpoint.method()).uri(format!("{}?tenant=acme", named(endpoint)));
    let request = request.header("x-request-id", "walk-1");
    let request = match authorization {
        Some(authorization) => request.header(header::AUTHORIZATION, authorization),
        None => request,
    };
    request.body(Body::from(body)).unwrap()
}

/// For ann of `acme`.
fn named(endpoint: Endpoint) -> String {
    match endpoint {
        Endpoint::ReopenByKey => return "/v1/digests/acme%2Factivity%2Fann/reopen".to_owned(),
        Endpoint::DeleteByKey => return "/v1/digests/acme%2Factivity%2Fann".to_owned(),
        _ => {}
    }
    let parameters = [
        ("{digest_type}", "activity"),
        ("{user}", "ann"),
        ("{key}", "k"),
        ("{address}", "ann@example.net"),
        ("{id}", "01234567-89ab-5def-8123-456789abcdef"),
    ];
    parameters.into_iter().fold(endpoint.path().to_owned(), |path, (name, value)| path.replace(name, value))
}

fn event(id: &str) -> Value {
    json!({"event_id": id, "tenant": "acme", "digest": "activity", "user": "ann", "category": "comment",
           "occurred_at": "2026-01-31T08:00:00Z", "payload": {"title": "Bob replied to you"}})
}

#[tokio::test]
async fn no_route_answers_without_a_valid_token_that_has_its_scope() {
    let env = Env::start(InboxLimits::default()).await;
    let past = Timestamp::now() - SignedDuration::from_secs(1);
    let expired = env.token(Some("acme"), &TokenScope::ALL, Some(past)).await;
    let unknown = ApiToken::generate().unwrap().reveal();
    for endpoint in Endpoint::ALL {
        let needed = endpoint.scope();
        let right = env.token(Some("acme"), &[needed], None).await;
        let others: Vec<_> = TokenScope::ALL.into_iter().filter(|scope| *scope != needed).collect();
        let without = env.token(Some("acme"), &others, None).await;
        // The id of a valid token with the secret of another one.
        let mixed = format!("{}{}", &right[..20], &without[20..]);
        for (authorization, status, problem, challenge) in [
            (None, 401, "no-token", "Bearer realm=\"tidings\"".to_owned()),
            (Some("Basic YTpi".to_owned()), 401, "no-token", "Bearer realm=\"tidings\"".to_owned()),
            (Some(format!("Bearer {unknown}")), 401, "wrong-token", invalid()),
            (Some(format!("Bearer {mixed}")), 401, "wrong-token", invalid()),
            (Some("Bearer hunter2".to_owned()), 401, "wrong-token", invalid()),
            (Some(format!("Bearer {expired}")), 401, "wrong-token", invalid()),
            (Some(format!("Bearer {without}")), 403, "missing-scope", insufficient(needed)),
        ] {
            let answer = env.answer(request(endpoint, authorization.as_deref())).await;
            assert_eq!(answer.status, status, "{endpoint:?} {authorization:?}");
            assert_eq!(answer.problem(), problem, "{endpoint:?} {authorization:?}");
            assert_eq!(answer.headers[header::WWW_AUTHENTICATE], challenge, "{endpoint:?}");
            assert_eq!(answer.json()["instance"], "walk-1", "{endpoint:?}");
        }
        let answer = env.answer(request(endpoint, Some(&format!("bearer {right}")))).await;
        assert!(answer.status != 401 && answer.status != 403, "{endpoint:?}: {answer:?}");
    }
    assert_eq!(env.store.inbox_depth().await.unwrap().events, 1, "only the right token stored something");
}

fn invalid() -> String {
    "Bearer realm=\"tidings\", error=\"invalid_token\"".to_owned()
}

fn insufficient(scope: TokenScope) -> String {
    format!("Bearer realm=\"tidings\", error=\"insufficient_scope\", scope=\"{scope}\"")
}

#[tokio::test]
async fn a_foreign_thing_is_answered_as_one_that_does_not_exist() {
    let env = Env::start(InboxLimits::default()).await;
    let foreign = format!("Bearer {}", env.token(Some("zeta"), &TokenScope::ALL, None).await);
    let nothing =
        Request::get("/v1/ledger/digests/01234567-89ab-5def-8123-456789abcdef").header("x-request-id", "walk-1");
    let nothing = nothing.header(header::AUTHORIZATION, &foreign).body(Body::empty()).unwrap();
    let nothing = env.answer(nothing).await;
    for endpoint in Endpoint::ALL {
        let answer = env.answer(request(endpoint, Some(&foreign))).await;
        if endpoint == Endpoint::PostEvents {
            // Each event is refused alone.
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "nothing-accepted"));
            continue;
        }
        assert_eq!((answer.status.as_u16(), &answer.text), (404, &nothing.text), "{endpoint:?}");
    }
    assert_eq!(env.store.inbox_depth().await.unwrap().events, 0);
}

#[tokio::test]
async fn every_route_of_the_api_is_unknown_to_the_public_listener() {
    let env = Env::start(InboxLimits::default()).await;
    let public = public(over(env.store.clone(), settings()));
    let token = format!("Bearer {}", env.token(None, &TokenScope::ALL, None).await);
    for endpoint in Endpoint::ALL {
        let answer = public.clone().oneshot(request(endpoint, Some(&token))).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{endpoint:?}");
    }
    for path in ["/u/token", "/webhooks/ses", "/page.css"] {
        let answer = env.answer(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "not-found"), "{path}");
    }
    let live = env.answer(Request::get("/livez").body(Body::empty()).unwrap()).await;
    assert_eq!(live.status, StatusCode::OK);
}

#[tokio::test]
async fn a_revoked_token_is_refused_within_ten_seconds() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let post = || env.post(&token, event("e1").to_string());
    assert_eq!(post().await.status, StatusCode::ACCEPTED);
    env.store.revoke_token(&token[4..20], &entry()).await.unwrap().unwrap();
    let revoked = tokio::time::Instant::now();
    let refused = loop {
        if post().await.status == StatusCode::UNAUTHORIZED {
            break revoked.elapsed();
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(refused <= std::time::Duration::from_secs(11), "{refused:?}");
}

#[tokio::test]
async fn the_day_of_a_tokens_use_is_recorded() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    env.post(&token, event("e1").to_string()).await;
    while env.store.token(&token[4..20]).await.unwrap().unwrap().record.last_used_on.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn each_event_has_a_result_and_a_wrong_one_spoils_no_other() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let all = env.post(&token, json!({"events": [event("e1"), event("e2")], "retracts": []}).to_string()).await;
    assert_eq!(all.status, StatusCode::ACCEPTED);
    let unknown_user = "is not in the directory; put the user there within seven days, or the digest is not sent";
    let warnings = json!([{"field": "user", "problem": unknown_user}]);
    let accepted = |id: &str| json!({"status": "accepted", "event_id": id, "warnings": warnings});
    let results = json!([accepted("e1"), accepted("e2")]);
    assert_eq!(all.json(), json!({"accepted": 2, "duplicates": 0, "refused": 0, "results": results}));

    let mut foreign = event("e4");
    foreign["tenant"] = json!("zeta");
    let some = env.post(&token, json!([event("e3"), foreign, event("e3")]).to_string()).await;
    assert_eq!(some.status, StatusCode::OK);
    let results = json!([
        accepted("e3"),
        {"status": "refused", "event_id": "e4", "field": "tenant", "problem": "is not the token's tenant"},
        {"status": "duplicate", "event_id": "e3"},
    ]);
    assert_eq!(some.json(), json!({"accepted": 1, "duplicates": 1, "refused": 1, "results": results}));

    let none = env.post(&token, json!([foreign]).to_string()).await;
    assert_eq!((none.status.as_u16(), none.problem().as_str()), (400, "nothing-accepted"));
    let error = json!({"index": 0, "event_id": "e4", "field": "tenant", "problem": "is not the token's tenant"});
    assert_eq!(none.json()["errors"], json!([error]));
    assert_eq!(env.store.inbox_depth().await.unwrap().events, 3);
}

#[tokio::test]
async fn a_retract_hears_what_it_reaches() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let retract = json!({"retracts": [{"digest": "activity", "user": "ann", "event_id": "e1"}]}).to_string();
    let result = async || env.post(&token, retract.clone()).await.json()["results"][0].clone();
    assert_eq!(result().await, json!({"status": "accepted", "event_id": "e1", "reached": "pending"}));

    let key = Key { tenant: "acme".into(), digest_type: "activity".into(), user: "ann".into() };
    let (digest_id, now) = (key.digest_id("run", 1), Timestamp::now());
    let window = Window { key, digest_id, opened_at: now, due_at: now };
    let event = json!({"event_id": "e1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"});
    let events = [serde_json::from_value(event).unwrap()];
    let none = BTreeSet::new();
    let limits = ClaimLimits {
        cap: None,
        slot_at: None,
        off: &none,
        seen: &none,
        categories: &DigestCategories::NONE,
        planned: None,
    };
    env.store.claim(&window, &events, &limits, now).await.unwrap();
    let waiting = result().await;
    assert_eq!((&waiting["reached"], &waiting["digest_id"]), (&json!("waiting"), &json!(digest_id)));
    assert!(waiting["claimed_at"].is_string(), "{waiting}");
}

#[tokio::test]
async fn a_request_without_readable_events_is_refused_by_its_fault() {
    let env = Env::start(InboxLimits::default()).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let request = |name: &'static str, value: &str, body: &str| {
        let request = Request::post("/v1/events").header(header::AUTHORIZATION, format!("Bearer {token}"));
        request.header(name, value.to_owned()).body(Body::from(body.to_owned())).unwrap()
    };
    let right = event("e1").to_string();
    for (name, value, body, status, problem) in [
        ("content-type", "application/json", "{", 400, "unreadable"),
        ("content-type", "text/csv", right.as_str(), 415, "unsupported-media"),
        ("content-encoding", "br", &right, 415, "unsupported-media"),
        ("content-encoding", "gzip", &right, 400, "unreadable"),
        ("content-type", "application/json", &" ".repeat((1 << 20) + 1), 413, "too-large"),
        ("idempotency-key", "\"\"", &right, 400, "wrong-parameter"),
        ("idempotency-key", "another", &right, 400, "nothing-accepted"),
    ] {
        let answer = env.answer(request(name, value, body)).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem), "{name}: {value}");
    }
    let method = Request::put("/v1/events").header(header::AUTHORIZATION, format!("Bearer {token}"));
    let answer = env.answer(method.body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (405, "wrong-method"));
    assert_eq!(env.store.inbox_depth().await.unwrap().events, 0);
}

#[tokio::test]
async fn a_full_inbox_answers_503_with_retry_after_and_stores_nothing() {
    let env = Env::start(InboxLimits { bytes: 200, ..InboxLimits::default() }).await;
    let token = env.token(Some("acme"), &[TokenScope::EventsWrite], None).await;
    let full = loop {
        let answer = env.post(&token, event("e1").to_string()).await;
        if answer.status != StatusCode::ACCEPTED {
            break answer;
        }
    };
    assert_eq!((full.status.as_u16(), full.problem().as_str()), (503, "inbox-full"));
    assert_eq!(full.headers[header::RETRY_AFTER], "5");
    let before = env.store.inbox_depth().await.unwrap();
    env.post(&token, event("e2").to_string()).await;
    assert_eq!(env.store.inbox_depth().await.unwrap(), before);
}

#[tokio::test]
async fn a_token_that_sends_too_fast_gets_429_with_a_wait() {
    let env = Env::start(InboxLimits::default()).await;
    let token = format!("Bearer {}", env.token(Some("acme"), &[TokenScope::DigestsRead], None).await);
    let refused = loop {
        let answer = env.answer(request(Endpoint::GetDigest, Some(&token))).await;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            break answer;
        }
    };
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (429, "too-fast"));
    assert_eq!(refused.headers[header::RETRY_AFTER], "1");
}

#[tokio::test]
async fn a_client_that_names_many_unknown_tokens_waits_and_known_tokens_do_not() {
    let env = Env::start(InboxLimits::default()).await;
    let known = env.token(Some("acme"), &[TokenScope::DigestsRead], None).await;
    let ask = async |token: &str| env.ask(token, "GET", "/v1/ledger/digests", Value::Null).await;
    assert_eq!(ask(&known).await.status, StatusCode::OK);
    let mut refused = None;
    for _ in 0..1_000 {
        let answer = ask(&ApiToken::generate().unwrap().reveal()).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(answer);
            break;
        }
        assert_eq!(answer.problem(), "wrong-token");
    }
    let refused = refused.unwrap();
    assert_eq!(refused.problem(), "unknown-tokens");
    assert_eq!(refused.headers[header::RETRY_AFTER], "1");
    assert_eq!(ask(&known).await.status, StatusCode::OK);
}
