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
use tidings_model::{Key, PreferencesLink, records::Wish};
use tidings_services::{choices, unsubscribe::key_of_today};

use crate::{
    State, page,
    problem::Problem,
    request_body::{self, BodyLimit},
};

mod form;
mod often;
mod subject;
#[cfg(test)]
mod tests;
mod view;

use form::{Action, Form};
use subject::Subject;
use view::{Notice, View};

/// Body limit. We expect up to 30 digest types with 40 categories each: two fields per category of some
/// hundred bytes, and as much again for undo.
const BODY: BodyLimit = BodyLimit::of(1 << 20);

pub(crate) fn route(state: State) -> MethodRouter {
    get(show).post(change).layer(from_fn_with_state(BODY, request_body::read)).with_state(state)
}

async fn show(Extracted(state): Extracted<State>, token: Result<Path<String>, PathRejection>) -> Response {
    let Some(link) = link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    let page = async {
        let now = Timestamp::now();
        let Some(key) = key_of_today(&*state.store, &link.key, link.generation).await? else {
            return Ok(StatusCode::NOT_FOUND.into_response());
        };
        let subjects = Subject::all(&state, &key, now).await?;
        Ok::<_, tidings_store::Error>(View::new(&state, &key, &subjects, &subjects, now).response(None))
    };
    page::choices_within_time(&state, &link.key.tenant, link.message, page).await
}

/// Stores the form and shows the new preferences.
///
/// This is not a redirect, because the undo button contains the previous preferences. Sending the form twice,
/// e.g. by a reload, changes nothing more.
async fn change(
    Extracted(state): Extracted<State>,
    token: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Response {
    let Some(link) = link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    let form = match request_body::parse(body.len(), move || Form::read(&body)).await {
        Ok(Some(form)) => form,
        Ok(None) => return Problem::TooLarge.into_response(),
        Err(problem) => return problem.into_response(),
    };
    page::choices_within_time(&state, &link.key.tenant, link.message, carry_out(&state, &link, &form)).await
}

/// Replaces former names of tenant and digest type.
fn link(state: &State, token: Result<Path<String>, PathRejection>) -> Option<PreferencesLink> {
    let link = state.link(token, PreferencesLink::read)?;
    Some(PreferencesLink { key: state.settings.names.today(&link.key), ..link })
}

async fn carry_out(state: &State, link: &PreferencesLink, form: &Form) -> Result<Response, tidings_store::Error> {
    let now = Timestamp::now();
    let today = key_of_today(&*state.store, &link.key, link.generation).await?;
    let Some(key) = &today else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let before = Subject::all(state, key, now).await?;
    let wishes = form.wishes(key, &before, now);
    let why = format!("chosen on the page of message {}", link.message);
    let notice = match choices::wish(&*state.store, &state.settings, &wishes, &why, now).await {
        Ok(Some(changed)) => {
            state.wake(&changed).await;
            done(form.action, &before, &wishes, &changed, now)
        }
        Ok(None) | Err(choices::Error::Conflict(_) | choices::Error::UnknownType(_)) => Notice::Conflict,
        Err(choices::Error::Invalid(invalid)) => Notice::Wrong(invalid.field),
        Err(choices::Error::Store(error)) => return Err(error),
    };
    let after = Subject::all(state, key, now).await?;
    // Uses windows read before the change, because we compute the new due time from old and new facts.
    let after = after.into_iter().map(|subject| subject.with_window_of(&before)).collect::<Vec<_>>();
    tracing::info!(message = %link.message, "a recipient chose");
    Ok(View::new(state, key, &before, &after, now).response(Some(notice)))
}

/// There is no undo if nothing changed, if this was an undo, or if the previous preferences are no longer
/// possible.
fn done(action: Action, before: &[Subject<'_>], wishes: &[Wish], changed: &[Key], now: Timestamp) -> Notice {
    if changed.is_empty() {
        return Notice::Unchanged;
    }
    let undo = form::undo(before, wishes, changed, now);
    match action {
        Action::Undo => Notice::Undone,
        Action::Save => Notice::Saved { undo },
        Action::None => Notice::AllOff { undo },
    }
}
