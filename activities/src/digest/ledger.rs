//! Steps which only write to the ledger: ends, retracts (rule 6), reopened digests (rule 30), operators'
//! commands and dead letters.

use jiff::Timestamp;
use tidings_model::{
    Alert,
    records::{Actor, Closing, Exclusion},
    step::{AuditInput, CloseInput, DeadLettersInput, Ending, ReopenInput, Resumed, RetractInput},
    window::{Closed, Outcome, Window},
};
use tidings_services::{
    deps::{Deps, now},
    error::Error,
    metrics,
};

use super::send::returned_by;

/// Records the end. The ledger keeps the first one.
///
/// # Errors
/// If the store fails.
pub async fn close(deps: &Deps, input: &CloseInput) -> Result<Ending, Error> {
    let CloseInput { asked_at, window, events, closed, by, planned, opens_returned } = input;
    let by = Actor::of_login(by);
    let closing =
        Closing { window, events, closed, by, return_events: false, planned: planned.as_ref(), now: now(*asked_at) };
    let mut ending = deps.store.close(closing).await?;
    if *opens_returned {
        ending.returned = returned_by(deps, window, &ending.closed).await?;
    }
    Ok(ending)
}

/// Records each command once.
///
/// # Errors
/// If the store fails.
pub async fn audit(deps: &Deps, input: &AuditInput) -> Result<(), Error> {
    Ok(deps.store.audit(input).await?)
}

/// Records each dead letter once.
///
/// # Errors
/// If the store fails.
pub async fn dead_letters(deps: &Deps, input: &DeadLettersInput) -> Result<(), Error> {
    tracing::warn!(alert = %Alert::DeadLetters, count = input.letters.len(), "malformed events");
    deps.store.put_dead_letters(input, Timestamp::now()).await?;
    metrics::dead_letters(input.letters.len() as u64);
    Ok(())
}

/// Reopens the digest, or rejects this with a reason.
///
/// # Errors
/// If the store fails.
pub async fn reopen(deps: &Deps, input: &ReopenInput) -> Result<Resumed, Error> {
    Ok(deps.store.reopen(input, now(input.asked_at)).await?)
}

/// Removes retracted events from the window. The next claim skips events already stored or still to arrive.
///
/// # Errors
/// If the store fails.
pub async fn retract(deps: &Deps, input: &RetractInput) -> Result<(), Error> {
    let now = now(input.asked_at);
    // Store the events first, because a retract by id only covers events in the ledger.
    if let Some(window) = &input.window {
        exclude(deps, input, window, now).await?;
    }
    // Limit the retract to when the workflow read it; this call may be a late retry.
    Ok(deps.store.put_retracts(&input.key, &input.retracts, input.asked_at).await?)
}

async fn exclude(deps: &Deps, input: &RetractInput, window: &Window, now: Timestamp) -> Result<(), Error> {
    let window = Window { digest_id: Exclusion::Retracted.digest_id(window), ..window.clone() };
    let closed = Closed { outcome: Outcome::Skipped, why: Exclusion::Retracted.why().to_owned() };
    let events = &input.events;
    let closing = Closing {
        window: &window,
        events,
        closed: &closed,
        by: Actor::Tidings,
        return_events: false,
        planned: None,
        now,
    };
    deps.store.exclude(closing, input.delivering).await?;
    Ok(())
}
