//! The sender of a request, and what its credentials allow.

use tidings_model::api_token::{Scope, TokenRecord};

/// A service or an operator whose request was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name in the audit trail: `token:ID`, or `oidc:SUBJECT`.
    pub by: String,
    /// The tenant of the credentials. `None`: every tenant.
    pub own_tenant: Option<String>,
    pub scopes: Vec<Scope>,
}

impl Caller {
    /// Reports if the credentials are for this tenant, among others.
    pub fn covers(&self, tenant: &str) -> bool {
        self.own_tenant.as_ref().is_none_or(|own| own == tenant)
    }
}

impl From<&TokenRecord> for Caller {
    fn from(token: &TokenRecord) -> Self {
        Self { by: format!("token:{}", token.id), own_tenant: token.tenant.clone(), scopes: token.scopes.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_for_its_tenant_or_for_all() {
        let caller =
            |own: Option<&str>| Caller { by: String::new(), own_tenant: own.map(str::to_owned), scopes: vec![] };
        assert!(caller(Some("acme")).covers("acme") && !caller(Some("acme")).covers("other"));
        assert!(caller(None).covers("other"));
    }
}
