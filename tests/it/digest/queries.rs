//! Queries of a key's status change nothing in its run: its history can be replayed.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use anyhow::Result;
use futures::future::select_ok;
use temporalio_client::{WorkflowFetchHistoryOptions, WorkflowGetResultOptions};
use temporalio_common::protos::temporal::api::{enums::v1::EventType, history::v1::HistoryEvent};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use temporalio_workflow::workflow_interceptors::{
    HandleQueryInput, HandleQueryResult, SyncWorkflowInterceptorContext, WorkflowInterceptor,
    WorkflowInterceptorConstructor, WorkflowNext,
};
use tidings::registration;
use tidings_harness::{
    env::{Env, Running, activities, event, eventually, has_fired, key, settings},
    proxy::Network,
};
use tidings_model::names;
use tidings_needs::needs;
use tidings_workflows::Digest;

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
    let (asked, temporal, workflow) = (env.status(&key), &env.temporal, env.workflow(&key));
    let plot = async {
        // The query is there before the worker.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (begins, begun) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let slow = Slow { began: begins, end: Arc::new(Mutex::new(ended)) };
        let activities = activities(env.store.clone(), &env.relay.url(), env.settings.clone())?;
        let mut options = registration::digests(names::TASK_QUEUE, activities)?;
        options.workflow_interceptor(WorkflowInterceptorConstructor::new(move |_| slow.clone()));
        let worker = Running::start(temporal.clone(), options)?;
        eventually("the query is answered", MINUTE, async || Ok(begun.try_recv().ok())).await?;
        // The plan is made.
        tokio::time::sleep(Duration::from_secs(1)).await;
        env.events.emit(event(&key, "e3")).await?;
        ends.send(())?;
        anyhow::Ok((worker, ends))
    };
    let (_, (worker, _ends)) = tokio::try_join!(asked, plot)?;
    workflow.get_result(WorkflowGetResultOptions::default()).await?;
    worker.stop()?;

    let options = WorkflowReplayerOptions::new().register_workflow::<Digest>()?.build();
    let history = workflow.fetch_history(WorkflowFetchHistoryOptions::default());
    WorkflowReplayer::new(options)?.replay_workflow(history).await?;
    Ok(())
}
