//! The message of an open window as it would go out now. Nothing is claimed, stored or sent (rule 32).

use jiff::Timestamp;
use tidings_client::{CommandError, Commands};
use tidings_model::{Key, command::Due, step::ClaimInput};

use crate::{
    Deps, Error,
    digest::preview::{self, Preview},
};

/// A preview that failed.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The workflow did not answer.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The message cannot be made.
    #[error(transparent)]
    Render(#[from] Error),
}

/// Asks the key's workflow for its open window, and renders the window; `None` if no window is open.
///
/// # Errors
/// See [`PreviewError`].
pub async fn preview(commands: &Commands, deps: &Deps, key: &Key) -> Result<Option<(Due, Preview)>, PreviewError> {
    let Some(due) = commands.digest(key).due().await? else { return Ok(None) };
    let Due { window, events, limits, .. } = due.clone();
    let input = ClaimInput {
        asked_at: Timestamp::now(),
        window,
        events,
        flushed: true,
        urgent: false,
        revision: 0,
        planned: None,
        due_at: None,
        limits,
    };
    let preview = preview::run(deps, &input).await?;
    Ok(Some((due, preview)))
}
