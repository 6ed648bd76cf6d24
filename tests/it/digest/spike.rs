//! A hundred thousand events for one key in one window: one mail, and neither the worker nor a history grows with them.

use std::{collections::BTreeSet, fmt::Write, fs, time::Duration};

use anyhow::Result;
use tidings_harness::{cli_env::CliEnv, wait::eventually};
use tidings_model::Key;
use tidings_needs::needs;

const EVENTS: u64 = 100_000;
/// The budget of a worker, in bytes.
const MEMORY: u64 = 256 * 1024 * 1024;
/// The budget of a run's history.
const HISTORY: i64 = 10_000;

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_events_in_one_window_are_one_email() -> Result<()> {
    let key = Key::new("acme".to_owned(), "activity".to_owned(), "ann".to_owned())?;
    let keys = BTreeSet::from([key.clone()]);
    let mut cli = CliEnv::start("after 1d").await?;
    cli.import(&keys).await?;
    cli.start_worker()?;

    let mut lines = String::new();
    for n in 0..EVENTS {
        writeln!(
            lines,
            r#"{{"tenant":"acme","digest":"activity","user":"ann","event_id":"e{n}","category":"comment","entity_type":"page","entity_id":"p{}","occurred_at":1767225600,"counts":{{"words":{n}}}}}"#,
            n % 997
        )?;
    }
    let events = cli.folder.path().join("events.ndjson");
    fs::write(&events, lines)?;
    let acknowledged = cli.emit(&events).await?;
    cli.flush(&key).await?;
    cli.settled(&keys, Duration::from_mins(2)).await?;

    let verdict = cli.check(&acknowledged)?;
    println!("{verdict:#?}");
    assert_eq!(verdict.code, Some(0), "the checker found violations");
    assert_eq!((verdict.acknowledged, verdict.mails, verdict.second_mails), (EVENTS, 1, 0));

    let memory = cli.worker_peak_memory()?;
    let lengths = eventually("every run is listed as closed", Duration::from_secs(30), async || {
        let lengths = cli.history_lengths(&key).await?;
        Ok((!lengths.is_empty() && lengths.iter().all(|length| *length > 0)).then_some(lengths))
    })
    .await?;
    println!("the worker had {} MiB at most; events of each run's history: {lengths:?}", memory >> 20);
    assert!(memory < MEMORY, "the worker had {memory} bytes");
    assert!(lengths.iter().all(|length| *length < HISTORY), "{lengths:?}");
    Ok(())
}
