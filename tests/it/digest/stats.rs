//! `tidings stats` shows what is late, also while no worker runs.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tidings_harness::{cli_env::CliEnv, env::key, wait::eventually};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);
const CHECK: [&str; 4] = ["stats", "--overdue-after", "1s", "--json"];

/// The keys that wait for a worker of digests, from the answer in JSON.
fn backlog(answer: &Value) -> Option<&Value> {
    let queues = answer["task_queues"].as_array()?;
    queues.iter().find(|queue| queue["name"] == "tidings" && queue["kind"] == "workflow")
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_due_window_without_a_worker_is_overdue_with_age_and_backlog() -> Result<()> {
    let mut cli = CliEnv::start("instant").await?;
    cli.import(&[key("activity", "ann")].into()).await?;
    let (code, text) = cli.ask(&CHECK).await?;
    assert_eq!(code, 0, "{text}");
    // An instant window is due when its event arrives.
    cli.run(&["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"]).await?;
    let late = async || {
        let (code, text) = cli.ask(&CHECK).await?;
        Ok((code == 3).then_some(text))
    };
    let text = eventually("the window is overdue by more than a second", MINUTE, late).await?;
    let answer: Value = serde_json::from_str(&text)?;
    let waiting = backlog(&answer).context("no task queue of digests")?;
    assert_eq!((&waiting["backlog"], &waiting["pollers"]), (&1.into(), &0.into()), "{text}");
    let age = waiting["backlog_seconds"].as_f64().context("no age")?;
    let oldest = answer["oldest_overdue_seconds"].as_u64().context("no age of the oldest")?;
    assert!(age > 1.0 && oldest > 1, "{text}");
    // The ledger does not know the window yet.
    assert_eq!((&answer["openDigestCount"], &answer["undelivered_digest_count"]), (&1.into(), &0.into()), "{text}");
    let (code, words) = cli.ask(&["stats", "--overdue-after", "1s"]).await?;
    assert!(code == 3 && words.contains("overdue"), "{words}");

    cli.start_worker()?;
    let delivered = async || {
        let (code, text) = cli.ask(&CHECK).await?;
        let answer: Value = serde_json::from_str(&text)?;
        Ok((code == 0 && answer["ended"][0]["outcome"] == "sent").then_some(()))
    };
    eventually("the digest is sent and nothing is overdue", MINUTE, delivered).await
}
