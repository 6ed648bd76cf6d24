//! Addresses as they are compared.

/// An address as all of its spellings are compared: in lower case, its domain in ASCII (RFC 5891), as on an envelope.
pub fn folded(address: &str) -> String {
    let lower = address.to_lowercase();
    let domain = lower.rsplit_once('@').filter(|(_, domain)| !domain.is_ascii());
    let ascii = domain.and_then(|(local, domain)| Some(format!("{local}@{}", url::Host::parse(domain).ok()?)));
    ascii.unwrap_or(lower)
}
