//! Renders a window's email as we would send it now, without storing anything (rule 32).

use jiff::Timestamp;
use tidings_mail::render;
use tidings_model::{
    Key,
    records::{Contents, Facts, Recipient},
    rules::admission::{Admission, admit},
    step::ClaimInput,
};
use tidings_services::{Deps, Error, apart::apart, digest_email::Email};

#[derive(Clone, PartialEq, Eq)]
pub struct Preview {
    /// `None` if no event would be left to send.
    pub mail: Option<render::Rendered>,
    pub events: u64,
    /// Why no email would be sent: consent, suppression, a pause, or an unknown recipient.
    pub but: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Instead<'a> {
    pub template: Option<&'a str>,
    pub locale: Option<&'a str>,
    pub zone: Option<&'a str>,
}

/// Renders the window's email as if an operator flushed it now, with a made-up recipient if the real one is
/// unknown.
///
/// # Errors
/// If the store fails, the digest type is not configured, or no template works.
pub async fn preview(deps: &Deps, due: &ClaimInput, instead: &Instead<'_>) -> Result<Preview, Error> {
    let ClaimInput { window, events, .. } = due;
    let settings = deps.digest(&window.key)?;
    let facts = deps.facts(&window.key).await?;
    let now = Timestamp::now();
    let limits = due.limits.unwrap_or_else(|| deps.settings.frequency_limits(settings));
    let but = match admit(settings, &limits, &facts, due, now) {
        Admission::Later { why, .. } | Admission::Unknown { why, .. } => Some(why),
        Admission::Paused(pause) => Some(pause.paused.to_string()),
        Admission::Refused(closed) => Some(format!("{}: {}", closed.outcome.name(), closed.why)),
        Admission::Admitted | Admission::Changed => None,
    };
    // A flush would claim the window now.
    let off = settings.off_under_any_name(&facts.preferences.off);
    let contents = deps.store.preview(window, events, &off, settings.shown()).await?;
    let contents = Contents { claimed_at: Some(now), ..contents };
    let (facts, recipient) = instead.reader(&window.key, facts);
    let email = Email { window, facts: &facts, recipient: &recipient, date: now, message_id: None };
    let template = instead.template.unwrap_or(&settings.template);
    let mail = if contents.items == 0 {
        None
    } else {
        let view = email.view(deps, &email.links(deps), &contents)?;
        let render = || deps.renderer.render(template, &view);
        Some(apart(deps.renderer.may_take_long(), render).map_err(|error| Error::Render(error.to_string()))?)
    };
    Ok(Preview { mail, events: contents.items, but })
}

impl Instead<'_> {
    fn reader(&self, key: &Key, mut facts: Facts) -> (Facts, Recipient) {
        let mut recipient = facts.recipient.clone().unwrap_or_else(|| Recipient::invented(key));
        if let Some(locale) = self.locale {
            locale.clone_into(&mut recipient.locale);
        }
        if let Some(zone) = self.zone {
            facts.preferences.zone = Some(zone.to_owned());
        }
        (facts, recipient)
    }
}
