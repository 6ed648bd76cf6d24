//! The email of an open window as it would be sent now, for an operator. Nothing is claimed, stored or sent (rule 32).

use jiff::Timestamp;
use tidings_mail::render::{Rendered, Tracker};
use tidings_model::{
    records::{Contents, Recipient},
    rules::admission::{Admission, admit},
    step::ClaimInput,
};

use super::email::Email;
use crate::{deps::Deps, error::Error};

/// The answer of [`run`].
#[derive(Clone, PartialEq, Eq)]
pub struct Preview {
    /// The email; `None`: no event would be left to send.
    pub mail: Option<Rendered>,
    /// Events that the email counts.
    pub events: u64,
    /// The reason why no email would be sent: consent, suppression, a pause, an unknown recipient.
    pub but: Option<String>,
}

/// The email of the window as if an operator flushed it now. An unknown recipient is shown as an invented one.
///
/// # Errors
/// The store cannot answer, the digest type is not configured, or no template works.
pub async fn run(deps: &Deps, due: &ClaimInput) -> Result<Preview, Error> {
    let ClaimInput { window, events, .. } = due;
    let settings = deps.digest(&window.key)?;
    let facts = deps.facts(&window.key).await?;
    let now = Timestamp::now();
    let limits = due.limits.unwrap_or_else(|| deps.settings.frequency_limits(settings));
    let but = match admit(settings, &limits, &facts, due, now) {
        Admission::Later { why, .. } => Some(why),
        Admission::Paused(pause) => Some(pause.paused.to_string()),
        Admission::Refused(closed) => Some(format!("{}: {}", closed.outcome.name(), closed.why)),
        Admission::Admitted | Admission::Changed => None,
    };
    // A flush would claim the window now.
    let contents = deps.store.preview(window, events, &facts.preferences.off, settings.shown()).await?;
    let contents = Contents { claimed_at: Some(now), ..contents };
    let invented = Recipient::invented(&window.key);
    let recipient = facts.recipient.as_ref().unwrap_or(&invented);
    let email = Email { window, facts: &facts, recipient, date: now };
    let mail = match contents.items {
        0 => None,
        _ => Some(email.render(deps, &email.links(deps), &contents, &Tracker::NONE)?),
    };
    Ok(Preview { mail, events: contents.items, but })
}
