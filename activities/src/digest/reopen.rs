//! `reopen`: gives a digest that was not sent back to its workflow (rule 30).

use tidings_model::step::{ReopenInput, Resumed};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Reopens the digest, or refuses with a reason.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &ReopenInput) -> Result<Resumed, Error> {
    Ok(deps.store.reopen(input, now(input.asked_at)).await?)
}
