//! `message_retry`: gives a message that has ended back to its workflow.

use tidings_model::message::contract::{Retried, RetryInput};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Queues the message again, or refuses with a reason.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &RetryInput) -> Result<Retried, Error> {
    Ok(deps.store.retry_message(input, now(input.asked_at)).await?)
}
