//! A made message waits, so that an operator can take it back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::SignedDuration;
use tempfile::TempDir;
use temporalio_client::WorkflowQueryOptions;
use tidings_client::{Client, Config};
use tidings_harness::{
    cli_env::CliEnv,
    env::{Env, event, key, order, settings, sqlite},
    postgres::database,
    time_skipping::TimeSkipping,
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    settings::{DigestSettings, Settings},
    statistics::StatisticsScope,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_services::metrics;
use tidings_store::{PostgresStore, Store, prelude::*};
use tidings_workflows::{Digest, DigestStage};

const MINUTE: Duration = Duration::from_mins(1);

/// Windows of a second, whose messages can be taken back for this time.
fn undoable(undo: Duration) -> Result<Settings> {
    let mut settings = settings("after 1s", "after 1h");
    settings.digests.get_mut("activity").context("no such type")?.undo = Some(undo);
    Ok(settings)
}

/// A message that waits is due at the end of the wait. The digest type is one of its own, because all tests of a process count in
/// the same metrics.
async fn is_on_time<S: Store>(store: Arc<S>, folder: TempDir, digest_type: &str) -> Result<()> {
    let mut settings = settings("after 1s", "after 1h");
    let undo = Duration::from_hours(1);
    let undoable = DigestSettings { undo: Some(undo), ..settings.digests["activity"].clone() };
    settings.digests.insert(digest_type.to_owned(), undoable);
    let env = TimeSkipping::with_store(settings, store, folder).await?;
    let key = key(digest_type, "ann");
    env.emit(&key, "e1").await?;
    let claimed_at = env.planned(&key).await?.due_at.context("not planned")?;
    env.server.sleep_until(claimed_at + Duration::from_secs(1)).await?;
    env.status_when(&key, "the message waits", |status| status.state == DigestStage::Undoable).await?;

    let (due_at, now) = (claimed_at + undo, claimed_at + undo / 2);
    env.server.sleep_until(now).await?;
    let statistics = env.store.statistics(&StatisticsScope { tenant: None, since: claimed_at, now }).await?;
    let waiting = statistics.undelivered.iter().map(|of| (of.digests, of.overdue, of.oldest_due_at.as_millisecond()));
    assert_eq!(waiting.collect::<Vec<_>>(), [(1, 0, due_at.as_millisecond())]);
    assert_eq!(statistics.oldest_overdue(now), None);

    env.completed(&key).await?;
    let digest = env.store.digests(&key, 1).await?.pop().context("no digest")?;
    assert!(digest.is_sent() && !digest.is_overdue(now), "{digest:?}");
    let late = digest.closed_at.context("never closed")?.duration_since(digest.due_at);
    assert!(late >= SignedDuration::ZERO && late < SignedDuration::from_mins(1), "{late:#}");
    let why = digest.plan_why;
    assert!(why.ends_with("; then waits 1h, in which tidings digest drop takes it back"), "{why}");
    let accepted =
        format!("\ntidings_acceptance_lateness_seconds_bucket{{le=\"60.0\",digest_type=\"{digest_type}\"}} 1\n");
    let told = metrics::encode_text();
    assert!(told.contains(&accepted), "{told}");
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_out_once_on_time_after_its_wait_on_sqlite() -> Result<()> {
    let folder = TempDir::new()?;
    is_on_time(sqlite(folder.path()).await?, folder, "undo_on_sqlite").await
}

#[needs(test_server, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_out_once_on_time_after_its_wait_on_postgresql() -> Result<()> {
    let store = PostgresStore::connect(&database().await?).await?;
    store.migrate().await?;
    is_on_time(Arc::new(store), TempDir::new()?, "undo_on_postgresql").await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_drop_takes_a_waiting_message_back() -> Result<()> {
    let env = Env::start(undoable(Duration::from_hours(1))?).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Undoable).await?;
    let status = env.status(&key).await?;
    let delivery = status.delivering.context("nothing waits")?;
    let until = delivery.next_attempt_at.context("it does not wait")?;
    assert_eq!(delivery.why, format!("waits until {until:.0}; tidings digest drop takes it back"));
    assert!(env.store.message(delivery.digest_id).await?.is_some(), "the outbox has it");

    let dropped = env.update(&key, Digest::discard, order()).await?;
    assert_eq!((dropped.events, dropped.delivering), (0, Some(delivery.digest_id)));
    env.completed(&key).await?;
    let digest = env.store.digest(delivery.digest_id).await?.context("no digest")?;
    let closed = digest.closed.context("has no end")?;
    assert_eq!((closed.outcome, closed.why), (DigestOutcome::Dropped, order().why));
    let by_operator = "SELECT COUNT(*) FROM audit WHERE action = 'close' AND actor NOT IN ('tidings', '')";
    assert_eq!(env.count(by_operator).await?, 1, "the audit trail says who");

    // The next event opens a window as after any drop.
    env.events.emit(event(&key, "e2")).await?;
    env.reaches(&key, DigestStage::Undoable).await?;
    let flushed = env.update(&key, Digest::flush, order()).await?;
    assert!(flushed.hurried, "{flushed:?}");
    env.completed(&key).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_during_the_wait_are_in_the_next_digest() -> Result<()> {
    let env = Env::start(undoable(Duration::from_hours(1))?).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Undoable).await?;
    env.events.emit(event(&key, "e2")).await?;
    // The flush ends the wait, and lets the second window go out without one.
    env.status_when(&key, "the event is pending", |status| status.pending + status.uncompared == 1).await?;
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    let digests = env.store.digests(&key, 10).await?;
    assert_eq!(digests.iter().map(|digest| digest.items).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(env.relay.mails().len(), 2);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_during_the_wait_sends_once() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    cli.add_setting("undo = \"15s\"")?;
    cli.start_worker()?;
    let key = key("activity", "ann");
    let keys = BTreeSet::from([key.clone()]);
    cli.import(&keys).await?;
    let temporal = cli.server.client().await?;
    let events = Client::new(temporal.clone(), Config::default());
    events.emit(event(&key, "e1")).await?;
    let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
    eventually("the message waits", MINUTE, async || {
        let status = workflow.query(Digest::status, (), WorkflowQueryOptions::default()).await.ok();
        Ok(status.filter(|status| status.state == DigestStage::Undoable))
    })
    .await?;
    cli.kill_worker()?;
    assert!(cli.relay.mails().is_empty());
    cli.start_worker()?;
    cli.settled(&keys, Duration::from_mins(2)).await?;
    assert_eq!(cli.relay.mails().len(), 1);
    Ok(())
}
