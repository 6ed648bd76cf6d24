//! The trust in an issuer, as the configuration says it.

/// The issuer, and what the api trusts it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The issuer's URL, exactly as the claim `iss` has it.
    pub issuer: String,
    /// The api's own name: one of the claim `aud`.
    pub audience: String,
    /// The claim that holds the tenant.
    pub tenant_claim: String,
    /// The tenant `*` counts as every tenant.
    pub all_tenants: bool,
    pub token_type: TokenType,
}

/// The types of tokens that count, by their header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenType {
    /// Access tokens only (RFC 9068).
    #[default]
    AccessToken,
    /// Any JWT that cannot be an ID token. Most issuers write `typ: JWT` in their access tokens as well.
    Jwt,
}

impl TokenType {
    /// The type with this name in the configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::AccessToken, Self::Jwt].into_iter().find(|token_type| token_type.name() == name)
    }

    /// The value of `typ`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AccessToken => "at+jwt",
            Self::Jwt => "JWT",
        }
    }
}
