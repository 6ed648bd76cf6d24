//! Values of headers: text without control characters, valid addresses, labels.

use lettre::{Address, message::header::HeaderValue};
use uuid::Uuid;

use tidings_model::{foreign_text::cut_text, is_host_name};

use crate::{Error, bidi};

/// Limits of an address (RFC 5321 4.5.3.1.3, without the brackets) and of its local part, in bytes.
const ADDRESS_BYTES: usize = 254;
const LOCAL_PART_BYTES: usize = 64;
/// Characters of an id that a label keeps. With the hash the label stays below the 63 bytes of DNS.
const LABEL_CHARS: usize = 40;

/// Namespace of the hashes in labels (UUIDv5). It never changes.
const LABELS: Uuid = Uuid::from_u128(0x7d0a_4c1e_93b5_5f26_8a41_c06e_5b9f_2d18);

/// Returns one line of at most `max_chars` characters. Control characters and line separators become spaces, and runs of
/// spaces become one. Overrides of the direction go: with one, `evil@example.com` can show itself as another address. A space breaks up
/// anything that looks like an encoded word (RFC 2047), so that no client decodes it.
pub(super) fn one_line(text: &str, max_chars: usize) -> String {
    let separator = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}');
    let text = bidi::without_overrides(text);
    let line = text.split(separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    cut_text(&line.replace("=?", "= ?"), max_chars).trim_end().to_owned()
}

/// Parses an address and converts its domain to ASCII (RFC 5891).
pub(super) fn address(part: &'static str, text: &str) -> Result<Address, Error> {
    let wrong = |problem: &str| Error::Message { part, problem: problem.to_owned() };
    let (local, domain) = text.rsplit_once('@').ok_or_else(|| wrong("has no @"))?;
    if text.chars().any(char::is_control) {
        return Err(wrong("has a control character"));
    }
    let domain = if domain.is_ascii() {
        domain.to_owned()
    } else {
        url::Host::parse(domain).map_err(|_| wrong("has a domain that IDNA does not know"))?.to_string()
    };
    if local.len() > LOCAL_PART_BYTES || local.len() + 1 + domain.len() > ADDRESS_BYTES {
        return Err(wrong("is longer than 254 bytes, or 64 before the @"));
    }
    Address::new(local, domain).map_err(|_| wrong("is not like name@example.com"))
}

/// Checks a host name for use in an identifier.
pub(super) fn host<'a>(part: &'static str, name: &'a str) -> Result<&'a str, Error> {
    if is_host_name(name) {
        return Ok(name);
    }
    Err(Error::Message { part, problem: format!("{name:?} is not a host name like lists.example.com") })
}

/// Returns the label of an id. An id of lower-case letters, digits, `-` and `_` is its own label. From any other id the label
/// keeps those characters and adds a hash, which keeps labels apart.
pub(super) fn label(id: &str) -> String {
    let kept = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let clean: String = id.to_ascii_lowercase().chars().filter(kept).take(LABEL_CHARS).collect();
    if clean == id && !id.is_empty() {
        return clean;
    }
    format!("{clean}-{}", opaque(id)).trim_start_matches('-').to_owned()
}

/// Returns twelve characters that identify an id without revealing it.
pub(super) fn opaque(id: &str) -> String {
    Uuid::new_v5(&LABELS, id.as_bytes()).simple().to_string().split_off(20)
}

/// A header whose value is already ASCII.
pub(super) fn raw(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(lettre::message::header::HeaderName::new_from_ascii_str(name), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_one_space() {
        assert_eq!(one_line("Ann\r\nBcc: x\u{2028}\0y  ", 99), "Ann Bcc: x y");
        assert_eq!(one_line("Ann Lee", 4), "Ann");
        assert_eq!(one_line("Ann\u{202e}eeL\u{202c}", 99), "AnneeL");
        assert_eq!(one_line("Ann 🇩🇪🇫🇷", 7), "Ann 🇩🇪");
    }

    #[test]
    fn an_address_is_checked_and_its_domain_made_ascii() {
        assert_eq!(address("to", "ann@bücher.example").unwrap().to_string(), "ann@xn--bcher-kva.example");
        for text in ["", "ann", "ann@", "@example.com", "a b@example.com", "ann@exa mple.com", "a\r\n@example.com"] {
            assert!(address("to", text).is_err(), "{text}");
        }
        assert!(address("to", &format!("{}@example.com", "a".repeat(65))).is_err());
    }

    #[test]
    fn an_error_does_not_show_the_address() {
        let error = address("recipient address", "ann at example.com").unwrap_err();
        assert_eq!(error.to_string(), "message: recipient address has no @");
    }

    #[test]
    fn labels_are_dot_atoms_and_keep_ids_apart() {
        assert_eq!(label("activity"), "activity");
        let labels = ["a.b", "a/b", "ab", "AB", "ä", "", " "].map(label);
        for label in &labels {
            assert!(label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{label}");
        }
        let distinct: std::collections::BTreeSet<_> = labels.iter().collect();
        assert_eq!(distinct.len(), labels.len(), "{labels:?}");
    }
}
