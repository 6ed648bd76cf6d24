//! A short run of `./dev chaos` on each store: every fault happens at least once, and every guarantee holds.

use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tidings_chaos::{Outcome, Plan, Target};
use tidings_harness::env::{sqlite, sqlite_file};
use tidings_needs::needs;

const LENGTH: Duration = Duration::from_secs(20);
/// Events a second that are posted during the long outage of Temporal.
const RATE: u32 = 100;

async fn run(seed: u64, store: impl AsyncFnOnce(&std::path::Path) -> Result<Target>) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("tidings-chaos-").tempdir()?;
    let store = store(folder.path()).await?;
    println!("seed {seed}");
    let plan = Plan::new(seed, LENGTH, RATE);
    let (kinds, events) = (plan.kinds(), plan.events.len() as u64);
    let outcome = tidings_chaos::run(plan, folder.path(), store, &ProgressBar::hidden()).await?;
    println!("{outcome}");
    if !outcome.is_good() {
        println!("kept: {}", folder.keep().display());
        panic!("seed {seed}: not every promise was kept");
    }
    assert_that_it_was_a_test(&outcome, events);
    assert!(kinds.iter().all(|kind| outcome.acts.contains_key(kind)), "not all of {kinds:?} happened");
    Ok(())
}

/// A run in which nothing happens keeps every promise, too.
fn assert_that_it_was_a_test(outcome: &Outcome, events: u64) {
    let Outcome { verdict, kills, .. } = outcome;
    assert!(*kills >= 6, "{kills} kills");
    // Events of a killed producer may be missing if no other producer handed them over.
    assert!(verdict.acknowledged >= events / 2, "{} of {events} events acknowledged", verdict.acknowledged);
    assert!(verdict.digests >= 100 && verdict.mails >= 100, "{} digests, {} mails", verdict.digests, verdict.mails);
    assert!(verdict.outcomes.contains_key("sent"), "{verdict:?}");
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn every_guarantee_holds_on_sqlite_while_everything_breaks() -> Result<()> {
    run(1, async |folder| Ok(Target::sqlite(folder))).await
}

#[needs(temporal, chaos_postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn every_guarantee_holds_on_postgresql_while_everything_breaks() -> Result<()> {
    run(2, async |_| Target::postgres().await).await
}

/// A worker may stand still amid a transaction.
#[tokio::test]
async fn a_database_that_a_worker_has_locked_can_be_paused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    sqlite(folder.path()).await?;
    let file = SqliteConnectOptions::new().filename(sqlite_file(folder.path())).busy_timeout(Duration::from_secs(1));
    let mut worker = SqliteConnection::connect_with(&file).await?;
    let mut store = Target::sqlite(folder.path());
    let standing = worker.begin_with("BEGIN IMMEDIATE").await?;
    store.pause().await?;
    store.go_on().await?;
    standing.rollback().await?;

    store.pause().await?;
    let locked = worker.begin_with("BEGIN IMMEDIATE").await.map(|_| ());
    assert!(locked.is_err(), "nobody has the lock");
    store.go_on().await?;
    worker.begin_with("BEGIN IMMEDIATE").await?.rollback().await?;
    Ok(())
}
