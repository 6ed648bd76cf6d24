//! Entity tags (RFC 9110, section 8.8.3) and the `If-Match` header.

use axum::http::{HeaderMap, HeaderValue, header::IF_MATCH};

use super::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Any,
    Tag(String),
}

/// Returns `None` if the request has no `If-Match`.
pub(super) fn read(headers: &HeaderMap) -> Result<Option<Seen>, Refusal> {
    let wrong = || Refusal::parameter("if-match", "is neither * nor one ETag in quotes");
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let value = value.to_str().map_err(|_| wrong())?.trim();
    if value == "*" {
        return Ok(Some(Seen::Any));
    }
    let tag = value.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).filter(|tag| !tag.contains('"'));
    Ok(Some(Seen::Tag(tag.ok_or_else(wrong)?.to_owned())))
}

pub(super) fn etag(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tag_or_a_star_is_read() {
        let read = |value: &'static str| read(&HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_static(value))]));
        assert_eq!(super::read(&HeaderMap::new()), Ok(None));
        assert_eq!(read(" * "), Ok(Some(Seen::Any)));
        assert_eq!(read("\"7\""), Ok(Some(Seen::Tag("7".into()))));
        for wrong in ["7", "\"7\", \"8\"", "W/\"7\"", "\""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(etag("7"), "\"7\"");
    }
}
