//! The disk is full while digests are made and sent: they are late, none is lost, and the worker says why, if it can.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs::{self, OpenOptions},
    time::Duration,
};

use anyhow::{Context, Result};
use tidings_harness::{
    outside::Outside,
    process::signal,
    relay::told,
    stage::{eventually, key, mails},
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
    let mut outside = Outside::start("after 1s").await?;
    let keys: BTreeSet<_> = (0..KEYS).map(|n| key("activity", &format!("u{n}"))).collect();
    outside.import(&keys).await?;
    let mut events = String::new();
    for (n, event) in (0..KEYS).flat_map(|n| (0..EVENTS).map(move |event| (n, event))) {
        let about = r#""digest":"activity","category":"comment","occurred_at":"2026-01-31T08:00:00Z""#;
        writeln!(events, r#"{{"tenant":"acme","user":"u{n}","event_id":"{n}-{event}",{about}}}"#)?;
    }
    let file = outside.folder.path().join("events.ndjson");
    fs::write(&file, events)?;

    outside.start_worker_with_a_disk()?;
    outside.limit_files(Some(SPACE))?;
    let acknowledged = outside.emit(&file).await?;
    let said = async || Ok(fs::read_to_string(outside.worker_log())?.contains("activity_failed").then_some(()));
    eventually("the worker says that it cannot write", MINUTE, said).await?;
    let before = outside.relay.mails().len();
    assert!(before < KEYS, "the disk had space for all digests");

    outside.limit_files(None)?;
    outside.settled(&keys, 2 * MINUTE).await?;
    let verdict = outside.check(&acknowledged)?;
    println!("{before} mails before the disk was full; then {verdict:#?}");
    assert_eq!(verdict.code, Some(0), "the checker found violations");
    assert_eq!((verdict.events, verdict.digests), ((KEYS * EVENTS) as u64, KEYS as u64));
    // It is the same worker.
    outside.kill_worker()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_although_its_log_cannot_be_written() -> Result<()> {
    let outside = Outside::start("instant").await?;
    outside.import(&BTreeSet::from([key("activity", "ann")])).await?;
    let full = OpenOptions::new().write(true).open("/dev/full")?;
    let mut worker = outside.tidings().arg("worker").stderr(full).spawn()?;
    outside
        .run(&["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"])
        .await?;
    mails(&outside.relay, 1, MINUTE).await?;

    signal(worker.id().context("it has ended by itself")?, "TERM")?;
    assert_eq!(worker.wait().await?.code(), Some(0));
    assert_eq!(told(&outside.relay.mails())?.len(), 1);
    Ok(())
}
