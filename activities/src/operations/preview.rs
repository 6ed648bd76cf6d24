//! The message of an open window as it would go out now. Nothing is claimed, stored or sent (rule 32).

use jiff::Timestamp;
use serde::Serialize;
use tidings_client::{CommandError, Commands};
use tidings_model::{Key, command::Due, step::ClaimInput};
use uuid::Uuid;

use crate::{
    Deps, Error,
    digest::preview::{self, Instead, Preview},
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

/// Asks the key's workflow for its open window, and renders the window with these looks; `None` if no window is open.
///
/// # Errors
/// See [`PreviewError`].
pub async fn preview(
    commands: &Commands,
    deps: &Deps,
    key: &Key,
    instead: &Instead<'_>,
) -> Result<Option<(Due, Preview)>, PreviewError> {
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
        undo: None,
        released: false,
        limit_ended_at: None,
        unknown_since: None,
    };
    let preview = preview::run(deps, &input, instead).await?;
    Ok(Some((due, preview)))
}

/// A message as it would go out now, with its window.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewView {
    pub digest_id: Uuid,
    pub due_at: Timestamp,
    /// Events that the message counts.
    pub events: u64,
    /// Events beyond a page, which are not in the message yet.
    pub more: u64,
    /// The reason why no message would be sent.
    pub but: Option<String>,
    /// Without a subject, a text and HTML no event would be left to send.
    pub subject: Option<String>,
    pub text: Option<String>,
    pub html: Option<String>,
}

impl PreviewView {
    /// Makes the view of a window and its message.
    #[must_use]
    pub fn new(due: &Due, preview: Preview) -> Self {
        let Preview { mail, events, but } = preview;
        let Due { window, more, .. } = due;
        let (subject, parts) = mail.map(|mail| (mail.subject, (mail.text, mail.html))).unzip();
        let (text, html) = parts.unzip();
        Self { digest_id: window.digest_id, due_at: window.due_at, events, more: *more, but, subject, text, html }
    }
}
