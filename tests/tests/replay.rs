//! Recorded histories of every shape replay with today's workflow, and a changed workflow is caught.
//!
//! `tests/histories/` holds histories of released shapes: they are never rewritten, only added to. To record the shapes
//! of today into that folder: `TIDINGS_RECORD=1 cargo nextest run --workspace -E 'test(record_the_shapes)'`.

use std::{env, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use temporalio_client::{
    Client, NamespacedClient as _, UntypedWorkflowHandle, WorkflowExecutionInfo, WorkflowFetchHistoryOptions,
    WorkflowGetResultOptions, WorkflowHistory,
};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use temporalio_workflow::workflow_interceptors::{
    CancellableWorkflowOutboundFuture, ScheduleActivityResult, ScheduleLocalActivityInput, WorkflowInterceptor,
    WorkflowInterceptorConstructor, WorkflowInterceptorContext, WorkflowNext,
};
use tidings_activities::upkeep::Retention;
use tidings_tests::{
    relay::{Act, At, Fault},
    stage::{Stage, event, eventually, key, mails, settings, signal},
};
use tidings_workflows::{Digest, Inbound, Upkeep, names, upkeep::contract::Kind};

/// A replay that hangs is a failure, too.
const PATIENCE: Duration = Duration::from_secs(30);

const SHAPES: [&str; 5] = ["completed", "open", "continued_as_new", "failed_send", "upkeep"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("histories")
}

fn recorded(shape: &str) -> Result<WorkflowHistory> {
    let path = folder().join(format!("{shape}.json"));
    Ok(WorkflowHistory::from_json(&fs::read(&path).with_context(|| path.display().to_string())?)?)
}

async fn replay(history: WorkflowHistory, options: WorkflowReplayerOptions) -> Result<()> {
    let replayer = WorkflowReplayer::new(options)?;
    Ok(tokio::time::timeout(PATIENCE, replayer.replay_workflow(history)).await.context("the replay hangs")??)
}

fn today() -> Result<WorkflowReplayerOptions> {
    Ok(WorkflowReplayerOptions::new().register_workflow::<Digest>()?.register_workflow::<Upkeep>()?.build())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_history_replays_with_today_s_workflow() -> Result<()> {
    for shape in SHAPES {
        replay(recorded(shape)?, today()?).await.with_context(|| shape.to_owned())?;
    }
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
async fn a_changed_workflow_is_caught() -> Result<()> {
    let changed = WorkflowInterceptorConstructor::new(|_| Changed);
    let options = WorkflowReplayerOptions::new().workflow_interceptor(changed).register_workflow::<Digest>()?.build();
    let Err(error) = replay(recorded("completed")?, options).await else { bail!("nobody noticed") };
    let error = format!("{error:#}");
    println!("{error}");
    ensure!(error.contains("TMPRL1100"), "{error}");
    Ok(())
}

/// Makes each shape on a real server, checks that it replays, and keeps it when asked to.
#[tokio::test(flavor = "multi_thread")]
async fn record_the_shapes_of_today() -> Result<()> {
    let stage = Stage::start(settings("after 1s", "after 1h")).await?;
    let minute = Duration::from_secs(60);

    let completed = key("activity", "completed");
    stage.events.emit(event(&completed, "e1")).await?;
    stage.completed(&completed).await?;

    let open = key("alerts", "open");
    stage.events.emit(event(&open, "e1")).await?;
    let planned = async || Ok((stage.history(&open).await?.len() >= 7).then_some(()));
    eventually("the window is planned", minute, planned).await?;

    stage.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).to("failed@dev.invalid").times(1));
    let failed = key("activity", "failed");
    stage.events.emit(event(&failed, "e1")).await?;
    let retrying = async || Ok((stage.status(&failed).await?.state == "retrying").then_some(()));
    eventually("the send is retried", minute, retrying).await?;

    let continued = key("alerts", "continued");
    let first = {
        signal(&stage.temporal, &continued, Inbound::from_json_events([EVENT])).await?;
        stage.run(&continued).await?
    };
    let signals = (0..1_005).map(|_| signal(&stage.temporal, &continued, Inbound::from_json_events([EVENT])));
    stream::iter(signals).buffer_unordered(4).try_collect::<()>().await?;
    let rolled = async || Ok((stage.run(&continued).await? != first).then_some(()));
    eventually("the run continues as new", minute, rolled).await?;
    mails(&stage.relay, 1, minute).await?;

    let upkeep = upkeep(&stage).await?;

    for (shape, handle) in [
        ("completed", stage.run_handle(&completed, None)),
        ("open", stage.run_handle(&open, None)),
        ("failed_send", stage.run_handle(&failed, None)),
        ("continued_as_new", stage.run_handle(&continued, Some(&first))),
        ("upkeep", upkeep),
    ] {
        let history = || handle.fetch_history(WorkflowFetchHistoryOptions::default());
        replay(history(), today()?).await.with_context(|| format!("{shape}, as recorded now"))?;
        if env::var_os("TIDINGS_RECORD").is_some() {
            fs::write(folder().join(format!("{shape}.json")), history().to_json().await?)?;
        }
    }
    Ok(())
}

/// An upkeep of several batches.
async fn upkeep(stage: &Stage) -> Result<UntypedWorkflowHandle<Client>> {
    let ids: Vec<_> = (0..600).map(|n| n.to_string()).collect();
    stage.sent_before(&key("activity", "old"), 0, &ids, Timestamp::UNIX_EPOCH).await?;
    let _worker = stage.start_upkeep(Retention::default())?;
    stage.run_upkeep().await?;
    let report = stage.upkeep().get_result(WorkflowGetResultOptions::default()).await?;
    ensure!(report.kinds[&Kind::Events].purged == 600, "{report}");
    let execution = WorkflowExecutionInfo::builder()
        .namespace(stage.temporal.namespace())
        .workflow_id(names::upkeep(names::TASK_QUEUE))
        .build();
    Ok(execution.bind_untyped(stage.temporal.clone()))
}

const EVENT: &str = r#"{"event_id":"e1","category":"comment","occurred_at":1767225600}"#;
