//! The number of statements of a digest from due to sent (docs/benchmarks.md).

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use anyhow::{Result, ensure};
use jiff::Timestamp;
use tidings_activities::{
    Cancellable,
    digest::{claim, render, send},
};
use tidings_harness::{
    env::{activities, key, settings, sqlite},
    relay::Relay,
    steps::{claim_of, recorded_event},
};
use tidings_model::step::{ClaimAnswer, Outcome, RenderInput, Rendered, SendInput, Sent, Window};
use tidings_needs::needs;
use tidings_store::{Postgres, Store};
use tracing::{
    Instrument as _, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*, registry::LookupSpan};

/// The budget of a digest, both stores alike.
const STATEMENTS: usize = 16;
const COMMITS: usize = 3;

/// Summaries of the statements within a span `counted`.
#[derive(Clone, Default)]
struct Statements(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Summary(String);

impl Visit for Summary {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "summary" {
            self.0 = format!("{value:?}");
        }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let counted = context.event_scope(event).is_some_and(|mut spans| spans.any(|span| span.name() == "counted"));
        if counted && event.metadata().target() == "sqlx::query" {
            let mut summary = Summary::default();
            event.record(&mut summary);
            self.0.lock().unwrap().push(summary.0);
        }
    }
}

impl Statements {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A durable commit is a transaction, or one statement that writes outside of one.
fn commits(statements: &[String]) -> usize {
    let mut within = false;
    let mut commits = 0;
    for statement in statements {
        let verb = statement.trim_matches('"').split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        match verb.as_str() {
            "BEGIN" => within = true,
            "COMMIT" => {
                within = false;
                commits += 1;
            }
            "INSERT" | "UPDATE" | "DELETE" if !within => commits += 1,
            _ => {}
        }
    }
    commits
}

/// A digest of `count` events, from due to sent.
async fn digest(store: Arc<dyn Store>, relay: &Relay, user: &str, count: usize) -> Result<()> {
    let deps = activities(store, &relay.url(), settings("after 1s", "after 1s"))?;
    let (key, now) = (key("activity", user), Timestamp::now());
    let window = Window { digest_id: key.digest_id("run", 1), key, opened_at: now, due_at: now };
    let events = (0..count).map(|n| recorded_event(&format!("{user}-{n}"), now)).collect();
    let input = claim_of(&window, events);
    let ClaimAnswer::Claimed { rendered: stored, .. } = claim::run(&deps, &input).await? else {
        anyhow::bail!("the window was not claimed")
    };
    let input = RenderInput { asked_at: now, window: window.clone(), stored, too_large: None };
    ensure!(render::run(&deps, &input).await? == Rendered::Stored);
    let input = SendInput { asked_at: now, window, failed: 0, shortens: true, opens_returned: true };
    let sent = send::run(&deps, &input, std::future::pending()).await?;
    ensure!(matches!(&sent, Cancellable::Done(Sent::Closed { closed, .. }) if closed.outcome == Outcome::Sent));
    Ok(())
}

async fn within_budget(store: Arc<dyn Store>) -> Result<()> {
    let statements = Statements::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(statements.clone()))?;
    let relay = Relay::start().await?;
    // The first one reads the relays' breakers, which every other one finds in memory for a second.
    for (user, count) in [("warm", 1), ("one", 1), ("thirty", 30), ("full", 500)] {
        digest(Arc::clone(&store), &relay, user, count).instrument(tracing::info_span!("counted")).await?;
        let seen = statements.take();
        println!("{user}: {} statements, {} commits", seen.len(), commits(&seen));
        if user != "warm" {
            ensure!(seen.len() <= STATEMENTS && commits(&seen) <= COMMITS, "{user}: {seen:#?}");
            ensure!(commits(&seen) == COMMITS, "the statements are not counted: {seen:#?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_stays_within_its_budget_of_statements_on_sqlite() -> Result<()> {
    let folder = tempfile::tempdir()?;
    within_budget(sqlite(folder.path()).await?).await
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_stays_within_its_budget_of_statements_on_postgresql() -> Result<()> {
    let store = Postgres::connect(&tidings_harness::postgres::database().await?).await?;
    store.migrate().await?;
    within_budget(Arc::new(store)).await
}
