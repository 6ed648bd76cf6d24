//! Errors as problem details (RFC 9457). No error shows an address, a token or a path.

use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde_json::json;

/// Seconds after which a refused request may come again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The body of a one-click request is not what RFC 8058 asks for.
    NotOneClick,
    /// The body is longer than the route takes.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The gateway has as many requests in progress as it accepts.
    Busy,
    /// This client has as many requests in progress as it may have.
    TooMany,
    /// The database cannot answer.
    Unavailable,
    /// The request was not answered in time, or a fault ended it.
    Failed,
}

impl Problem {
    /// The status, the last part of the type, the title, and the remedy.
    const fn parts(self) -> (StatusCode, &'static str, &'static str, &'static str) {
        match self {
            Self::NotOneClick => (
                StatusCode::BAD_REQUEST,
                "not-one-click",
                "The body is not a one-click request",
                "Send List-Unsubscribe=One-Click, as multipart/form-data or application/x-www-form-urlencoded (RFC 8058).",
            ),
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too long", "Send a shorter body.")
            }
            Self::TooSlow => {
                (StatusCode::REQUEST_TIMEOUT, "too-slow", "The body did not arrive in time", "Send the request again.")
            }
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "Too many requests are in progress",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "too-many",
                "This client has too many requests in progress",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The database does not answer",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::Failed => (
                StatusCode::SERVICE_UNAVAILABLE,
                "failed",
                "The request was not answered",
                "Send the request again after the seconds of Retry-After.",
            ),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, kind, title, detail) = self.parts();
        let body = json!({
            "type": format!("/problems/{kind}"), "title": title, "status": status.as_u16(), "detail": detail,
        });
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(RETRY_AFTER, RETRY_SECONDS);
        }
        response
    }
}
