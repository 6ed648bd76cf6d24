//! The body of a one-click request (RFC 8058): `List-Unsubscribe=One-Click`, in either encoding of a form. Programs write it in other cases, and
//! with a line end behind it.

use std::convert::Infallible;

use axum::{
    body::Bytes,
    http::{HeaderMap, header::CONTENT_TYPE},
};
use futures::stream;
use tidings_model::foreign_text::clean_edges;

const FIELD: &str = "List-Unsubscribe";
const VALUE: &str = "One-Click";
/// Fields that are read. The request has one.
const FIELDS: usize = 10;

/// Reports if the body asks for what one click asks for.
pub(crate) async fn is_one_click(headers: &HeaderMap, body: Bytes) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match multer::parse_boundary(kind) {
        Ok(boundary) => is_multipart(body, boundary).await,
        // A client that does not name the encoding means the older one.
        Err(_) => {
            url::form_urlencoded::parse(&body).take(FIELDS).any(|(name, value)| is(&name, FIELD) && is(&value, VALUE))
        }
    }
}

async fn is_multipart(body: Bytes, boundary: String) -> bool {
    let body = stream::iter([Ok::<_, Infallible>(body)]);
    let mut parts = multer::Multipart::new(body, boundary);
    for _ in 0..FIELDS {
        let Ok(Some(part)) = parts.next_field().await else { return false };
        let named = part.name().is_some_and(|name| is(name, FIELD));
        match part.text().await {
            Ok(value) if named && is(&value, VALUE) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

fn is(text: &str, word: &str) -> bool {
    clean_edges(text).eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    async fn one_click(kind: &str, body: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
        }
        is_one_click(&headers, Bytes::from(body.to_owned())).await
    }

    #[tokio::test]
    async fn both_encodings_are_read() {
        let form = "application/x-www-form-urlencoded";
        for (kind, body) in [
            (form, "List-Unsubscribe=One-Click"),
            (form, "a=b&List-Unsubscribe=One%2DClick"),
            ("application/x-www-form-urlencoded; charset=UTF-8", "List-Unsubscribe=One-Click"),
            ("", "List-Unsubscribe=One-Click"),
            (form, "List-Unsubscribe=One-Click\r\n"),
            (form, "\u{feff}List-Unsubscribe=One-Click&x=1"),
            (form, "list-unsubscribe=one-click"),
            ("Application/X-WWW-Form-URLEncoded", "List-Unsubscribe=One-Click"),
            ("text/plain; charset=utf-8", "List-Unsubscribe=One-Click\n"),
            (
                "Multipart/Form-Data; charset=utf-8; Boundary=b",
                "--b\r\ncontent-disposition: form-data; name=List-Unsubscribe\r\n\r\nOne-Click\r\n--b--",
            ),
            (
                "multipart/form-data; boundary=---FormBoundary8zL7",
                "-----FormBoundary8zL7\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n\
                 -----FormBoundary8zL7--\r\n",
            ),
            (
                "multipart/form-data; boundary=\"b\"",
                "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n\
                 --b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\nContent-Type: text/plain\r\n\r\n\
                 One-Click\r\n--b--\r\n",
            ),
        ] {
            assert!(one_click(kind, body).await, "{kind}: {body}");
        }
    }

    #[tokio::test]
    async fn any_other_body_is_refused() {
        let form = "application/x-www-form-urlencoded";
        for (kind, body) in [
            (form, ""),
            (form, "List-Unsubscribe=Yes"),
            (form, "One-Click=List-Unsubscribe"),
            ("application/json", "{\"List-Unsubscribe\":\"One-Click\"}"),
            ("multipart/form-data; boundary=b", "List-Unsubscribe=One-Click"),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nOne-Click\r\n--b--",
            ),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne",
            ),
        ] {
            assert!(!one_click(kind, body).await, "{kind}: {body}");
        }
    }
}
