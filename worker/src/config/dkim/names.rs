//! DNS names of a DKIM key, and their alignment with the sender.

/// Characters of a selector, of a domain, and of `{selector}._domainkey.{domain}` (RFC 1035 2.3.4).
const SELECTOR_CHARS: usize = 63;
const DOMAIN_CHARS: usize = NAME_CHARS - SELECTOR_CHARS - "._domainkey.".len();
const NAME_CHARS: usize = 253;

/// Parses a selector.
///
/// # Errors
/// The text is not a DNS name of up to 63 characters.
pub(super) fn selector(text: &str) -> Result<String, String> {
    if text.len() <= SELECTOR_CHARS && is_dns_name(text) {
        return Ok(text.to_owned());
    }
    Err("is not a DNS name of up to 63 characters; write for example \"s1\"".to_owned())
}

/// Parses a signing domain, which must equal the sender's domain `from`, or be above or below it.
///
/// # Errors
/// The text is not a domain in ASCII, or not aligned with `from`, the domain of the key `from_key`.
pub(super) fn domain(text: &str, from: &str, from_key: &str) -> Result<String, String> {
    if !(text.contains('.') && text.len() <= DOMAIN_CHARS && is_dns_name(text)) {
        return Err("is not a domain in ASCII; write for example \"acme.example\"".to_owned());
    }
    let below = |name: &str, top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
    let (name, from) = (text.to_ascii_lowercase(), from.to_ascii_lowercase());
    if name == from || below(&name, &from) || below(&from, &name) {
        return Ok(name);
    }
    Err(format!("is not aligned with {from_key}, so DMARC would not count the signature; write \"{from}\""))
}

/// Reports if the name consists of labels of letters, digits and inner hyphens (RFC 6376 3.1, RFC 1035 2.3.4).
fn is_dns_name(name: &str) -> bool {
    name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}
