//! Request ids, used in errors and logs.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, header::CONTENT_LENGTH},
    middleware::Next,
    response::Response,
};
use serde_json::json;
use tracing::{Instrument as _, debug_span};
use uuid::Uuid;

use crate::problem::ProblemDetails;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id accepted from a client, in characters.
const CHARS: usize = 64;

/// Middleware: uses the client's id or a new one. Returns this as `X-Request-Id`, and in problems as
/// `instance`.
pub(super) async fn assign_id(request: Request, next: Next) -> Response {
    let chosen = request.headers().get(HEADER).and_then(|id| id.to_str().ok()).filter(|id| is_id(id));
    let id = chosen.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
    let mut response = next.run(request).instrument(debug_span!("api", id)).await;
    if let Some(mut details) = response.extensions_mut().remove::<ProblemDetails>() {
        details.instance = Some(id.clone());
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(json!(details).to_string());
    }
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(HEADER, id);
    }
    response
}

fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=CHARS).contains(&text.len()) && text.bytes().all(fits)
}
