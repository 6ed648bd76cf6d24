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
}
