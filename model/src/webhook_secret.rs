//! A secret shared with another service, and Standard Webhooks signatures: HMAC-SHA256 over id, time and raw
//! body.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// Minimum length of a secret. Standard Webhooks recommends 24 to 64.
const SECRET_BYTES: usize = 16;
const PREFIX: &str = "whsec_";

#[derive(Clone)]
pub struct SigningSecret(hmac::Key);

impl SigningSecret {
    /// Parses base64, with an optional `whsec_` prefix.
    ///
    /// # Errors
    /// Describes a valid secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "is not a secret like whsec_ and 24 bytes or more in base64".to_owned();
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).map_err(|_| wrong())?;
        if bytes.len() < SECRET_BYTES {
            return Err(wrong());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    #[must_use]
    pub fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat())
    }

    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(id, &seconds.to_string(), body)))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
