//! What a digest costs: history events and bytes, workflow tasks and Temporal's actions, counted.

use anyhow::Result;
use futures::future::try_join_all;
use tidings_harness::{
    spent::Spent,
    stage::{Stage, event, key, settings},
};
use tidings_model::contract::Outcome;
use tidings_needs::needs;

/// Of a digest with so many events that come at once, through the client.
async fn spent(events: usize) -> Result<Spent> {
    let stage = Stage::start(settings("after 3s", "after 3s")).await?;
    let key = key("activity", "ann");
    try_join_all((0..events).map(|n| stage.events.emit(event(&key, &format!("e{n}"))))).await?;

    let summary = stage.completed(&key).await?;
    assert_eq!(summary.digests, 1);
    assert_eq!(summary.last.map(|ended| ended.closed.outcome), Some(Outcome::Sent));
    assert_eq!(stage.relay.mails().len(), 1);

    let history = stage.history(&key).await?;
    let spent = Spent::of(&history)?;
    println!("{spent:?}");
    for event in &history {
        println!("  {:3} {:?}", event.event_id, event.event_type());
    }
    Ok(spent)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_of_one_signal_stays_within_its_history_budget() -> Result<()> {
    let Spent { events, bytes, tasks, actions } = spent(1).await?;
    assert!(events <= 24 && tasks <= 3, "{events} history events, {tasks} workflow tasks");
    // A signal, a timer, an attempt, and the local activities of two workflow tasks.
    assert!(actions <= 5, "{actions} actions");
    assert!(bytes <= 4_000, "{bytes} bytes");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_events_at_once_add_few_signals_and_their_bytes() -> Result<()> {
    let (one, hundred) = (spent(1).await?, spent(100).await?);
    // The first signal has what came with it, and the others wait for it; one or two more where emitting took longer.
    assert!(hundred.actions <= one.actions + 3, "{hundred:?}");
    assert!(hundred.events <= one.events + 12, "{hundred:?}");
    assert!(hundred.bytes <= one.bytes + 100 * 200, "{hundred:?}");
    Ok(())
}
