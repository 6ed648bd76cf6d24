//! Email addresses. Once parsed, an address can be used in headers and envelopes as it is.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};
use url::Host;

/// Limits in bytes for an address and its local part (RFC 5321 4.5.3.1.3, without the brackets).
const ADDRESS_BYTES: usize = 254;
const LOCAL_PART_BYTES: usize = 64;
/// Maximum length of a domain label (RFC 1035 2.3.4).
const LABEL_BYTES: usize = 63;

/// An address we can send to or from.
///
/// A local part gets quotes if needed: `hanako.@docomo.ne.jp`, assigned before RFC 5321, becomes
/// `"hanako."@docomo.ne.jp`. The domain is in ASCII (RFC 5891). A non-ASCII local part needs SMTPUTF8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailAddress {
    written: String,
    /// The form for headers and envelopes.
    composed: String,
    /// Position of the `@` in `composed`.
    at: usize,
}

/// The text follows a field name and does not show the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("is not an address; write for example \"ann@acme.example\"")]
    NotAddress,
    #[error("is not just an address; leave out the name and the brackets, as in \"ann@acme.example\"")]
    WithName,
    #[error("is not an address: it has more than one @; write a single address, as in \"ann@acme.example\"")]
    Several,
    #[error("is not an address: it has a control or invisible character; remove it")]
    Invisible,
    #[error("is not an address: a character before the @ needs quotes, as in \"john smith\"@acme.example")]
    NeedsQuotes,
    #[error("is not an address: the quotes must enclose everything before the @, as in \"john smith\"@acme.example")]
    Quotes,
    #[error("has an IP address after the @, but messages only go to domains; write for example \"ann@acme.example\"")]
    Literal,
    #[error("is not an address: after the @ there is no domain like acme.example")]
    Domain,
    #[error("is too long; an address has at most 254 bytes, and 64 before the @")]
    TooLong,
}

/// Accepted by an older version or another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address that cannot be sent to: it {0}")]
pub struct UnsendableAddress(#[from] pub AddressError);

impl EmailAddress {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.composed
    }

    /// For people and for the directory.
    #[must_use]
    pub fn as_written(&self) -> &str {
        &self.written
    }

    /// Includes quotes.
    #[must_use]
    pub fn local_part(&self) -> &str {
        &self.composed[..self.at]
    }

    #[must_use]
    pub fn domain(&self) -> &str {
        &self.composed[self.at + 1..]
    }

    /// One form for all spellings, for lookups in the store: lower case, as in envelopes. An invalid address
    /// is only lowercased, so older rows are found.
    #[must_use]
    pub fn normalize_address(text: &str) -> String {
        let lower = text.to_lowercase();
        lower.parse().map_or(lower, |address: Self| address.composed)
    }
}

impl FromStr for EmailAddress {
    type Err = AddressError;

    fn from_str(written: &str) -> Result<Self, AddressError> {
        if written.chars().any(is_invisible) {
            return Err(AddressError::Invisible);
        }
        if written.ends_with('>') {
            return Err(AddressError::WithName);
        }
        let (local, domain) = written.rsplit_once('@').ok_or(AddressError::NotAddress)?;
        let (local, domain) = (local_part(local)?, ascii_domain(domain)?);
        let composed = format!("{local}@{domain}");
        if local.len() > LOCAL_PART_BYTES || composed.len() > ADDRESS_BYTES {
            return Err(AddressError::TooLong);
        }
        Ok(Self { written: written.to_owned(), composed, at: local.len() })
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.composed)
    }
}

impl Serialize for EmailAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

/// Adds necessary quotes (RFC 5321 4.1.2) and removes the others.
fn local_part(text: &str) -> Result<String, AddressError> {
    let content = match text.strip_prefix('"') {
        Some(rest) => parse_quoted(rest).ok_or(AddressError::Quotes)?,
        None if text.chars().all(|c| is_atom(c) || c == '.') => text.to_owned(),
        None if text.contains('@') => return Err(AddressError::Several),
        None => return Err(AddressError::NeedsQuotes),
    };
    if content.is_empty() {
        return Err(AddressError::NotAddress);
    }
    let is_dot_atom = content.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom));
    Ok(if is_dot_atom { content } else { format!("\"{}\"", content.replace('\\', "\\\\").replace('"', "\\\"")) })
}

/// `rest` starts after the opening quote.
fn parse_quoted(rest: &str) -> Option<String> {
    let mut chars = rest.strip_suffix('"')?.chars();
    let mut content = String::new();
    while let Some(c) = chars.next() {
        content.push(match c {
            '\\' => chars.next()?,
            '"' => return None,
            c => c,
        });
    }
    Some(content)
}

/// RFC 5322 `atext`, plus the characters of RFC 6531.
fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

/// Except joiners in scripts and emoji. Invisible characters could hide a second address or end a line.
fn is_invisible(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || c.is_whitespace() && c != ' ' || is_format
}

/// Letters and digits, with `-` and `_` only inside a label.
fn ascii_domain(text: &str) -> Result<String, AddressError> {
    if text.starts_with('[') {
        return Err(AddressError::Literal);
    }
    let domain = if text.is_ascii() {
        text.to_owned()
    } else {
        Host::parse(text).map_err(|_| AddressError::Domain)?.to_string()
    };
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        bytes.len() <= LABEL_BYTES && label.bytes().all(is_inner) && is_outer(bytes.first()) && is_outer(bytes.last())
    };
    if !domain.split('.').all(is_label) {
        return Err(AddressError::Domain);
    }
    // The last label of a domain is never numeric (RFC 3696, section 2).
    let is_number = domain.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if is_number { Err(AddressError::Literal) } else { Ok(domain) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn composed(text: &str) -> Result<String, AddressError> {
        text.parse().map(|address: EmailAddress| address.to_string())
    }

    #[test]
    fn an_address_is_composed_with_the_quotes_that_it_needs() {
        for (written, expected) in [
            ("ann@example.net", "ann@example.net"),
            ("Ann@Example.NET", "Ann@Example.NET"),
            ("o'brien@example.net", "o'brien@example.net"),
            ("a!#$%&'*+/=?^_`{|}~-@example.net", "a!#$%&'*+/=?^_`{|}~-@example.net"),
            ("digest@localhost", "digest@localhost"),
            ("a_b@my_host.example", "a_b@my_host.example"),
            ("taro..yamada@docomo.ne.jp", "\"taro..yamada\"@docomo.ne.jp"),
            ("hanako.@docomo.ne.jp", "\"hanako.\"@docomo.ne.jp"),
            (".ken@docomo.ne.jp", "\".ken\"@docomo.ne.jp"),
            ("\"saburo.\"@docomo.ne.jp", "\"saburo.\"@docomo.ne.jp"),
            ("\"john smith\"@example.net", "\"john smith\"@example.net"),
            ("\"@\"@example.net", "\"@\"@example.net"),
            ("\"a\\\"\\\\\\b\"@example.net", "\"a\\\"\\\\b\"@example.net"),
            ("\"ann\"@example.net", "ann@example.net"),
            ("ann@bücher.example", "ann@xn--bcher-kva.example"),
            ("ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"),
            ("jürgen@example.net", "jürgen@example.net"),
            ("用户@例子.example", "用户@xn--fsqu00a.example"),
        ] {
            assert_eq!(composed(written).as_deref(), Ok(expected), "{written}");
        }
        let written: EmailAddress = "hanako.@bücher.example".parse().unwrap();
        assert_eq!(written.as_written(), "hanako.@bücher.example");
        assert_eq!((written.local_part(), written.domain()), ("\"hanako.\"", "xn--bcher-kva.example"));
        assert_eq!(serde_json::to_value(&written).unwrap(), "hanako.@bücher.example");
    }

    #[test]
    fn a_text_that_no_message_can_be_sent_to_is_refused_with_a_remedy() {
        for (text, error) in [
            ("", AddressError::NotAddress),
            ("ann at acme", AddressError::NotAddress),
            ("@example.net", AddressError::NotAddress),
            ("\"\"@example.net", AddressError::NotAddress),
            ("Ann <ann@example.net>", AddressError::WithName),
            ("<@evil.example:ann@example.net>", AddressError::WithName),
            ("ann@example.net, eve@evil.example", AddressError::Several),
            ("ann@acme@example.net", AddressError::Several),
            ("ann@example.net\r\nBcc: eve@evil.example", AddressError::Invisible),
            ("ann\t@example.net", AddressError::Invisible),
            ("ann@example.net\u{200b}", AddressError::Invisible),
            ("\u{202e}ann@example.net", AddressError::Invisible),
            ("\"a\0b\"@example.net", AddressError::Invisible),
            ("a b@example.net", AddressError::NeedsQuotes),
            (" ann@example.net", AddressError::NeedsQuotes),
            ("a,b@example.net", AddressError::NeedsQuotes),
            ("g: a@example.net;", AddressError::NeedsQuotes),
            ("\"@example.net", AddressError::Quotes),
            ("\"a\"b\"@example.net", AddressError::Quotes),
            ("\"a\\\"@example.net", AddressError::Quotes),
            ("\"a\".b@example.net", AddressError::Quotes),
            ("v@[127.0.0.1]", AddressError::Literal),
            ("v@[IPv6:::1]", AddressError::Literal),
            ("v@127.0.0.1", AddressError::Literal),
            ("v@１２７.0.0.1", AddressError::Literal),
            ("ann@", AddressError::Domain),
            ("ann@exam ple.com", AddressError::Domain),
            ("ann@example..net", AddressError::Domain),
            ("ann@example.net.", AddressError::Domain),
            ("ann@-example.net", AddressError::Domain),
            ("ann@a&b.example", AddressError::Domain),
        ] {
            assert_eq!(composed(text), Err(error), "{text:?}");
        }
        let of = |local: usize, domain: usize| format!("{}@{}.example", "a".repeat(local), "b.".repeat(domain) + "b");
        assert!(composed(&of(64, 10)).is_ok());
        assert_eq!(composed(&of(65, 10)), Err(AddressError::TooLong));
        assert_eq!(composed(&of(64, 100)), Err(AddressError::TooLong));
        assert_eq!(composed(&format!("a@{}.example", "b".repeat(64))), Err(AddressError::Domain));
        let words = UnsendableAddress(AddressError::Literal).to_string();
        assert!(words.starts_with("address that cannot be sent to: it has an IP address"), "{words}");
    }

    #[test]
    fn all_spellings_of_an_address_are_one_in_the_store() {
        for (text, folded) in [
            ("Ann@Example.NET", "ann@example.net"),
            ("\"ANN\"@example.net", "ann@example.net"),
            ("Hanako.@docomo.ne.jp", "\"hanako.\"@docomo.ne.jp"),
            ("ann@BÜCHER.example", "ann@xn--bcher-kva.example"),
            ("V@[127.0.0.1]", "v@[127.0.0.1]"),
            ("", ""),
        ] {
            assert_eq!(EmailAddress::normalize_address(text), folded);
        }
    }

    proptest! {
        #[test]
        fn what_was_composed_is_composed_as_it_is(local in "\\PC{1,20}", quoted in any::<bool>(), domain in "[a-zü0-9.-]{1,12}") {
            let local = if quoted { format!("\"{}\"", local.replace('\\', "\\\\").replace('"', "\\\"")) } else { local };
            if let Ok(first) = composed(&format!("{local}@{domain}")) {
                prop_assert_eq!(composed(&first), Ok(first.clone()));
                prop_assert!(!first.chars().any(is_invisible));
            }
        }

        #[test]
        fn any_text_in_quotes_can_stand_before_the_at(local in "[ -~]{1,30}") {
            let quoted = format!("\"{}\"@example.net", local.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert!(composed(&quoted).is_ok());
        }
    }
}
