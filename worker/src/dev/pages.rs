//! Protects the pages of `tidings dev`. They show a developer's files and emails, so no other website may
//! read them. An email is untrusted: a policy sandboxes its HTML wherever it is opened, without scripts,
//! forms, frames or an origin.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Rejects requests for another host name, which may have been pointed at this machine (DNS rebinding). Also
/// rejects forms sent by another page.
pub(super) async fn guard_request(request: Request, next: Next) -> Response {
    if !is_for_this_machine(request.headers()) {
        let why = "open this page as http://localhost, or as http://127.0.0.1\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    if request.method() != Method::GET && request.method() != Method::HEAD && !is_own_form(request.headers()) {
        return (StatusCode::FORBIDDEN, "another website sent this form\n").into_response();
    }
    next.run(request).await
}

fn is_for_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let only = hosts.next().filter(|_| hosts.next().is_none());
    only.is_some_and(|host| {
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
    })
}

/// Browsers send the origin with every POST. A message in the sandboxed frame has the origin `null`, so its
/// forms are rejected.
fn is_own_form(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host)),
        (origin, _) => origin.is_none(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PicturePolicy {
    Loaded,
    Blocked,
}

/// Serves a message's HTML. Links open in a new tab, because a sandboxed frame cannot navigate.
pub(super) fn framed_response(html: &str, pictures: PicturePolicy) -> Response {
    let sources = match pictures {
        PicturePolicy::Loaded => "data: http: https:",
        PicturePolicy::Blocked => "'none'",
    };
    let policy = format!(
        "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src {sources}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    );
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, with_links_in_new_tabs(html)).into_response()
}

fn with_links_in_new_tabs(html: &str) -> String {
    const NEW_TAB: &str = "<base target=\"_blank\">";
    let head = html.to_ascii_lowercase().find("<head>").map_or(0, |start| start + "<head>".len());
    format!("{}{NEW_TAB}{}", &html[..head], &html[head..])
}

pub(super) async fn harden(mut response: Response) -> Response {
    let fixed: [(HeaderName, &str); 4] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for (host, answered) in [
            ("localhost:8028", true),
            ("LocalHost", true),
            ("127.0.0.1:9", true),
            ("evil.example", false),
            ("localhost.evil.example:8028", false),
            ("127.0.0.1.evil.example", false),
            ("[::1]:8028", false),
            ("", false),
        ] {
            assert_eq!(is_for_this_machine(&headers(&[(header::HOST, host)])), answered, "{host}");
        }
        assert!(!is_for_this_machine(&headers(&[])));
        let mut two = headers(&[(header::HOST, "localhost")]);
        two.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(!is_for_this_machine(&two));
    }

    #[test]
    fn a_form_of_another_origin_is_refused() {
        for (origin, own) in [
            ("http://localhost:8028", true),
            ("http://localhost:9", false),
            ("https://evil.example", false),
            ("null", false),
        ] {
            let headers = headers(&[(header::HOST, "localhost:8028"), (header::ORIGIN, origin)]);
            assert_eq!(is_own_form(&headers), own, "{origin}");
        }
        assert!(is_own_form(&headers(&[(header::HOST, "localhost:8028")])), "no browser");
    }

    #[test]
    fn links_of_a_framed_message_open_in_a_new_tab() {
        let html = "<!doctype html><HEAD><title>x</title></HEAD>";
        assert_eq!(
            with_links_in_new_tabs(html),
            "<!doctype html><HEAD><base target=\"_blank\"><title>x</title></HEAD>"
        );
    }

    #[test]
    fn a_framed_message_has_neither_scripts_nor_an_origin() {
        for (pictures, sources) in
            [(PicturePolicy::Loaded, "img-src data: http: https:"), (PicturePolicy::Blocked, "img-src 'none'")]
        {
            let response = framed_response("<p>x</p>", pictures);
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(
                policy.starts_with("sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none';"),
                "{policy}"
            );
            assert!(policy.contains(sources) && !policy.contains("allow-scripts"), "{policy}");
        }
    }
}
