//! A timer fires, and before a worker has the task that it brings, another worker answers a query for the run.

use std::time::Duration;

use anyhow::Result;
use futures::future::select_ok;
use temporalio_common::protos::temporal::api::{enums::v1::EventType, history::v1::HistoryEvent};
use tidings_tests::stage::{Stage, event, eventually, has_fired, key, settings};

const MINUTE: Duration = Duration::from_mins(1);
/// More than a worker asks for tasks at a time.
const QUERIES: usize = 20;

fn count(history: &[HistoryEvent], of: EventType) -> usize {
    history.iter().filter(|event| event.event_type() == of).count()
}

/// The worker that has the run in memory stands still: the server gives it the first queries, and the task that comes later
/// waits until somebody asks for it. Both go to any worker after 25 s, and the queries have waited for longer. So the other
/// worker is shown a history that ends with the timer's firing, keeps the run like that, and then has its task.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_task_a_query_overtook_is_not_armed_again() -> Result<()> {
    let mut stage = Stage::without_worker(settings("after 10s", "after 1d")).await?;
    let key = key("activity", "ann");
    let (proxy, still) = stage.worker_behind_a_proxy().await?;
    stage.events.emit(event(&key, "e1")).await?;
    eventually("the timer runs", MINUTE, async || {
        Ok((count(&stage.history(&key).await?, EventType::TimerStarted) > 0).then_some(()))
    })
    .await?;
    proxy.freeze();
    stage.start_worker()?;
    let queries = (0..QUERIES).map(|_| Box::pin(stage.status(&key)));
    let cut_off = async {
        eventually("the timer fires", MINUTE, async || Ok(has_fired(&stage.history(&key).await?).then_some(())))
            .await?;
        drop(proxy);
        Ok(())
    };
    tokio::try_join!(select_ok(queries), cut_off)?;
    let told = stage.history(&key).await?;
    assert_eq!(
        told.last().map(HistoryEvent::event_type),
        Some(EventType::WorkflowTaskScheduled),
        "no query overtook it"
    );

    stage.completed(&key).await?;
    assert_eq!(count(&stage.history(&key).await?, EventType::TimerStarted), 1);
    assert_eq!(stage.relay.count(), 1);
    // What stands still runs no code.
    std::mem::forget(still);
    Ok(())
}
