//! The alerts of upkeep: a missing archive, and a server without schedules.

use std::{collections::BTreeSet, fs, fs::OpenOptions, io::Write as _, time::Duration};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use tidings_harness::{
    cli_env::CliEnv,
    env::{self, event, key},
    server::DevServer,
    wait::{eventually, wait_for_emails},
};
use tidings_model::{decode::DeadLetter, step::DeadLettersInput};
use tidings_needs::needs;
use tidings_store::prelude::*;

const MINUTE: Duration = Duration::from_mins(1);

/// Waits until the worker's log has the alert.
async fn alerted(cli: &CliEnv, alert: &str) -> Result<()> {
    let alert = format!("alert={alert} ");
    let logged = async || Ok(fs::read_to_string(cli.worker_log())?.contains(&alert).then_some(()));
    eventually(&format!("the log has {alert}"), MINUTE, logged).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_cannot_be_written_raises_archive_failed() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    let mut config = OpenOptions::new().append(true).open(cli.folder.path().join("tidings.toml"))?;
    writeln!(config, "[retention]\nevents = \"1d\"\narchive = \"unmounted\"")?;
    let letter = DeadLetter {
        seq: 0,
        reason: "is not JSON".to_owned(),
        encoding: "json/plain".to_owned(),
        message_type: None,
        size: 1,
        sha256: "00".to_owned(),
        head: "ew==".to_owned(),
    };
    let workflow_id = key("activity", "ann").workflow_id();
    let old = DeadLettersInput { workflow_id, run_id: "run".to_owned(), letters: vec![letter] };
    let store = env::sqlite(cli.folder.path()).await?;
    store.put_dead_letters(&old, Timestamp::now() - SignedDuration::from_hours(48)).await?;

    cli.start_worker()?;
    alerted_by_upkeep(&cli).await?;
    let kept = env::count(cli.folder.path(), "SELECT COUNT(*) FROM dead_letters").await?;
    assert_eq!(kept, 1, "what is not archived is not deleted");
    let said = async || {
        let (_, said) = cli.ask(&["stats"]).await?;
        Ok(said.contains("retention: waits for its archive").then_some(()))
    };
    eventually("stats says so", MINUTE, said).await
}

/// Runs `tidings retention run`, which waits for the archive, until the alert is raised.
async fn alerted_by_upkeep(cli: &CliEnv) -> Result<()> {
    // The worker creates the schedule that the command starts.
    let scheduled = async || Ok(fs::read_to_string(cli.worker_log())?.contains("retention scheduled").then_some(()));
    eventually("retention is scheduled", MINUTE, scheduled).await?;
    let mut upkeep = cli.tidings();
    let _upkeep = upkeep.args(["retention", "run"]).spawn()?;
    alerted(cli, "archive_failed").await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_schedules_raises_upkeep_unscheduled_and_digests_go_out() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    cli.server = DevServer::start_set(Some("frontend.enableSchedules=false")).await?;
    let key = key("activity", "ann");
    cli.import(&BTreeSet::from([key.clone()])).await?;
    cli.start_worker()?;
    alerted(&cli, "upkeep_unscheduled").await?;
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(event(&key, "e1")).await?;
    wait_for_emails(&cli.relay, 1, MINUTE).await
}
