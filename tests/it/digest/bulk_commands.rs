//! `tidings digest ... --filter`: the selected keys, the effect on each, and the summary.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings_client::{Client, Config};
use tidings_harness::{
    cli_env::CliEnv,
    env::{event, key},
    signals::{json_events, signal},
    wait::eventually,
};
use tidings_model::{Key, rules::spread::overdue_share};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);
const ACTIVITY_OF_ACME: &str = "tenant=acme and digest_type=activity";

/// Three keys of one tenant, one of them from a producer that sets no search attributes, and one of another tenant.
async fn started() -> Result<CliEnv> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let temporal = cli.server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    let elsewhere = Key { tenant: "zeta".to_owned(), ..key("activity", "ann") };
    for key in [key("activity", "ann"), key("activity", "bob b"), elsewhere] {
        client.emit(event(&key, "e1")).await?;
    }
    let bare = r#"{"event_id": "e1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"}"#;
    signal(&temporal, &key("activity", "bare"), json_events([bare])).await?;
    eventually("visibility knows all keys", MINUTE, async || {
        let found = dry_run(&cli, "digest_type=activity").await?;
        Ok((found.len() == 5).then_some(()))
    })
    .await?;
    Ok(cli)
}

async fn dry_run(cli: &CliEnv, words: &str) -> Result<Vec<String>> {
    let said = cli.run(&["digest", "hold", "--filter", words, "--by", "ann", "--why", "t", "--dry-run"]).await?;
    Ok(said.lines().map(str::to_owned).collect())
}

async fn told(cli: &CliEnv, command: &str, words: &str) -> Result<String> {
    let said =
        cli.run(&["digest", command, "--filter", words, "--by", "ann", "--why", "ticket 812", "--rate", "100"]).await?;
    Ok(said.trim().to_owned())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_command_reaches_exactly_the_selected_keys_and_can_be_repeated() -> Result<()> {
    let cli = started().await?;
    assert_eq!(
        dry_run(&cli, ACTIVITY_OF_ACME).await?,
        ["acme/activity/ann", "acme/activity/bare", "acme/activity/bob%20b", "3 keys; no command was sent (--dry-run)"]
    );
    assert_eq!(dry_run(&cli, "user=\"bob b\"").await?[0], "acme/activity/bob%20b");
    for (command, summary) in [
        ("hold", "3 keys: 3 done, 0 with nothing to do, 0 failed"),
        ("release", "3 keys: 3 done, 0 with nothing to do, 0 failed"),
        ("release", "3 keys: 0 done, 3 with nothing to do, 0 failed"),
        ("retime", "3 keys: 3 done, 0 with nothing to do, 0 failed"),
        ("drop", "3 keys: 3 done, 0 with nothing to do, 0 failed"),
    ] {
        assert_eq!(told(&cli, command, ACTIVITY_OF_ACME).await?, summary, "{command}");
    }
    eventually("the keys are idle", MINUTE, async || {
        let found = dry_run(&cli, "digest_type=activity").await?;
        Ok((found[0] == "zeta/activity/ann" && found.len() == 2).then_some(()))
    })
    .await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_release_spreads_many_keys_and_sends_one_at_once() -> Result<()> {
    let cli = started().await?;
    let (many, one) = (key("activity", "ann"), Key { tenant: "zeta".to_owned(), ..key("activity", "ann") });
    for words in ["tenant=acme", "tenant=zeta"] {
        told(&cli, "hold", words).await?;
        let retime = ["digest", "retime", "--filter", words, "--at", "1s", "--by", "ann", "--why", "ticket 812"];
        cli.run(&retime).await?;
    }
    let overdue = Timestamp::now() + Duration::from_secs(1);
    eventually("both are overdue", MINUTE, async || Ok((Timestamp::now() > overdue).then_some(()))).await?;

    let json = cli
        .run(&["digest", "release", "--filter", "tenant=acme", "--by", "ann", "--why", "ticket 812", "--json"])
        .await?;
    let answers = json.lines().map(serde_json::from_str).collect::<Result<Vec<serde_json::Value>, _>>()?;
    let answer = answers.iter().find(|answer| answer["key"] == many.to_string()).context("no answer")?;
    let due_at: Timestamp = answer["answer"]["due_at"].as_str().context("no time")?.parse()?;
    let share = overdue_share(&many.workflow_id(), None);
    assert!(due_at > overdue + share, "{due_at}, share {share:?}");
    let said = cli.run(&["digest", "release", &one.to_string(), "--by", "ann", "--why", "ticket 812"]).await?;
    assert!(said.contains("sending 1 event now"), "{said}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_worker_fails_the_command_and_says_why() -> Result<()> {
    let mut cli = started().await?;
    cli.kill_worker()?;
    let error = told(&cli, "hold", "tenant=zeta").await.unwrap_err().to_string();
    assert!(error.contains("exit status: 1"), "{error}");
    assert!(error.contains("failed: zeta/activity/ann does not answer; check that a worker runs"), "{error}");
    assert!(error.contains("1 key: 0 done, 0 with nothing to do, 1 failed"), "{error}");
    Ok(())
}
