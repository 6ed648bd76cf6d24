//! From verified claims to the caller: a pure function of the claims, the trust and the time.

use jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use tidings_model::{api_token::Scope, command::BY_BYTES, hex, limits};

use super::{TokenType, Trust, refused::Refused};
use crate::api::caller::Caller;

/// The clocks of issuer and gateway may differ by this.
const LEEWAY: SignedDuration = SignedDuration::from_secs(30);
/// The tenant that stands for every tenant.
const EVERY_TENANT: &str = "*";
/// Bytes of a hash that names a subject.
const HASH_BYTES: usize = 16;

/// Decides who the caller is. Scopes that are not Tidings' own mean nothing here.
pub(super) fn decide(claims: &Map<String, Value>, trust: &Trust, now: Timestamp) -> Result<Caller, Refused> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(&trust.issuer) {
        return Err(Refused::Issuer);
    }
    if !is_for(claims.get("aud"), &trust.audience) {
        return Err(Refused::Audience);
    }
    if trust.token_type == TokenType::Jwt && may_be_id_token(claims, &trust.audience) {
        return Err(Refused::IdToken);
    }
    let expires = claims.get("exp").and_then(time).ok_or(Refused::Expired)?;
    if expires + LEEWAY <= now {
        return Err(Refused::Expired);
    }
    if let Some(begins) = claims.get("nbf")
        && time(begins).is_none_or(|begins| now < begins - LEEWAY)
    {
        return Err(Refused::NotYet);
    }
    let subject = text("sub").filter(|sub| limits::id("sub", sub).is_ok()).ok_or(Refused::Subject)?;
    let own_tenant = match text(&trust.tenant_claim) {
        Some(EVERY_TENANT) if trust.all_tenants => None,
        Some(EVERY_TENANT) => return Err(Refused::EveryTenant),
        Some(tenant) if limits::id("tenant", tenant).is_ok() => Some(tenant.to_owned()),
        _ => return Err(Refused::Tenant),
    };
    let scopes = text("scope").unwrap_or_default().split_ascii_whitespace().filter_map(Scope::named).collect();
    let (issuer, former_tenants) = (Some(trust.issuer.clone()), Vec::new());
    Ok(Caller { by: by(subject), issuer, own_tenant, former_tenants, scopes })
}

/// The audience of an ID token is the client that the person logged in to, and some of its claims are of no use elsewhere (`OpenID`
/// Connect Core 1.0, sections 2, 3.1.3.6 and 3.3.2.11). Keycloak names the type in the claims as well.
fn may_be_id_token(claims: &Map<String, Value>, audience: &str) -> bool {
    let is_own = |name: &&str| claims.get(*name).and_then(Value::as_str) == Some(audience);
    ["nonce", "at_hash", "c_hash", "s_hash"].iter().any(|name| claims.contains_key(*name))
        || ["azp", "client_id"].iter().any(is_own)
        || claims.get("typ").and_then(Value::as_str) == Some("ID")
}

/// `aud` is a text or a list of them.
fn is_for(audience: Option<&Value>, own: &str) -> bool {
    match audience {
        Some(Value::String(audience)) => audience == own,
        Some(Value::Array(audiences)) => audiences.iter().any(|audience| audience == own),
        _ => false,
    }
}

/// Seconds since 1970, perhaps with a fraction. `None`: out of the range of times, less the leeway.
fn time(seconds: &Value) -> Option<Timestamp> {
    let since = SignedDuration::try_from_secs_f64(seconds.as_f64()?).ok()?;
    let time = Timestamp::from_duration(since).ok()?;
    (time.checked_add(LEEWAY).is_ok() && time.checked_sub(LEEWAY).is_ok()).then_some(time)
}

/// The subject's name in the audit trail. Workflow history keeps the name, so that an address is named by its hash, as is what is
/// too long.
fn by(subject: &str) -> String {
    let plain = format!("oidc:{subject}");
    if plain.len() <= BY_BYTES && !plain.contains('@') {
        return plain;
    }
    format!("oidc:sha256:{}", hex(&digest(&SHA256, subject.as_bytes()).as_ref()[..HASH_BYTES]))
}
