//! The reasons for refusing an access token. The log has them; the answer does not.

use super::Trust;
use crate::problem::Problem;

/// Why a token is refused. No text quotes the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the token is longer than {0} bytes")]
    TooLong(usize),
    #[error("the token is not three parts in base64url")]
    Form,
    #[error(
        "the token is opaque, and nobody but the issuer can read it: let the issuer make JWTs for this audience (docs/http.md has the setting)"
    )]
    Opaque,
    #[error("the token is encrypted: let the issuer make signed JWTs for this audience (docs/http.md has the setting)")]
    Encrypted,
    #[error("the token's header is not JSON with alg and kid")]
    Header,
    #[error(
        "typ is not at+jwt: the issuer must make access tokens as RFC 9068 says, or gateway.oidc.token_type = \"JWT\" allows others"
    )]
    Type,
    #[error("alg is not RS256, PS256, ES256, ES384 or EdDSA")]
    Algorithm,
    #[error("crit names extensions, and there are none")]
    Critical,
    #[error("the issuer has no key of this kid and alg")]
    Key,
    #[error("the issuer had no key of this kid and alg when its keys were read, and is asked again a minute later")]
    Unread,
    #[error("the issuer's keys could not be read yet")]
    Away,
    #[error("the signature is wrong")]
    Signature,
    #[error("the claims are not a JSON object")]
    Claims,
    #[error("iss is not gateway.oidc.issuer")]
    Issuer,
    #[error("aud has no gateway.oidc.audience")]
    Audience,
    #[error("the token may be an ID token, which says who logged in and lets nobody in")]
    IdToken,
    #[error("exp is missing or past")]
    Expired,
    #[error("nbf is to come")]
    NotYet,
    #[error("sub is missing, or not a short text")]
    Subject,
    #[error("the claim of gateway.oidc.tenant_claim is missing, or not a tenant")]
    Tenant,
    #[error("the token is for every tenant, which gateway.oidc.all_tenants = true would allow")]
    EveryTenant,
}

impl Refused {
    /// The answer, after a line in the log.
    pub fn problem(self, trust: &Trust) -> Problem {
        tracing::warn!(reason = %self, issuer = trust.issuer, "an access token is refused");
        if matches!(self, Self::Away | Self::Unread) { Problem::NoIssuer } else { Problem::WrongToken }
    }
}
