//! The sender of a request, and what its credentials allow.

use axum::{extract::FromRequestParts, http::request::Parts};
use tidings_model::{
    api_token::{Scope, TokenRecord},
    command::Order,
    limits,
};

use super::refusal::Refusal;
use crate::problem::Problem;

/// A service or an operator whose request was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name in the audit trail: `token:ID`, or `oidc:SUBJECT`.
    pub by: String,
    /// The issuer of the credentials. `None`: Tidings itself. A subject is another person at another issuer.
    pub issuer: Option<String>,
    /// The tenant of the credentials. `None`: every tenant.
    pub own_tenant: Option<String>,
    pub scopes: Vec<Scope>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(parts)
    }
}

impl Caller {
    /// The caller of a request that was let in.
    pub fn of(parts: &Parts) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or(Problem::NoToken)
    }

    /// Reports if the credentials are for this tenant, among others.
    pub fn covers(&self, tenant: &str) -> bool {
        self.own_tenant.as_ref().is_none_or(|own| own == tenant)
    }

    /// The tenant of a question: the token's own, or the one that the request names. `None`: a token of all tenants asks about all.
    pub fn tenant(&self, named: Option<String>) -> Result<Option<String>, Problem> {
        let tenant = named.or_else(|| self.own_tenant.clone());
        let covered = tenant.as_ref().is_none_or(|tenant| self.covers(tenant));
        if covered { Ok(tenant) } else { Err(Problem::NotFound) }
    }

    /// The tenant of a request that is about one.
    pub fn one_tenant(&self, named: Option<String>) -> Result<String, Refusal> {
        let tenant = self.tenant(named)?;
        let tenant =
            tenant.ok_or_else(|| Refusal::parameter("tenant", "is required, because the token is for all tenants"))?;
        limits::id("tenant", &tenant).map_err(|invalid| Refusal::parameter("tenant", invalid.problem))?;
        Ok(tenant)
    }

    /// Refuses what needs a scope besides that of the route.
    pub fn may(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(Problem::MissingScope(scope)) }
    }

    /// Tells if an answer may have addresses.
    pub fn sees_addresses(&self) -> bool {
        self.may(Scope::RecipientsRead).is_ok()
    }

    /// The caller as an operator, with this reason.
    pub fn order(&self, why: String) -> Result<Order, Refusal> {
        let order = Order { by: self.by.clone(), why };
        order.check().map_err(Refusal::body)?;
        Ok(order)
    }
}

impl From<&TokenRecord> for Caller {
    fn from(token: &TokenRecord) -> Self {
        Self {
            by: format!("token:{}", token.id),
            issuer: None,
            own_tenant: token.tenant.clone(),
            scopes: token.scopes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_for_its_tenant_or_for_all() {
        let caller = |own: Option<&str>| Caller {
            by: String::new(),
            issuer: None,
            own_tenant: own.map(str::to_owned),
            scopes: vec![],
        };
        assert!(caller(Some("acme")).covers("acme") && !caller(Some("acme")).covers("other"));
        assert!(caller(None).covers("other"));
    }
}
