//! A signed JWT in its compact form (RFC 7515, RFC 7519).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::{
    key::{Algorithm, Key},
    refused::Refused,
    trust::TokenType,
};

/// Bytes of a token.
const BYTES: usize = 8 * 1024;
/// The type of an access token, which may begin with `application/` (RFC 9068, section 4).
const TYPE: &str = "at+jwt";
/// The type of any JWT, which may be left out (RFC 7519, section 5.1).
const ANY_TYPE: [&str; 2] = ["jwt", ""];
/// The dots of a signed JWT, and of an encrypted one (RFC 7515, RFC 7516).
const SIGNED: usize = 2;
const ENCRYPTED: usize = 4;

/// A token that was taken apart, and not verified.
pub(super) struct Jwt<'a> {
    pub algorithm: Algorithm,
    /// The name of the key.
    pub kid: String,
    /// The parts that are signed, with their dot.
    signed: &'a str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    typ: Option<String>,
    alg: String,
    kid: String,
    crit: Option<IgnoredAny>,
}

impl<'a> Jwt<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// The token is no access token, or is signed in a way that does not count.
    pub fn parse(text: &'a str, token_type: TokenType) -> Result<Self, Refused> {
        if text.len() > BYTES {
            return Err(Refused::TooLong(BYTES));
        }
        match text.matches('.').count() {
            SIGNED => {}
            0 => return Err(Refused::Opaque),
            ENCRYPTED => return Err(Refused::Encrypted),
            _ => return Err(Refused::Form),
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Refused::Form)?;
        let (header, claims) = signed.split_once('.').ok_or(Refused::Form)?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Form);
        let (header, claims, signature) = (decoded(header)?, decoded(claims)?, decoded(signature)?);
        let header: Header = serde_json::from_slice(&header).map_err(|_| Refused::Header)?;
        if header.crit.is_some() {
            return Err(Refused::Critical);
        }
        let typ = header.typ.unwrap_or_default().to_ascii_lowercase();
        let typ = typ.strip_prefix("application/").unwrap_or(&typ);
        if typ != TYPE && !(token_type == TokenType::Jwt && ANY_TYPE.contains(&typ)) {
            return Err(Refused::Type);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(Refused::Algorithm)?;
        Ok(Self { algorithm, kid: header.kid, signed, claims, signature })
    }

    /// The claims, if the key has signed them.
    ///
    /// # Errors
    /// The signature is not of this key, or the claims are unreadable.
    pub fn claims(&self, key: &Key) -> Result<Map<String, Value>, Refused> {
        if !key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature) {
            return Err(Refused::Signature);
        }
        serde_json::from_slice(&self.claims).map_err(|_| Refused::Claims)
    }
}
