//! Two workers with two files: both are named, and what cannot be undone waits until they agree (rule 59).

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use tidings_harness::{cli_env::CliEnv, env::count, process::signal, wait::eventually};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

/// Waits until this number of processes has a row.
async fn seen(cli: &CliEnv, processes: i64) -> Result<()> {
    let rows = "SELECT COUNT(*) FROM processes";
    let all = async || Ok((count(cli.folder.path(), rows).await? == processes).then_some(()));
    eventually(&format!("{processes} processes are seen"), MINUTE, all).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_while_two_workers_have_other_retentions() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    seen(&cli, 1).await?;
    let config = fs::read_to_string(cli.folder.path().join("tidings.toml"))?;
    fs::write(cli.folder.path().join("old.toml"), config + "[retention]\nevents = \"1d\"\n")?;
    let mut other = cli.tidings().args(["--config", "old.toml", "worker"]).spawn()?;
    seen(&cli, 2).await?;
    let clock = "SELECT COUNT(*) FROM processes WHERE abs(json_extract(profile, '$.clock.temporal_ms')) < 60000";
    ensure!(count(cli.folder.path(), clock).await? == 2, "both have compared their clock with Temporal's");
    let (_, stats) = cli.ask(&["stats"]).await?;
    ensure!(stats.contains("retention deletes nothing") && stats.contains("[retention]"), "{stats}");
    let (code, report) = cli.ask(&["retention", "run"]).await?;
    ensure!(code == 1, "upkeep runs: {report}");
    // A worker that ends takes its row with it, and nobody waits for a minute.
    signal(other.id().unwrap_or_default(), "TERM")?;
    ensure!(other.wait().await?.success(), "the other worker ends well");
    seen(&cli, 1).await?;
    cli.run(&["retention", "run"]).await?;
    let (_, stats) = cli.ask(&["stats"]).await?;
    ensure!(!stats.contains("differ"), "{stats}");
    Ok(())
}
