//! `close`: ends a digest after an operator's drop or a cancel.

use tidings_model::{
    records::{Actor, Closing},
    step::{CloseInput, Ending},
};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Records the end. The ledger keeps the first end that it was given.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &CloseInput) -> Result<Ending, Error> {
    let CloseInput { asked_at, window, events, closed, by, planned } = input;
    let by = Actor::of_login(by);
    let closing =
        Closing { window, events, closed, by, return_events: false, planned: planned.as_ref(), now: now(*asked_at) };
    Ok(deps.store.close(closing).await?)
}
