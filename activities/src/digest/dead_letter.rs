//! Dead letters: records signals and events that could not be decoded.

use jiff::Timestamp;
use tidings_model::{Alert, step::DeadLettersInput};

use crate::{deps::Deps, error::Error, metrics};

/// Records each dead letter once.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &DeadLettersInput) -> Result<(), Error> {
    tracing::warn!(alert = %Alert::DeadLetters, count = input.letters.len(), "malformed events");
    deps.store.put_dead_letters(input, Timestamp::now()).await?;
    metrics::dead_letters(input.letters.len() as u64);
    Ok(())
}
