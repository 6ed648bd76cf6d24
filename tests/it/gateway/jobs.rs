//! Jobs over HTTP order many real digests, each once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tidings_harness::{api::Api, cli_env::CliEnv, env::key, wait::eventually};
use tidings_model::Key;
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);
const SCOPES: [&str; 3] = ["events:write", "digests:operate", "audit:read"];

fn users(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("user-{n:03}")).collect()
}

fn keys(tenant: &str, count: usize) -> BTreeSet<Key> {
    users(count).iter().map(|user| Key { tenant: tenant.to_owned(), ..key("activity", user) }).collect()
}

/// A worker, and a gateway with a token of `acme`. Windows are open for a day.
async fn start(known: &BTreeSet<Key>) -> Result<(CliEnv, Api)> {
    let mut cli = CliEnv::start("after 1d").await?;
    cli.import(known).await?;
    cli.start_worker()?;
    let api = Api::start(&cli, &SCOPES).await?;
    Ok((cli, api))
}

async fn token(cli: &CliEnv, tenant: &str) -> Result<String> {
    let scopes = SCOPES.iter().flat_map(|scope| ["--scope", scope]);
    let create: Vec<_> = ["tokens", "create", "--tenant", tenant].into_iter().chain(scopes).collect();
    Ok(cli.run(&create).await?.trim().to_owned())
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

/// Posts a job and returns its path.
async fn post(api: &Api, body: &Value) -> Result<String> {
    let (status, job) = ask(api, "POST", "/v1/jobs", "", body).await?;
    assert_eq!(status, 202, "{job}");
    Ok(format!("/v1/jobs/{}", job["id"].as_str().context("no id")?))
}

/// Emits an event for each user of the token's tenant, and waits until a dry run finds all keys.
async fn collect(api: &Api, users: &[String]) -> Result<()> {
    let event = |user: &String| {
        json!({"event_id": user, "digest": "activity", "user": user, "category": "comment",
               "occurred_at": "2026-01-31T08:00:00Z", "payload": {"title": "Bob replied"}})
    };
    let events = json!(users.iter().map(event).collect::<Vec<_>>());
    let (status, answer) = ask(api, "POST", "/v1/events", "", &events).await?;
    assert_eq!(status, 202, "{answer}");
    count_running(api, users.len()).await
}

/// Waits until a dry run finds this number of keys.
async fn count_running(api: &Api, keys: usize) -> Result<()> {
    eventually(&format!("visibility knows {keys} running keys"), MINUTE, async || {
        let dry_run = json!({"order": "flush", "filter": "digest_type=activity", "why": "a count", "dry_run": true});
        let job = ended(api, &post(api, &dry_run).await?).await?;
        assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(0)), "{job}");
        Ok((job["matched"] == keys).then_some(()))
    })
    .await
}

/// Waits for the end of the job.
async fn ended(api: &Api, path: &str) -> Result<Value> {
    let ended = async || Ok(Some(get(api, path).await?).filter(|job| !job["ended_at"].is_null()));
    eventually("the job ends", MINUTE * 2, ended).await
}

/// All rows of a listing, read in pages of 20.
async fn rows(api: &Api, path: &str) -> Result<Vec<Value>> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(api, &format!("{path}{}limit=20{after}", if path.contains('?') { '&' } else { '?' })).await?;
        rows.extend(page["rows"].as_array().context("no rows")?.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(rows),
        }
    }
}

/// The number of the orders that the audit trail has for each user of the tenant.
async fn audited(api: &Api, action: &str) -> Result<BTreeMap<String, usize>> {
    let mut orders = BTreeMap::new();
    for row in rows(api, &format!("/v1/audit?digest_type=activity&action={action}")).await? {
        *orders.entry(row["user"].as_str().context("no user")?.to_owned()).or_default() += 1;
    }
    Ok(orders)
}

/// Waits until the audit trail has orders for this number of users: the workflow records an order after its answer.
async fn audited_for(api: &Api, action: &str, count: usize) -> Result<BTreeMap<String, usize>> {
    let found = async || Ok(Some(audited(api, action).await?).filter(|orders| orders.len() == count));
    eventually("the orders are audited", MINUTE, found).await
}

/// Kills the gateway amid a job, and waits until the next one has ended the job.
async fn ended_by_the_next_gateway(api: &mut Api, cli: &CliEnv, path: &str) -> Result<Value> {
    let begun = async || Ok(Some(get(api, path).await?).filter(|job| job["done"].as_u64() > Some(0)));
    let begun = eventually("some keys are done", MINUTE, begun).await?;
    assert_eq!(begun["state"], "running", "{begun}");
    api.kill();
    api.restart(cli).await?;
    ended(api, path).await
}

fn once(users: &[String]) -> BTreeMap<String, usize> {
    users.iter().map(|user| (user.clone(), 1)).collect()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_by_filter_reaches_only_the_tenant_of_the_token() -> Result<()> {
    const EACH: usize = 25;
    let (of_acme, of_zeta) = (keys("acme", EACH), keys("zeta", EACH));
    let (cli, mut api) = start(&of_acme.union(&of_zeta).cloned().collect()).await?;
    let (acme, zeta) = (api.token.clone(), token(&cli, "zeta").await?);
    let users = users(EACH);
    collect(&api, &users).await?;
    api.token = zeta;
    collect(&api, &users).await?;

    let flush = json!({"order": "flush", "filter": "digest_type=activity", "why": "ticket 812"});
    let (header, before) = ("Idempotency-Key: ticket-812\r\n", get(&api, "/v1/jobs?limit=1").await?);
    let (status, job) = ask(&api, "POST", "/v1/jobs", header, &flush).await?;
    assert_eq!((status, &job["tenant"]), (202, &json!("zeta")), "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().context("no id")?);
    let done = ended(&api, &path).await?;
    assert_eq!(
        (&done["state"], &done["matched"], &done["done"], &done["failed"]),
        (&json!("done"), &json!(EACH), &json!(EACH), &json!(0)),
        "{done}"
    );
    assert_eq!(ask(&api, "POST", "/v1/jobs", header, &flush).await?, (202, done), "one key is one job");
    let latest = get(&api, "/v1/jobs?limit=1").await?;
    assert_ne!(latest["rows"][0]["id"], before["rows"][0]["id"]);

    let results = rows(&api, &format!("{path}/results")).await?;
    let of: Vec<_> = of_zeta.iter().map(|key| json!(key.to_string())).collect();
    assert_eq!(results.iter().map(|result| result["key"].clone()).collect::<Vec<_>>(), of);
    let flushed = |result: &Value| result["state"] == "done" && result["answer"]["events"] == 1;
    assert!(results.iter().all(flushed), "{results:?}");
    cli.settled(&of_zeta, MINUTE).await?;
    assert_eq!(cli.relay.mails().len(), EACH);
    assert_eq!(audited_for(&api, "flush", EACH).await?, once(&users));
    let entries = rows(&api, "/v1/audit?action=job").await?;
    assert!(entries.len() == 1 && entries[0]["action"] == "job flush", "{entries:?}");
    let by = format!("token:{}", &api.token[4..20]);
    assert!(entries[0]["actor"] == by && entries[0]["why"].as_str().is_some_and(|why| why.starts_with("ticket 812 (")));

    api.token = acme;
    assert_eq!(audited(&api, "flush").await?, BTreeMap::new());
    let (status, answer) = ask(&api, "GET", &path, "", &Value::Null).await?;
    assert_eq!((status, &answer["type"]), (404, &json!("/problems/not-found")), "{answer}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_gateway_is_killed_orders_each_key_once() -> Result<()> {
    const KEYS: usize = 100;
    let users = users(KEYS);
    let (cli, mut api) = start(&keys("acme", KEYS)).await?;
    collect(&api, &users).await?;
    let path =
        post(&api, &json!({"order": "hold", "filter": "tenant=acme", "why": "wrong prices", "until": "2h"})).await?;
    let job = ended_by_the_next_gateway(&mut api, &cli, &path).await?;
    assert_eq!(
        (&job["state"], &job["matched"], &job["done"], &job["failed"]),
        (&json!("done"), &json!(KEYS), &json!(KEYS), &json!(0)),
        "{job}"
    );
    let results = rows(&api, &format!("{path}/results")).await?;
    assert!(results.len() == KEYS && results.iter().all(|result| result["state"] == "done"), "{results:?}");
    assert_eq!(audited_for(&api, "hold", KEYS).await?, once(&users));
    Ok(())
}

/// The number of emails to each user.
fn mailed(cli: &CliEnv) -> BTreeMap<String, usize> {
    let mut emails = BTreeMap::new();
    for address in cli.relay.mails().into_iter().flat_map(|mail| mail.to) {
        *emails.entry(address.trim_end_matches("@example.test").to_owned()).or_default() += 1;
    }
    emails
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_whose_gateway_is_killed_sends_each_key_one_email() -> Result<()> {
    const KEYS: usize = 100;
    let (users, of_acme) = (users(KEYS), keys("acme", KEYS));
    let (cli, mut api) = start(&of_acme).await?;
    collect(&api, &users).await?;
    let flush = json!({"order": "flush", "filter": "digest_type=activity", "why": "ticket 812"});
    let path = post(&api, &flush).await?;
    let job = ended_by_the_next_gateway(&mut api, &cli, &path).await?;
    let results = rows(&api, &format!("{path}/results")).await?;
    let of = |state: &'static str| {
        let keys = results.iter().filter(move |result| result["state"] == state);
        keys.filter_map(|result| result["key"].as_str()?.parse::<Key>().ok()).collect::<BTreeSet<_>>()
    };
    let (mut flushed, lost) = (of("done"), of("failed"));
    assert_eq!(
        (&job["state"], &job["done"], &job["failed"]),
        (&json!("done"), &json!(flushed.len()), &json!(lost.len()))
    );
    assert_eq!(flushed.len() + lost.len(), KEYS, "{results:?}");

    // The answer of an order in flight is lost. The order itself may have come.
    cli.settled(&flushed, MINUTE).await?;
    for key in lost {
        let reached = async || {
            if cli.is_idle(&[key.clone()].into()).await? {
                return Ok(Some(true));
            }
            let (_, status) = cli.ask(&["status", &key.to_string(), "--json"]).await?;
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            Ok((status["state"] == "collecting").then_some(false))
        };
        if eventually("the key is idle, or collects still", MINUTE, reached).await? {
            flushed.insert(key);
        }
    }
    let flushed: Vec<_> = flushed.into_iter().map(|key| key.user).collect();
    assert_eq!(mailed(&cli), once(&flushed));
    assert_eq!(audited_for(&api, "flush", flushed.len()).await?, once(&flushed));

    // A second job reaches the keys that the first one did not.
    let left = KEYS - flushed.len();
    count_running(&api, left).await?;
    let job = ended(&api, &post(&api, &flush).await?).await?;
    assert_eq!((&job["done"], &job["failed"]), (&json!(left), &json!(0)), "{job}");
    cli.settled(&of_acme, MINUTE).await?;
    assert_eq!(mailed(&cli), once(&users));
    assert_eq!(audited_for(&api, "flush", KEYS).await?, once(&users));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_leaves_the_rest_and_its_drops_can_be_reopened() -> Result<()> {
    const KEYS: usize = 100;
    let of_acme = keys("acme", KEYS);
    let (cli, api) = start(&of_acme).await?;
    collect(&api, &users(KEYS)).await?;
    let path = post(&api, &json!({"order": "drop", "filter": "digest_type=activity", "why": "a test"})).await?;
    let begun = async || Ok(Some(get(&api, &path).await?).filter(|job| job["done"].as_u64() > Some(0)));
    eventually("some keys are done", MINUTE, begun).await?;
    let (status, cancelled) = ask(&api, "DELETE", &format!("{path}?why=not%20these"), "", &Value::Null).await?;
    assert_eq!((status, &cancelled["state"]), (200, &json!("cancelled")), "{cancelled}");
    // The orders in flight have their results yet to come.
    let settled = async || {
        let results = rows(&api, &format!("{path}/results")).await?;
        Ok(Some(results).filter(|results| results.iter().all(|result| result["state"] != "sent")))
    };
    let results = eventually("no order is in flight", MINUTE, settled).await?;
    let is = |state: &'static str| results.iter().filter(move |result| result["state"] == state).count();
    let dropped = is("done");
    assert!(dropped > 0 && is("left") > 0 && dropped + is("left") == KEYS, "{results:?}");
    let orders = audited_for(&api, "close", dropped).await?;
    assert!(orders.values().all(|count| *count == 1), "{orders:?}");

    let reopen = json!({"order": "reopen", "filter": "digest_type=activity", "why": "dropped by mistake"});
    let reopened = async || {
        // A digest has its end a moment after the answer of the drop.
        let counted = json!({"order": "reopen", "filter": "digest_type=activity", "why": "a count", "dry_run": true});
        Ok((ended(&api, &post(&api, &counted).await?).await?["matched"] == dropped).then_some(()))
    };
    eventually("the ledger has every dropped digest", MINUTE, reopened).await?;
    // A key that does not answer within a minute, as on a busy machine, counts as failed and may be reopened all the same.
    let all_reopened = async || {
        let job = ended(&api, &post(&api, &reopen).await?).await?;
        assert!(job["matched"].as_u64() <= Some(dropped as u64), "{job}");
        Ok((job["failed"] == 0).then_some(()))
    };
    eventually("every dropped digest is reopened", MINUTE, all_reopened).await?;
    let sent = async || Ok((cli.relay.mails().len() == dropped).then_some(()));
    eventually("the dropped digests are sent", MINUTE, sent).await
}
