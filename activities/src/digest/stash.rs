//! `stash`: moves events from the workflow's state to the ledger, and recovers events from earlier runs'
//! histories.

use futures::TryStreamExt;
use jiff::Timestamp;
use temporalio_client::Client;
use tidings_model::{
    AlertName, Event,
    decode::DeadLetter,
    records::{AuditActor, CloseRequest},
    step::{DeadLettersInput, ReturnedEvents, StashAnswer, StashInput},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_services::{deps::StepServices, error::StepError, history, metrics};
use tidings_workflows::{PAGE_EVENTS, RunInput};
use uuid::Uuid;

const LOST: u64 = 0xffff_ffff;

/// Writes this page of events to the ledger, and events earlier runs could neither carry nor stash.
///
/// # Errors
/// If the store fails, or an earlier run's history cannot be read.
pub async fn run(deps: &StepServices, temporal: Client, input: &StashInput) -> Result<StashAnswer, StepError> {
    let StashInput { window, events, runs, delivering, opens_returned, counts_new } = input;
    let taken = deps.store.stash_events(window, events, *delivering, Timestamp::now()).await?;
    for run in runs {
        match read_back(deps, temporal.clone(), input, run).await {
            Err(error @ StepError::HistoryGone { .. }) => give_up(deps, input, run, &error).await?,
            other => other?,
        }
    }
    let returned = if *opens_returned && !runs.is_empty() { returned_events(deps, window).await? } else { None };
    let events = if *counts_new { deps.store.digest(window.digest_id).await?.map(|digest| digest.items) } else { None };
    Ok(StashAnswer { taken, returned, events })
}

async fn returned_events(deps: &StepServices, window: &Window) -> Result<Option<ReturnedEvents>, StepError> {
    let digest = deps.store.digest(window.digest_id).await?;
    if digest.is_none_or(|digest| digest.state.takes_events()) {
        return Ok(None);
    }
    Ok(deps.store.returned_events(&window.key).await?)
}

async fn read_back(deps: &StepServices, temporal: Client, input: &StashInput, run: &str) -> Result<(), StepError> {
    let key = &input.window.key;
    let mut inputs = std::pin::pin!(history::run_inputs(temporal, key, run));
    let mut page = Vec::new();
    while let Some(RunInput { events, retracts, .. }) = inputs.try_next().await? {
        page.extend(events);
        if !retracts.is_empty() {
            // Events before a retract must be stored first; events after it may be new.
            stash_or_return(deps, input, &std::mem::take(&mut page)).await?;
            deps.store.put_retracts(key, &retracts, Timestamp::now()).await?;
        }
        if page.len() >= PAGE_EVENTS {
            stash_or_return(deps, input, &std::mem::take(&mut page)).await?;
        }
    }
    stash_or_return(deps, input, &page).await
}

/// Writes a dead letter for a run whose history is gone. Otherwise the key would wait for its events forever.
async fn give_up(deps: &StepServices, input: &StashInput, run: &str, error: &StepError) -> Result<(), StepError> {
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
    tracing::warn!(alert = %AlertName::DeadLetters, run, "history of an earlier run is gone, and its events are lost");
    deps.store.put_dead_letters(&lost, Timestamp::now()).await?;
    metrics::dead_letters(1);
    Ok(())
}

/// Stashes the page. Events too late for the window's digest are returned, and join the key's next claim.
async fn stash_or_return(deps: &StepServices, input: &StashInput, page: &[Event]) -> Result<(), StepError> {
    let (window, now) = (&input.window, Timestamp::now());
    let taken = deps.store.stash_events(window, page, input.delivering, now).await?;
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    let Some(late @ [first, ..]) = page.get(taken..) else { return Ok(()) };
    let digest_id = Uuid::new_v5(&window.digest_id, first.event_id.as_bytes());
    let window = Window { digest_id, ..window.clone() };
    let why = "their window had its mail, or its end, before they were read back".to_owned();
    let closed = WindowEnd { outcome: DigestOutcome::Skipped, why };
    let closing = CloseRequest {
        window: &window,
        events: late,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: true,
        planned: None,
        now,
    };
    deps.store.exclude_events(closing, input.delivering).await?;
    Ok(())
}
