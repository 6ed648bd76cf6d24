//! The authenticated sender of a request and its permissions.

use axum::{extract::FromRequestParts, http::request::Parts};
use tidings_model::{
    api_token::{TokenRecord, TokenScope},
    command::CommandContext,
    limits,
    settings::FormerNames,
};

use super::refusal::ApiRefusal;
use crate::problem::Problem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiCaller {
    /// Name in the audit trail, e.g. `token:ID` or `oidc:SUBJECT`.
    pub by: String,
    /// `None` for Tidings' own tokens. Note: the same subject at another issuer is another person.
    pub issuer: Option<String>,
    /// `None` if the token is valid for all tenants.
    pub own_tenant: Option<String>,
    pub former_tenants: Vec<String>,
    pub scopes: Vec<TokenScope>,
}

impl<S: Send + Sync> FromRequestParts<S> for ApiCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::from_parts(parts)
    }
}

impl ApiCaller {
    pub fn from_parts(parts: &Parts) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or(Problem::NoToken)
    }

    pub fn covers(&self, tenant: &str) -> bool {
        let is_own = |own: &String| own == tenant || self.former_tenants.iter().any(|former| former == tenant);
        self.own_tenant.as_ref().is_none_or(is_own)
    }

    pub fn with_current_names(self, names: &FormerNames) -> Self {
        let Some(tenant) = &self.own_tenant else { return self };
        let mut names = names.tenant_names(tenant).into_iter();
        Self { own_tenant: names.next(), former_tenants: names.collect(), ..self }
    }

    /// Returns the token's own tenant, or else the one in the request. `None` means all tenants.
    pub fn tenant(&self, named: Option<String>) -> Result<Option<String>, Problem> {
        let tenant = named.or_else(|| self.own_tenant.clone());
        match &self.own_tenant {
            None => Ok(tenant),
            Some(own) if tenant.as_deref().is_none_or(|tenant| self.covers(tenant)) => Ok(Some(own.clone())),
            Some(_) => Err(Problem::NotFound),
        }
    }

    /// Like [`Self::tenant`], but this request must name one tenant.
    pub fn one_tenant(&self, named: Option<String>) -> Result<String, ApiRefusal> {
        let tenant = self.tenant(named)?;
        let tenant = tenant
            .ok_or_else(|| ApiRefusal::parameter("tenant", "is required, because the token is for all tenants"))?;
        limits::check_id("tenant", &tenant).map_err(|invalid| ApiRefusal::parameter("tenant", invalid.problem))?;
        Ok(tenant)
    }

    /// Checks a scope this request needs besides the route's.
    pub fn require_scope(&self, scope: TokenScope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(Problem::MissingScope(scope)) }
    }

    pub fn sees_addresses(&self) -> bool {
        self.require_scope(TokenScope::RecipientsRead).is_ok()
    }

    pub fn as_operator(&self, why: String) -> Result<CommandContext, ApiRefusal> {
        let order = CommandContext { by: self.by.clone(), why };
        order.check().map_err(ApiRefusal::body)?;
        Ok(order)
    }
}

impl From<&TokenRecord> for ApiCaller {
    fn from(token: &TokenRecord) -> Self {
        Self {
            by: format!("token:{}", token.id),
            issuer: None,
            own_tenant: token.tenant.clone(),
            former_tenants: Vec::new(),
            scopes: token.scopes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_for_its_tenant_or_for_all() {
        let caller = |own: Option<&str>| ApiCaller {
            by: String::new(),
            issuer: None,
            own_tenant: own.map(str::to_owned),
            former_tenants: Vec::new(),
            scopes: vec![],
        };
        assert!(caller(Some("acme")).covers("acme") && !caller(Some("acme")).covers("other"));
        assert!(caller(None).covers("other"));
    }

    #[test]
    fn a_token_of_a_former_name_is_for_the_tenant_of_today_and_for_no_other() {
        let tenants = [("acme".to_owned(), "initech".to_owned())].into();
        let names = FormerNames { tenants, ..FormerNames::default() };
        let caller = ApiCaller { own_tenant: Some("acme".to_owned()), ..operator() }.with_current_names(&names);
        for named in [None, Some("acme"), Some("initech")] {
            assert_eq!(caller.tenant(named.map(str::to_owned)), Ok(Some("initech".to_owned())), "{named:?}");
        }
        assert!(caller.tenant(Some("other".to_owned())).is_err());
        assert_eq!(operator().with_current_names(&names), operator());
    }

    fn operator() -> ApiCaller {
        ApiCaller { by: String::new(), issuer: None, own_tenant: None, former_tenants: Vec::new(), scopes: Vec::new() }
    }
}
