//! Queries of a key's status change nothing in its run: its history can be replayed.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use anyhow::Result;
use futures::future::select_ok;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use temporalio_client::{WorkflowFetchHistoryOptions, WorkflowGetResultOptions};
use temporalio_common::protos::temporal::api::{enums::v1::EventType, history::v1::HistoryEvent};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use temporalio_workflow::workflow_interceptors::{
    HandleQueryInput, HandleQueryResult, SyncWorkflowInterceptorContext, WorkflowInterceptor,
    WorkflowInterceptorConstructor, WorkflowNext,
};
use tidings::registration;
use tidings_harness::{
    env::{Env, event, has_fired, key, settings},
    proxy::Network,
    wait::eventually,
    worker::Running,
};
use tidings_model::{Key, names};
use tidings_needs::needs;
use tidings_workflows::Digest;
use tokio::time::timeout;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_mins(1);
/// More than a worker asks for tasks at a time.
const QUERIES: usize = 20;

fn count(history: &[HistoryEvent], of: EventType) -> usize {
    history.iter().filter(|event| event.event_type() == of).count()
}

/// The worker that has the run in memory stands still. The server gives this worker the first queries and then the workflow
/// task. After 25 s both go to any worker, and the queries have waited longer. The other worker therefore gets a
/// history that ends with the fired timer, caches the run, and gets the task only then.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_is_armed_once_when_a_query_overtakes_its_task() -> Result<()> {
    let mut env = Env::without_worker(settings("after 10s", "after 1d")).await?;
    let key = key("activity", "ann");
    let (proxy, still) = env.worker_behind_a_proxy().await?;
    env.events.emit(event(&key, "e1")).await?;
    eventually("the timer runs", MINUTE, async || {
        Ok((count(&env.history(&key).await?, EventType::TimerStarted) > 0).then_some(()))
    })
    .await?;
    proxy.set(Network::Frozen);
    env.start_worker()?;
    let queries = (0..QUERIES).map(|_| Box::pin(env.status(&key)));
    let cut_off = async {
        eventually("the timer fires", MINUTE, async || Ok(has_fired(&env.history(&key).await?).then_some(()))).await?;
        drop(proxy);
        Ok(())
    };
    tokio::try_join!(select_ok(queries), cut_off)?;
    let told = env.history(&key).await?;
    assert_eq!(
        told.last().map(HistoryEvent::event_type),
        Some(EventType::WorkflowTaskScheduled),
        "no query overtook it"
    );

    env.completed(&key).await?;
    assert_eq!(count(&env.history(&key).await?, EventType::TimerStarted), 1);
    assert_eq!(env.relay.count(), 1);
    // What stands still runs no code.
    std::mem::forget(still);
    Ok(())
}

/// Holds a query: reports its start and waits for permission to end.
#[derive(Clone)]
struct Slow {
    began: mpsc::Sender<()>,
    end: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl WorkflowInterceptor for Slow {
    fn handle_query(
        &self,
        _: SyncWorkflowInterceptorContext,
        input: HandleQueryInput,
        next: WorkflowNext<'_, HandleQueryInput, HandleQueryResult>,
    ) -> HandleQueryResult {
        self.began.send(()).ok();
        self.end.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
        next.run(input)
    }
}

impl Slow {
    /// Starts a worker, and holds a query that waits for it until the local activity of the task has ended and `meanwhile` is over.
    async fn query(env: &Env, meanwhile: impl Future<Output = Result<()>>) -> Result<Running> {
        // What is asked is there before the worker.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (begins, begun) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let slow = Self { began: begins, end: Arc::new(Mutex::new(ended)) };
        let mut options = registration::digest_worker(names::TASK_QUEUE, env.activities()?)?;
        options.workflow_interceptor(WorkflowInterceptorConstructor::new(move |_| slow.clone()));
        let worker = Running::start(env.temporal.clone(), options)?;
        eventually("the query is answered", MINUTE, async || Ok(begun.try_recv().ok())).await?;
        // The activity has ended.
        tokio::time::sleep(Duration::from_secs(1)).await;
        meanwhile.await?;
        ends.send(())?;
        Ok(worker)
    }
}

/// A query that comes with a workflow task is answered while a local activity runs. If the activity completes meanwhile, the
/// SDK records its result with this task, but hands it to the workflow with the next task, after an event in between. A replay
/// hands it over before that event.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_queried_while_planning_can_be_replayed() -> Result<()> {
    let mut env = Env::start(settings("instant", "after 1d")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.completed(&key).await?;
    env.stop_worker()?;
    env.events.emit(event(&key, "e1")).await?;
    env.events.emit(event(&key, "e2")).await?;
    let (asked, workflow) = (env.status(&key), env.workflow(&key));
    let plot = Slow::query(&env, async { Ok(env.events.emit(event(&key, "e3")).await?) });
    let (_, worker) = tokio::try_join!(asked, plot)?;
    workflow.get_result(WorkflowGetResultOptions::default()).await?;
    worker.stop()?;

    let options = WorkflowReplayerOptions::new().register_workflow::<Digest>()?.build();
    let history = workflow.fetch_history(WorkflowFetchHistoryOptions::default());
    WorkflowReplayer::new(options)?.replay_workflow(history).await?;
    Ok(())
}

/// Runs a command that waits for a local activity, and that comes with a query. The activity ends before the query's answer.
async fn a_command_comes_with_a_query(env: &Env, key: &Key, name: &'static str, input: Value) -> Result<Value> {
    let (asked, commanded) = (env.status(key), env.update_json(key, name, input));
    let plot = Slow::query(env, async { Ok(()) });
    let answered = async { Ok(commanded.await?) };
    let (_, answer, worker) = timeout(MINUTE, async { tokio::try_join!(asked, answered, plot) }).await??;
    worker.stop()?;
    let failed = count(&env.history(key).await?, EventType::WorkflowTaskFailed);
    assert_eq!(failed, 0, "the server refused the answer of {name}");
    Ok(answer)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reopen_that_comes_with_a_query_is_answered() -> Result<()> {
    let env = Env::without_worker(settings("after 1h", "after 1d")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let reopen = json!({"by": "ann", "why": "ticket 812", "digest_id": Uuid::nil(), "may_duplicate": false});
    let answer = a_command_comes_with_a_query(&env, &key, "reopen", reopen).await?;
    assert_eq!(answer, json!({"events": 0, "refused": "the ledger has no such digest of this key"}));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retime_that_comes_with_a_query_is_answered() -> Result<()> {
    let mut env = Env::start(settings("after 1h", "after 1d")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let planned = env.status_when(&key, "the window is planned", |status| status.due_at.is_some()).await?;
    env.stop_worker()?;
    env.settings = settings("after 2h", "after 1d");
    env.events.emit(event(&key, "e2")).await?;
    let retime = json!({"by": "ann", "why": "ticket 812"});
    let answer = a_command_comes_with_a_query(&env, &key, "retime", retime).await?;
    let due_at: Timestamp = serde_json::from_value(answer["due_at"].clone())?;
    assert_eq!(Some(due_at), planned.due_at.map(|at| at + SignedDuration::from_hours(1)), "{answer}");
    Ok(())
}
