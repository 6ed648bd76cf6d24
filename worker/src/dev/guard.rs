//! Requests that the pages of `tidings dev` answer. They show a developer's files and emails, so that no other website may read them.

use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// The names of this machine. Port and scheme do not matter: a tunnel may change them.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Refuses a request for another host name, whose owner may have pointed the name here (DNS rebinding), and a form that
/// another page sent.
pub(super) async fn guard(request: Request, next: Next) -> Response {
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

/// Browsers name the origin of every form that is sent by POST. The message in a frame has the origin `null`.
fn is_own_form(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host)),
        (origin, _) => origin.is_none(),
    }
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
}
