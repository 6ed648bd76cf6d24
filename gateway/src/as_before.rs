//! `/b/{token}`: a recipient whose cadence was adapted can return to the original one. GET changes nothing,
//! because email scanners fetch every link. POST stores the digest type's cadence as the recipient's choice,
//! unless there already is one.

use axum::{
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::words::describe_cadence;
use tidings_model::{
    AsBeforeLink, Key,
    records::{KeyFacts, Preferences, PreferencesChange},
    rules::effective::EffectiveSettings,
    settings::DigestSettings,
};
use tidings_services::{choices, unsubscribe::key_of_today};

use crate::{
    GatewayState,
    page::{self, PageFrame},
};

pub(crate) fn route(state: GatewayState) -> MethodRouter {
    get(show).post(pin_cadence).with_state(state)
}

async fn show(Extracted(state): Extracted<GatewayState>, token: Result<Path<String>, PathRejection>) -> Response {
    let Some(link) = state.verify_link(token, AsBeforeLink::from_token) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let page = async {
        let Some(key) = key_of_today(&*state.store, &link.key, link.generation).await? else {
            return Ok(StatusCode::NOT_FOUND.into_response());
        };
        let facts = state.store.facts(&key).await?;
        Ok::<_, choices::PreferencesError>(cadence_page(&state, &key, &facts, "as_before.html", "as_before"))
    };
    page::choices_within_time(&state, &link.key.tenant, link.message, page).await
}

/// This is idempotent.
async fn pin_cadence(
    Extracted(state): Extracted<GatewayState>,
    token: Result<Path<String>, PathRejection>,
) -> Response {
    let Some(link) = state.verify_link(token, AsBeforeLink::from_token) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    page::choices_within_time(&state, &link.key.tenant, link.message, carry_out(&state, &link)).await
}

async fn carry_out(state: &GatewayState, link: &AsBeforeLink) -> Result<Response, choices::PreferencesError> {
    let store = &*state.store;
    let today = key_of_today(store, &link.key, link.generation).await?;
    let Some(key) = &today else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let Some(settings) = state.settings.digest(key) else {
        return Ok(cadence_page(state, key, &store.facts(key).await?, "text.html", "title"));
    };
    let why = format!("as often as before, on the page of message {}", link.message);
    loop {
        let (facts, now) = (store.facts(key).await?, Timestamp::now());
        let wish = PreferencesChange {
            key: key.clone(),
            seen_revision: facts.revision,
            seen_consent: facts.consent,
            preferences: with_pinned_cadence(settings, &facts.preferences),
            consent: facts.consent,
        };
        // `None` means another change came first, so read it and try again.
        if let Some(changed) = choices::set_all_preferences(store, &state.settings, &[wish], &why, now).await? {
            state.wake_windows(&changed).await;
            tracing::info!(message = %link.message, "recipient restored the cadence");
            return Ok(cadence_page(state, key, &store.facts(key).await?, "text.html", "saved"));
        }
    }
}

/// Sets the digest type's cadence, unless the recipient chose one.
fn with_pinned_cadence(settings: &DigestSettings, chosen: &Preferences) -> Preferences {
    let cadence = chosen.cadence.clone().unwrap_or_else(|| settings.cadence.to_string());
    Preferences { cadence: Some(cadence), ..chosen.clone() }
}

/// Page about the digest type's cadence, or the recipient's own.
#[derive(Serialize)]
struct CadenceText {
    title: String,
    text: String,
}

fn cadence_page(state: &GatewayState, key: &Key, facts: &KeyFacts, template: &str, title: &str) -> Response {
    let locale = facts.recipient.as_ref().map(|recipient| recipient.locale.as_str()).unwrap_or_default();
    let phrases = state.phrases(&key.tenant, locale);
    let frame = PageFrame::new(state, &key.tenant, phrases);
    let Some(settings) = state.settings.digest(key) else {
        return page::text_page(
            StatusCode::OK,
            &frame,
            phrases.message_text("title"),
            phrases.message_text("nothing_to_choose"),
        );
    };
    let digest = phrases.digest_name(&key.digest_type, settings.title.as_deref());
    let often = describe_cadence(phrases, &EffectiveSettings::without_adapting(settings, facts).cadence);
    let text = phrases.message_with("as_before_text", [("digest", digest.into()), ("cadence", often.into())]);
    page::render_page(StatusCode::OK, template, &frame, &CadenceText { title: phrases.message_text(title), text })
}

#[cfg(test)]
mod tests;
