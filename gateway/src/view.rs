//! `/v/{token}`: shows a sent message in the browser until it is purged.
//!
//! We do not trust the message's HTML, so a sandbox gives it a separate origin without scripts and forms.

use axum::{
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use tidings_mail::mime::MessageBody;
use tidings_model::ViewLink;

use crate::{
    GatewayState,
    page::{self, PageFrame},
};

/// Links should open (also in new windows) and images load, as in an email program.
const POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; \
     img-src http: https: data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);

pub(crate) fn route(state: GatewayState) -> MethodRouter {
    get(show).with_state(state)
}

async fn show(Extracted(state): Extracted<GatewayState>, token: Result<Path<String>, PathRejection>) -> Response {
    let Some(link) = state.verify_link(token, ViewLink::from_token) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let bytes = match state.store.message_bytes(&link.tenant, link.message).await {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::error!(message = %link.message, %error, "cannot show message");
            return page::unavailable_page(&state, &link.tenant);
        }
    };
    // Empty after an erasure: treat the link as unknown.
    if bytes.as_ref().is_some_and(Vec::is_empty) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match bytes.as_deref().and_then(MessageBody::from_message) {
        Some(MessageBody::Html(html)) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response(),
        Some(MessageBody::Text(text)) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], text).into_response(),
        None => purged_page(&state, &link),
    }
}

fn purged_page(state: &GatewayState, link: &ViewLink) -> Response {
    let phrases = state.phrases(&link.tenant, "");
    let frame = PageFrame::new(state, &link.tenant, phrases);
    page::text_page(StatusCode::GONE, &frame, phrases.message_text("gone"), phrases.message_text("gone_text"))
}
