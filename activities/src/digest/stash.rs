//! `stash`: moves events from the workflow's state to the ledger, and reads earlier runs back from their histories.

use futures::TryStreamExt;
use jiff::Timestamp;
use temporalio_client::Client;
use tidings_model::{
    Alert, Event,
    decode::DeadLetter,
    records::{Actor, Closing},
    step::{DeadLettersInput, Returned, StashInput, Stashed},
    window::{Closed, Outcome, Window},
};
use tidings_services::{deps::Deps, error::Error, history, metrics};
use tidings_workflows::{PAGE_EVENTS, RunInput};
use uuid::Uuid;

/// The number of the dead letter about a whole run.
const LOST: u64 = 0xffff_ffff;

/// Writes the page of events to the ledger, and those that earlier runs could neither carry nor stash.
///
/// # Errors
/// The store cannot answer, or the history of an earlier run cannot be read.
pub async fn run(deps: &Deps, temporal: Client, input: &StashInput) -> Result<Stashed, Error> {
    let StashInput { window, events, runs, delivering, opens_returned, counts_new } = input;
    let taken = deps.store.stash(window, events, *delivering, Timestamp::now()).await?;
    for run in runs {
        match read_back(deps, temporal.clone(), input, run).await {
            Err(error @ Error::HistoryGone { .. }) => give_up(deps, input, run, &error).await?,
            other => other?,
        }
    }
    let returned = if *opens_returned && !runs.is_empty() { late(deps, window).await? } else { None };
    let events = if *counts_new { deps.store.digest(window.digest_id).await?.map(|digest| digest.items) } else { None };
    Ok(Stashed { taken, returned, events })
}

/// The events of the key that wait for a window. A window that takes events takes these, too, at its claim.
async fn late(deps: &Deps, window: &Window) -> Result<Option<Returned>, Error> {
    let digest = deps.store.digest(window.digest_id).await?;
    if digest.is_none_or(|digest| digest.state.takes_events()) {
        return Ok(None);
    }
    Ok(deps.store.returned(&window.key).await?)
}

/// Stashes the events that the run carried and those of its signals, and records its retracts.
async fn read_back(deps: &Deps, temporal: Client, input: &StashInput, run: &str) -> Result<(), Error> {
    let key = &input.window.key;
    let mut inputs = std::pin::pin!(history::run_inputs(temporal, key, run));
    let mut page = Vec::new();
    while let Some(RunInput { events, retracts, .. }) = inputs.try_next().await? {
        page.extend(events);
        if !retracts.is_empty() {
            // What came before a retract goes to the ledger first, and what comes later may be new.
            stash_or_return(deps, input, &std::mem::take(&mut page)).await?;
            deps.store.put_retracts(key, &retracts, Timestamp::now()).await?;
        }
        if page.len() >= PAGE_EVENTS {
            stash_or_return(deps, input, &std::mem::take(&mut page)).await?;
        }
    }
    stash_or_return(deps, input, &page).await
}

/// Names a run in a dead letter whose events are lost with its history. Otherwise the key would wait for them for ever.
async fn give_up(deps: &Deps, input: &StashInput, run: &str, error: &Error) -> Result<(), Error> {
    let letter = DeadLetter {
        // The run's own letters count from 0.
        seq: LOST,
        reason: format!("{error}, and its events are lost"),
        encoding: String::new(),
        message_type: None,
        size: 0,
        sha256: String::new(),
        head: String::new(),
    };
    let workflow_id = input.window.key.workflow_id();
    let lost = DeadLettersInput { workflow_id, run_id: run.to_owned(), letters: vec![letter] };
    tracing::warn!(alert = %Alert::DeadLetters, run, "the history of an earlier run is gone, and its events are lost");
    deps.store.put_dead_letters(&lost, Timestamp::now()).await?;
    metrics::dead_letters(1);
    Ok(())
}

/// Stashes the page. Events that come too late for the window's digest are returned, and join the key's next claim.
async fn stash_or_return(deps: &Deps, input: &StashInput, page: &[Event]) -> Result<(), Error> {
    let (window, now) = (&input.window, Timestamp::now());
    let taken = deps.store.stash(window, page, input.delivering, now).await?;
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    let Some(late @ [first, ..]) = page.get(taken..) else { return Ok(()) };
    let digest_id = Uuid::new_v5(&window.digest_id, first.event_id.as_bytes());
    let window = Window { digest_id, ..window.clone() };
    let why = "their window had its mail, or its end, before they were read back".to_owned();
    let closed = Closed { outcome: Outcome::Skipped, why };
    let closing = Closing {
        window: &window,
        events: late,
        closed: &closed,
        by: Actor::Tidings,
        return_events: true,
        planned: None,
        now,
    };
    deps.store.exclude(closing, input.delivering).await?;
    Ok(())
}
