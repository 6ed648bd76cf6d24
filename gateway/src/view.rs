//! `/v/{token}`: shows a sent message in the browser until it is purged.
//!
//! We do not trust the message's HTML, so a sandbox gives it a separate origin without scripts and forms.

use axum::{
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use tidings_mail::mime::Body;
use tidings_model::ViewLink;

use crate::{
    State,
    page::{self, Frame},
};

/// Links should open (also in new windows) and images load, as in an email program.
const POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; \
     img-src http: https: data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);

pub(crate) fn route(state: State) -> MethodRouter {
    get(show).with_state(state)
}

async fn show(Extracted(state): Extracted<State>, token: Result<Path<String>, PathRejection>) -> Response {
    let Some(link) = state.link(token, ViewLink::read) else { return StatusCode::NOT_FOUND.into_response() };
    let bytes = match state.store.message_bytes(&link.tenant, link.message).await {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::error!(message = %link.message, %error, "a message cannot be shown now");
            return page::unavailable(&state, &link.tenant);
        }
    };
    // Empty after an erasure: treat the link as unknown.
    if bytes.as_ref().is_some_and(Vec::is_empty) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match bytes.as_deref().and_then(Body::read) {
        Some(Body::Html(html)) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response(),
        Some(Body::Text(text)) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], text).into_response(),
        None => gone(&state, &link),
    }
}

fn gone(state: &State, link: &ViewLink) -> Response {
    let phrases = state.phrases(&link.tenant, "");
    let frame = Frame::new(state, &link.tenant, phrases);
    page::text(StatusCode::GONE, &frame, phrases.say("gone"), phrases.say("gone_text"))
}
