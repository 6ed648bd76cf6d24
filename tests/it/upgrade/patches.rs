//! Patches that a worker holds back while workers of an earlier version may still run.

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings::registration::{self, PatchMode};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    worker::Running,
};
use tidings_model::{
    Key,
    command::{HoldCommand, ReleaseCommand, ReleaseResult, RetimeCommand},
    names,
    rules::spread::overdue_share,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_workflows::{Digest, DigestStage};

use super::shapes::patches;

/// Starts a worker in the place of the one that runs.
fn replace_worker(env: &mut Env, patches: PatchMode) -> Result<()> {
    if env.worker.is_some() {
        env.stop_worker()?;
    }
    let mut options = registration::digest_worker(names::TASK_QUEUE, env.activities()?)?;
    patches.apply(&mut options);
    env.worker = Some(Running::start(env.temporal.clone(), options)?);
    Ok(())
}

/// A key whose share of a spread release is at least two seconds.
fn spread_key(name: &str) -> Result<Key> {
    let mut keys = (0..1000).map(|n| key("alerts", &format!("{name}{n}")));
    keys.find(|key| overdue_share(&key.workflow_id(), None).as_secs() == 2).context("no key has this share")
}

async fn hold(env: &Env, key: &Key) -> Result<()> {
    env.update(key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    Ok(())
}

async fn release(env: &Env, key: &Key) -> Result<ReleaseResult> {
    Ok(env.update(key, Digest::release, ReleaseCommand { order: order(), spread: true }).await?)
}

/// Releases a window that is overdue. Answers whether it waits for its share.
async fn waits_when_released(env: &Env, key: &Key) -> Result<bool> {
    env.update(key, Digest::retime, RetimeCommand { order: order(), at: Some(Timestamp::now()) }).await?;
    let waits = release(env, key).await?.due_at.is_some_and(|at| at > Timestamp::now());
    let last = env.completed(key).await?.last.context("no digest")?;
    assert_eq!(last.closed.outcome, DigestOutcome::Sent);
    Ok(waits)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_takes_no_patch_that_its_worker_holds() -> Result<()> {
    let mut env = Env::without_worker(settings("after 1s", "after 1h")).await?;
    replace_worker(&mut env, PatchMode::Held)?;
    let [earlier, decided, open] = ["earlier", "decided", "open"].map(spread_key);
    let (earlier, decided, open) = (earlier?, decided?, open?);
    for key in [&earlier, &decided, &open] {
        env.events.emit(event(key, "e1")).await?;
        env.reaches(key, DigestStage::Collecting).await?;
        hold(&env, key).await?;
    }
    assert!(!waits_when_released(&env, &earlier).await?, "the patch was held");
    assert_eq!(patches(&env, &earlier).await?, 0);
    // This run meets the patch while it is held, and again after that.
    release(&env, &decided).await?;

    replace_worker(&mut env, PatchMode::Active)?;
    hold(&env, &decided).await?;
    assert!(!waits_when_released(&env, &decided).await?, "a run goes one way to its end");
    assert_eq!(patches(&env, &decided).await?, 0);
    assert!(waits_when_released(&env, &open).await?, "this run had not met the patch before");
    assert_eq!(patches(&env, &open).await?, 1);
    Ok(())
}
