//! `retract`: withdraws events before the email about them is sent (rule 6).

use tidings_model::{
    records::{Actor, Closing, Exclusion},
    step::{Closed, Outcome, RetractInput, Window},
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
    deps.store.put_retracts(&input.key, &input.retracts, now).await?;
    let Some(window) = &input.window else { return Ok(()) };
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
