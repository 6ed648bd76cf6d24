//! Commands over HTTP act on real digests, and are answered with their effects.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tidings_harness::{api::Api, cli_env::CliEnv, env::key, wait::eventually};
use tidings_model::Key;
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);
const SCOPES: [&str; 5] = ["events:write", "digests:read", "digests:operate", "stats:read", "audit:read"];

fn keys() -> BTreeSet<Key> {
    ["ann", "bo"].into_iter().map(|user| key("activity", user)).collect()
}

/// A worker and a gateway. Windows are open for a day.
async fn start() -> Result<(CliEnv, Api)> {
    let mut cli = CliEnv::start("after 1d").await?;
    cli.import(&keys()).await?;
    cli.start_worker()?;
    let api = Api::start(&cli, &SCOPES).await?;
    Ok((cli, api))
}

async fn ask(api: &Api, method: &str, path: &str, headers: &str, body: &Value) -> Result<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, answer) = api.request(method, path, headers, &body).await?;
    Ok((status, serde_json::from_str(&answer).context(answer)?))
}

async fn get(api: &Api, path: &str) -> Result<Value> {
    let (status, answer) = ask(api, "GET", path, "", &Value::Null).await?;
    assert_eq!(status, 200, "{path}: {answer}");
    Ok(answer)
}

/// Gives a command and expects it to be carried out.
async fn act(api: &Api, path: &str, body: Value) -> Result<Value> {
    let (status, answer) = ask(api, "POST", path, "", &body).await?;
    assert!(status == 200 || status == 201, "{path}: {status}: {answer}");
    Ok(answer)
}

/// Emits an event and waits until its window is open.
async fn collect(api: &Api, user: &str) -> Result<()> {
    let event = json!({"event_id": user, "digest": "activity", "user": user, "category": "comment",
                       "occurred_at": "2026-01-31T08:00:00Z", "payload": {"title": "Bob replied"}});
    let (status, answer) = ask(api, "POST", "/v1/events", "", &event).await?;
    assert_eq!(status, 202, "{answer}");
    reaches(api, user, "collecting").await
}

async fn reaches(api: &Api, user: &str, state: &str) -> Result<()> {
    let path = format!("/v1/digests/activity/{user}");
    let reached = async || {
        let (_, status) = ask(api, "GET", &path, "", &Value::Null).await?;
        Ok((status["state"] == state).then_some(()))
    };
    eventually(state, MINUTE, reached).await
}

async fn rows(api: &Api, path: &str) -> Result<Vec<Value>> {
    Ok(get(api, path).await?["rows"].as_array().context("no rows")?.clone())
}

/// Waits for a digest with this outcome, and returns its id.
async fn ended(api: &Api, user: &str, outcome: &str) -> Result<String> {
    let path = format!("/v1/ledger/digests?digest_type=activity&window=1h&user={user}&outcome={outcome}");
    let digest = async || Ok(rows(api, &path).await?.into_iter().next());
    let digest = eventually(outcome, MINUTE, digest).await?;
    Ok(digest["digest_id"].as_str().context("no id")?.to_owned())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_with_one_idempotency_key_acts_once() -> Result<()> {
    let (cli, api) = start().await?;
    collect(&api, "ann").await?;
    let held = ["1", "2"].map(|_| {
        let (path, header) = ("/v1/digests/activity/ann/hold", "Idempotency-Key: \"k1\"\r\n");
        async { ask(&api, "POST", path, header, &json!({"why": "wrong prices", "until": "2h"})).await }
    });
    for held in held {
        assert_eq!(held.await?, (200, json!({"events": 1, "delivering": null})));
    }
    let (path, header) = ("/v1/digests/activity/ann/hold", "Idempotency-Key: k1\r\n");
    let (status, other) = ask(&api, "POST", path, header, &json!({"why": "wrong prices", "until": "3h"})).await?;
    let refused = other["type"].as_str().is_some_and(|kind| kind.ends_with("other-content"));
    assert!(status == 409 && refused, "{other}");
    reaches(&api, "ann", "held").await?;
    let held = rows(&api, "/v1/audit?user=ann&action=hold").await?;
    assert_eq!(held.len(), 1, "{held:?}");
    assert!(held[0]["actor"].as_str().is_some_and(|actor| actor == format!("token:{}", &api.token[4..20])), "{held:?}");

    // A flush with the key of the hold is another command.
    let released = act(&api, "/v1/digests/activity/ann/release", json!({"why": "prices fixed"})).await?;
    assert_eq!((&released["held"], &released["events"]), (&json!(true), &json!(1)));
    let header = "Idempotency-Key: k1\r\n";
    let flushed = ask(&api, "POST", "/v1/digests/activity/ann/flush", header, &json!({"why": "now"})).await?;
    assert_eq!((flushed.0, &flushed.1["events"]), (200, &json!(1)));
    ended(&api, "ann", "sent").await?;
    let again = ask(&api, "POST", "/v1/digests/activity/ann/flush", header, &json!({"why": "now"})).await?;
    assert_eq!(again.0, 200, "{again:?}");
    cli.settled(&keys(), MINUTE).await?;
    assert_eq!(cli.relay.mails().len(), 1);
    assert_eq!(rows(&api, "/v1/audit?user=ann&action=flush").await?.len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_digest_is_reopened_by_its_key_once() -> Result<()> {
    let (cli, api) = start().await?;
    collect(&api, "bo").await?;
    let delete = "/v1/digests/acme%2Factivity%2Fbo?why=a%20test";
    let (status, dropped) = ask(&api, "DELETE", delete, "", &Value::Null).await?;
    assert_eq!((status, &dropped["events"]), (200, &json!(1)));
    let id = ended(&api, "bo", "dropped").await?;
    let story = get(&api, &format!("/v1/ledger/digests/{id}")).await?;
    assert_eq!(
        (&story["digest"]["key"]["user"], &story["events"]["rows"][0]["event_id"]),
        (&json!("bo"), &json!("bo"))
    );
    assert!(cli.relay.mails().is_empty());

    let reopened = act(&api, "/v1/digests/acme%2Factivity%2Fbo/reopen", json!({"why": "dropped by mistake"})).await?;
    assert_eq!(reopened["events"], 1);
    assert_eq!(ended(&api, "bo", "sent").await?, id);
    assert_eq!(cli.relay.mails().len(), 1);
    let body = json!({"why": "once more", "digest_id": id});
    let (status, refused) = ask(&api, "POST", "/v1/digests/activity/bo/reopen", "", &body).await?;
    assert_eq!((status, &refused["type"]), (409, &json!("/problems/conflict")), "{refused}");
    assert!(refused["errors"][0]["problem"].as_str().is_some_and(|why| !why.is_empty()), "{refused}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_tenant_until_its_resume() -> Result<()> {
    let (cli, api) = start().await?;
    collect(&api, "ann").await?;
    let preview = act(&api, "/v1/digests/activity/ann/preview", Value::Null).await?;
    assert_eq!((&preview["events"], &preview["not_sent_because"]), (&json!(1), &Value::Null));
    assert!(preview["text"].as_str().is_some_and(|text| text.contains("Bob replied")), "{preview}");
    let at = "2126-12-01T08:00:00Z";
    let retimed = act(&api, "/v1/digests/activity/ann/retime", json!({"why": "later", "at": at})).await?;
    assert_eq!(retimed["due_at"], at);

    let terms = json!({"filter": "digest_type=activity", "why": "wrong prices", "until": "2h"});
    let paused = act(&api, "/v1/pauses", terms).await?;
    let id = paused["pause"]["id"].as_str().context("no id")?;
    assert_eq!((&paused["pause"]["tenant"], &paused["pause"]["digest_type"]), (&json!("acme"), &json!("activity")));
    assert_eq!(rows(&api, "/v1/pauses").await?.len(), 1);
    reaches(&api, "ann", "paused").await?;
    // Visibility is a moment behind.
    let counted = async || Ok(Some(get(&api, "/v1/stats").await?).filter(|stats| stats["openDigestCount"] == 1));
    let stats = eventually("the window counts", MINUTE, counted).await?;
    assert!(stats["oldest_overdue_seconds"].is_u64(), "{stats}");
    let of_all_tenants = ["task_queues", "breakers", "inbox", "webhook_events"].map(|field| stats.get(field));
    assert_eq!(of_all_tenants, [None; 4], "{stats}");

    let resumed = act(&api, &format!("/v1/pauses/{id}/resume"), json!({"why": "prices fixed"})).await?;
    assert_eq!((&resumed["ended"]["id"], &resumed["still"]), (&json!(id), &json!([])));
    reaches(&api, "ann", "collecting").await?;
    act(&api, "/v1/digests/activity/ann/flush", json!({"why": "ticket 812"})).await?;
    ended(&api, "ann", "sent").await?;
    cli.settled(&keys(), MINUTE).await?;
    assert_eq!(cli.relay.mails().len(), 1);
    let report = rows(&api, "/v1/report?by=digest_type").await?;
    assert_eq!((&report[0]["of"], &report[0]["sent"]), (&json!("activity"), &json!(1)));
    Ok(())
}
