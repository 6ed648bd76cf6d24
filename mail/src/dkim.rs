//! The DKIM signature of a message (RFC 6376; relaxed/relaxed). It is made once, before the message enters the outbox, so
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
pub use self::signers::{Signers, StreamSigners};
use crate::Error;

/// Headers that are signed if present, in addition to all of `List-*` (RFC 8058 requires those). `Content-Type` is missing
/// because some relays rewrite it.
const SIGNED: [&str; 11] = [
    "from",
    "to",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "reply-to",
    "in-reply-to",
    "references",
    "feedback-id",
    "auto-submitted",
];
/// Headers that `h=` names once more than the message has them, so that an added one breaks the signature (RFC 6376 8.15).
/// RFC 5322 3.6 allows one of each. `List-*` and `Feedback-ID` are missing because a relay may add them for us.
const ONCE: [&str; 6] = ["from", "to", "subject", "date", "message-id", "reply-to"];
/// Names, and base64 characters, on one line of the header.
const LINE_NAMES: usize = 4;
const LINE_CHARS: usize = 72;

/// Signs messages in the name of a domain. `Debug` does not show the key.
#[derive(Clone, Debug)]
pub struct Dkim {
    selector: String,
    domain: String,
    key: Arc<Key>,
    /// Signs as well, for receivers that do not know the first one's algorithm.
    second: Option<Box<Dkim>>,
}

impl Dkim {
    /// Reads the private key in `pem`: RSA of 2048 to 4096 bits as PKCS#1 or PKCS#8, or Ed25519 as PKCS#8. `selector` and
    /// `domain` are DNS names.
    ///
    /// # Errors
    /// [`Error::DkimKey`] names the fault of the key and does not show the key.
    pub fn new(selector: &str, domain: &str, pem: &[u8]) -> Result<Self, Error> {
        let key = Key::read(pem)?;
        // Only signing reveals an RSA key whose parts contradict each other.
        key.sign(b"")?;
        Ok(Self { selector: selector.to_owned(), domain: domain.to_owned(), key: Arc::new(key), second: None })
    }

    /// Adds a signature by another key (RFC 8463 3 asks for one of RSA beside one of Ed25519).
    #[must_use]
    pub fn with_second(self, second: Option<Self>) -> Self {
        Self { second: second.map(Box::new), ..self }
    }

    /// The second signature.
    #[must_use]
    pub fn second(&self) -> Option<&Self> {
        self.second.as_deref()
    }

    /// Whether receivers that do not know Ed25519, of which there are many, find no signature that they can verify.
    #[must_use]
    pub fn is_ed25519_alone(&self) -> bool {
        let mut keys = [Some(self), self.second()].into_iter().flatten();
        keys.all(|dkim| dkim.key.kind() == "ed25519")
    }

    /// The value of the header's `a=`: `rsa-sha256`, or `ed25519-sha256` (RFC 8463).
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.key.algorithm()
    }

    /// The DNS name of the TXT record that holds the public key.
    #[must_use]
    pub fn record_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// The text of that record.
    #[must_use]
    pub fn record(&self) -> String {
        format!("v=DKIM1; k={}; p={}", self.key.kind(), BASE64_STANDARD.encode(self.key.public()))
    }

    /// Returns the message with its signatures in front. The same message, time and keys give the same bytes.
    ///
    /// # Errors
    /// [`Error::DkimKey`] if a key cannot sign.
    pub fn sign(&self, message: &[u8], at: Timestamp) -> Result<Vec<u8>, Error> {
        let second = self.second().map(|second| second.signature(message, at)).transpose()?.unwrap_or_default();
        Ok([&self.signature(message, at)?, &second, message].concat())
    }

    /// The header with the signature by this key alone.
    fn signature(&self, message: &[u8], at: Timestamp) -> Result<Vec<u8>, Error> {
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
        Ok(header.into_bytes())
    }

    /// Returns the header up to `b=`.
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

/// Returns the message without the signatures in front.
#[must_use]
pub fn unsigned(message: &[u8]) -> &[u8] {
    let (head, _) = canonical::split(message);
    let signatures = canonical::fields(head).into_iter().take_while(|field| canonical::name(field) == "dkim-signature");
    &message[signatures.map(<[u8]>::len).sum()..]
}

/// Returns the names for `h=`, and the canonical headers of these names.
fn covered(head: &[u8]) -> (Vec<String>, Vec<u8>) {
    let mut names = Vec::new();
    let mut signed = Vec::new();
    // RFC 6376 5.4.2 takes headers of the same name from the bottom up.
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
