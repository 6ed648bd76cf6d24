//! Recorded histories of every shape replay with today's workflow, and a changed workflow is caught.
//!
//! `tests/histories/` holds histories of earlier shapes: they are never rewritten, only added to. To record those shapes of
//! today that have no file there: `TIDINGS_RECORD=1 cargo nextest run --workspace -E 'test(record_the_shapes)'`. A shape that
//! changes gets another name.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use jiff::Timestamp;
use temporalio_client::{
    Client, UntypedWorkflowHandle, WorkflowFetchHistoryOptions, WorkflowGetResultOptions, WorkflowHistory,
};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use temporalio_workflow::workflow_interceptors::{
    CancellableWorkflowOutboundFuture, ScheduleActivityResult, ScheduleLocalActivityInput, WorkflowInterceptor,
    WorkflowInterceptorConstructor, WorkflowInterceptorContext, WorkflowNext,
};
use tidings_activities::retention::RetentionLimits;
use tidings_client::WorkflowCommands;
use tidings_harness::{
    env::{Env, event, key, name_without_spread, settings},
    flood::flood,
    message_env::{MessageEnv, of, order, submission, waits},
    relay::{Act, At, Fault},
    server::run_handle,
    signals::{json_events, signal},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    command::{CommandContext, HoldCommand, ReleaseCommand, ReopenCommand, RetimeCommand},
    names,
    pause::{PauseDetails, PauseScope},
    records::{AuditEntry, MessageState},
    retention::RetentionKind,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_services::choices;
use tidings_store::{Store, prelude::*};
use tidings_workflows::{Deliveries, Digest, DigestStage, Message, RetentionRun};

use super::shapes;

/// A replay that hangs is a failure, too.
const PATIENCE: Duration = Duration::from_secs(30);

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("histories")
}

fn recorded(path: &Path) -> Result<WorkflowHistory> {
    Ok(WorkflowHistory::from_json(&fs::read(path).with_context(|| path.display().to_string())?)?)
}

async fn replay(history: WorkflowHistory, options: WorkflowReplayerOptions) -> Result<()> {
    let replayer = WorkflowReplayer::new(options)?;
    Ok(tokio::time::timeout(PATIENCE, replayer.replay_workflow(history)).await.context("the replay hangs")??)
}

fn today() -> Result<WorkflowReplayerOptions> {
    let options = WorkflowReplayerOptions::new().register_workflow::<Digest>()?;
    let options = options.register_workflow::<Message>()?.register_workflow::<RetentionRun>()?;
    Ok(options.register_workflow::<Deliveries>()?.build())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_history_replays_with_the_current_workflow() -> Result<()> {
    let mut shapes = 0;
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        replay(recorded(&path)?, today()?).await.with_context(|| path.display().to_string())?;
        shapes += 1;
    }
    ensure!(shapes >= 33, "{shapes} histories in {}", folder().display());
    Ok(())
}

/// A workflow that calls another activity where `load` was.
struct Changed;

impl WorkflowInterceptor for Changed {
    fn schedule_local_activity(
        &self,
        _: WorkflowInterceptorContext,
        mut input: ScheduleLocalActivityInput,
        next: WorkflowNext<
            'static,
            ScheduleLocalActivityInput,
            CancellableWorkflowOutboundFuture<ScheduleActivityResult>,
        >,
    ) -> CancellableWorkflowOutboundFuture<ScheduleActivityResult> {
        if input.activity_type() == "load" {
            "prefetch".clone_into(input.activity_type_mut());
        }
        next.run(input)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_fails_on_a_changed_workflow() -> Result<()> {
    let changed = WorkflowInterceptorConstructor::new(|_| Changed);
    let options = WorkflowReplayerOptions::new().workflow_interceptor(changed).register_workflow::<Digest>()?.build();
    let Err(error) = replay(recorded(&folder().join("completed.json"))?, options).await else {
        bail!("nobody noticed")
    };
    let error = format!("{error:#}");
    println!("{error}");
    ensure!(error.contains("TMPRL1100"), "{error}");
    Ok(())
}

/// Makes each shape on a real server, checks that it replays, and keeps it when asked to.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn record_the_shapes_of_today() -> Result<()> {
    let types = settings("after 1s", "after 1h");
    let env = Env::start(types.clone()).await?;
    let minute = Duration::from_mins(1);

    let completed = key("activity", "completed");
    env.events.emit(event(&completed, "e1")).await?;
    env.completed(&completed).await?;

    let open = key("alerts", "open");
    env.events.emit(event(&open, "e1")).await?;
    let planned = async || Ok((env.history(&open).await?.len() >= 7).then_some(()));
    eventually("the window is planned", minute, planned).await?;

    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).to("failed@dev.invalid").times(1));
    let failed = key("activity", "failed");
    env.events.emit(event(&failed, "e1")).await?;
    let retrying = async || Ok((env.status(&failed).await?.state == DigestStage::Retrying).then_some(()));
    eventually("the send is retried", minute, retrying).await?;

    env.relay.fault(Fault::new(At::Dot, Act::Reply("552 5.3.4 too big".into())).to("large@dev.invalid").times(1));
    let large = key("activity", "large");
    let lines =
        (0..9).map(|n| env.events.emit(v1::Event { entity_id: n.to_string(), ..event(&large, &n.to_string()) }));
    try_join_all(lines).await?;
    env.completed(&large).await?;

    let continued = key("alerts", "continued");
    let first = {
        signal(&env.temporal, &continued, json_events([EVENT])).await?;
        env.run(&continued).await?
    };
    flood(&env, &continued, (0..1_005).map(|_| json_events([EVENT]))).await?;
    let rolled = async || Ok((env.run(&continued).await? != first).then_some(()));
    eventually("the run continues as new", minute, rolled).await?;
    wait_for_emails(&env.relay, 1, minute).await?;
    env.update(&continued, Digest::flush, order()).await?;
    env.completed(&continued).await?;

    let commanded = key("alerts", "commanded");
    command(&env, &commanded).await?;
    let retention = retention(&env).await?;
    let (_post, message) = message().await?;
    let [paused, reopened] = paused(&env).await?;
    let (_stopped, paused_message) = paused_message().await?;
    let (_deferred, returned) = returned().await?;
    let (_throttling, throttled) = shapes::throttled().await?;
    let (_repeating, compared) = shapes::compared().await?;
    let (_subscribed, subscription) = shapes::subscription().await?;
    let (_undoing, undo) = shapes::undo().await?;
    let windows = shapes::of_windows(&env, &types).await?;
    let windows = windows.iter().map(|(shape, key)| (*shape, env.run_handle(key, None)));

    for (shape, handle) in [
        ("completed", env.run_handle(&completed, None)),
        ("open", env.run_handle(&open, None)),
        ("failed_send", env.run_handle(&failed, None)),
        ("too_large", env.run_handle(&large, None)),
        ("continued_as_new", env.run_handle(&continued, Some(&first))),
        ("handed_over", env.run_handle(&continued, None)),
        ("commanded", env.run_handle(&commanded, None)),
        ("upkeep", retention),
        ("message", message),
        ("paused", env.run_handle(&paused, None)),
        ("reopened", env.run_handle(&reopened, None)),
        ("paused_message", paused_message),
        ("returned", returned),
        ("throttled", throttled),
        ("compared", compared),
        ("subscription", subscription),
    ]
    .into_iter()
    .chain(windows)
    .chain(undo)
    {
        let history = || handle.fetch_history(WorkflowFetchHistoryOptions::default());
        replay(history(), today()?).await.with_context(|| format!("{shape}, as recorded now"))?;
        let path = folder().join(format!("{shape}.json"));
        if env::var_os("TIDINGS_RECORD").is_some() && !path.exists() {
            fs::write(path, history().to_json().await?)?;
        }
    }
    Ok(())
}

/// A digest that is held, given another deadline, released, flushed, and sent.
async fn command(env: &Env, key: &Key) -> Result<()> {
    env.events.emit(event(key, "e1")).await?;
    let held = env.update(key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    ensure!(held.events == 1, "{held:?}");
    let later = Timestamp::now() + Duration::from_hours(2);
    let retime = RetimeCommand { order: order(), at: Some(later) };
    let retimed = env.update(key, Digest::retime, retime).await?;
    ensure!(retimed.due_at.is_some(), "{retimed:?}");
    env.update(key, Digest::release, ReleaseCommand::from(order())).await?;
    env.update(key, Digest::flush, order()).await?;
    env.completed(key).await?;
    Ok(())
}

/// A single message that the relay takes at the second attempt.
async fn message() -> Result<(MessageEnv, UntypedWorkflowHandle<Client>)> {
    let messages = MessageEnv::start(waits(&[Duration::from_secs(1)])).await?;
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    let key = of("message");
    messages.send(&submission(&key.key)).await?;
    ensure!(messages.ended(&key).await? == MessageState::Sent, "it is not sent");
    let handle = run_handle(&messages.env.temporal, key.workflow_id(), None);
    Ok((messages, handle))
}

/// A window and a reopened digest that wait for a pause, and are sent after the resume.
async fn paused(env: &Env) -> Result<[Key; 2]> {
    let stopped = |digest_type: &str, user: &str| Key { tenant: "stopped".to_owned(), ..key(digest_type, user) };
    let keys = ["activity", "alerts"].map(|digest_type| {
        let user = name_without_spread(|user| stopped(digest_type, user).workflow_id());
        stopped(digest_type, &user)
    });
    pause(&*env.store, "stopped", false).await?;
    for key in &keys {
        env.events.emit(event(key, "e1")).await?;
        choices::signal_workflow(&env.temporal, key.workflow_id()).await?;
        env.reaches(key, DigestStage::Paused).await?;
    }
    let [_, reopened] = &keys;
    env.update(reopened, Digest::discard, order()).await?;
    env.completed(reopened).await?;
    let digest_id = env.store.digests(reopened, 1).await?.first().context("was not dropped")?.digest_id;
    let reopen = ReopenCommand { order: order(), digest_id, may_duplicate: false };
    WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE).digest(reopened).reopen(reopen).await?;
    env.status_when(reopened, "its attempt is paused", |status| {
        status.state == DigestStage::Paused && status.delivering.is_some()
    })
    .await?;
    resume(&*env.store, "stopped").await?;
    for key in &keys {
        choices::signal_workflow(&env.temporal, key.workflow_id()).await?;
        env.completed(key).await?;
    }
    Ok(keys)
}

/// A single message that waits for a pause, and is sent after the resume.
async fn paused_message() -> Result<(MessageEnv, UntypedWorkflowHandle<Client>)> {
    let messages = MessageEnv::start(waits(&[Duration::from_secs(1)])).await?;
    let key = of(&name_without_spread(|name| of(name).workflow_id()));
    pause(&*messages.env.store, "acme", true).await?;
    messages.send(&submission(&key.key)).await?;
    messages.waits(&key).await?;
    resume(&*messages.env.store, "acme").await?;
    choices::signal_workflow(&messages.env.temporal, key.workflow_id()).await?;
    ensure!(messages.ended(&key).await? == MessageState::Sent, "it is not sent");
    let handle = run_handle(&messages.env.temporal, key.workflow_id(), None);
    Ok((messages, handle))
}

/// A digest whose attempts all fail, and the digest of the window that its events then open.
async fn returned() -> Result<(Env, UntypedWorkflowHandle<Client>)> {
    let mut settings = settings("after 1s", "after 1h");
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(1)];
    let env = Env::start(settings).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(2));
    let key = key("activity", "returned");
    env.events.emit(event(&key, "e1")).await?;
    let summary = env.completed(&key).await?;
    let last = summary.last.context("no digest")?.closed.outcome;
    ensure!((summary.digests, last) == (2, DigestOutcome::Sent), "{last:?} after {} digests", summary.digests);
    let handle = env.run_handle(&key, None);
    Ok((env, handle))
}

async fn pause(store: &dyn Store, tenant: &str, messages: bool) -> Result<()> {
    let scope = PauseScope { tenant: Some(tenant.to_owned()), digest_type: None };
    let CommandContext { by, why } = order();
    store.pause(&scope, messages, &PauseDetails { by, why, since: Timestamp::now(), until: None }).await?;
    Ok(())
}

async fn resume(store: &dyn Store, tenant: &str) -> Result<()> {
    let scope = PauseScope { tenant: Some(tenant.to_owned()), digest_type: None };
    let CommandContext { by: actor, why } = order();
    let entry = AuditEntry { at: Timestamp::now(), actor: actor.into(), action: "resume".to_owned(), why };
    store.resume(&scope, &entry).await?.context("was not paused")?;
    Ok(())
}

/// A retention run of several batches.
async fn retention(env: &Env) -> Result<UntypedWorkflowHandle<Client>> {
    let ids: Vec<_> = (0..600).map(|n| n.to_string()).collect();
    env.sent_before(&key("activity", "old"), 0, &ids, Timestamp::UNIX_EPOCH).await?;
    let _worker = env.start_retention(RetentionLimits::default())?;
    env.run_retention().await?;
    let report = env.retention_run().get_result(WorkflowGetResultOptions::default()).await?;
    ensure!(report.kinds[&RetentionKind::Events].purged == 600, "{report}");
    Ok(run_handle(&env.temporal, names::retention_schedule(names::TASK_QUEUE), None))
}

const EVENT: &str = r#"{"event_id":"e1","category":"comment","occurred_at":1767225600}"#;
