//! `/p/{token}`: the preferences page. GET changes nothing, because email scanners fetch every link. POST
//! stores all fields in one transaction, then signals open windows.
//!
//! The token in the path is the only credential. We set no cookie, so another site cannot forge a request
//! (CSRF).

use axum::{
    body::Bytes,
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::StatusCode,
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use jiff::Timestamp;
use tidings_model::{Key, PreferencesLink, records::PreferencesChange};
use tidings_services::{choices, unsubscribe::key_of_today};

use crate::{
    GatewayState, page,
    problem::Problem,
    request_body::{self, BodyLimit},
};

mod form;
mod often;
mod subject;
#[cfg(test)]
mod tests;
mod view;

use form::{FormAction, PreferencesForm};
use subject::DigestSubject;
use view::{ChangeNotice, PreferencesPage};

/// Body limit. We expect up to 30 digest types with 40 categories each: two fields per category of some
/// hundred bytes, and as much again for undo.
const BODY: BodyLimit = BodyLimit::with_bytes(1 << 20);

pub(crate) fn route(state: GatewayState) -> MethodRouter {
    get(show).post(submit_form).layer(from_fn_with_state(BODY, request_body::buffer_body)).with_state(state)
}

async fn show(Extracted(state): Extracted<GatewayState>, token: Result<Path<String>, PathRejection>) -> Response {
    let Some(link) = read_link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    let page = async {
        let now = Timestamp::now();
        let Some(key) = key_of_today(&*state.store, &link.key, link.generation).await? else {
            return Ok(StatusCode::NOT_FOUND.into_response());
        };
        let subjects = DigestSubject::load_all(&state, &key, now).await?;
        Ok::<_, tidings_store::StoreError>(PreferencesPage::new(&state, &key, &subjects, &subjects, now).response(None))
    };
    page::choices_within_time(&state, &link.key.tenant, link.message, page).await
}

/// Stores the form and shows the new preferences.
///
/// This is not a redirect, because the undo button contains the previous preferences. Sending the form twice,
/// e.g. by a reload, changes nothing more.
async fn submit_form(
    Extracted(state): Extracted<GatewayState>,
    token: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Response {
    let Some(link) = read_link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    let form = match request_body::run_bounded(body.len(), move || PreferencesForm::from_body(&body)).await {
        Ok(Some(form)) => form,
        Ok(None) => return Problem::TooLarge.into_response(),
        Err(problem) => return problem.into_response(),
    };
    page::choices_within_time(&state, &link.key.tenant, link.message, carry_out(&state, &link, &form)).await
}

/// Replaces former names of tenant and digest type.
fn read_link(state: &GatewayState, token: Result<Path<String>, PathRejection>) -> Option<PreferencesLink> {
    let link = state.verify_link(token, PreferencesLink::from_token)?;
    Some(PreferencesLink { key: state.settings.names.key_today(&link.key), ..link })
}

async fn carry_out(
    state: &GatewayState,
    link: &PreferencesLink,
    form: &PreferencesForm,
) -> Result<Response, tidings_store::StoreError> {
    let now = Timestamp::now();
    let today = key_of_today(&*state.store, &link.key, link.generation).await?;
    let Some(key) = &today else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let before = DigestSubject::load_all(state, key, now).await?;
    let wishes = form.preference_changes(key, &before, now);
    let why = format!("chosen on the page of message {}", link.message);
    let notice = match choices::set_all_preferences(&*state.store, &state.settings, &wishes, &why, now).await {
        Ok(Some(changed)) => {
            state.wake_windows(&changed).await;
            stored_notice(form.action, &before, &wishes, &changed, now)
        }
        Ok(None) | Err(choices::PreferencesError::Conflict(_) | choices::PreferencesError::UnknownType(_)) => {
            ChangeNotice::Conflict
        }
        Err(choices::PreferencesError::Invalid(invalid)) => ChangeNotice::Wrong(invalid.field),
        Err(choices::PreferencesError::Store(error)) => return Err(error),
    };
    let after = DigestSubject::load_all(state, key, now).await?;
    // Uses windows read before the change, because we compute the new due time from old and new facts.
    let after = after.into_iter().map(|subject| subject.with_window_of(&before)).collect::<Vec<_>>();
    tracing::info!(message = %link.message, "recipient changed preferences");
    Ok(PreferencesPage::new(state, key, &before, &after, now).response(Some(notice)))
}

/// There is no undo if nothing changed, if this was an undo, or if the previous preferences are no longer
/// possible.
fn stored_notice(
    action: FormAction,
    before: &[DigestSubject<'_>],
    wishes: &[PreferencesChange],
    changed: &[Key],
    now: Timestamp,
) -> ChangeNotice {
    if changed.is_empty() {
        return ChangeNotice::Unchanged;
    }
    let undo = form::undo_value(before, wishes, changed, now);
    match action {
        FormAction::Undo => ChangeNotice::Undone,
        FormAction::Save => ChangeNotice::Saved { undo },
        FormAction::None => ChangeNotice::AllOff { undo },
    }
}
