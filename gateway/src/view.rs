//! `/v/{token}`: a message in the browser, as it was sent, until the message is purged.
//!
//! The message's HTML is a stranger's: a sandbox gives it an origin of its own, without scripts and forms.

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

/// The policy of a message. Its links open, also in new windows, and its pictures load, as in an email program.
const POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; \
     img-src http: https: data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);

/// The route.
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
    // An erased person's: the link belongs to nobody.
    if bytes.as_ref().is_some_and(Vec::is_empty) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match bytes.as_deref().and_then(Body::read) {
        Some(Body::Html(html)) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response(),
        Some(Body::Text(text)) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], text).into_response(),
        None => gone(&state, &link),
    }
}

/// The page about a message that was purged.
fn gone(state: &State, link: &ViewLink) -> Response {
    let phrases = state.phrases(&link.tenant, "");
    let frame = Frame::new(state, &link.tenant, phrases);
    page::text(StatusCode::GONE, &frame, phrases.say("gone"), phrases.say("gone_text"))
}
