//! Events that the api acknowledged survive a killed gateway and a Temporal that is away: each is in exactly one email.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tidings_harness::{api::Api, checker, cli_env::CliEnv, env::key, wait::eventually};
use tidings_model::Key;
use tidings_needs::needs;
use tokio::{process::Command, time::sleep};

const MINUTE: Duration = Duration::from_mins(1);
const USERS: [&str; 4] = ["ann", "bo", "cy", "di"];

/// The scopes of the token of these tests.
pub(crate) const SCOPES: [&str; 2] = ["events:write", "digests:read"];

/// The command with `curl` to this path in the documentation, for this gateway.
fn documented(api: &Api, path: &str) -> Result<String> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md"))?;
    let url = format!("http://localhost:8081{path} ");
    let mut blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains(&url));
    let block = block.with_context(|| format!("no command with curl to {path} in docs/http.md"))?;
    Ok(block.replace(":8081", &format!(":{}", api.port.number)).replace("$TIDINGS_TOKEN", &api.token))
}

async fn post(api: &Api, body: &str) -> Result<(u16, String)> {
    api.request("POST", "/v1/events", "", body).await
}

/// The JSON that a shell command prints.
async fn output(command: &str) -> Result<Value> {
    let output = Command::new("sh").args(["-c", command]).output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(serde_json::from_str(&said)?)
}

/// The keys of the users.
pub(crate) fn keys() -> BTreeSet<Key> {
    USERS.into_iter().map(|user| key("activity", user)).collect()
}

/// The `n`th request: an event for each user.
fn request(n: usize) -> String {
    let event = |user: &str| {
        json!({"event_id": format!("{user}-{n}"), "digest": "activity", "user": user, "category": "comment",
               "occurred_at": "2026-01-31T08:00:00Z", "payload": {"title": format!("Event {n}")}})
    };
    json!(USERS.map(event)).to_string()
}

fn acknowledged(n: usize) -> String {
    USERS.map(|user| checker::acknowledged(&key("activity", user), &format!("{user}-{n}"))).concat()
}

/// Waits until Temporal has everything that the inbox took, and every digest is sent. Then checks that each acknowledged event is in
/// exactly one email.
pub(crate) async fn accounted(cli: &CliEnv, acknowledged: &str, count: u64) -> Result<()> {
    let forwarded = async || {
        let stats: Value = serde_json::from_str(&cli.run(&["stats", "--json"]).await?)?;
        Ok((stats["inbox"]["events"] == 0).then_some(()))
    };
    eventually("the inbox is forwarded", MINUTE * 2, forwarded).await?;
    cli.settled(&keys(), MINUTE * 2).await?;
    let verdict = cli.check(acknowledged)?;
    assert_eq!(verdict.code, Some(0), "{verdict:?}");
    assert_eq!((verdict.acknowledged, verdict.events, verdict.second_mails), (count, count, 0), "{verdict:?}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_loses_no_acknowledged_event() -> Result<()> {
    const REQUESTS: usize = 60;
    let mut cli = CliEnv::start("after 2s").await?;
    cli.import(&keys()).await?;
    cli.start_worker()?;
    let mut gateway = Api::start(&cli, &SCOPES).await?;
    let mut all = String::new();
    for n in 0..REQUESTS {
        if n % 20 == 10 {
            // At any instant of a request, and of the forwarding of those before.
            let (body, moment) = (request(n), Duration::from_millis(3 * (n as u64 / 10)));
            let answer = {
                let posted = post(&gateway, &body);
                tokio::select! {
                    answer = posted => answer.ok(),
                    () = sleep(moment) => None,
                }
            };
            gateway.kill();
            drop(answer);
            gateway.restart(&cli).await?;
        }
        // A repeated event is in the inbox twice, and counts once.
        let (status, answer) = post(&gateway, &request(n)).await?;
        if status != 202 {
            bail!("{status}: {answer}");
        }
        all += &acknowledged(n);
    }
    gateway.kill();
    gateway.restart(&cli).await?;
    accounted(&cli, &all, (REQUESTS * USERS.len()) as u64).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn events_are_accepted_while_temporal_is_away_and_sent_afterwards() -> Result<()> {
    const REQUESTS: usize = 40;
    let mut cli = CliEnv::start("after 2s").await?;
    cli.import(&keys()).await?;
    let mut gateway = Api::start(&cli, &SCOPES).await?;
    let mut all = String::new();
    for n in 0..REQUESTS {
        match n {
            // Connected before, and then never.
            10 => cli.server.stop(),
            25 => {
                gateway.kill();
                gateway.restart(&cli).await?;
            }
            _ => {}
        }
        let (status, answer) = post(&gateway, &request(n)).await?;
        assert_eq!(status, 202, "{answer}");
        all += &acknowledged(n);
    }
    let (status, answer) = gateway.get("/v1/digests/activity/ann").await?;
    assert!(status == 503 && answer.contains("/problems/no-answer"), "{status}: {answer}");
    cli.server.restart().await?;
    cli.start_worker()?;
    accounted(&cli, &all, (REQUESTS * USERS.len()) as u64).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_api_says_what_is_pending_for_a_key_of_its_tenant() -> Result<()> {
    let mut cli = CliEnv::start("after 1d").await?;
    cli.import(&keys()).await?;
    cli.start_worker()?;
    let gateway = Api::start(&cli, &SCOPES).await?;
    // It listens before it knows Temporal.
    let ready = async || Ok(Some(gateway.get("/v1/digests/activity/ann").await?).filter(|(status, _)| *status != 503));
    let (status, nothing) = eventually("the gateway is ready", MINUTE, ready).await?;
    assert!(status == 404 && nothing.contains("/problems/not-found"), "{status}: {nothing}");
    let (emit, ask) = (documented(&gateway, "/v1/events")?, documented(&gateway, "/v1/digests/activity/ann")?);
    let answer = output(&emit).await?;
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(1), &json!(0)), "{answer}");
    let collecting = async || Ok(output(&ask).await.ok().filter(|answer| answer["state"] == "collecting"));
    let answer = eventually("the window is open", MINUTE, collecting).await?;
    assert_eq!(answer["pending"], 1);
    assert!(answer["due_at"].is_string() && answer["why"].as_str().is_some_and(|why| !why.is_empty()), "{answer}");
    let (status, answer) = gateway.get("/v1/digests/activity/ann?tenant=zeta").await?;
    assert_eq!(status, 404, "{answer}");

    // What was forwarded is handed over again, and changes nothing.
    assert!(cli.run(&["inbox", "replay", "--since", "1h"]).await?.starts_with("1 event "));
    let forwarded = async || {
        let stats: Value = serde_json::from_str(&cli.run(&["stats", "--json"]).await?)?;
        Ok((stats["inbox"]["events"] == 0).then_some(()))
    };
    eventually("the inbox is forwarded again", MINUTE, forwarded).await?;
    let (_, answer) = gateway.get("/v1/digests/activity/ann").await?;
    assert!(answer.contains("\"pending\":1"), "{answer}");
    Ok(())
}
