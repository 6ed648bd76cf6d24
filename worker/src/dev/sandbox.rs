//! HTML of messages on the pages of `tidings dev`. A message is a stranger's document: it is served with a policy that sandboxes it
//! wherever it is opened, without scripts, forms, frames and an origin.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response},
};

/// The sources of pictures of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pictures {
    Loaded,
    Blocked,
}

/// An answer with the HTML of a message: its own styles, its pictures, and links in a new tab, since a sandboxed frame cannot go
/// anywhere.
pub(super) fn framed(html: &str, pictures: Pictures) -> Response {
    let sources = match pictures {
        Pictures::Loaded => "data: http: https:",
        Pictures::Blocked => "'none'",
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

/// Sets the headers that every answer has.
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
    use super::*;

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
            [(Pictures::Loaded, "img-src data: http: https:"), (Pictures::Blocked, "img-src 'none'")]
        {
            let response = framed("<p>x</p>", pictures);
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(
                policy.starts_with("sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none';"),
                "{policy}"
            );
            assert!(policy.contains(sources) && !policy.contains("allow-scripts"), "{policy}");
        }
    }
}
