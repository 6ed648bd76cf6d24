//! Runs of the digest workflow whose shape a history records: one for each thing that changes the order of its commands.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::Timestamp;
use sqlx::Executor as _;
use temporalio_client::{Client, UntypedWorkflowHandle, WorkflowCancelOptions, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use tidings_harness::{
    env::{Env, event, key, ledger, order, settings},
    notice_receiver::{NoticeReceiver, deliver_to},
    server::run_handle,
    signals::{json_events, malformed, signal},
    wait::eventually,
    worker::Running,
};
use tidings_model::{
    Key,
    command::{HoldCommand, ReleaseCommand, RetimeCommand},
    names,
    records::{AuditEntry, Preferences},
    rules::spread::overdue_share,
    settings::Settings,
    subscription::NoticeType,
    window::DigestOutcome,
};
use tidings_operations::subscriptions::NoticeWatch;
use tidings_proto::v1;
use tidings_services::choices;
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage, DigestStatus, PAGE_EVENTS};

/// A run for each shape, most of the digest type `alerts`, whose windows are open for an hour.
pub(super) async fn of_windows(env: &Env, settings: &Settings) -> Result<[(&'static str, Key); 11]> {
    let keys = ["retracted", "dropped", "cancelled", "chosen", "dead_letter", "stashed_and_counted"];
    let [retracted, dropped, cancelled, chosen, dead_letter, stashed] = keys.map(|shape| (shape, key("alerts", shape)));
    retract(env, &retracted.1).await?;
    collects(env, &dropped.1).await?;
    env.update(&dropped.1, Digest::discard, order()).await?;
    env.completed(&dropped.1).await?;
    cancel(env, &cancelled.1).await?;
    choose(env, settings, &chosen.1).await?;
    malform(env, &dead_letter.1).await?;
    stash(env, &stashed.1).await?;
    let released = ("released", released(env).await?);
    let repeated = ("repeated", repeated(env).await?);
    let exact = ("exact", exact(env).await?);
    let unused = ("unused", unused(env).await?);
    let mended = ("mended", mended(env).await?);
    Ok([retracted, dropped, cancelled, chosen, dead_letter, stashed, released, repeated, exact, unused, mended])
}

/// A digest that its throttle defers for some seconds.
pub(super) async fn throttled() -> Result<(Env, UntypedWorkflowHandle<Client>)> {
    let mut settings = settings("instant", "after 1h");
    settings.digests.get_mut("activity").context("no such type")?.throttle = Some(Duration::from_secs(5));
    let env = Env::start(settings).await?;
    let key = key("activity", "throttled");
    env.events.emit(event(&key, "e1")).await?;
    env.completed(&key).await?;
    env.events.emit(event(&key, "e2")).await?;
    env.status_when(&key, "the throttle defers it", |status| status.why.starts_with("throttled")).await?;
    let last = env.completed(&key).await?.last.context("no digest")?;
    ensure!(last.closed.outcome == DigestOutcome::Sent, "{:?}", last.closed);
    let handle = env.run_handle(&key, None);
    Ok((env, handle))
}

/// A message that waits in case an operator takes it back, and is sent, and one that is taken back.
pub(super) async fn undo() -> Result<(Env, [(&'static str, UntypedWorkflowHandle<Client>); 2])> {
    let mut settings = settings("after 1s", "after 1s");
    for (digest_type, undo) in [("activity", Duration::from_secs(2)), ("alerts", Duration::from_hours(1))] {
        settings.digests.get_mut(digest_type).context("no such type")?.undo = Some(undo);
    }
    let env = Env::start(settings).await?;
    let (waited, taken_back) = (key("activity", "waited"), key("alerts", "taken_back"));
    for key in [&waited, &taken_back] {
        env.events.emit(event(key, "e1")).await?;
        env.reaches(key, DigestStage::Undoable).await?;
    }
    env.update(&taken_back, Digest::discard, order()).await?;
    for (key, outcome) in [(&waited, DigestOutcome::Sent), (&taken_back, DigestOutcome::Dropped)] {
        let last = env.completed(key).await?.last.context("no digest")?;
        ensure!(last.closed.outcome == outcome, "{:?}", last.closed);
    }
    let handles = [("waited", env.run_handle(&waited, None)), ("taken_back", env.run_handle(&taken_back, None))];
    Ok((env, handles))
}

/// A window that events of an earlier digest do not fill, and that a new event fills.
pub(super) async fn compared() -> Result<(Env, UntypedWorkflowHandle<Client>)> {
    let mut settings = settings("after 1h", "after 1h");
    settings.digests.get_mut("activity").context("no such type")?.max_events = Some(2);
    let env = Env::start(settings).await?;
    let key = key("activity", "compared");
    for event_id in ["e1", "e2"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    env.completed(&key).await?;
    env.events.emit(event(&key, "e3")).await?;
    env.status_when(&key, "one event is new", |status| status.pending == 1 && status.due_at.is_some()).await?;
    env.events.emit(event(&key, "e1")).await?;
    eventually("the repetition is compared", Duration::from_mins(1), async || {
        Ok(patches(&env, &key).await?.checked_sub(1))
    })
    .await?;
    let status = env.status(&key).await?;
    ensure!((status.pending, status.uncompared) == (1, 0), "{status:?}");
    env.events.emit(event(&key, "e4")).await?;
    let last = env.completed(&key).await?.last.context("no digest")?;
    ensure!(env.store.digest(last.digest_id).await?.is_some_and(|digest| digest.items == 2), "{last:?}");
    let handle = env.run_handle(&key, None);
    Ok((env, handle))
}

/// The number of patches that a key's run recorded.
pub(super) async fn patches(env: &Env, key: &Key) -> Result<usize> {
    let names = env.history(key).await?.into_iter().filter_map(|event| match event.attributes {
        Some(Attributes::MarkerRecordedEventAttributes(marker)) => Some(marker.marker_name),
        _ => None,
    });
    Ok(names.filter(|name| name == "core_patch").count())
}

/// A run that got an event of an earlier digest only, and waits some seconds for more.
async fn repeated(env: &Env) -> Result<Key> {
    let key = key("activity", "repeated");
    env.events.emit(event(&key, "e1")).await?;
    env.completed(&key).await?;
    let sent = env.run(&key).await?;
    env.events.emit(event(&key, "e1")).await?;
    let last = env.completed(&key).await?.last;
    ensure!(last.is_none() && env.run(&key).await? != sent, "{last:?}");
    Ok(key)
}

/// A window that is overdue when it is released with many others, and waits for its share of a minute.
async fn released(env: &Env) -> Result<Key> {
    let mut keys = (0..1000).map(|n| key("alerts", &format!("released{n}")));
    let short = |key: &Key| overdue_share(&key.workflow_id(), None) == Duration::from_secs(2);
    let key = keys.find(short).context("no key has this share")?;
    collects(env, &key).await?;
    env.update(&key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    env.update(&key, Digest::retime, RetimeCommand { order: order(), at: Some(Timestamp::now()) }).await?;
    let released = env.update(&key, Digest::release, ReleaseCommand { order: order(), spread: true }).await?;
    ensure!(released.due_at.is_some_and(|at| at > Timestamp::now()), "{released:?}");
    let last = env.completed(&key).await?.last.context("no digest")?;
    ensure!(last.closed.outcome == DigestOutcome::Sent, "{:?}", last.closed);
    Ok(key)
}

async fn collects(env: &Env, key: &Key) -> Result<()> {
    env.events.emit(event(key, "e1")).await?;
    env.reaches(key, DigestStage::Collecting).await
}

async fn flushed(env: &Env, key: &Key) -> Result<()> {
    env.update(key, Digest::flush, order()).await?;
    let last = env.completed(key).await?.last.context("no digest")?;
    ensure!(last.closed.outcome == DigestOutcome::Sent, "{:?}", last.closed);
    Ok(())
}

async fn retract(env: &Env, key: &Key) -> Result<()> {
    collects(env, key).await?;
    env.events.emit(event(key, "e2")).await?;
    let Key { tenant, digest_type, user } = key.clone();
    let retract =
        v1::Retract { tenant, user, digest: digest_type, event_id: "e2".to_owned(), ..v1::Retract::default() };
    env.events.retract(retract).await?;
    env.status_when(key, "one event is left", |status| status.pending == 1).await?;
    flushed(env, key).await
}

async fn cancel(env: &Env, key: &Key) -> Result<()> {
    collects(env, key).await?;
    env.workflow(key).cancel(WorkflowCancelOptions::default()).await?;
    eventually("the cancelled run ends", Duration::from_mins(1), async || {
        Ok((env.run_status(key).await? != WorkflowExecutionStatus::Running).then_some(()))
    })
    .await
}

async fn choose(env: &Env, settings: &Settings, key: &Key) -> Result<()> {
    collects(env, key).await?;
    let instant = Preferences { cadence: Some("instant".to_owned()), ..Preferences::default() };
    choices::update_preferences(&*env.store, settings, key, |_| instant.clone(), None, &order(), Timestamp::now())
        .await?;
    choices::signal_key(&env.temporal, key).await?;
    env.completed(key).await?;
    Ok(())
}

async fn malform(env: &Env, key: &Key) -> Result<()> {
    collects(env, key).await?;
    signal(&env.temporal, key, malformed()).await?;
    env.status_when(key, "a dead letter is counted", |status| status.malformed == 1).await?;
    flushed(env, key).await
}

/// A run of a dead letter only, which waits for a first event until it completes.
async fn unused(env: &Env) -> Result<Key> {
    let key = key("alerts", "unused");
    signal(&env.temporal, &key, malformed()).await?;
    let summary = env.completed(&key).await?;
    ensure!(summary.digests == 0, "{} digests", summary.digests);
    Ok(key)
}

/// A digest whose claim the ledger refuses until an operator mends the ledger. A command ends the wait at once (rule 52).
async fn mended(env: &Env) -> Result<Key> {
    let key = key("alerts", "mended");
    collects(env, &key).await?;
    let refuse = "CREATE TRIGGER refuses BEFORE INSERT ON digests WHEN NEW.user_id = 'mended'
                  BEGIN SELECT RAISE(ABORT, 'refused'); END";
    let mut ledger = ledger(env.folder.path()).await?;
    ledger.execute(sqlx::raw_sql(refuse)).await?;
    env.update(&key, Digest::flush, order()).await?;
    let waits =
        |status: &DigestStatus| status.trouble.as_ref().is_some_and(|trouble| trouble.contains("tried again at "));
    env.status_when(&key, "the status has the refusal", waits).await?;
    ledger.execute(sqlx::raw_sql("DROP TRIGGER refuses")).await?;
    flushed(env, &key).await?;
    ensure!(patches(env, &key).await? == 1);
    Ok(key)
}

/// A window with an event that counts since the patch `json`, next to one that is not JSON.
async fn exact(env: &Env) -> Result<Key> {
    let key = key("alerts", "exact");
    collects(env, &key).await?;
    let event = |id: &str, score: &str| {
        format!(
            r#"{{"event_id":"{id}","category":"comment","occurred_at":1795860000.123,"payload":{{"id":1234567890123456789,"score":{score}}}}}"#
        )
    };
    let events = [event("e2", "1"), event("e3", "NaN")];
    signal(&env.temporal, &key, json_events(events.iter().map(String::as_str))).await?;
    let read = |status: &DigestStatus| (status.pending + status.uncompared, status.malformed) == (2, 1);
    env.status_when(&key, "one event is read and one is a dead letter", read).await?;
    ensure!(patches(env, &key).await? == 1);
    flushed(env, &key).await?;
    Ok(key)
}

async fn stash(env: &Env, key: &Key) -> Result<()> {
    let events = u64::try_from(PAGE_EVENTS)? + 10;
    try_join_all((0..events).map(|n| env.events.emit(event(key, &n.to_string())))).await?;
    env.status_when(key, "everything is pending", |status| {
        status.pending + status.uncompared == events && status.due_at.is_some()
    })
    .await?;
    flushed(env, key).await
}

/// Deliveries to a receiver that is away first, then refuses the notice of `ann`, and takes that of `bo` meanwhile.
pub(super) async fn subscription() -> Result<((Env, Running, NoticeReceiver), UntypedWorkflowHandle<Client>)> {
    let env = Env::without_worker(settings("after 1h", "after 1h")).await?;
    let receiver = NoticeReceiver::start(|n, _| [503, 500].get(n).copied().unwrap_or(200)).await?;
    let subscription = receiver.subscription(&[NoticeType::RecipientUnsubscribed])?;
    let worker = deliver_to(&env.temporal, env.store.clone(), subscription).await?;
    let mut watch = NoticeWatch::new(env.store.clone(), env.temporal.clone(), names::TASK_QUEUE.to_owned());
    let entry = || AuditEntry { at: Timestamp::now(), actor: "ann".into(), action: "withdraw".into(), why: "x".into() };
    let received = async |count: usize| {
        let met = async || Ok((receiver.received()?.len() >= count).then_some(()));
        eventually(&format!("{count} requests"), Duration::from_mins(1), met).await
    };
    env.store.put_consent(&key("activity", "ann"), false, &entry()).await?;
    watch.poll_once().await?;
    received(2).await?;
    env.store.put_consent(&key("activity", "bo"), false, &entry()).await?;
    watch.poll_once().await?;
    received(4).await?;
    let ended = async || Ok(env.store.subscriptions(9).await?.into_iter().find(|state| state.waiting == 0));
    eventually("all is delivered", Duration::from_mins(1), ended).await?;
    let handle = run_handle(&env.temporal, names::subscription_workflow_id(names::TASK_QUEUE, "crm"), None);
    Ok(((env, worker, receiver), handle))
}
