//! Runs that ended without their code, or that no worker can execute, are found. What no person ended is recovered by itself,
//! and the rest is listed with the command to run (rule 54).

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use temporalio_client::{
    NamespacedClient as _, UntypedSignal, WorkflowIdConflictPolicy, WorkflowStartOptions, WorkflowTerminateOptions,
    tonic::IntoRequest as _,
};
use temporalio_common::{
    UntypedWorkflow,
    data_converters::RawValue,
    protos::temporal::api::{
        common::v1::WorkflowExecution,
        workflowservice::v1::{
            PauseWorkflowExecutionRequest, ResetWorkflowExecutionRequest, UnpauseWorkflowExecutionRequest,
        },
    },
};
use tidings_client::{Client, CommandError, Config, WorkflowCommands};
use tidings_harness::{
    cli_env::CliEnv,
    env::{Env, count, event, key, order, settings},
    relay::events_by_message,
    server::DevServer,
    signals::json_events,
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    command::{HoldCommand, ReleaseCommand},
    names,
    troubled_run::{RunResolution, RunTrouble, TroubledRun},
};
use tidings_needs::needs;
use tidings_operations::{
    key_filter::KeyFilter,
    recover::RunRecovery,
    stats::{count_open, troubled_runs},
    sweep::RunSweep,
};
use tidings_workflows::{Digest, DigestStage, DigestStatus};
use uuid::Uuid;

const MINUTE: Duration = Duration::from_mins(1);

fn sweep(env: &Env) -> RunSweep {
    RunSweep::new(env.store.clone(), env.temporal.clone(), env.events.clone(), names::TASK_QUEUE.to_owned())
}

/// Options of a start, with a change.
fn start(key: &Key, change: impl FnOnce(&mut WorkflowStartOptions)) -> WorkflowStartOptions {
    let mut options = WorkflowStartOptions::new(names::TASK_QUEUE, key.workflow_id())
        .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
        .build();
    change(&mut options);
    options
}

/// Signals one event, as a producer in another language would, with options of its own for the start.
async fn produce(env: &Env, workflow_type: &str, options: WorkflowStartOptions, event_id: &str) -> Result<()> {
    let event = format!(
        r#"{{"event_id":"{event_id}","category":"comment","entity_type":"page","entity_id":"p1","occurred_at":1767225600}}"#
    );
    let (workflow, signal) = (UntypedWorkflow::new(workflow_type), UntypedSignal::new(names::SIGNAL));
    let (input, events) = (RawValue::default(), json_events([event.as_str()]));
    env.temporal.signal_with_start_workflow(workflow, input, signal, events, options).await?;
    Ok(())
}

/// Looks until the list is as wanted.
async fn listed(env: &Env, sweep: &RunSweep, wanted: impl Fn(&[TroubledRun]) -> bool) -> Result<Vec<TroubledRun>> {
    eventually("the list is as wanted", MINUTE, async || {
        sweep.sweep_once().await?;
        let runs = troubled_runs(&*env.store, names::TASK_QUEUE, None, 10).await?;
        Ok(wanted(&runs).then_some(runs))
    })
    .await
}

/// Looks until the relay has `emails`; then the numbers of events in them.
async fn mailed(env: &Env, sweep: &RunSweep, emails: usize) -> Result<Vec<u64>> {
    eventually("the emails are there", MINUTE, async || {
        sweep.sweep_once().await?;
        Ok((env.relay.count() >= emails).then_some(()))
    })
    .await?;
    let mut events: Vec<_> = events_by_message(&env.relay.mails())?.into_values().collect();
    events.sort_unstable();
    Ok(events)
}

/// Starts everything, and the first look. What ended before that is an operator's matter.
async fn swept(activity: &str) -> Result<(Env, RunSweep)> {
    let env = Env::start(settings(activity, "after 1s")).await?;
    let sweep = sweep(&env);
    sweep.sweep_once().await?;
    Ok((env, sweep))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_timed_out_is_recovered_by_itself_and_mailed_once() -> Result<()> {
    let (env, sweep) = swept("after 8s").await?;
    let (by_execution, by_run) = (key("activity", "ann"), key("activity", "bo"));
    let timeout = Some(Duration::from_secs(3));
    produce(&env, names::WORKFLOW_TYPE, start(&by_execution, |options| options.execution_timeout = timeout), "e1")
        .await?;
    produce(&env, names::WORKFLOW_TYPE, start(&by_run, |options| options.run_timeout = timeout), "e1").await?;
    assert_eq!(mailed(&env, &sweep, 2).await?, [1, 1]);
    for key in [&by_execution, &by_run] {
        env.completed(key).await?;
    }
    // Further looks find the ends again.
    listed(&env, &sweep, <[_]>::is_empty).await?;
    assert_eq!(env.relay.count(), 2);
    // The run with a timeout of its own has left it behind, and has not ended.
    let audited = "SELECT COUNT(*) FROM audit WHERE actor = 'tidings' AND action = 'recover'";
    assert_eq!(env.count(audited).await?, 1);
    assert_eq!(env.count("SELECT COUNT(*) FROM troubled_runs WHERE resolution = 'recovered'").await?, 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_start_replaced_is_recovered_by_itself() -> Result<()> {
    let (env, sweep) = swept("after 10s").await?;
    let key = key("activity", "ann");
    for event_id in ["e1", "e2"] {
        let options = start(&key, |options| options.id_conflict_policy = WorkflowIdConflictPolicy::TerminateExisting);
        produce(&env, names::WORKFLOW_TYPE, options, event_id).await?;
    }
    assert_eq!(mailed(&env, &sweep, 1).await?, [2], "both events are in one email");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_person_terminated_waits_for_a_person() -> Result<()> {
    let (env, sweep) = swept("after 10s").await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.update(&key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    let run_id = env.run(&key).await?;
    let by_mistake = WorkflowTerminateOptions::builder().reason("by mistake".to_owned()).build();
    env.workflow(&key).terminate(by_mistake).await?;

    let runs = listed(&env, &sweep, |runs| runs.first().is_some_and(|run| run.by.is_some())).await?;
    let found = &runs[0];
    assert_eq!((found.trouble, found.why.as_deref()), (RunTrouble::Terminated, Some("by mistake")));
    assert_eq!(found.remedy, format!("tidings recover acme/activity/ann --run {run_id} --why REASON"));
    assert!(env.is_idle(&key).await?, "it is not recovered");

    let recovery = RunRecovery {
        temporal: &env.temporal,
        events: &env.events,
        task_queue: names::TASK_QUEUE,
        store: &*env.store,
        key: &key,
        run_id: None,
    };
    let recovered = recovery.run(&order(), RunResolution::ByHand).await?;
    assert_eq!(recovered.hold.map(|hold| hold.order.by), Some("ann".to_owned()));
    let status = env.status(&key).await?;
    assert_eq!((status.pending, status.hold.is_some()), (1, true), "the hold came before the deadline");
    listed(&env, &sweep, <[_]>::is_empty).await?;
    let error = recovery.dry_run().await.unwrap_err();
    assert!(error.to_string().contains("is still running, and no earlier run waits"), "{error}");
    env.update(&key, Digest::release, ReleaseCommand::from(order())).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_an_old_run_loses_neither_events_nor_hold() -> Result<()> {
    let (env, sweep) = swept("after 1h").await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let old = env.run(&key).await?;
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    for event_id in ["e2", "e3"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    env.update(&key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    let reset = ResetWorkflowExecutionRequest {
        namespace: env.temporal.namespace(),
        workflow_execution: Some(WorkflowExecution { workflow_id: key.workflow_id(), run_id: old }),
        reason: "try it again".to_owned(),
        workflow_task_finish_event_id: 4,
        request_id: Uuid::new_v4().to_string(),
        identity: "bo@desk".to_owned(),
        ..ResetWorkflowExecutionRequest::default()
    };
    env.temporal.connection().workflow_service().reset_workflow_execution(reset.into_request()).await?;

    // A recovery that is refused at first is tried again after a minute.
    eventually("the events wait on hold again", 3 * MINUTE, async || {
        sweep.sweep_once().await?;
        let recovered = "SELECT COUNT(*) FROM troubled_runs WHERE resolution = 'recovered'";
        if env.count(recovered).await? == 0 || env.is_idle(&key).await? {
            return Ok(None);
        }
        Ok(env.status(&key).await?.hold)
    })
    .await?;
    env.update(&key, Digest::release, ReleaseCommand::from(order())).await?;
    // The first window of a reset run has the id of the digest that was sent. It goes on to the next one, and its flush is spent.
    let commands = WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE);
    eventually("the second email is there", MINUTE, async || {
        commands.digest(&key).flush(order()).await?;
        Ok((env.relay.count() >= 2).then_some(()))
    })
    .await?;
    assert_eq!(mailed(&env, &sweep, 2).await?, [1, 2]);
    env.completed(&key).await?;
    assert_eq!(env.relay.count(), 2);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_workflow_type_or_task_queue_is_listed() -> Result<()> {
    let (env, sweep) = swept("after 1s").await?;
    let (typed, queued) = (key("activity", "ann"), key("activity", "bo"));
    produce(&env, "Digest", start(&typed, |_| {}), "e1").await?;
    produce(&env, names::WORKFLOW_TYPE, start(&queued, |options| options.task_queue = "tiddings".to_owned()), "e1")
        .await?;
    let runs = listed(&env, &sweep, |runs| runs.len() == 2).await?;
    let troubles: BTreeSet<_> = runs.iter().map(|run| (run.workflow_id.clone(), run.trouble)).collect();
    let expected = [(typed.workflow_id(), RunTrouble::WrongType), (queued.workflow_id(), RunTrouble::WrongQueue)];
    assert_eq!(troubles, expected.into());
    for key in [&typed, &queued] {
        // A good event does not help: it joins the run.
        env.events.emit(event(key, "e2")).await?;
        let (temporal, events, task_queue) = (&env.temporal, &env.events, names::TASK_QUEUE);
        let recovery = RunRecovery { temporal, events, task_queue, store: &*env.store, key, run_id: None };
        let planned = recovery.dry_run().await?;
        assert!(planned.ended.starts_with("of another") && !env.is_idle(key).await?, "a dry run ends nothing");
        assert_eq!(recovery.run(&order(), RunResolution::ByHand).await?.events, 2);
    }
    assert_eq!(mailed(&env, &sweep, 2).await?, [2, 2]);
    listed(&env, &sweep, <[_]>::is_empty).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_answer_says_why() -> Result<()> {
    let (env, _) = swept("after 1h").await?;
    let commands = WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE);
    let typed = key("activity", "ann");
    produce(&env, "Digest", start(&typed, |_| {}), "e1").await?;
    let fails = async || {
        let error = commands.digest(&typed).status::<DigestStatus>().await.err().context("it answers")?;
        Ok(matches!(error, CommandError::TasksFail { .. }).then_some(()))
    };
    eventually("the status says that workflow tasks fail", MINUTE, fails).await?;
    let cron = key("activity", "bo");
    let options = start(&cron, |options| options.cron_schedule = Some("0 0 1 1 *".to_owned()));
    // A signal would begin the run.
    let workflow = UntypedWorkflow::new(names::WORKFLOW_TYPE);
    env.temporal.start_workflow(workflow, RawValue::default(), options).await?;
    let error = commands.digest(&cron).status::<DigestStatus>().await.unwrap_err();
    assert!(matches!(error, CommandError::NotStarted { .. }), "{error}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_paused_in_temporal_says_so() -> Result<()> {
    let mut env = Env::without_worker(settings("after 1h", "after 1s")).await?;
    env.server = DevServer::start_set(Some("frontend.WorkflowPauseEnabled=true")).await?;
    env.temporal = env.server.client().await?;
    env.events = Client::new(env.temporal.clone(), Config::default());
    env.start_worker()?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    let run_id = env.run(&key).await?;
    let (namespace, workflow_id) = (env.temporal.namespace(), key.workflow_id());
    let (identity, reason, request_id) = ("bo@desk".to_owned(), "wrong prices".to_owned(), Uuid::new_v4().to_string());
    let mut service = env.temporal.connection().workflow_service();
    let pause = PauseWorkflowExecutionRequest {
        namespace: namespace.clone(),
        workflow_id: workflow_id.clone(),
        run_id: run_id.clone(),
        identity: identity.clone(),
        reason: reason.clone(),
        request_id: request_id.clone(),
    };
    service.pause_workflow_execution(pause.into_request()).await?;

    let sweep = sweep(&env);
    let runs = listed(&env, &sweep, |runs| runs.len() == 1).await?;
    assert_eq!((runs[0].trouble, &runs[0].run_id), (RunTrouble::Paused, &run_id));
    assert_eq!(count_open(&env.temporal, None).await?, 1);
    let filter: KeyFilter = "tenant=acme".parse()?;
    assert_eq!(filter.keys(&env.temporal).await?, [key.clone()].into());
    let commands = WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE);
    let paused = |error: &CommandError| matches!(error, CommandError::Paused { .. });
    let error = commands.digest(&key).status::<DigestStatus>().await.unwrap_err();
    assert!(paused(&error), "{error}");
    let error = commands.digest(&key).flush(order()).await.unwrap_err();
    assert!(paused(&error), "{error}");

    let unpause = UnpauseWorkflowExecutionRequest { namespace, workflow_id, run_id, identity, reason, request_id };
    service.unpause_workflow_execution(unpause.into_request()).await?;
    listed(&env, &sweep, <[_]>::is_empty).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_sweeps_and_the_command_line_lists_and_dismisses() -> Result<()> {
    let mut cli = CliEnv::start("after 8s").await?;
    let (ann, bo) = (key("activity", "ann"), key("activity", "bo"));
    cli.import(&[ann.clone(), bo.clone()].into()).await?;
    cli.start_worker()?;
    let temporal = cli.server.client().await?;
    let events = Client::new(temporal.clone(), Config::default());
    let looked = async || Ok((count(cli.folder.path(), "SELECT COUNT(*) FROM sweep").await? > 0).then_some(()));
    eventually("the worker has looked", MINUTE, looked).await?;
    events.emit(event(&bo, "e1")).await?;
    let workflow = temporal.get_workflow_handle::<UntypedWorkflow>(bo.workflow_id());
    workflow.terminate(WorkflowTerminateOptions::default()).await?;
    let listed = eventually("the run is listed", MINUTE, async || {
        let listed = cli.run(&["runs", "list"]).await?;
        Ok(listed.contains("tidings recover acme/activity/bo --run ").then_some(listed))
    })
    .await?;
    let run = listed.split_whitespace().skip_while(|word| *word != "--run").nth(1).context("no run")?;
    let (code, words) = cli.ask(&["stats"]).await?;
    assert!(code == 3 && words.contains("1 run in trouble") && words.contains("  terminated     1"), "{code} {words}");
    let dismiss = ["runs", "dismiss", &bo.workflow_id(), "--run", run, "--by", "ann", "--why", "a test"];
    cli.run(&dismiss).await?;
    assert_eq!(cli.run(&["runs", "list"]).await?, "no run waits for an operator\n");
    cli.run(&["stats"]).await?;
    assert_eq!(cli.relay.count(), 0);
    Ok(())
}
