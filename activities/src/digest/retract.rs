//! `retract`: withdraws events before the email about them is sent (rule 6).

use jiff::Timestamp;
use tidings_model::{
    records::{Actor, Closing, Exclusion},
    step::RetractInput,
    window::{Closed, Outcome, Window},
};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Removes retracted events from the window. The next claim leaves out those that are in the store or still to come.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &RetractInput) -> Result<(), Error> {
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
