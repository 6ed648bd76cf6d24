//! The issuer whose access tokens the api takes, as `[gateway.oidc]` describes it.

use serde::Deserialize;
use tidings_gateway::api::{TokenType, Trust};
use tidings_model::{host_name::is_loopback, limits};
use toml::Spanned;
use url::Url;

use super::problem::{Checks, Problem};

/// The claim of the tenant where no other is named.
const TENANT_CLAIM: &str = "tenant";
const ISSUER: &str = "the issuer's URL as the claim iss has it, for example \"https://login.acme.example\"";
const AUDIENCE: &str =
    "the name of this api that access tokens have in aud, for example \"https://tidings.acme.example\"";

/// The keys of `[gateway.oidc]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOidc {
    issuer: Option<Spanned<String>>,
    audience: Option<Spanned<String>>,
    tenant_claim: Option<Spanned<String>>,
    #[serde(default)]
    all_tenants: bool,
    token_type: Option<Spanned<String>>,
}

/// Checks the table; `None` if a key is missing or wrong.
pub(super) fn check(raw: &Spanned<RawOidc>, checks: &mut Checks<'_>) -> Option<Trust> {
    let RawOidc { issuer, audience, tenant_claim, all_tenants, token_type } = raw.as_ref();
    let missing = |key: &str, right: &str| Problem {
        place: checks.place_of(raw),
        key: format!("gateway.oidc.{key}"),
        value: String::new(),
        problem: format!("is missing; write {right}"),
    };
    let missing = [
        issuer.is_none().then(|| missing("issuer", ISSUER)),
        audience.is_none().then(|| missing("audience", AUDIENCE)),
    ];
    missing.into_iter().flatten().for_each(|problem| checks.report(problem));
    let issuer = issuer.as_ref().and_then(|issuer| checks.secret("gateway.oidc.issuer", issuer, issuer_url));
    let audience = checks.value("gateway.oidc.audience", audience.as_ref(), |text| id(text, AUDIENCE));
    let claim = |text: &str| id(text, "the name of a claim, for example \"tenant\"");
    let claim = match tenant_claim {
        Some(name) => checks.value("gateway.oidc.tenant_claim", Some(name), claim),
        None => Some(TENANT_CLAIM.to_owned()),
    };
    let token_type = match token_type {
        Some(name) => checks.value("gateway.oidc.token_type", Some(name), named_type),
        None => Some(TokenType::default()),
    };
    let (issuer, audience, tenant_claim) = (issuer?, audience?, claim?);
    Some(Trust { issuer, audience, tenant_claim, all_tenants: *all_tenants, token_type: token_type? })
}

fn named_type(text: &str) -> Result<TokenType, String> {
    TokenType::named(text).ok_or_else(|| "is not a type of tokens; write \"at+jwt\" or \"JWT\"".to_owned())
}

/// Parses the issuer's URL, and keeps its text: `iss` is compared with that.
fn issuer_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); write {ISSUER}"))?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("has a user, password, query or fragment; write {ISSUER}"));
    }
    match url.scheme() {
        "https" => id(text, ISSUER),
        "http" if url.host_str().is_some_and(is_loopback) => id(text, ISSUER),
        _ => Err(format!("is not https, so that anyone on the way could replace the keys; write {ISSUER}")),
    }
}

fn id(text: &str, right: &str) -> Result<String, String> {
    limits::id("", text).map_err(|invalid| format!("{}; write {right}", invalid.problem))?;
    Ok(text.to_owned())
}
