//! Entity tags (RFC 9110, section 8.8.3) and the `If-Match` header.

use axum::http::{HeaderMap, HeaderValue, header::IF_MATCH};

use super::refusal::ApiRefusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpectedVersion {
    Any,
    Tag(String),
}

pub(super) fn read_header(headers: &HeaderMap) -> Result<Option<ExpectedVersion>, ApiRefusal> {
    let wrong = || ApiRefusal::parameter("if-match", "is neither * nor one ETag in quotes");
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let value = value.to_str().map_err(|_| wrong())?.trim();
    if value == "*" {
        return Ok(Some(ExpectedVersion::Any));
    }
    let tag = value.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).filter(|tag| !tag.contains('"'));
    Ok(Some(ExpectedVersion::Tag(tag.ok_or_else(wrong)?.to_owned())))
}

pub(super) fn etag(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tag_or_a_star_is_read() {
        let read =
            |value: &'static str| read_header(&HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_static(value))]));
        assert_eq!(super::read_header(&HeaderMap::new()), Ok(None));
        assert_eq!(read(" * "), Ok(Some(ExpectedVersion::Any)));
        assert_eq!(read("\"7\""), Ok(Some(ExpectedVersion::Tag("7".into()))));
        for wrong in ["7", "\"7\", \"8\"", "W/\"7\"", "\""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(etag("7"), "\"7\"");
    }
}
