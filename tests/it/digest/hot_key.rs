//! One key under pressure: thousands of concurrent signals over continue-as-new and completion.

use std::time::Duration;

use anyhow::Result;
use temporalio_client::{WorkflowDescribeOptions, WorkflowExecutionStatus};
use tidings_harness::{
    env::{Env, key, settings},
    flood::flood,
    relay::events_by_message,
    signals::{json_events, malformed},
    wait::eventually,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_store::prelude::*;

const EVENTS: usize = 5_000;
/// Number of signals between two malformed ones.
const MALFORMED_EVERY: usize = 100;

fn json(key: &Key, n: usize) -> String {
    format!(
        r#"{{"tenant":"{}","digest":"{}","user":"{}","event_id":"e{n}","category":"comment","occurred_at":1767225600}}"#,
        key.tenant, key.digest_type, key.user
    )
}

/// Waits until the key is idle, however long that takes, as long as it gets on: within each minute its run has a longer history, or is
/// another one. How much a run does in a minute depends on what else the machine does.
async fn idle(env: &Env, key: &Key) -> Result<()> {
    let mut before = None;
    loop {
        let further = async || {
            let now = env.workflow(key).describe(WorkflowDescribeOptions::default()).await?;
            let over = now.status() != WorkflowExecutionStatus::Running;
            let progress = (now.run_id().to_owned(), now.history_length());
            Ok((over || before.as_ref() != Some(&progress)).then_some((over, progress)))
        };
        let (over, progress) = eventually("the key is idle", Duration::from_mins(1), further).await?;
        if over {
            return Ok(());
        }
        before = Some(progress);
    }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_events_sent_twice_each_count_once() -> Result<()> {
    let env = &Env::start(settings("after 2s", "after 1s")).await?;
    let key = &key("activity", "ann");
    let signals = (0..2 * EVENTS).flat_map(|n| {
        let event = json_events([json(key, n % EVENTS).as_str()]);
        (n % MALFORMED_EVERY == 0).then(malformed).into_iter().chain([event])
    });
    flood(env, key, signals).await?;
    idle(env, key).await?;

    let digests = env.store.digests(key, 10_000).await?;
    let items: u64 = digests.iter().filter(|digest| digest.is_sent()).map(|digest| digest.items).sum();
    println!("{} signals, {} digests, {items} events", 2 * EVENTS + 2 * EVENTS / MALFORMED_EVERY, digests.len());
    assert_eq!(items, EVENTS as u64, "each event exactly once");
    assert!(digests.len() > 1, "no digest in between");

    let mails = env.relay.mails();
    let told = events_by_message(&mails)?;
    assert_eq!(told.len(), mails.len(), "a digest was mailed twice");
    assert_eq!(told.values().sum::<u64>(), EVENTS as u64, "the mails account for each event once");
    assert_eq!(env.count("SELECT COUNT(*) FROM dead_letters").await?, i64::try_from(2 * EVENTS / MALFORMED_EVERY)?);
    Ok(())
}
