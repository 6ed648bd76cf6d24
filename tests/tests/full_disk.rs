//! The disk is full while digests are made and sent: they are late, none is lost, and the worker says why.

use std::{collections::BTreeSet, fmt::Write as _, fs, time::Duration};

use anyhow::Result;
use tidings_tests::{
    outside::Outside,
    stage::{eventually, key},
};

const KEYS: usize = 40;
/// Enough for some digests, and for a log in which the rest is told.
const SPACE: u64 = 400 * 1024;
const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_delays_digests_and_loses_none() -> Result<()> {
    let mut outside = Outside::start("after 1s").await?;
    let keys: BTreeSet<_> = (0..KEYS).map(|n| key("activity", &format!("u{n}"))).collect();
    outside.import(&keys).await?;
    let mut events = String::new();
    for n in 0..KEYS {
        for event in 0..3 {
            writeln!(
                events,
                r#"{{"tenant":"acme","digest":"activity","user":"u{n}","event_id":"{n}-{event}","category":"comment","occurred_at":"2026-01-31T08:00:00Z"}}"#
            )?;
        }
    }
    let file = outside.folder.path().join("events.ndjson");
    fs::write(&file, events)?;

    outside.start_worker_with_a_disk()?;
    outside.limit_files(Some(SPACE))?;
    let acknowledged = outside.emit(&file).await?;
    let failed =
        async || Ok(fs::read_to_string(outside.worker_log())?.contains("alert=\"activity_failed\"").then_some(()));
    eventually("the worker says that it cannot write", MINUTE, failed).await?;
    // The log, too.
    outside.limit_files(Some(1))?;
    let (mails, log) = (outside.relay.mails().len(), fs::metadata(outside.worker_log())?.len());
    assert!(mails < KEYS, "the disk had space for all digests");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fs::metadata(outside.worker_log())?.len(), log);

    outside.limit_files(None)?;
    outside.settled(&keys, 2 * MINUTE).await?;
    let verdict = outside.check(&acknowledged)?;
    println!("{mails} mails before the disk was full; then {verdict:#?}");
    assert_eq!(verdict.code, Some(0), "the checker found violations");
    assert_eq!((verdict.events, verdict.digests), (3 * KEYS as u64, KEYS as u64));
    // The same worker sent them.
    outside.kill_worker()
}
