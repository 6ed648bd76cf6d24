//! Jobs over HTTP without Temporal: they stay waiting.

use axum::http::header;
use serde_json::{Value, json};
use tidings_model::{api_token::TokenScope, inbox::InboxLimits};
use uuid::Uuid;

use crate::api::tests::{Answer, Env};

async fn operator(env: &Env, tenant: Option<&str>) -> String {
    env.token(tenant, &[TokenScope::DigestsOperate], None).await
}

async fn post(env: &Env, token: &str, body: Value) -> Answer {
    env.ask(token, "POST", "/v1/jobs", body).await
}

async fn get(env: &Env, token: &str, path: &str) -> Answer {
    env.ask(token, "GET", path, Value::Null).await
}

fn hold() -> Value {
    json!({"order": "hold", "filter": "digest_type=activity", "why": "wrong prices", "until": "2126-12-01T08:00:00Z"})
}

#[tokio::test]
async fn a_job_is_accepted_with_its_address_and_waits() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env, Some("acme")).await;
    let answer = post(&env, &token, hold()).await;
    let job = answer.json();
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!((answer.status.as_u16(), answer.headers[header::LOCATION].to_str().unwrap()), (202, path.as_str()));
    assert_eq!(
        (&job["order"], &job["until"], &job["filter"], &job["tenant"], &job["state"], &job["matched"]),
        (
            &json!("hold"),
            &json!("2126-12-01T08:00:00Z"),
            &json!("digest_type=activity"),
            &json!("acme"),
            &json!("waiting"),
            &Value::Null
        )
    );
    assert_eq!((&job["by"], &job["why"]), (&json!(format!("token:{}", &token[4..20])), &json!("wrong prices")));
    assert_eq!(get(&env, &token, &path).await.json(), job);
    assert_eq!(get(&env, &token, &format!("{path}/results")).await.json(), json!({"rows": []}));
}

#[tokio::test]
async fn a_wrong_job_is_refused_by_its_field() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env, Some("acme")).await;
    for (changes, field) in [
        (json!({"order": null}), "order"),
        (json!({"order": "preview"}), "order"),
        (json!({"filter": null}), "filter"),
        (json!({"where": "digest_type=activity"}), "where"),
        (json!({"filter": "tennant=acme"}), "filter"),
        (json!({"filter": "all"}), "filter"),
        (json!({"filter": "user=\"a\nb\""}), "filter"),
        (json!({"why": null}), "why"),
        (json!({"why": "x".repeat(501)}), "why"),
        (json!({"until": "yesterday"}), "until"),
        (json!({"order": "flush"}), "until"),
        (json!({"at": "2h"}), "at"),
        (json!({"may_duplicate": false}), "may_duplicate"),
        (json!({"digest_id": Uuid::nil()}), "digest_id"),
        (json!({"dry_run": "yes"}), "dry_run"),
    ] {
        let mut body = hold();
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(name)),
                value => body[name] = value.clone(),
            }
        }
        let answer = post(&env, &token, body).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "wrong-body"), "{changes}");
        assert_eq!(answer.json()["errors"][0]["field"], field, "{changes}");
    }
    assert_eq!(get(&env, &token, "/v1/jobs").await.json(), json!({"rows": []}));
}

#[tokio::test]
async fn a_filter_is_narrowed_by_the_token_and_never_widened() {
    let env = Env::start(InboxLimits::default()).await;
    let (acme, all) = (operator(&env, Some("acme")).await, operator(&env, None).await);
    let post = async |token: &str, path: &str, words: &str| {
        let body = json!({"order": "flush", "filter": words, "why": "ticket 812"});
        env.ask(token, "POST", path, body).await
    };
    for (token, path, words, tenant) in [
        (&acme, "/v1/jobs", "digest_type=activity", json!("acme")),
        (&acme, "/v1/jobs?tenant=acme", "tenant=acme and user=ann", json!("acme")),
        (&all, "/v1/jobs", "digest_type=activity", Value::Null),
        (&all, "/v1/jobs", "tenant=zeta", json!("zeta")),
        (&all, "/v1/jobs?tenant=zeta", "digest_type=activity", json!("zeta")),
    ] {
        let answer = post(token, path, words).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["tenant"]), (202, &tenant), "{path} {words}");
    }
    for (token, path, words) in [
        (&acme, "/v1/jobs", "tenant=zeta"),
        (&acme, "/v1/jobs?tenant=zeta", "digest_type=activity"),
        (&all, "/v1/jobs?tenant=zeta", "tenant=acme"),
    ] {
        let answer = post(token, path, words).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "not-found"), "{path} {words}");
    }
    let count = async |token: &str| get(&env, token, "/v1/jobs").await.json()["rows"].as_array().unwrap().len();
    assert_eq!((count(&acme).await, count(&all).await), (2, 5));
}

#[tokio::test]
async fn one_idempotency_key_of_a_token_is_one_job() {
    let env = Env::start(InboxLimits::default()).await;
    let (one, two) = (operator(&env, Some("acme")).await, operator(&env, Some("acme")).await);
    let post = async |token: &str| {
        let request = axum::extract::Request::post("/v1/jobs").header("idempotency-key", "ticket-812");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        env.answer(request.body(hold().to_string().into()).unwrap()).await
    };
    let (first, again, other) = (post(&one).await, post(&one).await, post(&two).await);
    assert_eq!((first.status.as_u16(), &first.text), (202, &again.text));
    assert_ne!(first.json()["id"], other.json()["id"]);
}

#[tokio::test]
async fn another_content_under_a_used_idempotency_key_is_refused() {
    let env = Env::start(InboxLimits::default()).await;
    let all = operator(&env, None).await;
    let post = async |path: &str, body: Value| {
        let request = axum::extract::Request::post(path).header("idempotency-key", "ticket-812");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {all}"));
        env.answer(request.body(body.to_string().into()).unwrap()).await
    };
    let drop = || json!({"order": "drop", "filter": "digest_type=activity", "why": "second"});
    assert_eq!(post("/v1/jobs", hold()).await.status, 202);
    let other = post("/v1/jobs", drop()).await;
    assert_eq!((other.status.as_u16(), other.problem().as_str()), (409, "other-content"));
    assert_eq!(post("/v1/jobs?tenant=acme", drop()).await.status, 202, "another tenant's key");
    let flush = "/v1/digests/activity/ann/flush?tenant=acme";
    for (path, body, status) in [
        (flush, json!({"why": "one"}), 503),
        (flush, json!({"why": "one"}), 503),
        (flush, json!({"why": "two"}), 409),
        ("/v1/digests/activity/ann/release?tenant=acme", json!({"why": "two"}), 503),
        ("/v1/digests/activity/bo/flush?tenant=acme", json!({"why": "two"}), 503),
    ] {
        assert_eq!(post(path, body.clone()).await.status.as_u16(), status, "{path} {body}");
    }
}

#[tokio::test]
async fn a_job_of_another_tenant_does_not_exist() {
    let env = Env::start(InboxLimits::default()).await;
    let (acme, zeta, all) =
        (operator(&env, Some("acme")).await, operator(&env, Some("zeta")).await, operator(&env, None).await);
    let of_acme = post(&env, &acme, hold()).await.json()["id"].as_str().unwrap().to_owned();
    let of_all = post(&env, &all, hold()).await.json()["id"].as_str().unwrap().to_owned();
    for (method, end) in [("GET", ""), ("GET", "/results"), ("DELETE", "")] {
        let ask = async |token: &str, id: &str| {
            let answer = env.ask(token, method, &format!("/v1/jobs/{id}{end}"), Value::Null).await;
            (answer.status.as_u16(), answer.text)
        };
        let nothing = ask(&zeta, &Uuid::nil().to_string()).await;
        assert_eq!((nothing.0, ask(&zeta, "nonsense").await), (404, nothing.clone()));
        assert_eq!(ask(&zeta, &of_acme).await, nothing, "{method} {end}");
        assert_eq!(ask(&acme, &of_all).await, nothing, "{method} {end}");
        assert_eq!(ask(&all, &of_acme).await.0, 200, "{method} {end}");
    }
}

#[tokio::test]
async fn a_cancelled_job_says_so_and_is_cancelled_once() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env, Some("acme")).await;
    let path = format!("/v1/jobs/{}", post(&env, &token, hold()).await.json()["id"].as_str().unwrap());
    let cancelled = env.ask(&token, "DELETE", &format!("{path}?why=a%20mistake"), Value::Null).await.json();
    assert_eq!(cancelled["state"], "cancelled");
    assert!(cancelled["ended_at"].is_string(), "{cancelled}");
    assert_eq!(env.ask(&token, "DELETE", &path, Value::Null).await.json(), cancelled);
}
