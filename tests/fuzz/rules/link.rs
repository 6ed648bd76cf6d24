//! The rule for every link of an email.

/// Asserts that a link has an allowed scheme and only characters that RFC 3986 permits in a URL.
pub(super) fn harmless(link: &str) {
    let scheme = ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme));
    let plain = link.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\`".contains(&byte));
    assert!(scheme && plain, "{link:?}");
}
