//! Values of headers: text without control characters, mailboxes, labels.

use lettre::message::{Mailbox, header::HeaderValue};
use uuid::Uuid;

use tidings_model::{EmailAddress, foreign_text::cut_text, is_host_name};

use crate::{Error, address::checked, bidi};

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

/// A mailbox with a name, if there is one.
pub(super) fn mailbox(name: String, address: &EmailAddress) -> Mailbox {
    Mailbox::new((!name.is_empty()).then_some(name), checked(address))
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
