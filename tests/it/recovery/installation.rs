//! One Temporal namespace belongs to one installation. Another one is refused before it changes anything (rule 50).

use std::{fs, path::Path, process::Output, time::Duration};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tidings_harness::{
    cli_env::{CliEnv, binary, command},
    env::{count, key, sqlite_url},
    wait::eventually,
};
use tidings_needs::needs;

/// Workers are gone after a minute.
const GONE: Duration = Duration::from_mins(2);

/// Runs `tidings` in another folder with its own database, for the same namespace.
async fn other(cli: &CliEnv, folder: &Path, words: &str) -> Result<Output> {
    Ok(command(&binary()?, folder, &cli.server.target()).args(words.split(' ')).output().await?)
}

/// A folder with a configuration of its own, and without a database.
fn folder(cli: &CliEnv) -> Result<TempDir> {
    let folder = TempDir::new()?;
    let config = fs::read_to_string(cli.folder.path().join("tidings.toml"))?;
    let (old, new) = (sqlite_url(cli.folder.path()), sqlite_url(folder.path()));
    fs::write(folder.path().join("tidings.toml"), config.replace(&old, &new))?;
    Ok(folder)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

const EMIT: &str = "emit --tenant acme --user ann --digest activity --category comment";

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn another_installation_is_refused_until_it_adopts_the_namespace() -> Result<()> {
    let cli = CliEnv::start("after 1h").await?;
    let staging = folder(&cli)?;
    for words in ["migrate", EMIT, "flush acme/activity/ann", "worker", "stats"] {
        let output = other(&cli, staging.path(), words).await?;
        let said = said(&output);
        // The first of them makes the tables, and the database an identity.
        ensure!(output.status.code() == Some(1), "{words}: {said}");
        ensure!(
            said.contains("belongs to another installation") && said.contains("--adopt-namespace"),
            "{words}: {said}"
        );
    }
    ensure!(cli.run(&["status", "acme/activity/ann"]).await?.contains("nothing pending"), "nothing was changed");
    // A second `migrate` of the owner changes nothing.
    cli.run(&["migrate"]).await?;
    let adopted = other(&cli, staging.path(), "migrate --adopt-namespace").await?;
    ensure!(adopted.status.success(), "{}", said(&adopted));
    ensure!(other(&cli, staging.path(), EMIT).await?.status.success());
    let (code, _) = cli.ask(&EMIT.split(' ').collect::<Vec<_>>()).await?;
    ensure!(code == 1, "the first one has lost its namespace");
    // A producer without a database is not asked.
    let producer = folder(&cli)?;
    let output = other(&cli, producer.path(), EMIT).await?;
    ensure!(output.status.success(), "{}", said(&output));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_waits_while_workers_of_the_first_are_seen() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.import(&[key("activity", "ann")].into()).await?;
    cli.start_worker()?;
    let beats = "SELECT COUNT(*) FROM installation WHERE beat <> before_beat";
    let beating = async || Ok((count(cli.folder.path(), beats).await? == 1).then_some(()));
    eventually("the worker shows that it is at work", GONE, beating).await?;
    let copy = folder(&cli)?;
    let into = format!("VACUUM INTO '{}'", tidings_harness::env::sqlite_file(copy.path()).display());
    sqlx::query(sqlx::AssertSqlSafe(into)).execute(&mut tidings_harness::env::ledger(cli.folder.path()).await?).await?;
    for words in [EMIT, "flush acme/activity/ann"] {
        let output = other(&cli, copy.path(), words).await?;
        ensure!(
            output.status.code() == Some(1) && said(&output).contains("the database is a copy"),
            "{}",
            said(&output)
        );
    }
    let output = other(&cli, copy.path(), "migrate --adopt-namespace").await?;
    ensure!(said(&output).contains("stop them first"), "{}", said(&output));
    cli.kill_worker()?;
    let goes_on = async || Ok(other(&cli, copy.path(), EMIT).await?.status.success().then_some(()));
    eventually("the copy goes on without a command", GONE, goes_on).await
}
