//! A full disk while digests are made and sent: they are late, none is lost, and the worker logs the reason if it can.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs::{self, OpenOptions},
    time::Duration,
};

use anyhow::{Context, Result};
use tidings_harness::{
    cli_env::CliEnv,
    env::key,
    process::signal,
    relay::events_by_message,
    wait::{eventually, wait_for_emails},
};
use tidings_needs::needs;

const KEYS: usize = 40;
/// Of each key.
const EVENTS: usize = 3;
/// Enough for some digests.
const SPACE: u64 = 400 * 1024;
const MINUTE: Duration = Duration::from_mins(1);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_delays_digests_and_loses_none() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    let keys: BTreeSet<_> = (0..KEYS).map(|n| key("activity", &format!("u{n}"))).collect();
    cli.import(&keys).await?;
    let mut events = String::new();
    for (n, event) in (0..KEYS).flat_map(|n| (0..EVENTS).map(move |event| (n, event))) {
        let about = r#""digest":"activity","category":"comment","occurred_at":"2026-01-31T08:00:00Z""#;
        writeln!(events, r#"{{"tenant":"acme","user":"u{n}","event_id":"{n}-{event}",{about}}}"#)?;
    }
    let file = cli.folder.path().join("events.ndjson");
    fs::write(&file, events)?;

    cli.start_worker_with_a_disk()?;
    let says = async |words: &str| Ok(fs::read_to_string(cli.worker_log())?.contains(words).then_some(()));
    // One that cannot write when it starts ends.
    eventually("the worker runs", MINUTE, async || says("worker started").await).await?;
    cli.limit_files(Some(SPACE))?;
    let acknowledged = cli.emit(&file).await?;
    eventually("the worker says that it cannot write", MINUTE, async || says("alert=activity_failed").await).await?;
    let before = cli.relay.mails().len();
    assert!(before < KEYS, "the disk had space for all digests");

    cli.limit_files(None)?;
    cli.settled(&keys, 2 * MINUTE).await?;
    let verdict = cli.check(&acknowledged)?;
    println!("{before} mails before the disk was full; then {verdict:#?}");
    assert_eq!(verdict.code, Some(0), "the checker found violations");
    assert_eq!((verdict.events, verdict.digests), ((KEYS * EVENTS) as u64, KEYS as u64));
    // It is the same worker.
    cli.kill_worker()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_although_its_log_cannot_be_written() -> Result<()> {
    let cli = CliEnv::start("instant").await?;
    cli.import(&BTreeSet::from([key("activity", "ann")])).await?;
    let full = OpenOptions::new().write(true).open("/dev/full")?;
    let mut worker = cli.tidings().arg("worker").stderr(full).spawn()?;
    cli.run(&["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"]).await?;
    wait_for_emails(&cli.relay, 1, MINUTE).await?;

    signal(worker.id().context("it has ended by itself")?, "TERM")?;
    assert_eq!(worker.wait().await?.code(), Some(0));
    assert_eq!(events_by_message(&cli.relay.mails())?.len(), 1);
    Ok(())
}
