//! `close`: ends a digest after an operator's drop or a cancel.

use tidings_model::{
    records::{Actor, Closing},
    step::{CloseInput, Ending},
};

use super::send::returned_by;
use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Records the end. The ledger keeps the first end that it was given.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &CloseInput) -> Result<Ending, Error> {
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
