//! The requests about one tenant, with the parameters that they share.

use axum::{
    extract::{FromRequestParts, MatchedPath},
    http::request::Parts,
};
use tidings_model::command::Order;

use super::{caller::Caller, openapi::parameter::Query, params::Params, refusal::Refusal};

/// A question about one tenant, or a command with a body.
pub(super) struct Question {
    pub caller: Caller,
    pub tenant: String,
}

/// A change of a tenant's things.
pub(super) struct Change {
    pub caller: Caller,
    pub tenant: String,
    pub order: Order,
}

impl Question {
    pub const QUERY: [Query; 1] = [Query::Tenant];
}

impl<S: Send + Sync> FromRequestParts<S> for Question {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let caller = Caller::of(parts)?;
        let tenant = caller.one_tenant(Params::read(&parts.uri, &Self::QUERY)?.text("tenant"))?;
        Ok(Self { caller, tenant })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Change {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Self::read(parts, Params::read(&parts.uri, &Self::QUERY)?)
    }
}

impl Change {
    pub const QUERY: [Query; 2] = [Query::Tenant, Query::Why];

    /// Reads a change from its parameters.
    pub fn read(parts: &Parts, mut params: Params) -> Result<Self, Refusal> {
        let caller = Caller::of(parts)?;
        let tenant = caller.one_tenant(params.text("tenant"))?;
        let order = order(parts, &caller, &mut params)?;
        Ok(Self { caller, tenant, order })
    }
}

/// The order of a change. The reason is the parameter `why`, or else the route, for example `PUT /v1/recipients/{user}`.
pub(super) fn order(parts: &Parts, caller: &Caller, params: &mut Params) -> Result<Order, Refusal> {
    let route = || {
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        format!("{} {path}", parts.method)
    };
    caller.order(params.text("why").unwrap_or_else(route))
}
