//! The body of a request, read whole before a handler runs: with a limit of bytes and of time.

use std::{error::Error as StdError, io, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::header::CONTENT_LENGTH,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http_body_util::LengthLimitError;
use serde_json::json;
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
        Err(error) if is_cut_off(&error) => Problem::TooSlow.into_response(),
        // Chunks that are none. The same request would fail again.
        Err(_) => {
            let problem = "is not in the chunks that Transfer-Encoding announces";
            Problem::Unreadable.with_errors(&[json!({"field": "", "problem": problem})])
        }
    }
}

/// Reports if the connection ended within the body.
fn is_cut_off(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        }
        cause = error.source();
    }
    true
}
