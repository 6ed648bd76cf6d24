//! Renders a window's email as we would send it now, without storing anything (rule 32).

use jiff::Timestamp;
use tidings_mail::render;
use tidings_model::{
    Key,
    records::{DigestContents, KeyFacts, Recipient},
    rules::admission::{AdmissionDecision, admit},
    step::ClaimInput,
};
use tidings_services::{StepError, StepServices, apart::run_blocking, digest_email::DigestEmail};

#[derive(Clone, PartialEq, Eq)]
pub struct EmailPreview {
    /// `None` if no event would be left to send.
    pub mail: Option<render::RenderedEmail>,
    pub events: u64,
    /// Why no email would be sent: consent, suppression, a pause, or an unknown recipient.
    pub not_sent_because: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct PreviewOverrides<'a> {
    pub template: Option<&'a str>,
    pub locale: Option<&'a str>,
    pub zone: Option<&'a str>,
}

/// As if an operator flushed the window now, with a made-up recipient if the real one is unknown.
///
/// # Errors
/// If the store fails, the digest type is not configured, or no template works.
pub async fn render_preview(
    deps: &StepServices,
    due: &ClaimInput,
    instead: &PreviewOverrides<'_>,
) -> Result<EmailPreview, StepError> {
    let ClaimInput { window, events, .. } = due;
    let settings = deps.digest_settings(&window.key)?;
    let facts = deps.facts(&window.key).await?;
    let now = Timestamp::now();
    let limits = due.limits.unwrap_or_else(|| deps.settings.frequency_limits(settings));
    let not_sent_because = match admit(settings, &limits, &facts, due, now) {
        AdmissionDecision::Later { why, .. } | AdmissionDecision::Unknown { why, .. } => Some(why),
        AdmissionDecision::Paused(pause) => Some(pause.paused.to_string()),
        AdmissionDecision::Refused(closed) => Some(format!("{}: {}", closed.outcome.name(), closed.why)),
        AdmissionDecision::Admitted | AdmissionDecision::Changed => None,
    };
    // A flush would claim the window now.
    let off = settings.off_under_any_name(&facts.preferences.off);
    let contents = deps.store.preview_claim(window, events, &off, settings.display_limits()).await?;
    let contents = DigestContents { claimed_at: Some(now), ..contents };
    let (facts, recipient) = instead.preview_recipient(&window.key, facts);
    let email = DigestEmail { window, facts: &facts, recipient: &recipient, date: now, message_id: None };
    let template = instead.template.unwrap_or(&settings.template);
    let mail = if contents.items == 0 {
        None
    } else {
        let view = email.view(deps, &email.links(deps), &contents)?;
        let render = || deps.renderer.render(template, &view);
        Some(
            run_blocking(deps.renderer.may_take_long(), render)
                .map_err(|error| StepError::Render(error.to_string()))?,
        )
    };
    Ok(EmailPreview { mail, events: contents.items, not_sent_because })
}

impl PreviewOverrides<'_> {
    fn preview_recipient(&self, key: &Key, mut facts: KeyFacts) -> (KeyFacts, Recipient) {
        let mut recipient = facts.recipient.clone().unwrap_or_else(|| Recipient::for_development(key));
        if let Some(locale) = self.locale {
            locale.clone_into(&mut recipient.locale);
        }
        if let Some(zone) = self.zone {
            facts.preferences.zone = Some(zone.to_owned());
        }
        (facts, recipient)
    }
}
