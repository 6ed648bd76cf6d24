//! `/o/{token}` and `/c/{token}`: tracking pixel and tracked links. We never wait for the database, because
//! the token contains the target (rule 44). Headers are used to detect machines and are not stored.

use axum::{
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use jiff::Timestamp;
use tidings_model::{
    ClickLink, OpenLink,
    delivery_events::{DeliveryReport, ReportKind},
};
use uuid::Uuid;

use crate::GatewayState;

const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// Transparent 1x1 GIF.
const PICTURE: &[u8] =
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\
    \x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

pub(crate) fn picture(state: GatewayState) -> MethodRouter {
    get(serve_picture).with_state(state)
}

pub(crate) fn click_route(state: GatewayState) -> MethodRouter {
    get(redirect_click).with_state(state)
}

async fn serve_picture(
    Extracted(state): Extracted<GatewayState>,
    token: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(OpenLink { tenant, message }) = state.verify_link(token, OpenLink::from_token) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if method == Method::GET && objects_to_tracking(&headers) {
        state.recorder.forget_reading(tenant, message);
    } else if method == Method::GET {
        record_event(&state, tenant, message, ReportKind::Opened, of_picture(&headers), None);
    }
    // Webmail embeds this from another origin.
    let headers = [(header::CONTENT_TYPE, "image/gif"), (CROSS_ORIGIN, "cross-origin")];
    (headers, PICTURE).into_response()
}

/// Redirects to the target. 302 is not cached, so every click counts.
async fn redirect_click(
    Extracted(state): Extracted<GatewayState>,
    token: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(ClickLink { tenant, message, target }) = state.verify_link(token, ClickLink::from_token) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // Cannot fail: tokens contain only printable ASCII.
    let Ok(location) = HeaderValue::from_str(&target) else { return StatusCode::NOT_FOUND.into_response() };
    if method == Method::GET {
        record_event(&state, tenant, message, ReportKind::Clicked, Some(of_link(&headers)), Some(target));
    }
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

fn record_event(
    state: &GatewayState,
    tenant: String,
    message: Uuid,
    kind: ReportKind,
    machine: Option<bool>,
    url: Option<String>,
) {
    let report = DeliveryReport { machine, url, ..DeliveryReport::new(kind, Timestamp::now()) };
    state.recorder.record(tenant, message, report);
}

#[cfg(test)]
mod tests;

/// Lower-case parts of user agents that follow links automatically.
const PROGRAMS: [&str; 15] = [
    "bot",
    "crawl",
    "spider",
    "preview",
    "scan",
    "curl/",
    "wget/",
    "python",
    "java/",
    "okhttp",
    "go-http-client",
    "headless",
    "barracuda",
    "proofpoint",
    "mimecast",
];
/// User agent of Apple's Mail Privacy Protection, which also loads images of unopened messages.
const APPLE: &str = "Mozilla/5.0";
/// A Gmail checker that loads images on arrival.
const GMAIL_CHECKER: [&str; 2] = ["Chrome/42.0.2311.135", "Edge/12.246"];

/// Global Privacy Control, or Do Not Track.
fn objects_to_tracking(headers: &HeaderMap) -> bool {
    ["sec-gpc", "dnt"].iter().any(|name| header(headers, name).trim() == "1")
}

/// Returns `true` for a machine, or `None` if the headers do not show this.
fn of_picture(headers: &HeaderMap) -> Option<bool> {
    (user_agent(headers) != APPLE).then(|| of_link(headers))
}

/// Returns `true` for a machine. Image proxies of Gmail and Yahoo count as people, because they act for a
/// reader.
fn of_link(headers: &HeaderMap) -> bool {
    let agent = user_agent(headers);
    if agent.is_empty() {
        return true;
    }
    let is_ahead = ["sec-purpose", "purpose", "x-moz", "x-purpose"].iter().any(|name| {
        let purpose = header(headers, name).to_ascii_lowercase();
        ["prefetch", "prerender", "preview"].iter().any(|ahead| purpose.contains(ahead))
    });
    let is_checker = GMAIL_CHECKER.iter().all(|part| agent.contains(part));
    let lower = agent.to_ascii_lowercase();
    is_ahead || is_checker || PROGRAMS.iter().any(|program| lower.contains(program))
}

fn user_agent(headers: &HeaderMap) -> &str {
    header(headers, "user-agent").trim()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod machine_tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

    fn headers(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = headers.iter();
        pairs.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn people_machines_and_what_no_header_says() {
        let gmail = "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)";
        let checker = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
                       Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0";
        for (agent, picture, link) in [
            (FIREFOX, Some(false), false),
            (gmail, Some(false), false),
            ("YahooMailProxy; https://help.yahoo.com/", Some(false), false),
            (APPLE, None, false),
            (checker, Some(true), true),
            ("", Some(true), true),
            ("Googlebot/2.1", Some(true), true),
            ("Slackbot-LinkExpanding 1.0", Some(true), true),
            ("python-requests/2.32", Some(true), true),
            ("HeadlessChrome/140.0", Some(true), true),
        ] {
            let headers = headers(&[("user-agent", agent)]);
            assert_eq!((of_picture(&headers), of_link(&headers)), (picture, link), "{agent}");
        }
    }

    #[test]
    fn a_request_ahead_of_time_is_a_machines() {
        for ahead in [("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch"), ("x-moz", "prefetch")] {
            assert!(of_link(&headers(&[("user-agent", FIREFOX), ahead])));
        }
    }

    #[test]
    fn both_ways_to_object_are_heard() {
        assert!(objects_to_tracking(&headers(&[("sec-gpc", "1")])) && objects_to_tracking(&headers(&[("dnt", "1")])));
        assert!(!objects_to_tracking(&headers(&[("dnt", "0")])) && !objects_to_tracking(&headers(&[])));
    }
}
