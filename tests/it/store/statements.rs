//! The number of calls of the database that a digest makes from due to sent (docs/benchmarks.md).

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, Result, ensure};
use futures::{TryFutureExt as _, future::try_join_all, try_join};
use jiff::Timestamp;
use sqlx::Connection as _;
use tidings_activities::{
    CancellableResult,
    digest::{claim, render, send},
};
use tidings_harness::{
    env::{activities, key, ledger, settings, sqlite},
    relay::Relay,
    steps::{claim_of, recorded_event, send_of},
};
use tidings_model::{
    Key,
    records::FirstAttempt,
    step::{ClaimAnswer, RenderAnswer, RenderInput, SendAnswer},
    window::{DigestOutcome, Window},
};
use tidings_needs::needs;
use tidings_services::StepServices;
use tidings_store::{AttemptStore as _, PostgresStore, Store};
use tracing::{
    Instrument as _, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer, prelude::*, registry::LookupSpan};
use uuid::Uuid;

/// The calls of a digest, both stores alike: facts, claim, facts with the message, the relays' breakers, first attempt with its dot, end.
/// In SQLite a call is a turn of the connection's thread, and in PostgreSQL a round trip. A worker reads the breakers
/// once a second; here each digest has a worker of its own.
const CALLS: usize = 6;
/// The transactions that write.
const COMMITS: usize = 3;
/// The calls of a digest that may continue a thread: it asks for the first message.
const CALLS_IN_THREAD: usize = CALLS + 1;

/// The calls within a span `counted`. sqlx logs each once, with all of its statements.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

/// The SQL of a call.
#[derive(Default)]
struct Sql(String);

impl Visit for Sql {
    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}

    /// A short statement is its own summary, and `db.statement` is empty.
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_sql = field.name() == "db.statement" || (field.name() == "summary" && self.0.is_empty());
        if is_sql && !value.is_empty() {
            value.trim().clone_into(&mut self.0);
        }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Calls {
    fn on_event(&self, event: &tracing::Event<'_>, context: layer::Context<'_, S>) {
        let counted = context.event_scope(event).is_some_and(|mut spans| spans.any(|span| span.name() == "counted"));
        if counted && event.metadata().target() == "sqlx::query" {
            let mut sql = Sql::default();
            event.record(&mut sql);
            self.0.lock().unwrap().push(sql.0);
        }
    }
}

impl Calls {
    fn start() -> Result<Self> {
        let calls = Self::default();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(calls.clone()))?;
        Ok(calls)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A durable commit is a transaction, or a statement that writes outside of one.
fn commits(calls: &[String]) -> usize {
    let mut within = false;
    let mut commits = 0;
    for call in calls {
        let writes = call.split_whitespace().any(|word| ["INSERT", "UPDATE", "DELETE"].contains(&word));
        if call.ends_with("COMMIT") {
            within = false;
            commits += 1;
        } else if call.starts_with("BEGIN") {
            within = true;
        } else if writes && !within {
            commits += 1;
        }
    }
    commits
}

/// A window of `count` events that is claimed with its message.
async fn claimed(deps: &StepServices, key: Key, count: usize) -> Result<Window> {
    let (user, now) = (key.user.clone(), Timestamp::now());
    let window = Window { digest_id: key.digest_id("run", 1), key, opened_at: now, due_at: now };
    let events = (0..count).map(|n| recorded_event(&format!("{user}-{n}"), now)).collect();
    let claimed = claim::run(deps, &claim_of(&window, events)).await?;
    ensure!(matches!(claimed, ClaimAnswer::Claimed { rendered: true, .. }), "the window was not claimed: {claimed:?}");
    Ok(window)
}

/// A digest of `count` events, from due to sent.
async fn digest(store: Arc<dyn Store>, relay: &Relay, key: Key, count: usize) -> Result<()> {
    let deps = activities(store, &relay.url(), settings("after 1s", "instant"))?;
    let (window, now) = (claimed(&deps, key, count).await?, Timestamp::now());
    let input = RenderInput { asked_at: now, window: window.clone(), stored: true, too_large: None };
    ensure!(render::run(&deps, &input).await? == RenderAnswer::Stored);
    let input = send_of(&window, now);
    let sent = send::run(&deps, &input, std::future::pending()).await?;
    ensure!(
        matches!(&sent, CancellableResult::Done(SendAnswer::Closed { closed, .. }) if closed.outcome == DigestOutcome::Sent)
    );
    Ok(())
}

async fn within_budget(store: Arc<dyn Store>) -> Result<()> {
    let calls = Calls::start()?;
    let relay = Relay::start().await?;
    // The first one makes the connections.
    for (digest_type, user, count, budget) in [
        ("activity", "warm", 1, None),
        ("activity", "one", 1, Some(CALLS)),
        ("activity", "thirty", 30, Some(CALLS)),
        ("activity", "full", 500, Some(CALLS)),
        ("alerts", "one", 1, Some(CALLS_IN_THREAD)),
        ("alerts", "two", 2, Some(CALLS)),
    ] {
        digest(Arc::clone(&store), &relay, key(digest_type, user), count)
            .instrument(tracing::info_span!("counted"))
            .await?;
        let seen = calls.take();
        println!("{digest_type} of {user}: {} calls, {} commits", seen.len(), commits(&seen));
        if let Some(budget) = budget {
            ensure!((seen.len(), commits(&seen)) == (budget, COMMITS), "{digest_type} of {user}: {seen:#?}");
        }
    }
    Ok(())
}

#[needs(own_process)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_stays_within_its_budget_of_calls_on_sqlite() -> Result<()> {
    let folder = tempfile::tempdir()?;
    within_budget(sqlite(folder.path()).await?).await
}

#[needs(postgres, own_process)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_stays_within_its_budget_of_calls_on_postgresql() -> Result<()> {
    let store = PostgresStore::connect(&tidings_harness::postgres::database().await?).await?;
    store.migrate().await?;
    within_budget(Arc::new(store)).await
}

/// The first attempt has SQLite's one writer, and the others wait for it.
#[needs(own_process)]
#[tokio::test(flavor = "multi_thread")]
async fn first_attempts_that_wait_for_each_other_share_a_call_on_sqlite() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, relay, calls) = (sqlite(folder.path()).await?, Relay::start().await?, Calls::start()?);
    let deps = activities(store.clone(), &relay.url(), settings("after 1s", "after 1s"))?;
    let mut attempts = Vec::new();
    for n in 0..8 {
        let window = claimed(&deps, key("activity", &format!("user-{n}")), 1).await?;
        let (_, waiting) = store.facts_for_attempt(&window.key, window.digest_id).await?;
        attempts.push(FirstAttempt {
            message: window.digest_id,
            relay: "default".to_owned(),
            begun_at: window.due_at,
            epoch: waiting.context("the message waits")?.epoch,
            nonce: Uuid::new_v4(),
        });
    }
    let mut locking = ledger(folder.path()).await?;
    let locked = locking.begin_with("BEGIN IMMEDIATE").await?;
    let dots = attempts.iter().map(|attempt| store.mark_first_in_doubt(attempt, attempt.begun_at));
    let dots = try_join_all(dots).instrument(tracing::info_span!("counted")).map_err(anyhow::Error::new);
    // The lock ends once all of them wait: otherwise the first call could be over before the second one begins.
    let (may_send, ()) = try_join!(dots, locked.rollback().map_err(anyhow::Error::new))?;
    ensure!(may_send == [true; 8], "{may_send:?}");
    let seen = calls.take();
    ensure!(seen.len() == 2 && commits(&seen) == 2, "{seen:#?}");
    Ok(())
}
