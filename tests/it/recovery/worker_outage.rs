//! Events arrive while no worker runs.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use tidings_harness::{
    env::{Env, event, key, settings},
    wait::wait_for_emails,
};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_opens_when_its_first_event_arrives_without_a_worker() -> Result<()> {
    let mut env = Env::without_worker(settings("after 1s", "after 1d")).await?;
    let key = key("activity", "ann");
    let before = Timestamp::now().as_millisecond();
    env.events.emit(event(&key, "e1")).await?;
    let after = Timestamp::now().as_millisecond();
    env.events.emit(event(&key, "e2")).await?;
    // Later than `after` by then: a worker that counts from its first task is seen.
    env.start_worker()?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.completed(&key).await?;

    let opened_at = env.count("SELECT opened_at FROM digests").await?;
    assert!((before..=after).contains(&opened_at), "{opened_at} is not from {before} to {after}");
    assert_eq!(env.count("SELECT due_at FROM digests").await?, opened_at + 1_000);
    assert_eq!(env.count("SELECT COUNT(*) FROM events").await?, 2);
    Ok(())
}
