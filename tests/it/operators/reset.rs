//! `temporal workflow reset`, which the Temporal UI offers for each run, too.

use anyhow::Result;
use temporalio_client::{WorkflowExecutionStatus, WorkflowTerminateOptions};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    relay::{Act, At, Fault},
};
use tidings_model::{
    Key,
    command::{HoldCommand, ReleaseCommand},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage};

use super::{MINUTE, attempted, emails, one_attempt_is_left, temporal, waiting};

/// Resets the latest run of a key. The next run has begun when this returns.
async fn reset(env: &Env, key: &Key, to: &str) -> Result<()> {
    let (id, run) = (key.workflow_id(), env.run(key).await?);
    temporal(&env.server, &["workflow", "reset", "--workflow-id", &id, "--type", to, "--reason", "a look"]).await?;
    assert_ne!(env.run(key).await?, run, "the next run is the latest one");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_a_completed_run_sends_nothing_again() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let cases = [(key("alerts", "ann"), "FirstWorkflowTask"), (key("alerts", "bo"), "LastWorkflowTask")];
    for (key, _) in &cases {
        env.events.emit(event(key, "e1")).await?;
    }
    for (key, to) in &cases {
        env.completed(key).await?;
        reset(&env, key, to).await?;
    }
    for (key, to) in &cases {
        env.completed(key).await?;
        let digests = env.store.digests(key, 10).await?;
        let with_events: Vec<_> = digests.iter().filter(|digest| digest.items > 0).collect();
        assert!(matches!(with_events[..], [digest] if digest.is_sent()), "{to}: {digests:?}");
    }
    assert_eq!(emails(&env.relay)?, [1, 1]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_keeps_the_events_and_the_hold_of_a_window() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    env.update(&key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    env.events.emit(event(&key, "e2")).await?;
    waiting(&env, &key, 2).await?;

    reset(&env, &key, "FirstWorkflowTask").await?;
    waiting(&env, &key, 2).await?;
    env.reaches(&key, DigestStage::Held).await?;
    env.update(&key, Digest::release, ReleaseCommand::from(order())).await?;
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    assert_eq!(emails(&env.relay)?, [2]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_before_the_dot_sends_one_copy() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("alerts", "ann");
    env.relay.fault(Fault::new(At::Rcpt, Act::Silent).times(1));
    env.events.emit(event(&key, "e1")).await?;
    attempted(&env.relay, 1).await?;
    reset(&env, &key, "FirstWorkflowTask").await?;
    env.completed(&key).await?;

    one_attempt_is_left(&env.relay).await?;
    assert_eq!(emails(&env.relay)?, [1]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_resumes_a_terminated_run() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    for event_id in ["e1", "e2"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    env.reaches(&key, DigestStage::Collecting).await?;
    env.workflow(&key).terminate(WorkflowTerminateOptions::default()).await?;
    reset(&env, &key, "FirstWorkflowTask").await?;
    waiting(&env, &key, 2).await?;
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    assert_eq!(emails(&env.relay)?, [2]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_a_cancelled_run_leaves_its_digest_dropped() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    temporal(&env.server, &["workflow", "cancel", "--workflow-id", &key.workflow_id()]).await?;
    env.wait_until_idle(&key, MINUTE).await?;
    reset(&env, &key, "FirstWorkflowTask").await?;
    env.wait_until_idle(&key, MINUTE).await?;
    assert_eq!(env.run_status(&key).await?, WorkflowExecutionStatus::Completed);
    let digests = env.store.digests(&key, 10).await?;
    let [dropped] = &digests.iter().filter(|digest| digest.items > 0).collect::<Vec<_>>()[..] else {
        panic!("{digests:?}")
    };
    assert_eq!(dropped.closed.as_ref().map(|closed| closed.outcome), Some(DigestOutcome::Dropped), "{dropped:?}");
    assert_eq!(emails(&env.relay)?, [0; 0]);
    Ok(())
}
