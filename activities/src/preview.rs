//! The mail of an open window as it would go out now, for an operator. Nothing is claimed, stored or sent (rule 32).

use jiff::Timestamp;
use tidings_mail::renderer::Rendered;
use tidings_model::{
    contract::LoadInput,
    records::Recipient,
    rules::admission::{Admission, admit},
};

use crate::digest::{DigestActivities, Error};

/// What would go out.
#[derive(Clone, PartialEq, Eq)]
pub struct Preview {
    /// The mail; `None`: nothing would be left to send.
    pub mail: Option<Rendered>,
    /// Events that it tells of.
    pub events: u64,
    /// Why no mail would go out even so, in words: consent, suppression, a pause, an unknown recipient.
    pub but: Option<String>,
}

impl DigestActivities {
    /// The mail of the window as if somebody flushed it now. An unknown recipient is shown as an invented one.
    ///
    /// # Errors
    /// The store cannot answer, the digest type is not configured, or no template works.
    pub async fn preview(&self, due: LoadInput) -> Result<Preview, Error> {
        let settings = self.digest(&due.window.key)?;
        let facts = self.facts(&due.window.key).await?;
        let but = match admit(settings, &facts, &due, Timestamp::now()) {
            Admission::Later { why, .. } => Some(why),
            Admission::Refused(closed) => Some(format!("{}: {}", closed.outcome.name(), closed.why)),
            Admission::Admitted | Admission::Changed => None,
        };
        let LoadInput { window, events, .. } = &due;
        let contents = self.store.preview(window, events, &facts.preferences.off, settings.max_items).await?;
        let invented = Recipient::invented(&window.key);
        let recipient = facts.recipient.as_ref().unwrap_or(&invented);
        let mail = match contents.items {
            0 => None,
            _ => Some(self.mail(window, &contents, settings, &facts, recipient)?),
        };
        Ok(Preview { mail, events: contents.items, but })
    }
}
