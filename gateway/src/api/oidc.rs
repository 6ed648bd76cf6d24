//! Access tokens of one OIDC issuer: this makes the API a resource server (RFC 9068).
//!
//! `UnverifiedJwt` returns its claims only after a `key` has verified them. `decide` maps claims to a caller, and
//! [`OidcIssuer`] caches the keys. We never log a token or a claim.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};
use tidings_model::{api_token::TokenScope, command::BY_BYTES, hex, limits};

use super::caller::ApiCaller;
use crate::problem::Problem;

mod issuer;
mod key;
#[cfg(test)]
mod tests;

pub use issuer::OidcIssuer;
use key::{SignatureAlgorithm, VerifyingKey};

/// Longest token in bytes.
const BYTES: usize = 8 * 1024;
/// `typ` of an access token. It may be prefixed with `application/` (RFC 9068, section 4).
const TYPE: &str = "at+jwt";
/// `typ` of any JWT; it may be omitted (RFC 7519, section 5.1).
const ANY_TYPE: [&str; 2] = ["jwt", ""];
/// Number of dots in a signed JWT, and in an encrypted one (RFC 7515, RFC 7516).
const SIGNED: usize = 2;
const ENCRYPTED: usize = 4;

struct UnverifiedJwt<'a> {
    pub algorithm: SignatureAlgorithm,
    pub kid: String,
    /// Header and payload, joined by a dot: the input of the signature.
    signed: &'a str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct JwtHeader {
    typ: Option<String>,
    alg: String,
    kid: String,
    crit: Option<IgnoredAny>,
}

impl<'a> UnverifiedJwt<'a> {
    /// Fails if this is not an access token, or its algorithm is not allowed.
    pub fn parse(text: &'a str, token_type: TokenType) -> Result<Self, TokenError> {
        if text.len() > BYTES {
            return Err(TokenError::TooLong(BYTES));
        }
        match text.matches('.').count() {
            SIGNED => {}
            0 => return Err(TokenError::Opaque),
            ENCRYPTED => return Err(TokenError::Encrypted),
            _ => return Err(TokenError::Form),
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Form)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Form)?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Form);
        let (header, claims, signature) = (decoded(header)?, decoded(claims)?, decoded(signature)?);
        let header: JwtHeader = serde_json::from_slice(&header).map_err(|_| TokenError::Header)?;
        if header.crit.is_some() {
            return Err(TokenError::Critical);
        }
        let typ = header.typ.unwrap_or_default().to_ascii_lowercase();
        let typ = typ.strip_prefix("application/").unwrap_or(&typ);
        if typ != TYPE && !(token_type == TokenType::Jwt && ANY_TYPE.contains(&typ)) {
            return Err(TokenError::Type);
        }
        let algorithm = SignatureAlgorithm::named(&header.alg).ok_or(TokenError::Algorithm)?;
        Ok(Self { algorithm, kid: header.kid, signed, claims, signature })
    }

    /// Fails if the signature does not match this key, or the claims are unreadable.
    pub fn verify_claims(&self, key: &VerifyingKey) -> Result<Map<String, Value>, TokenError> {
        if !key.verify_signature(self.algorithm, self.signed.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        serde_json::from_slice(&self.claims).map_err(|_| TokenError::Claims)
    }
}

/// Allowed clock skew between issuer and gateway.
const LEEWAY: SignedDuration = SignedDuration::from_secs(30);
const EVERY_TENANT: &str = "*";
/// Bytes of the hash used instead of an email address or a long subject.
const HASH_BYTES: usize = 16;

/// Scopes unknown to Tidings are ignored.
fn decide_caller(claims: &Map<String, Value>, trust: &IssuerTrust, now: Timestamp) -> Result<ApiCaller, TokenError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(&trust.issuer) {
        return Err(TokenError::Issuer);
    }
    if !is_for(claims.get("aud"), &trust.audience) {
        return Err(TokenError::Audience);
    }
    if trust.token_type == TokenType::Jwt && may_be_id_token(claims, &trust.audience) {
        return Err(TokenError::IdToken);
    }
    let expires = claims.get("exp").and_then(time).ok_or(TokenError::Expired)?;
    if expires + LEEWAY <= now {
        return Err(TokenError::Expired);
    }
    if let Some(begins) = claims.get("nbf")
        && time(begins).is_none_or(|begins| now < begins - LEEWAY)
    {
        return Err(TokenError::NotYet);
    }
    let subject = text("sub").filter(|sub| limits::check_id("sub", sub).is_ok()).ok_or(TokenError::Subject)?;
    let own_tenant = match text(&trust.tenant_claim) {
        Some(EVERY_TENANT) if trust.all_tenants => None,
        Some(EVERY_TENANT) => return Err(TokenError::EveryTenant),
        Some(tenant) if limits::check_id("tenant", tenant).is_ok() => Some(tenant.to_owned()),
        _ => return Err(TokenError::Tenant),
    };
    let scopes = text("scope").unwrap_or_default().split_ascii_whitespace().filter_map(TokenScope::named).collect();
    let (issuer, former_tenants) = (Some(trust.issuer.clone()), Vec::new());
    Ok(ApiCaller { by: audit_name(subject), issuer, own_tenant, former_tenants, scopes })
}

/// An ID token's audience is the client where the person logged in, and some claims appear only there
/// (`OpenID` Connect Core 1.0, sections 2, 3.1.3.6 and 3.3.2.11). Keycloak also puts the type into the
/// claims.
fn may_be_id_token(claims: &Map<String, Value>, audience: &str) -> bool {
    let is_own = |name: &&str| claims.get(*name).and_then(Value::as_str) == Some(audience);
    ["nonce", "at_hash", "c_hash", "s_hash"].iter().any(|name| claims.contains_key(*name))
        || ["azp", "client_id"].iter().any(is_own)
        || claims.get("typ").and_then(Value::as_str) == Some("ID")
}

/// `aud` is a string or a list of strings.
fn is_for(audience: Option<&Value>, own: &str) -> bool {
    match audience {
        Some(Value::String(audience)) => audience == own,
        Some(Value::Array(audiences)) => audiences.iter().any(|audience| audience == own),
        _ => false,
    }
}

/// Parses seconds since 1970, e.g. with a fraction. `None` if this is out of range, including the leeway.
fn time(seconds: &Value) -> Option<Timestamp> {
    let since = SignedDuration::try_from_secs_f64(seconds.as_f64()?).ok()?;
    let time = Timestamp::from_duration(since).ok()?;
    (time.checked_add(LEEWAY).is_ok() && time.checked_sub(LEEWAY).is_ok()).then_some(time)
}

/// Hashes email addresses and long subjects, because this name also goes into workflow history.
fn audit_name(subject: &str) -> String {
    let plain = format!("oidc:{subject}");
    if plain.len() <= BY_BYTES && !plain.contains('@') {
        return plain;
    }
    format!("oidc:sha256:{}", hex(&digest(&SHA256, subject.as_bytes()).as_ref()[..HASH_BYTES]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum TokenError {
    #[error("token is longer than {0} bytes")]
    TooLong(usize),
    #[error("token is not a JWT: expected three base64url parts")]
    Form,
    #[error(
        "token is opaque, so only the issuer can read it: configure the issuer to issue JWTs for this audience (see docs/http.md)"
    )]
    Opaque,
    #[error("token is encrypted: configure the issuer to issue signed JWTs for this audience (see docs/http.md)")]
    Encrypted,
    #[error("token header is not JSON with alg and kid")]
    Header,
    #[error(
        "typ is not at+jwt: configure the issuer to issue RFC 9068 access tokens, or set gateway.oidc.token_type = \"JWT\""
    )]
    Type,
    #[error("alg is not RS256, PS256, ES256, ES384 or EdDSA")]
    Algorithm,
    #[error("crit requires unsupported extensions")]
    Critical,
    #[error("issuer has no key with this kid and alg")]
    Key,
    #[error("issuer had no key with this kid and alg at the last fetch; the next one is a minute later")]
    Unread,
    #[error("issuer's keys could not be fetched yet")]
    Away,
    #[error("invalid signature")]
    Signature,
    #[error("claims are not a JSON object")]
    Claims,
    #[error("iss is not gateway.oidc.issuer")]
    Issuer,
    #[error("aud does not contain gateway.oidc.audience")]
    Audience,
    #[error("token may be an ID token: send an access token")]
    IdToken,
    #[error("token has expired, or exp is missing")]
    Expired,
    #[error("token is not valid yet (nbf)")]
    NotYet,
    #[error("sub is missing or not a valid id: at most {ID_BYTES} bytes without control characters", ID_BYTES = limits::ID_BYTES)]
    Subject,
    #[error("claim of gateway.oidc.tenant_claim is missing or not a valid tenant")]
    Tenant,
    #[error("token is for all tenants: set gateway.oidc.all_tenants = true to accept it")]
    EveryTenant,
}

impl TokenError {
    /// Logs the reason, which the client should not see.
    pub fn into_problem(self, trust: &IssuerTrust) -> Problem {
        tracing::warn!(reason = %self, issuer = trust.issuer, "access token rejected");
        if matches!(self, Self::Away | Self::Unread) { Problem::NoIssuer } else { Problem::WrongToken }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerTrust {
    /// Issuer URL. It must equal the claim `iss` exactly.
    pub issuer: String,
    /// Our own name. It must be in the claim `aud`.
    pub audience: String,
    pub tenant_claim: String,
    /// Accepts `*` as all tenants.
    pub all_tenants: bool,
    pub token_type: TokenType,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenType {
    /// Only access tokens (RFC 9068).
    #[default]
    AccessToken,
    /// Any JWT that cannot be an ID token. We need this because most issuers put `typ: JWT` into access
    /// tokens, too.
    Jwt,
}

impl TokenType {
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::AccessToken, Self::Jwt].into_iter().find(|token_type| token_type.name() == name)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AccessToken => "at+jwt",
            Self::Jwt => "JWT",
        }
    }
}
