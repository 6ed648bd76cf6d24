//! An unresponsive database while events arrive, windows fall due and an operator cancels: everything is late, and
//! nothing is lost.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use sqlx::{Connection, PgConnection};
use temporalio_client::{WorkflowCancelOptions, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::history::v1::{HistoryEvent, history_event::Attributes};
use tidings_harness::{
    env::{Env, event, key, settings},
    flood::flood,
    postgres::database,
    proxy::{Network, Proxy},
    relay::events_by_message,
    signals::json_events,
    wait::eventually,
};
use tidings_model::{Key, window::DigestOutcome};
use tidings_needs::needs;
use tidings_store::{PostgresStore, Store, prelude::*};
use tidings_workflows::DigestStage;

const KEYS: usize = 100;
/// Signals to one key while the store is away: more than a run takes, and more bytes than it may carry on.
const FLOOD: usize = 1_200;
const SOON: Duration = Duration::from_mins(1);

/// A flood's event: a kilobyte, so that a thousand of them are too much for the next run's start argument.
fn bulky(key: &Key, n: usize) -> String {
    format!(
        r#"{{"event_id":"flood-{n}","category":"comment","entity_type":"page","entity_id":"p{}","occurred_at":1767225600,
            "payload":{{"tenant":"{}","excerpt":"{}"}}}}"#,
        n % 7,
        key.tenant,
        "x".repeat(1024)
    )
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_outage_delays_digests_and_loses_none() -> Result<()> {
    let url = database().await?;
    let url = url.parse()?;
    let proxy = Proxy::start(&url).await?;
    let store = PostgresStore::connect(proxy.url(url.clone())?.as_str()).await?;
    store.migrate().await?;
    let mut env = Env::with_store(settings("after 3s", "after 1h"), Arc::new(store), tempfile::tempdir()?).await?;
    env.start_worker()?;
    let env = &env;
    let keys: Vec<_> = (0..KEYS).map(|n| key("activity", &format!("u{n}"))).collect();
    let flooded = key("activity", "flooded");
    let cancelled = key("alerts", "cancelled");
    let emit = async |event_id: &str| -> Result<()> {
        try_join_all(keys.iter().map(|key| env.events.emit(event(key, event_id)))).await?;
        Ok(())
    };

    emit("before").await?;
    env.events.emit(event(&cancelled, "before")).await?;
    collecting(env, &cancelled).await?;
    // At once: a window that is due before the network freezes has a delivery, and its run waits for the end of its attempt.
    env.events.emit(event(&flooded, "before")).await?;
    proxy.set(Network::Frozen);
    emit("during").await?;

    // A run that cannot stash goes on as a new one, with a pointer to what it leaves behind.
    let first_run = env.run(&flooded).await?;
    flood(env, &flooded, (0..FLOOD).map(|n| json_events([bulky(&flooded, n).as_str()]))).await?;
    eventually("the flooded run continues as new", SOON, async || {
        Ok((env.run(&flooded).await? != first_run).then_some(()))
    })
    .await?;
    let carried = started_with(&env.history(&flooded).await?);
    assert!(carried < 64 * 1024, "the next run was handed {carried} bytes");
    let status = env.status(&flooded).await?;
    let events = status.pending + status.uncompared;
    assert!(events > FLOOD as u64 / 2, "the next run has forgotten events: {status:?}");
    assert!(events <= FLOOD as u64 + 1, "the next run counts events twice: {status:?}");

    // The run sees the cancel at once and ends when the ledger can be written.
    env.workflow(&cancelled).cancel(WorkflowCancelOptions::default()).await?;
    eventually("the cancel is under way", SOON, async || {
        Ok((env.status(&cancelled).await?.state == DigestStage::Cancelling).then_some(()))
    })
    .await?;

    proxy.set(Network::Whole);
    for key in keys.iter().chain([&flooded, &cancelled]) {
        eventually("every key is idle", 3 * SOON, async || Ok(env.is_idle(key).await?.then_some(())))
            .await
            .with_context(|| key.to_string())?;
    }
    assert_eq!(env.run_status(&cancelled).await?, WorkflowExecutionStatus::Canceled);
    let dropped = env.store.digests(&cancelled, 10).await?;
    assert!(
        matches!(&dropped[..], [d] if d.items == 1 && d.closed.as_ref().is_some_and(|c| c.outcome == DigestOutcome::Dropped))
    );

    let longest = try_join_all(keys.iter().map(async |key| env.history(key).await.map(|events| events.len()))).await?;
    println!("history events of a run: {:?} at most", longest.iter().max());
    assert!(longest.iter().all(|length| *length < 100), "the outage has grown a history: {longest:?}");

    let sent = 2 * KEYS + 1 + FLOOD;
    let mails = env.relay.mails();
    let told = events_by_message(&mails)?;
    println!("{} mails of {} digests tell of {sent} events", mails.len(), told.len());
    assert_eq!(told.len(), mails.len(), "a digest was mailed twice");
    assert_eq!(told.values().sum::<u64>(), sent as u64);
    let mut ledger = PgConnection::connect(url.as_str()).await?;
    let recorded: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM events").fetch_one(&mut ledger).await?;
    assert_eq!(recorded, i64::try_from(sent)? + 1);
    Ok(())
}

/// Bytes of a run's start argument.
fn started_with(history: &[HistoryEvent]) -> usize {
    let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) =
        history.first().and_then(|event| event.attributes.as_ref())
    else {
        panic!("a history starts with the start");
    };
    started.input.iter().flat_map(|input| &input.payloads).map(|payload| payload.data.len()).sum()
}

async fn collecting<S: Store>(env: &Env<S>, key: &Key) -> Result<()> {
    eventually("collecting", SOON, async || Ok((env.status(key).await?.state == DigestStage::Collecting).then_some(())))
        .await
}
