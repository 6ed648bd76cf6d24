//! A thousand windows fall due, and events go on arriving, while PostgreSQL does not answer: how long are the histories,
//! how fast is a status query, how fast a cancel, how long does the way back take, and is anything lost? `./dev bench
//! frozen-store [WINDOWS] [SECONDS]`.

use std::{collections::BTreeMap, env, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use sqlx::{Connection, PgConnection};
use temporalio_client::{Url, WorkflowCancelOptions, WorkflowDescribeOptions};
use tidings_activities::store::Postgres;
use tidings_tests::{
    postgres::database,
    proxy::Proxy,
    relay::told,
    stage::{Stage, event, eventually, key, settings},
};
use tidings_workflows::Key;
use tokio::time::{Instant, sleep};

/// Every window is planned when the store freezes, and due soon after.
const CADENCE: &str = "after 60s";
const DUE: Duration = Duration::from_secs(60);
const QUERY_EVERY: Duration = Duration::from_millis(200);
/// Every so many queries a key is cancelled.
const CANCEL_EVERY: usize = 50;
const PATIENCE: Duration = Duration::from_secs(600);
const AT_ONCE: usize = 32;

#[tokio::main]
async fn main() -> Result<()> {
    let number = |at, default| env::args().nth(at).map_or(Ok(default), |arg| arg.parse::<u64>());
    let (windows, seconds) = (number(1, 1_000)?, number(2, 300)?);
    let url: Url = database().await?.context("set TIDINGS_TEST_DATABASE_URL")?.parse()?;
    let proxy = Proxy::start(&url).await?;
    let store = Postgres::connect(proxy.url(url.clone())?.as_str()).await?;
    store.migrate().await?;
    let mut stage = Stage::with_store(settings(CADENCE, CADENCE), Arc::new(store), tempfile::tempdir()?).await?;
    stage.start_worker()?;
    let stage = &stage;
    let keys: Vec<_> = (0..windows).map(|n| key("activity", &format!("u{n}"))).collect();

    let started = Instant::now();
    let emit = |key| async move { stage.events.emit(event(key, "e1")).await };
    stream::iter(&keys).map(emit).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    for key in &keys {
        let planned = async || Ok(stage.status(key).await?.due_at);
        eventually("the window is planned", PATIENCE, planned).await?;
    }
    ensure!(started.elapsed() < DUE, "the windows were due before all of them were planned; take fewer");
    proxy.freeze();
    println!("{windows} windows, planned after {:?}; the store is frozen", started.elapsed());
    tokio::time::sleep_until(started + DUE).await;

    let (mut queries, mut cancels, mut states) = (Vec::new(), Vec::new(), BTreeMap::<String, usize>::new());
    let (mut cancelled, mut emitted) = (0, keys.len());
    let due = Instant::now();
    for n in 0_usize.. {
        if due.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let key = &keys[(n * 7919) % keys.len()];
        let asked = Instant::now();
        *states.entry(stage.status(key).await?.state).or_default() += 1;
        queries.push(asked.elapsed());
        stage.events.emit(event(&keys[(n * 6733) % keys.len()], &format!("during-{n}"))).await?;
        emitted += 1;
        if n % CANCEL_EVERY == 0 {
            cancels.push(cancel(stage, &keys[cancelled]).await?);
            cancelled += 1;
        }
        sleep(QUERY_EVERY).await;
    }
    report("status query", &mut queries);
    report("cancel until the status says so", &mut cancels);
    println!("states seen: {states:?}");

    proxy.thaw();
    let thawed = Instant::now();
    for key in &keys {
        eventually("the key is idle", PATIENCE, async || Ok(stage.is_idle(key).await?.then_some(()))).await?;
    }
    println!("all idle {:?} after the store was back", thawed.elapsed());
    let length = |key| described(stage, key);
    let mut lengths: Vec<_> = stream::iter(&keys).map(length).buffer_unordered(AT_ONCE).try_collect().await?;
    lengths.sort_unstable();
    println!("history events of a run: median {}, most {}", lengths[lengths.len() / 2], lengths[lengths.len() - 1]);
    let mails = stage.relay.mails();
    let told = told(&mails)?;
    let mut ledger = PgConnection::connect(url.as_str()).await?;
    let ends = "SELECT COALESCE(d.outcome, 'none'), COUNT(*) FROM events e JOIN digests d USING (digest_id) GROUP BY 1";
    let ends: Vec<(String, i64)> = sqlx::query_as(ends).fetch_all(&mut ledger).await?;
    let mailed = told.values().sum::<u64>();
    println!("{emitted} events, {cancelled} keys cancelled; events by outcome {ends:?}; {} mails", mails.len());
    let of =
        |outcome: &str| ends.iter().find(|(name, _)| name == outcome).map_or(0, |(_, events)| events.unsigned_abs());
    ensure!(of("sent") + of("dropped") == emitted as u64, "an event is lost, or in a digest without an end");
    ensure!(of("sent") == mailed && told.len() == mails.len(), "a mail is missing, or there is one too many");
    Ok(())
}

async fn cancel(stage: &Stage<Postgres>, key: &Key) -> Result<Duration> {
    let asked = Instant::now();
    stage.workflow(key).cancel(WorkflowCancelOptions::default()).await?;
    let seen = async || Ok((stage.status(key).await?.state == "cancelling").then_some(()));
    eventually("the cancel is seen", PATIENCE, seen).await?;
    Ok(asked.elapsed())
}

async fn described(stage: &Stage<Postgres>, key: &Key) -> Result<usize> {
    Ok(stage.workflow(key).describe(WorkflowDescribeOptions::default()).await?.history_length())
}

fn report(what: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 100).or(took.last()).copied().unwrap_or_default();
    println!("{what}: {} times, median {:?}, p99 {:?}, most {:?}", took.len(), at(50), at(99), at(100));
}
