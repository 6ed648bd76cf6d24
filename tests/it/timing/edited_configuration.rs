//! An edited `tidings.toml` and a restarted worker: open windows keep their deadline, their throttle and their cap (rule 16).

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use temporalio_client::WorkflowQueryOptions;
use tidings_client::{Client, Config};
use tidings_harness::{
    cli_env::CliEnv,
    env::{Env, event, key, order, settings},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    command::RetimeCommand,
    settings::{DigestCap, OverLimit, Settings},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage, DigestStatus};

async fn collecting(cli: &CliEnv, key: &Key, events: u64) -> Result<DigestStatus> {
    let temporal = cli.server.client().await?;
    let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
    eventually("the key collects", Duration::from_mins(1), async || {
        // The query fails while no worker runs.
        let status = workflow.query(Digest::status, (), WorkflowQueryOptions::default()).await.ok();
        Ok(status.filter(|status| {
            status.state == DigestStage::Collecting
                && status.pending + status.uncompared == events
                && status.due_at.is_some()
        }))
    })
    .await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_configuration_leaves_open_windows_alone() -> Result<()> {
    let mut cli = CliEnv::start("daily 08:00").await?;
    cli.start_worker()?;
    let events = Client::new(cli.server.client().await?, Config::default());
    let (old, new) = (key("activity", "ann"), key("activity", "bo"));
    events.emit(event(&old, "e1")).await?;
    let before = collecting(&cli, &old, 1).await?;
    assert!(before.why.starts_with("daily 08:00 UTC -> "), "{}", before.why);

    cli.kill_worker()?;
    cli.configure("after 20s")?;
    cli.start_worker()?;
    events.emit(event(&old, "e2")).await?;
    let after = collecting(&cli, &old, 2).await?;
    assert_eq!((after.due_at, after.why), (before.due_at, before.why));

    events.emit(event(&new, "e1")).await?;
    let fresh = collecting(&cli, &new, 1).await?;
    assert!(fresh.why.starts_with("after 20s -> "), "a window that opens later follows the edit: {}", fresh.why);
    Ok(())
}

const HALF_A_DAY: Duration = Duration::from_hours(12);

/// Restarts the worker with other settings.
fn reconfigure(env: &mut Env, settings: Settings) -> Result<()> {
    env.stop_worker()?;
    env.settings = settings;
    env.start_worker()
}

/// Sends a digest of the key at once.
async fn send(env: &Env, key: &Key) -> Result<()> {
    env.events.emit(event(key, "sent")).await?;
    env.update(key, Digest::flush, order()).await?;
    env.completed(key).await.map(drop)
}

/// Opens a window of the key, which is due in an hour.
async fn open(env: &Env, key: &Key) -> Result<()> {
    env.events.emit(event(key, "open")).await?;
    env.status_when(key, "planned", |status| status.due_at.is_some()).await.map(drop)
}

/// Gives the key's open window the deadline of today's configuration.
async fn retime(env: &Env, key: &Key) -> Result<()> {
    env.update(key, Digest::retime, RetimeCommand { order: order(), at: None }).await.map(drop).map_err(Into::into)
}

/// Makes the key's open window due now, with the limits that it has.
async fn make_due(env: &Env, key: &Key) -> Result<()> {
    let at = Some(Timestamp::now());
    env.update(key, Digest::retime, RetimeCommand { order: order(), at }).await.map(drop).map_err(Into::into)
}

/// The end of the key's open window in the ledger, once the window is due.
async fn end(env: &Env, key: &Key) -> Result<(DigestOutcome, String)> {
    make_due(env, key).await?;
    env.completed(key).await?;
    let closed = env.store.digests(key, 1).await?.pop().and_then(|digest| digest.closed).context("has no end")?;
    Ok((closed.outcome, closed.why))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_throttle_leaves_open_windows_alone() -> Result<()> {
    let mut before = settings("after 1h", "after 1h");
    let mut after = before.clone();
    for (settings, digest_type, throttled) in
        [(&mut after, "activity", OverLimit::Skip), (&mut before, "alerts", OverLimit::Defer)]
    {
        let digest = settings.digests.get_mut(digest_type).context("no such type")?;
        (digest.throttle, digest.on_throttle) = (Some(HALF_A_DAY), throttled);
    }
    let (kept, retimed) = (key("activity", "ann"), key("activity", "bo"));
    let (throttled, freed) = (key("alerts", "ann"), key("alerts", "bo"));
    let mut env = Env::start(before).await?;
    for key in [&kept, &retimed, &throttled, &freed] {
        send(&env, key).await?;
        open(&env, key).await?;
    }
    reconfigure(&mut env, after)?;
    for key in [&retimed, &freed] {
        retime(&env, key).await?;
    }

    assert_eq!(end(&env, &kept).await?.0, DigestOutcome::Sent);
    let (outcome, why) = end(&env, &retimed).await?;
    assert_eq!(outcome, DigestOutcome::Throttled);
    assert!(why.starts_with("throttled to one in 12h, the last at "), "{why}");
    make_due(&env, &throttled).await?;
    env.status_when(&throttled, "it waits", |status| status.why.starts_with("throttled to one in 12h")).await?;
    assert_eq!(end(&env, &freed).await?.0, DigestOutcome::Sent);
    // Four flushes, and the two windows without a throttle of their own.
    wait_for_emails(&env.relay, 6, Duration::from_mins(1)).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_effect_of_the_cap_leaves_open_windows_alone() -> Result<()> {
    let cap = Some(DigestCap { most: 1, within: HALF_A_DAY });
    let before = Settings { cap, ..settings("after 1h", "after 1h") };
    let after = Settings { on_cap: OverLimit::Skip, ..before.clone() };
    let mut env = Env::start(before).await?;
    let (kept, retimed) = (key("alerts", "ann"), key("alerts", "bo"));
    for key in [&kept, &retimed] {
        send(&env, &Key { digest_type: "activity".into(), ..key.clone() }).await?;
        open(&env, key).await?;
    }
    reconfigure(&mut env, after)?;
    retime(&env, &retimed).await?;

    make_due(&env, &kept).await?;
    env.status_when(&kept, "it waits", |status| status.why.starts_with("the recipient had")).await?;
    let (outcome, why) = end(&env, &retimed).await?;
    assert_eq!(outcome, DigestOutcome::Throttled);
    assert!(why.starts_with("the recipient had 1 digest in 12h, as many as they get -> "), "{why}");
    assert_eq!((env.status(&kept).await?.pending, env.relay.mails().len()), (1, 2));
    Ok(())
}
