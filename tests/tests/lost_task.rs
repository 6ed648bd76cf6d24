//! A worker dies after its activities recorded a digest and its mail, and before the server heard of it. The workflow
//! task is tried again, by another clock and with an event more: each event is in exactly one mail all the same.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use sqlx::{Connection, Executor, PgConnection};
use temporalio_client::{Client, ClientOptions, Connection as Temporal, ConnectionOptions, Url};
use tidings::registration;
use tidings_activities::store::{Postgres, Store};
use tidings_tests::{
    postgres::database,
    proxy::Proxy,
    relay::told,
    stage::{Running, Stage, activities, event, eventually, key, settings},
};
use tidings_workflows::{contract::Outcome, names};

const MINUTE: Duration = Duration::from_secs(60);

/// Whether a statement waits for our lock.
async fn waits(ledger: &mut PgConnection) -> Result<Option<()>> {
    let waiting =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let count: i64 = sqlx::query_scalar(waiting).fetch_one(ledger).await?;
    Ok((count > 0).then_some(()))
}

async fn a_task_is_lost(cadence: &str) -> Result<()> {
    let Some(url) = database().await? else { return Ok(()) };
    let store = Postgres::connect(&url).await?;
    store.migrate().await?;
    let mut stage = Stage::with_store(settings(cadence, cadence), Arc::new(store), tempfile::tempdir()?).await?;
    let key = key("activity", "ann");
    let proxy = Proxy::start(&Url::parse(&format!("http://{}", stage.server.target()))?).await?;
    let server = proxy.url(Url::parse("http://localhost")?)?;
    let connection = Temporal::connect(ConnectionOptions::new(server).build()).await?;
    let client = Client::new(connection, ClientOptions::new("default").build())?;
    let activities = activities(stage.store.clone(), &stage.relay.url(), stage.settings.clone())?;
    let doomed = Running::start(client, registration::digests(names::TASK_QUEUE, activities)?)?;

    // The claim waits until the worker is cut off from the server.
    let (mut locking, mut ledger) = (PgConnection::connect(&url).await?, PgConnection::connect(&url).await?);
    let mut holding = locking.begin().await?;
    holding.execute("LOCK TABLE events IN SHARE MODE").await?;
    stage.events.emit(event(&key, "e1")).await?;
    eventually("the claim waits", MINUTE, async || waits(&mut ledger).await).await?;
    proxy.freeze();
    holding.rollback().await?;
    eventually("the mail is in the outbox", MINUTE, async || {
        let mails: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM messages").fetch_one(&mut ledger).await?;
        Ok((mails > 0).then_some(()))
    })
    .await?;
    drop(proxy);
    // What is killed runs no code.
    std::mem::forget(doomed);

    stage.events.emit(event(&key, "e2")).await?;
    stage.start_worker()?;
    eventually("the key is idle", MINUTE, async || Ok(stage.is_idle(&key).await?.then_some(()))).await?;

    let digests = stage.store.digests(&key, 10).await?;
    let sent = digests.iter().filter(|d| d.closed.as_ref().is_some_and(|closed| closed.outcome == Outcome::Sent));
    assert_eq!(sent.map(|digest| digest.items).collect::<Vec<_>>(), [1, 1], "{digests:?}");
    assert_eq!(digests.len(), 2, "{digests:?}");
    let told = told(&stage.relay.mails())?;
    assert_eq!(told.values().sum::<u64>(), 2, "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_that_opened_claimed_and_rendered_a_window_loses_no_event() -> Result<()> {
    a_task_is_lost("instant").await.context("instant")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_that_claimed_and_rendered_a_window_loses_no_event_that_came_since() -> Result<()> {
    a_task_is_lost("after 1s").await.context("after 1s")
}
