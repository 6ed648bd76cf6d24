//! A secret that Tidings shares with another service, and signatures of Standard Webhooks: HMAC-SHA256 over id, time and raw body.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// Bytes that a secret must have. Standard Webhooks asks for 24 to 64.
const SECRET_BYTES: usize = 16;
const PREFIX: &str = "whsec_";

/// The secret.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// Reads base64, with `whsec_` before it or not.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "is not a secret like whsec_ and 24 bytes or more in base64".to_owned();
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).map_err(|_| wrong())?;
        if bytes.len() < SECRET_BYTES {
            return Err(wrong());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Returns the signature of a request. `timestamp` is its time in seconds, as its header has it.
    #[must_use]
    pub fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat())
    }

    /// Returns the value of the header `webhook-signature`.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(id, &seconds.to_string(), body)))
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
