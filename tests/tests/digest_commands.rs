//! What an operator does to a key: flush and cancel, at the moments that matter.

use std::time::Duration;

use anyhow::{Context, Result};
use temporalio_client::{WorkflowCancelOptions, WorkflowExecuteUpdateOptions, WorkflowExecutionStatus};
use tidings_activities::{settings::UnknownRecipients, store::Store};
use tidings_tests::{
    relay::{Act, At, Fault},
    stage::{Stage, event, eventually, key, settings},
};
use tidings_workflows::{Digest, Key, contract::Outcome};

const MINUTE: Duration = Duration::from_secs(60);

async fn reaches(stage: &Stage, key: &Key, state: &str) -> Result<()> {
    eventually(state, MINUTE, async || Ok((stage.status(key).await?.state == state).then_some(()))).await
}

async fn cancelled(stage: &Stage, key: &Key) -> Result<()> {
    stage.workflow(key).cancel(WorkflowCancelOptions::default()).await?;
    let over = async || Ok((stage.run_status(key).await? == WorkflowExecutionStatus::Canceled).then_some(()));
    eventually("the run is cancelled", MINUTE, over).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_collecting_keeps_the_events_in_the_ledger_and_sends_nothing() -> Result<()> {
    let stage = Stage::start(settings("after 1h", "after 1h")).await?;
    let key = key("activity", "ann");
    for event_id in ["e1", "e2"] {
        stage.events.emit(event(&key, event_id)).await?;
    }
    reaches(&stage, &key, "collecting").await?;
    cancelled(&stage, &key).await?;

    let digests = stage.store.digests(&key, 10).await?;
    assert_eq!(digests.iter().map(|digest| digest.items).sum::<u64>(), 2);
    assert!(digests.iter().all(|d| d.closed.as_ref().is_some_and(|c| c.outcome == Outcome::Dropped)), "{digests:?}");
    assert_eq!(stage.count("SELECT COUNT(*) FROM audit WHERE action = 'close'").await?, 1);
    assert!(stage.relay.mails().is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_a_retry_waits_ends_the_digest_and_no_attempt_starts_after_it() -> Result<()> {
    let stage = Stage::start(settings("after 1s", "after 1h")).await?;
    stage.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    let key = key("activity", "ann");
    stage.events.emit(event(&key, "e1")).await?;
    reaches(&stage, &key, "retrying").await?;
    stage.events.emit(event(&key, "e2")).await?;
    cancelled(&stage, &key).await?;

    let digests = stage.store.digests(&key, 10).await?;
    assert_eq!(digests.len(), 2, "the digest on its way, and what was pending behind it: {digests:?}");
    assert!(digests.iter().all(|d| d.closed.as_ref().is_some_and(|c| c.outcome == Outcome::Dropped)), "{digests:?}");
    assert_eq!(digests.iter().map(|digest| digest.attempts).sum::<u32>(), 1);
    assert!(stage.relay.mails().is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_sends_at_once_what_was_due_in_an_hour() -> Result<()> {
    let stage = Stage::start(settings("after 1h", "after 1h")).await?;
    let key = key("activity", "ann");
    stage.events.emit(event(&key, "e1")).await?;
    reaches(&stage, &key, "collecting").await?;
    let workflow = stage.workflow(&key);
    let flushed = workflow.execute_update(Digest::flush, (), WorkflowExecuteUpdateOptions::default()).await?;
    assert_eq!(flushed.events, 1);
    let summary = stage.completed(&key).await?;
    assert_eq!(summary.last.context("no digest")?.closed.outcome, Outcome::Sent);
    assert_eq!(stage.relay.mails().len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_recipient_waits_visibly() -> Result<()> {
    let mut settings = settings("after 1s", "after 1h");
    settings.unknown_recipients = UnknownRecipients::Wait;
    let stage = Stage::start(settings).await?;
    let key = key("activity", "nobody");
    stage.events.emit(event(&key, "e1")).await?;
    let waits = async || Ok(stage.status(&key).await?.why.contains("does not know").then_some(()));
    eventually("the status says why", MINUTE, waits).await?;
    assert_eq!(stage.status(&key).await?.pending, 1);
    Ok(())
}
