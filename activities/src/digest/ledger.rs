//! The steps that only write to the ledger: an end, a retract (rule 6), a reopened digest (rule 30), operators' commands and dead letters.

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

/// Records the end. The ledger keeps the first end that it was given.
///
/// # Errors
/// The store cannot answer.
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
/// The store cannot answer.
pub async fn audit(deps: &Deps, input: &AuditInput) -> Result<(), Error> {
    Ok(deps.store.audit(input).await?)
}

/// Records each dead letter once.
///
/// # Errors
/// The store cannot answer.
pub async fn dead_letters(deps: &Deps, input: &DeadLettersInput) -> Result<(), Error> {
    tracing::warn!(alert = %Alert::DeadLetters, count = input.letters.len(), "malformed events");
    deps.store.put_dead_letters(input, Timestamp::now()).await?;
    metrics::dead_letters(input.letters.len() as u64);
    Ok(())
}

/// Reopens the digest, or refuses with a reason.
///
/// # Errors
/// The store cannot answer.
pub async fn reopen(deps: &Deps, input: &ReopenInput) -> Result<Resumed, Error> {
    Ok(deps.store.reopen(input, now(input.asked_at)).await?)
}

/// Removes retracted events from the window. The next claim leaves out those that are in the store or still to come.
///
/// # Errors
/// The store cannot answer.
pub async fn retract(deps: &Deps, input: &RetractInput) -> Result<(), Error> {
    let now = now(input.asked_at);
    // The events first: a retract by id covers what the ledger has of the id.
    if let Some(window) = &input.window {
        exclude(deps, input, window, now).await?;
    }
    // Until it was read, and not until this call, which may be a later one.
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
