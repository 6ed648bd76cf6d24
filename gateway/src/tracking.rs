//! `/o/{token}` and `/c/{token}`: the picture and the links that count. The answer never waits for the database, and needs none:
//! the token has the target (rule 44).

use axum::{
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use jiff::Timestamp;
use tidings_model::{
    ClickLink, OpenLink,
    delivery_events::{Kind, Report},
};
use uuid::Uuid;

use crate::State;

mod machine;

const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// A transparent GIF of one pixel.
const PICTURE: &[u8] =
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\
    \x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// The route of the picture.
pub(crate) fn picture(state: State) -> MethodRouter {
    get(open).with_state(state)
}

/// The route of the links.
pub(crate) fn link(state: State) -> MethodRouter {
    get(click).with_state(state)
}

/// Answers with the picture.
async fn open(
    Extracted(state): Extracted<State>,
    token: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(OpenLink { tenant, message }) = state.link(token, OpenLink::read) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if method == Method::GET && machine::objects(&headers) {
        state.recorder.forget(tenant, message);
    } else if method == Method::GET {
        record(&state, tenant, message, Kind::Opened, machine::of_picture(&headers), None);
    }
    // Web mail shows the picture on pages of its own.
    let headers = [(header::CONTENT_TYPE, "image/gif"), (CROSS_ORIGIN, "cross-origin")];
    (headers, PICTURE).into_response()
}

/// Redirects to the target. A browser asks again next time, so that every click counts.
async fn click(
    Extracted(state): Extracted<State>,
    token: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(ClickLink { tenant, message, target }) = state.link(token, ClickLink::read) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // The token has printable ASCII only.
    let Ok(location) = HeaderValue::from_str(&target) else { return StatusCode::NOT_FOUND.into_response() };
    if method == Method::GET {
        record(&state, tenant, message, Kind::Clicked, Some(machine::of_link(&headers)), Some(target));
    }
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

fn record(state: &State, tenant: String, message: Uuid, kind: Kind, machine: Option<bool>, url: Option<String>) {
    let report = Report { machine, url, ..Report::new(kind, Timestamp::now()) };
    state.recorder.record(tenant, message, report);
}

#[cfg(test)]
mod tests;
