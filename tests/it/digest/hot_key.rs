//! One key under pressure: thousands of concurrent signals over continue-as-new and completion.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use temporalio_client::{WorkflowDescribeOptions, WorkflowExecutionStatus};
use tidings_harness::{
    env::{Env, SIGNALS_AT_ONCE, eventually, json_events, key, malformed, settings, signal},
    relay::events_by_message,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_store::prelude::*;

const EVENTS: usize = 5_000;
/// Number of signals between two malformed ones.
const MALFORMED_EVERY: usize = 100;
/// Signals between two breaths. Under pressure without end the server gives a run no chance to continue as new, and
/// refuses its 10,001st signal; the thin client never comes near that.
const WAVE: usize = 1_000;

fn json(key: &Key, n: usize) -> String {
    format!(
        r#"{{"tenant":"{}","digest":"{}","user":"{}","event_id":"e{n}","category":"comment","occurred_at":1767225600}}"#,
        key.tenant, key.digest_type, key.user
    )
}

/// The progress of the key's latest run.
#[derive(PartialEq)]
struct Progress {
    run: String,
    events: usize,
    over: bool,
}

/// Waits until `wanted`, however long that takes, as long as the key gets on: within each minute its run has a longer history, or is
/// another one. How much a run does in a minute depends on what else the machine does.
async fn gets_on(env: &Env, key: &Key, what: &str, wanted: impl Fn(&Progress) -> bool) -> Result<()> {
    let mut before = None;
    loop {
        let further = async || {
            let now = env.workflow(key).describe(WorkflowDescribeOptions::default()).await?;
            let (run, events) = (now.run_id().to_owned(), now.history_length());
            let now = Progress { run, events, over: now.status() != WorkflowExecutionStatus::Running };
            Ok(Some(now).filter(|now| wanted(now) || before.as_ref() != Some(now)))
        };
        let now = eventually(what, Duration::from_mins(1), further).await?;
        if wanted(&now) {
            return Ok(());
        }
        before = Some(now);
    }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_events_sent_twice_each_count_once() -> Result<()> {
    let env = &Env::start(settings("after 2s", "after 1s")).await?;
    let key = &key("activity", "ann");
    for wave in (0..2 * EVENTS).step_by(WAVE) {
        let signals = (wave..wave + WAVE).map(|n| async move {
            if n % MALFORMED_EVERY == 0 {
                signal(&env.temporal, key, malformed()).await?;
            }
            let event = json(key, n % EVENTS);
            signal(&env.temporal, key, json_events([event.as_str()])).await
        });
        let run = env.run(key).await.ok();
        stream::iter(signals).buffer_unordered(SIGNALS_AT_ONCE).try_collect::<()>().await?;
        // A run that took the whole wave completes, and nothing starts the next.
        gets_on(env, key, "the next run, or none", |now| now.over || Some(&now.run) != run.as_ref()).await?;
    }
    gets_on(env, key, "the key is idle", |now| now.over).await?;

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
