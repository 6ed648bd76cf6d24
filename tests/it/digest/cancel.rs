//! A cancel from the Temporal UI between collecting and the end of a delivery (rule 31). A lock on a table of the real
//! store holds the digest at each step.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use sqlx::{Connection, Executor, PgConnection};
use temporalio_client::{WorkflowCancelOptions, WorkflowDescribeOptions, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::enums::v1::{EventType, PendingActivityState};
use tidings_harness::{
    env::{Env, event, has_fired, key, settings},
    postgres::database,
    relay::{Act, At, Fault},
    wait::eventually,
};
use tidings_model::{Key, Retract, records::DigestRecord, window::DigestOutcome};
use tidings_needs::needs;
use tidings_store::{PostgresStore, Store, prelude::*};
use tidings_workflows::DigestStage;

const MINUTE: Duration = Duration::from_mins(1);
/// The relay's delay of its reply to the final dot: longer than a cancel takes to arrive.
const SLOW_ANSWER: Duration = Duration::from_secs(8);

async fn is_over<S: Store>(env: &Env<S>, key: &Key) -> Result<()> {
    let over = async || Ok((env.run_status(key).await? == WorkflowExecutionStatus::Canceled).then_some(()));
    eventually("the run is cancelled", MINUTE, over).await
}

/// Waits until the workflow has seen the cancel: while a local activity runs it sees nothing.
async fn seen<S: Store>(env: &Env<S>, key: &Key) -> Result<()> {
    eventually("a workflow task after the cancel is completed", MINUTE, async || {
        let history = env.history(key).await?;
        let after =
            history.iter().skip_while(|event| event.event_type() != EventType::WorkflowExecutionCancelRequested);
        let started = after.skip_while(|event| event.event_type() != EventType::WorkflowTaskStarted);
        Ok(started.into_iter().any(|event| event.event_type() == EventType::WorkflowTaskCompleted).then_some(()))
    })
    .await
}

/// Waits until the delivery that runs has learned of the cancel: with the answer to a heartbeat.
async fn learned<S: Store>(env: &Env<S>, key: &Key) -> Result<()> {
    let heartbeat = async || {
        let description = env.workflow(key).describe(WorkflowDescribeOptions::default()).await?;
        let requested = PendingActivityState::CancelRequested as i32;
        let running = description.raw().pending_activities.iter().find(|activity| activity.state == requested);
        anyhow::Ok(running.and_then(|activity| activity.last_heartbeat_time))
    };
    let before = eventually("the delivery is asked to stop", MINUTE, heartbeat).await?;
    let later = async || Ok(heartbeat().await?.filter(|at| *at != before));
    eventually("it has sent a heartbeat since", MINUTE, later).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_timer_fired_keeps_the_event_and_sends_nothing() -> Result<()> {
    let mut env = Env::start(settings("after 5s", "after 1h")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    env.stop_worker()?;
    // With no worker both wait for the same workflow task.
    env.workflow(&key).cancel(WorkflowCancelOptions::default()).await?;
    let fired = async || Ok(has_fired(&env.history(&key).await?).then_some(()));
    eventually("the timer fires", MINUTE, fired).await?;
    env.start_worker()?;
    is_over(&env, &key).await?;
    let digests = env.store.digests(&key, 10).await?;
    let dropped = |digest: &&_| matches!(digest, DigestRecord { closed: Some(closed), items: 1, .. } if closed.outcome == DigestOutcome::Dropped);
    assert_eq!((digests.len(), digests.iter().filter(dropped).count()), (1, 1), "{digests:?}");
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_final_dot_keeps_the_event_and_sends_nothing() -> Result<()> {
    let url = database().await?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    let mut env = Env::with_store(settings("after 1s", "after 1h"), Arc::new(store), tempfile::tempdir()?).await?;
    env.start_worker()?;
    let mut ledger = PgConnection::connect(&url).await?;
    // Readers pass a lock in SHARE mode, writers wait.
    for (stage, lock) in [
        (DigestStage::Claiming, "LOCK TABLE events IN SHARE MODE"),
        (DigestStage::Rendering, "LOCK TABLE messages IN SHARE MODE"),
        (DigestStage::Sending, "LOCK TABLE attempts IN SHARE MODE"),
    ] {
        let key = key("activity", &stage.to_string());
        if stage == DigestStage::Rendering {
            // The claim of a key with a retract stores no message.
            env.store.put_retracts(&key, &[Retract::Event("another".into())], Timestamp::now()).await?;
        }
        let mut holding = ledger.begin().await?;
        holding.execute(lock).await?;
        env.events.emit(event(&key, "e1")).await?;
        env.reaches(&key, stage).await?;
        env.workflow(&key).cancel(WorkflowCancelOptions::default()).await?;
        if stage == DigestStage::Sending {
            learned(&env, &key).await?;
        } else {
            seen(&env, &key).await?;
        }
        holding.rollback().await?;
        is_over(&env, &key).await.context(stage)?;

        let digests = env.store.digests(&key, 10).await?;
        let [digest] = &digests[..] else { panic!("{stage}: {digests:?}") };
        assert_eq!(
            digest.closed.as_ref().map(|closed| closed.outcome),
            Some(DigestOutcome::Dropped),
            "{stage}: {digest:?}"
        );
        assert_eq!(digest.items, 1, "{stage}: {digest:?}");
    }
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn after_the_final_dot_a_cancelled_digest_ends_as_the_relay_answers() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    let key = key("activity", "ann");
    env.relay.fault(Fault::new(At::Dot, Act::Slow(SLOW_ANSWER)));
    env.events.emit(event(&key, "e1")).await?;
    eventually("the attempt is past the dot", MINUTE, async || {
        let past = env.count("SELECT COUNT(*) FROM attempts WHERE past_the_dot_at IS NOT NULL").await?;
        Ok((past == 1).then_some(()))
    })
    .await?;
    env.workflow(&key).cancel(WorkflowCancelOptions::default()).await?;
    env.events.emit(event(&key, "e2")).await?;
    is_over(&env, &key).await?;

    let digests = env.store.digests(&key, 10).await?;
    let outcomes: Vec<_> = digests.iter().map(|d| (d.items, d.closed.as_ref().map(|closed| closed.outcome))).collect();
    assert_eq!(
        outcomes,
        [(1, Some(DigestOutcome::Dropped)), (1, Some(DigestOutcome::Sent))],
        "latest first: {digests:?}"
    );
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}
