//! Measures histories, status queries, cancels and the way back when a thousand windows fall due and events arrive
//! while PostgreSQL does not answer. Also checks that no event is lost.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use sqlx::{Connection, PgConnection};
use temporalio_client::{Url, WorkflowCancelOptions, WorkflowDescribeOptions};
use tidings_harness::{
    env::{Env, event, key, settings},
    postgres::database,
    proxy::{Network, Proxy},
    relay::events_by_message,
    wait::eventually,
};
use tidings_model::Key;
use tidings_store::PostgresStore;
use tidings_workflows::DigestStage;
use tokio::time::{Instant, sleep};

use crate::{
    figure::{Figure, Target, count, median, percentile},
    rounds::Rounds,
};

/// A cadence whose windows are planned when the store freezes, and are due soon after.
const CADENCE: &str = "after 60s";
const DUE: Duration = Duration::from_mins(1);
const QUERY_EVERY: Duration = Duration::from_millis(200);
/// Number of queries between two cancels.
const CANCEL_EVERY: usize = 50;
const PATIENCE: Duration = Duration::from_mins(10);
const AT_ONCE: usize = 32;

/// Windows that are due while the store is frozen; compared with the same windows before
#[derive(Args)]
pub struct FrozenStore {
    #[arg(long, default_value_t = 1_000)]
    windows: usize,
    /// Time for which the store stays frozen after the windows are due, in seconds
    #[arg(long, default_value_t = 300)]
    seconds: u64,
}

impl FrozenStore {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let ours = |what: &str| Figure::new(what, "ms").against("before the store froze");
        let mut query = ours("a status query, median");
        let mut slow = ours("a status query, p99");
        let mut cancel = Figure::new("a cancel until the status says so, longest", "ms");
        let mut back = Figure::new("all are idle after the store is back", "s");
        let mut history = Figure::new("the longest history of a run", "events").target(Target::AtMost(10_000.0));
        for round in 0..rounds.count {
            let Measured { before, queries, cancels, seconds, longest } = self.round(rounds, round).await?;
            query.push_both(median(&queries), median(&before));
            slow.push_both(percentile(&queries, 99), percentile(&before, 99));
            cancel.push(percentile(&cancels, 100));
            back.push(seconds);
            history.push(count(longest));
        }
        Ok(vec![query, slow, cancel, back, history])
    }

    async fn round(&self, rounds: &Rounds, round: usize) -> Result<Measured> {
        let url: Url = database().await?.parse()?;
        let proxy = Proxy::start(&url).await?;
        let store = PostgresStore::connect(proxy.url(url.clone())?.as_str()).await?;
        store.migrate().await?;
        let mut env = Env::with_store(settings(CADENCE, CADENCE), Arc::new(store), tempfile::tempdir()?).await?;
        env.start_worker()?;
        let env = &env;
        let keys: Vec<_> = (0..self.windows).map(|n| key("activity", &format!("u{n}"))).collect();

        let started = Instant::now();
        rounds.say(round, "windows open");
        let emit = |key| async move { env.events.emit(event(key, "e1")).await };
        stream::iter(&keys).map(emit).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
        for key in &keys {
            let planned = async || Ok(env.status(key).await?.due_at);
            eventually("the window is planned", PATIENCE, planned).await?;
        }
        let mut before = Vec::new();
        for key in keys.iter().step_by(10) {
            let asked = Instant::now();
            env.status(key).await?;
            before.push(milliseconds(asked));
        }
        ensure!(started.elapsed() < DUE, "the windows were due before all of them were planned; take fewer");
        proxy.set(Network::Frozen);
        rounds.say(round, "the store is frozen");
        tokio::time::sleep_until(started + DUE).await;

        let (mut queries, mut cancels) = (Vec::new(), Vec::new());
        let (mut cancelled, mut emitted) = (0, keys.len());
        let due = Instant::now();
        for n in 0_usize.. {
            if due.elapsed() >= Duration::from_secs(self.seconds) {
                break;
            }
            let asked = Instant::now();
            env.status(&keys[(n * 7919) % keys.len()]).await?;
            queries.push(milliseconds(asked));
            env.events.emit(event(&keys[(n * 6733) % keys.len()], &format!("during-{n}"))).await?;
            emitted += 1;
            if n % CANCEL_EVERY == 0 {
                cancels.push(cancel(env, &keys[cancelled]).await?);
                cancelled += 1;
            }
            sleep(QUERY_EVERY).await;
        }

        proxy.set(Network::Whole);
        let thawed = Instant::now();
        for key in &keys {
            eventually("the key is idle", PATIENCE, async || Ok(env.is_idle(key).await?.then_some(()))).await?;
        }
        let seconds = thawed.elapsed().as_secs_f64();
        let length = |key| described(env, key);
        let lengths: Vec<_> = stream::iter(&keys).map(length).buffer_unordered(AT_ONCE).try_collect().await?;
        nothing_is_lost(env, &url, emitted).await?;
        Ok(Measured { before, queries, cancels, seconds, longest: lengths.into_iter().max().unwrap_or_default() })
    }
}

struct Measured {
    before: Vec<f64>,
    queries: Vec<f64>,
    cancels: Vec<f64>,
    seconds: f64,
    longest: usize,
}

/// Checks that every event is in an email, or in a digest that was dropped because its key was cancelled.
async fn nothing_is_lost(env: &Env<PostgresStore>, url: &Url, emitted: usize) -> Result<()> {
    let mails = env.relay.mails();
    let told = events_by_message(&mails)?;
    let mut ledger = PgConnection::connect(url.as_str()).await?;
    let ends = "SELECT COALESCE(d.outcome, 'none'), COUNT(*) FROM events e JOIN digests d USING (digest_id) GROUP BY 1";
    let ends: Vec<(String, i64)> = sqlx::query_as(ends).fetch_all(&mut ledger).await?;
    let of =
        |outcome: &str| ends.iter().find(|(name, _)| name == outcome).map_or(0, |(_, events)| events.unsigned_abs());
    ensure!(
        of("sent") + of("dropped") == emitted as u64,
        "an event is lost, or in a digest without an end: {emitted} events, by outcome {ends:?}"
    );
    let mailed = told.values().sum::<u64>();
    ensure!(of("sent") == mailed && told.len() == mails.len(), "a mail is missing, or there is one too many");
    Ok(())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1_000.0
}

async fn cancel(env: &Env<PostgresStore>, key: &Key) -> Result<f64> {
    let asked = Instant::now();
    env.workflow(key).cancel(WorkflowCancelOptions::default()).await?;
    let seen = async || Ok((env.status(key).await?.state == DigestStage::Cancelling).then_some(()));
    eventually("the cancel is seen", PATIENCE, seen).await?;
    Ok(milliseconds(asked))
}

async fn described(env: &Env<PostgresStore>, key: &Key) -> Result<usize> {
    Ok(env.workflow(key).describe(WorkflowDescribeOptions::default()).await?.history_length())
}
