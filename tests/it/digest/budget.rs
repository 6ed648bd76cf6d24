//! The cost of a digest: history events and bytes, workflow tasks, Temporal's actions and its writes of the state.

use anyhow::Result;
use futures::future::try_join_all;
use tidings_harness::{
    cost::{HistoryCost, transitions},
    env::{Env, event, key, settings},
};
use tidings_model::window::DigestOutcome;
use tidings_needs::needs;

/// The cost of a digest with this number of events, which arrive at once through the client.
async fn cost_of(events: usize) -> Result<HistoryCost> {
    let env = Env::start(settings("after 3s", "after 3s")).await?;
    let key = key("activity", "ann");
    try_join_all((0..events).map(|n| env.events.emit(event(&key, &format!("e{n}"))))).await?;

    let summary = env.completed(&key).await?;
    assert_eq!(summary.digests, 1);
    assert_eq!(summary.last.map(|ended| ended.closed.outcome), Some(DigestOutcome::Sent));
    assert_eq!(env.relay.mails().len(), 1);

    let history = env.history(&key).await?;
    let cost = HistoryCost::of(&history, transitions(&env.run_handle(&key, None)).await?)?;
    println!("{cost:?}");
    for event in &history {
        println!("  {:3} {:?}", event.event_id, event.event_type());
    }
    Ok(cost)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_of_one_signal_stays_within_its_history_budget() -> Result<()> {
    let HistoryCost { events, bytes, tasks, actions, transitions } = cost_of(1).await?;
    assert!(events <= 24 && tasks <= 3, "{events} history events, {tasks} workflow tasks");
    // A signal, a timer, an attempt, and the local activities of two workflow tasks.
    assert!(actions <= 5, "{actions} actions");
    // The start with its signal, a timer that fires, an activity that ends, and two for each workflow task.
    assert!(transitions <= 9, "{transitions} state transitions");
    assert!(bytes <= 4_000, "{bytes} bytes");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_events_at_once_add_few_signals_and_their_bytes() -> Result<()> {
    let (one, hundred) = (cost_of(1).await?, cost_of(100).await?);
    // The first signal has what came with it, and the others wait for it; one or two more where emitting took longer.
    assert!(hundred.actions <= one.actions + 3, "{hundred:?}");
    assert!(hundred.events <= one.events + 12, "{hundred:?}");
    assert!(hundred.bytes <= one.bytes + 100 * 200, "{hundred:?}");
    Ok(())
}
