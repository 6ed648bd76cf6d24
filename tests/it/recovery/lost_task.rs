//! A worker dies after its activities recorded a digest and its mail, and before the server heard of it. The workflow
//! task is tried again, by another clock and with an event more: each event is in exactly one mail all the same.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use sqlx::{Connection, Executor, PgConnection};
use tidings_client::v1;
use tidings_harness::{
    env::{Env, event, key, settings},
    postgres::{database, waits},
    proxy::Network,
    relay::events_by_message,
    wait::eventually,
};
use tidings_model::{
    records::{AuditEntry, Preferences},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::{PostgresStore, prelude::*};

const MINUTE: Duration = Duration::from_mins(1);

/// A story of a task that is lost.
struct Lost {
    cadence: &'static str,
    /// Of the event that the task is about. The recipient turned `share` off.
    category: &'static str,
    /// The state of the ledger after the task's activities, and the query that finds it.
    written: (&'static str, &'static str),
    /// Events in each mail, in the end.
    mails: &'static [u64],
}

const A_MAIL: (&str, &str) = ("the mail is in the outbox", "SELECT COUNT(*) FROM messages");
const AN_END: (&str, &str) =
    ("the window has its end", "SELECT COUNT(*) FROM digests WHERE claimed_at IS NOT NULL AND outcome = 'skipped'");

async fn a_task_is_lost(Lost { cadence, category, written, mails }: Lost) -> Result<()> {
    let url = database().await?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    let mut env = Env::with_store(settings(cadence, cadence), Arc::new(store), tempfile::tempdir()?).await?;
    let key = key("activity", "ann");
    let preferences = Preferences { off: BTreeSet::from(["share".to_owned()]), ..Preferences::default() };
    let entry =
        AuditEntry { at: Timestamp::now(), actor: "ann".into(), action: "preferences".into(), why: "test".into() };
    env.store.put_preferences(&key, &preferences, None, &entry).await?;
    let (proxy, doomed) = env.worker_behind_a_proxy().await?;

    // The claim waits until the worker is cut off from the server.
    let (mut locking, mut ledger) = (PgConnection::connect(&url).await?, PgConnection::connect(&url).await?);
    let mut holding = locking.begin().await?;
    holding.execute("LOCK TABLE events IN SHARE MODE").await?;
    env.events.emit(v1::Event { category: category.to_owned(), ..event(&key, "e1") }).await?;
    eventually("the claim waits", MINUTE, async || waits(&mut ledger).await).await?;
    proxy.set(Network::Frozen);
    holding.rollback().await?;
    eventually(written.0, MINUTE, async || {
        let written: i64 = sqlx::query_scalar(written.1).fetch_one(&mut ledger).await?;
        Ok((written > 0).then_some(()))
    })
    .await?;
    drop(proxy);
    // What is killed runs no code.
    std::mem::forget(doomed);

    env.events.emit(event(&key, "e2")).await?;
    env.start_worker()?;
    env.wait_until_idle(&key, MINUTE).await?;

    let digests = env.store.digests(&key, 10).await?;
    let sent = digests.iter().filter(|d| d.closed.as_ref().is_some_and(|closed| closed.outcome == DigestOutcome::Sent));
    assert_eq!(sent.map(|digest| digest.items).collect::<Vec<_>>(), mails, "{digests:?}");
    assert!(digests.iter().all(|digest| digest.closed.is_some()), "{digests:?}");
    assert_eq!(digests.iter().map(|digest| digest.items).sum::<u64>(), 2, "{digests:?}");
    let told = events_by_message(&env.relay.mails())?;
    assert_eq!(told.values().sum::<u64>(), mails.iter().sum::<u64>(), "{told:?}");
    Ok(())
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_that_opened_and_rendered_a_window_loses_no_event() -> Result<()> {
    a_task_is_lost(Lost { cadence: "instant", category: "comment", written: A_MAIL, mails: &[1, 1] }).await
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_that_rendered_a_window_loses_no_later_event() -> Result<()> {
    a_task_is_lost(Lost { cadence: "after 1s", category: "comment", written: A_MAIL, mails: &[1, 1] }).await
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_that_skipped_a_window_loses_no_later_event() -> Result<()> {
    a_task_is_lost(Lost { cadence: "instant", category: "share", written: AN_END, mails: &[1] }).await
}
