//! The message of an open window as it would go out now. Nothing is claimed, stored or sent (rule 32).

use jiff::Timestamp;
use serde_json::{Value, json};
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

/// The message and its window in JSON.
#[must_use]
pub fn in_json(due: &Due, preview: &Preview) -> Value {
    let Preview { mail, events, but } = preview;
    let Due { window, more, .. } = due;
    let mail = mail.as_ref();
    json!({
        "digest_id": window.digest_id,
        "due_at": window.due_at,
        "events": events,
        "more": more,
        "but": but,
        "subject": mail.map(|mail| &mail.subject),
        "text": mail.map(|mail| &mail.text),
        "html": mail.map(|mail| &mail.html),
    })
}
