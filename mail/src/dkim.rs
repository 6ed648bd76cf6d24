//! A message's DKIM signature (RFC 6376; relaxed/relaxed): made once, before the message is put in the outbox, so that
//! every attempt sends the same signed bytes.

mod canonical;
mod key;
mod signers;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};

use self::key::Key;
pub use self::signers::Signers;
use crate::Error;

/// Signed where they are present, beside all of `List-*` (RFC 8058 wants those signed). Not `Content-Type`: some
/// relays write it anew.
const SIGNED: [&str; 9] =
    ["from", "to", "subject", "date", "message-id", "mime-version", "reply-to", "feedback-id", "auto-submitted"];
/// Named once more than they are present, so that nobody can add another one (RFC 6376 8.15). RFC 5322 3.6 allows one
/// of each. Not those that a relay adds for us: `List-*` and `Feedback-ID`.
const ONCE: [&str; 6] = ["from", "to", "subject", "date", "message-id", "reply-to"];
/// Names and base64 characters in a line of the header.
const LINE_NAMES: usize = 4;
const LINE_CHARS: usize = 72;

/// Signs messages in the name of a domain. Debug does not show the key.
#[derive(Clone, Debug)]
pub struct Dkim {
    selector: String,
    domain: String,
    key: Arc<Key>,
}

impl Dkim {
    /// `selector` and `domain` are DNS names. `pem` holds a private key: RSA of 2048 to 4096 bits as PKCS#1 or PKCS#8,
    /// or Ed25519 as PKCS#8.
    ///
    /// # Errors
    /// [`Error::DkimKey`] says what is wrong with the key; it does not show it.
    pub fn new(selector: &str, domain: &str, pem: &[u8]) -> Result<Self, Error> {
        let key = Key::read(pem)?;
        // Whether an RSA key's parts belong together shows only now.
        key.sign(b"")?;
        Ok(Self { selector: selector.to_owned(), domain: domain.to_owned(), key: Arc::new(key) })
    }

    /// As the header's `a=` says it: `rsa-sha256`, or `ed25519-sha256` (RFC 8463).
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.key.algorithm()
    }

    /// The DNS name of the TXT record by which receivers verify.
    #[must_use]
    pub fn record_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// What that record must say.
    #[must_use]
    pub fn record(&self) -> String {
        format!("v=DKIM1; k={}; p={}", self.key.kind(), BASE64_STANDARD.encode(self.key.public()))
    }

    /// The message with its signature in front. The same message, time and key make the same bytes.
    ///
    /// # Errors
    /// [`Error::DkimKey`]: the key does not sign.
    pub fn sign(&self, message: &[u8], at: Timestamp) -> Result<Vec<u8>, Error> {
        let (head, body) = canonical::split(message);
        let (names, mut signed) = covered(head);
        let mut header = self.header(&names, body, at);
        canonical::header(header.as_bytes(), &mut signed);
        signed.truncate(signed.len() - b"\r\n".len());
        let signature = BASE64_STANDARD.encode(self.key.sign(&signed)?);
        header.extend(signature.char_indices().flat_map(|(at, char)| {
            let fold = if at % LINE_CHARS == 0 { "\r\n\t" } else { "" };
            fold.chars().chain([char])
        }));
        header.push_str("\r\n");
        Ok([header.as_bytes(), message].concat())
    }

    /// The header up to `b=`.
    fn header(&self, names: &[String], body: &[u8], at: Timestamp) -> String {
        let Self { selector, domain, .. } = self;
        let algorithm = self.algorithm();
        let names: Vec<_> = names.chunks(LINE_NAMES).map(|names| names.join(":")).collect();
        let names = names.join(":\r\n\t");
        let body = BASE64_STANDARD.encode(digest(&SHA256, &canonical::body(body)));
        let at = at.max(Timestamp::UNIX_EPOCH).as_second();
        format!(
            "DKIM-Signature: v=1; a={algorithm}; c=relaxed/relaxed; t={at};\r\n\td={domain};\r\n\ts={selector};\r\n\t\
             h={names};\r\n\tbh={body};\r\n\tb="
        )
    }
}

/// The names for `h=`, and the headers of these names as they are signed.
fn covered(head: &[u8]) -> (Vec<String>, Vec<u8>) {
    let mut names = Vec::new();
    let mut signed = Vec::new();
    // From the bottom up: that is which of several headers of a name is meant (RFC 6376 5.4.2).
    for field in canonical::fields(head).into_iter().rev() {
        let name = canonical::name(field);
        if name.starts_with("list-") || SIGNED.contains(&name.as_str()) {
            canonical::header(field, &mut signed);
            names.push(name);
        }
    }
    names.extend(ONCE.map(str::to_owned));
    (names, signed)
}
