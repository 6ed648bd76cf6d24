//! Commands and pauses over HTTP, without Temporal.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidings_model::{
    api_token::TokenScope,
    inbox::InboxLimits,
    settings::{FormerNames, Settings},
};
use uuid::Uuid;

use crate::{
    api::{
        Endpoint, RateClass,
        tests::{Answer, Env},
    },
    routes::tests::settings,
};

const ANN: &str = "/v1/digests/activity/ann";

async fn operator(env: &Env) -> String {
    env.token(Some("acme"), &[TokenScope::DigestsOperate, TokenScope::DigestsRead], None).await
}

fn refused(answer: &Answer) -> (u16, String, String) {
    let field = answer.json()["errors"][0]["field"].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), answer.problem(), field)
}

#[tokio::test]
async fn a_command_names_its_wrong_field() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env).await;
    let long = "x".repeat(501);
    for (command, body, field) in [
        ("flush", json!({"why": ""}), "why"),
        ("flush", json!({"why": long}), "why"),
        ("hold", json!({"why": "x", "until": "yesterday"}), "until"),
        ("hold", json!({"why": "x", "until": "2001-01-01T00:00:00Z"}), "until"),
        ("retime", json!({"why": "x", "at": "-2h"}), "at"),
    ] {
        let answer = env.ask(&token, "POST", &format!("{ANN}/{command}"), body.clone()).await;
        assert_eq!(refused(&answer), (400, "wrong-body".into(), field.into()), "{command} {body}");
    }
    for (command, body) in [("release", json!({})), ("drop", json!({"why": "x", "at": "2h"})), ("reopen", json!([]))] {
        let answer = env.ask(&token, "POST", &format!("{ANN}/{command}"), body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "wrong-body"), "{command} {body}");
    }
    for command in ["flush", "hold", "release", "drop", "retime", "preview"] {
        let answer = env.ask(&token, "POST", &format!("{ANN}/{command}"), json!({"why": "ticket 812"})).await;
        let problem = answer.problem();
        assert_eq!((answer.status.as_u16(), problem.as_str()), (503, "no-answer"), "{command}: Temporal is away");
    }
}

#[tokio::test]
async fn a_token_of_all_tenants_names_the_tenant_of_a_key() {
    let env = Env::start(InboxLimits::default()).await;
    let all = env.token(None, &[TokenScope::DigestsOperate], None).await;
    let why = || json!({"why": "ticket 812"});
    let answer = env.ask(&all, "POST", &format!("{ANN}/flush"), why()).await;
    assert_eq!(refused(&answer), (400, "wrong-parameter".into(), "tenant".into()));
    let answer = env.ask(&all, "POST", &format!("{ANN}/flush?tenant=acme"), why()).await;
    assert_eq!(answer.problem(), "no-answer");
    for path in ["/v1/digests/acme%2Factivity%2Fann/reopen", "/v1/digests/activity/ann/reopen?tenant=acme"] {
        let answer = env.ask(&all, "POST", path, why()).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "not-found"), "ann has no digest");
    }
}

#[tokio::test]
async fn a_key_in_one_part_is_of_the_tokens_tenant() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env).await;
    for (path, status, problem) in [
        ("/v1/digests/acme%2Factivity%2Fann?why=x", 503, "no-answer"),
        ("/v1/digests/acme%2Factivity%2Fa%252Fb?why=x", 503, "no-answer"),
        ("/v1/digests/acme%2Factivity%2Fann", 400, "wrong-parameter"),
        ("/v1/digests/zeta%2Factivity%2Fann?why=x", 404, "not-found"),
        ("/v1/digests/ann?why=x", 404, "not-found"),
    ] {
        let answer = env.ask(&token, "DELETE", path, Value::Null).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem), "{path}");
    }
    // A user may be called reopen.
    let answer = env.ask(&token, "GET", "/v1/digests/activity/reopen", Value::Null).await;
    assert_eq!(answer.problem(), "no-answer");
    let answer = env.ask(&token, "POST", ANN, json!({"why": "x"})).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (405, "wrong-method"));
}

#[tokio::test]
async fn a_key_and_a_job_may_have_a_former_name_of_the_tokens_tenant() {
    let tenants = [("acme".to_owned(), "initech".to_owned())].into();
    let settings = Settings { names: FormerNames { tenants, ..FormerNames::default() }, ..settings() };
    let env = Env::start_with(InboxLimits::default(), settings, None).await;
    for own in ["acme", "initech"] {
        let token = env.token(Some(own), &[TokenScope::DigestsOperate], None).await;
        for (tenant, problem) in [("acme", "no-answer"), ("initech", "no-answer"), ("zeta", "not-found")] {
            let path = format!("/v1/digests/{tenant}%2Factivity%2Fann?why=x");
            let answer = env.ask(&token, "DELETE", &path, Value::Null).await;
            assert_eq!(answer.problem(), problem, "{own} {tenant}");
            let job = json!({"order": "flush", "filter": format!("tenant={tenant}"), "why": "x"});
            let answer = env.ask(&token, "POST", "/v1/jobs", job).await;
            let accepted = answer.status == StatusCode::ACCEPTED;
            assert_eq!(accepted, problem == "no-answer", "{own} {tenant}");
            assert!(!accepted || answer.json()["tenant"] == "initech");
        }
    }
}

#[tokio::test]
async fn a_pause_is_of_the_tokens_tenant_and_ends_once() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env).await;
    let foreign = env.token(Some("zeta"), &TokenScope::ALL, None).await;
    let all = env.token(None, &TokenScope::ALL, None).await;
    let terms = || json!({"filter": "digest_type=activity", "why": "wrong prices"});
    let first = env.ask(&token, "POST", "/v1/pauses", terms()).await;
    let again = env.ask(&token, "POST", "/v1/pauses", terms()).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16(), &first.text), (201, 200, &again.text));
    let pause = first.json()["pause"].clone();
    assert_eq!(
        (&pause["tenant"], &pause["digest_type"], &pause["messages"]),
        (&json!("acme"), &json!("activity"), &json!(false))
    );
    assert_eq!(pause["by"], format!("token:{}", &token[4..20]));
    let everywhere = env.ask(&all, "POST", "/v1/pauses", json!({"filter": "all", "why": "a leak"})).await;
    let everywhere = everywhere.json()["pause"]["id"].as_str().unwrap().to_owned();

    for (body, field) in [
        (json!({"filter": "user=ann", "why": "x"}), "filter"),
        (json!({"filter": "", "why": "x"}), "filter"),
        (json!({"filter": "all", "why": "x", "until": "-1h"}), "until"),
        (json!({"why": "x"}), ""),
    ] {
        let answer = env.ask(&token, "POST", "/v1/pauses", body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "wrong-body"), "{body}");
        assert!(field.is_empty() || answer.json()["errors"][0]["field"] == field, "{body}: {answer:?}");
    }
    let of_type = json!({"filter": "digest_type=activity", "why": "x", "messages": true});
    assert_eq!(refused(&env.ask(&all, "POST", "/v1/pauses", of_type).await).2, "messages");
    let other = env.ask(&token, "POST", "/v1/pauses", json!({"filter": "tenant=zeta", "why": "x"})).await;
    assert_eq!((other.status.as_u16(), other.problem().as_str()), (404, "not-found"));

    let resume = async |token: &str, id: &str| {
        env.ask(token, "POST", &format!("/v1/pauses/{id}/resume"), json!({"why": "prices fixed"})).await
    };
    let id = pause["id"].as_str().unwrap();
    let missing = resume(&token, &Uuid::nil().to_string()).await;
    for (token, id) in [(&foreign, id), (&token, everywhere.as_str())] {
        let answer = resume(token, id).await;
        assert_eq!((answer.status.as_u16(), &answer.text), (404, &missing.text));
    }
    let ended = resume(&token, id).await.json();
    assert_eq!((&ended["ended"]["id"], &ended["still"][0]["id"]), (&json!(id), &json!(everywhere)));
    assert_eq!(resume(&token, id).await.json()["ended"], Value::Null);
    let listed = env.ask(&token, "GET", "/v1/pauses", Value::Null).await.json();
    assert_eq!(listed["rows"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn a_pause_of_all_tenants_shows_no_operator_to_one() {
    let env = Env::start(InboxLimits::default()).await;
    let token = operator(&env).await;
    let all = env.token(None, &TokenScope::ALL, None).await;
    let own = json!({"filter": "digest_type=activity", "why": "wrong prices"});
    let own = env.ask(&token, "POST", "/v1/pauses", own).await.json()["pause"].clone();
    env.ask(&all, "POST", "/v1/pauses", json!({"filter": "all", "why": "incident 42", "until": "1h"})).await;
    let listed = env.ask(&token, "GET", "/v1/pauses?all=true", Value::Null).await.json();
    let rows = listed["rows"].as_array().unwrap();
    let (ours, theirs): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["tenant"] == "acme");
    assert_eq!(ours, [&own]);
    assert!(theirs[0]["by"].is_null() && theirs[0]["why"].is_null() && theirs[0]["until"].is_string(), "{listed}");
    let path = format!("/v1/pauses/{}/resume", own["id"].as_str().unwrap());
    let resumed = env.ask(&token, "POST", &path, json!({"why": "prices fixed"})).await;
    assert!(!resumed.text.contains("incident 42") && resumed.text.contains("prices fixed"), "{}", resumed.text);
    let seen = env.ask(&all, "GET", "/v1/pauses", Value::Null).await.text;
    assert!(seen.contains("incident 42"), "{seen}");
}

#[test]
fn every_command_of_an_operator_is_paced_as_one() {
    for endpoint in Endpoint::ALL.into_iter().filter(|endpoint| endpoint.scope() == TokenScope::DigestsOperate) {
        let is_question = endpoint.method() == Method::GET;
        let class = if is_question { RateClass::Reads } else { RateClass::Operate };
        assert_eq!(endpoint.class(), class, "{endpoint:?}");
    }
}
