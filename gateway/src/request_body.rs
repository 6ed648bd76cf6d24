//! The body of a request, read whole before a handler runs: with a limit of bytes and of time.

use std::{error::Error as _, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::header::CONTENT_LENGTH,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http_body_util::LengthLimitError;
use tokio::time::timeout;

use crate::problem::Problem;

/// The limits of a route.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit {
    pub bytes: usize,
    pub time: Duration,
}

impl BodyLimit {
    /// Takes at most this many bytes, within ten seconds.
    #[must_use]
    pub const fn of(bytes: usize) -> Self {
        Self { bytes, time: Duration::from_secs(10) }
    }
}

/// The middleware. A handler behind it gets a body that is in memory, or never runs.
pub async fn read(State(limit): State<BodyLimit>, request: Request, next: Next) -> Response {
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > limit.bytes as u64) {
        return Problem::TooLarge.into_response();
    }
    let (parts, body) = request.into_parts();
    let Ok(read) = timeout(limit.time, to_bytes(body, limit.bytes)).await else {
        return Problem::TooSlow.into_response();
    };
    match read {
        Ok(bytes) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(error) if error.source().is_some_and(|source| source.is::<LengthLimitError>()) => {
            Problem::TooLarge.into_response()
        }
        // The client has gone, or the body is not what its headers say.
        Err(_) => Problem::TooSlow.into_response(),
    }
}
