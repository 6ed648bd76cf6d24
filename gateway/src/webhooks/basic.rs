//! HTTP Basic credentials (RFC 7617), for providers without signatures.

use axum::http::{HeaderMap, header::AUTHORIZATION};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use subtle::{Choice, ConstantTimeEq as _};

use super::{RequestProof, SampleRequest, VerifyError, WebhookSecret};

/// Minimum password length. 128 random bits are 32 hex characters.
const PASSWORD_CHARS: usize = 16;

/// Keeps only the SHA-256, so that comparing takes constant time for any length.
#[derive(Clone)]
pub struct BasicCredentials([u8; 32]);

impl BasicCredentials {
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        Self(sha256(format!("{user}:{password}").as_bytes()))
    }
}

impl WebhookSecret for BasicCredentials {
    const WRONG: &'static str = "tidings:a-secret-that-nobody-has";

    /// Parses `USER:PASSWORD`.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "is not USER:PASSWORD with a password of at least {PASSWORD_CHARS} characters; make one with `openssl rand -hex 16`"
            )
        };
        let (user, password) = text.split_once(':').ok_or_else(wrong)?;
        if user.is_empty() || password.chars().count() < PASSWORD_CHARS {
            return Err(wrong());
        }
        Ok(Self::new(user, password))
    }

    fn verify(headers: &HeaderMap, _body: &[u8], known: &[Self], _now: Timestamp) -> Result<RequestProof, VerifyError> {
        let header = headers.get(AUTHORIZATION).ok_or(VerifyError::Header("Authorization"))?;
        let (scheme, encoded) = header
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .ok_or(VerifyError::Malformed("Authorization"))?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(VerifyError::Malformed("Authorization"));
        }
        let given = STANDARD.decode(encoded.trim()).map_err(|_| VerifyError::Malformed("Authorization"))?;
        let given = sha256(&given);
        let same = known.iter().fold(Choice::from(0), |same, known| same | known.0.ct_eq(&given));
        if same.into() { Ok(RequestProof::default()) } else { Err(VerifyError::Credentials) }
    }

    fn sign_sample(secret: &str, event: Value, _now: Timestamp) -> Option<SampleRequest> {
        let headers = vec![("authorization", format!("Basic {}", STANDARD.encode(secret)))];
        Some(SampleRequest { headers, body: event.to_string() })
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}
