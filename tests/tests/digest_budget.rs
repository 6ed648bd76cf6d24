//! What a digest costs: history events and workflow tasks, counted.

use anyhow::Result;
use temporalio_common::protos::temporal::api::enums::v1::EventType;
use tidings_tests::stage::{Stage, event, key, settings};
use tidings_workflows::contract::Outcome;

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_fed_by_one_signal_costs_at_most_24_history_events_and_3_workflow_tasks() -> Result<()> {
    let stage = Stage::start(settings("after 1s", "after 1s")).await?;
    let key = key("activity", "ann");
    stage.events.emit(event(&key, "e1")).await?;

    let summary = stage.completed(&key).await?;
    assert_eq!(summary.digests, 1);
    assert_eq!(summary.last.map(|ended| ended.closed.outcome), Some(Outcome::Sent));
    assert_eq!(stage.relay.mails().len(), 1);

    let history = stage.history(&key).await?;
    let tasks = history.iter().filter(|event| event.event_type() == EventType::WorkflowTaskStarted).count();
    println!("history: {} events, {tasks} workflow tasks", history.len());
    for event in &history {
        println!("  {:3} {:?}", event.event_id, event.event_type());
    }
    assert!(history.len() <= 24, "{} history events", history.len());
    assert!(tasks <= 3, "{tasks} workflow tasks");
    Ok(())
}
