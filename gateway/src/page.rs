//! The pages of an unsubscribe link. They work without script, in light and dark, and at any width.

use std::sync::LazyLock;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse as _, Response},
};
use serde::Serialize;
use tera::{Context, Tera};

use crate::problem::Problem;

/// The policy of a page: its own stylesheet and its own form.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);
/// Browsers may keep the stylesheet for an hour.
const STYLE_AGE: HeaderValue = HeaderValue::from_static("public, max-age=3600");

static TEMPLATES: LazyLock<Result<Tera, tera::Error>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    tera.add_raw_templates([
        ("frame.html", include_str!("pages/frame.html")),
        ("unsubscribe.html", include_str!("pages/unsubscribe.html")),
        ("unsubscribed.html", include_str!("pages/unsubscribed.html")),
    ])?;
    Ok(tera)
});

/// The subject of a page.
#[derive(Debug, Serialize)]
pub(crate) struct About {
    /// The name of the sender; may be empty.
    pub sender: String,
    /// The digest type; `None`: single bulk messages.
    pub digest_type: Option<String>,
    /// The recipient's address in part, if it is known.
    pub address: Option<String>,
}

/// The page with the form.
pub(crate) fn unsubscribe(about: &About) -> Response {
    page("unsubscribe.html", about)
}

/// The page after the click.
pub(crate) fn unsubscribed(about: &About) -> Response {
    page("unsubscribed.html", about)
}

/// The stylesheet of all pages.
pub(crate) async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8")),
        (header::CACHE_CONTROL, STYLE_AGE),
    ];
    (headers, include_str!("pages/page.css")).into_response()
}

fn page(name: &str, about: &About) -> Response {
    let rendered = TEMPLATES.as_ref().map_err(ToString::to_string).and_then(|templates| {
        let context = Context::from_serialize(about).map_err(|error| error.to_string())?;
        templates.render(name, &context).map_err(|error| error.to_string())
    });
    match rendered {
        Ok(html) => (StatusCode::OK, [(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response(),
        Err(error) => {
            tracing::error!(error, name, "a page cannot be made: please report that");
            Problem::Failed.into_response()
        }
    }
}

/// Shows an address in part: whoever a message was forwarded to learns no address.
pub(crate) fn masked(address: &str) -> String {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let first = local.chars().next().map(String::from).unwrap_or_default();
    format!("{first}…@{domain}")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn html(response: Response) -> String {
        assert_eq!(response.status(), StatusCode::OK);
        String::from_utf8(to_bytes(response.into_body(), 100_000).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_page_shows_an_address_in_part_and_escapes_everything() {
        let about = About {
            sender: "Acme <&> Sons".into(),
            digest_type: Some("<script>alert(1)</script>".into()),
            address: Some(masked("ann@example.net")),
        };
        for page in [unsubscribe(&about), unsubscribed(&about)] {
            let html = html(page).await;
            assert!(html.contains("a…@example.net") && html.contains("Acme &lt;&amp;&gt; Sons"), "{html}");
            assert!(!html.contains("<script"), "{html}");
        }
        let nothing = About { sender: String::new(), digest_type: None, address: None };
        assert!(html(unsubscribe(&nothing)).await.contains("method=\"post\""));
    }
}
