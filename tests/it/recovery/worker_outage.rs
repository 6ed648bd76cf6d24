//! Events arrive while no worker runs.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use tidings_harness::stage::{Stage, event, key, mails, settings};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_opens_when_its_first_event_arrives_without_a_worker() -> Result<()> {
    let mut stage = Stage::without_worker(settings("after 1s", "after 1d")).await?;
    let key = key("activity", "ann");
    let before = Timestamp::now().as_millisecond();
    stage.events.emit(event(&key, "e1")).await?;
    let after = Timestamp::now().as_millisecond();
    stage.events.emit(event(&key, "e2")).await?;
    // Later than `after` by then: a worker that counts from its first task is seen.
    stage.start_worker()?;
    mails(&stage.relay, 1, MINUTE).await?;
    stage.completed(&key).await?;

    let opened_at = stage.count("SELECT opened_at FROM digests").await?;
    assert!((before..=after).contains(&opened_at), "{opened_at} is not from {before} to {after}");
    assert_eq!(stage.count("SELECT due_at FROM digests").await?, opened_at + 1_000);
    assert_eq!(stage.count("SELECT COUNT(*) FROM events").await?, 2);
    Ok(())
}
