//! `/v1/suppressions`: addresses that a tenant must not email.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tidings_mail::address;
use tidings_model::{
    command::Order,
    records::{Page, Reason, Suppression, SuppressionFilter},
};

use super::{Api, body, caller::Caller, params::Params, path::Named, refusal::Refusal};
use crate::problem::Problem;

/// Suppressions of one address: one for each reason, also under the pseudonym that an erasure left.
const OF_ADDRESS: u32 = 100;

/// The body of a suppression.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    reason: Reason,
}

/// Shows why the address is suppressed.
pub(super) async fn show(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Named(address): Named<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let tenant = caller.one_tenant(Params::read(&uri, &["tenant"])?.text("tenant"))?;
    Ok(Json(json!({"suppressions": of_address(&api, tenant, address).await?})).into_response())
}

/// Suppresses the address. Answers 201, or 200 if it was suppressed for this reason already.
pub(super) async fn put(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Named(written): Named<String>,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let Put { reason } = body::read(&headers, &bytes)?;
    let mut params = Params::read(&uri, &["tenant", "why"])?;
    let (tenant, order) = ordered(&caller, &mut params, "PUT /v1/suppressions/{address}")?;
    let address = address(&written).map_err(|problem| Refusal::parameter("address", problem))?;
    let (at, detail) = (Timestamp::now(), "added by an operator".to_owned());
    let suppression = Suppression { tenant: tenant.clone(), address: address.clone(), reason, detail, at };
    let entry = order.entry("suppression_add", at);
    let is_new = api.state.store.put_suppressions(&[suppression], &entry).await? > 0;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(json!({"suppressions": of_address(&api, tenant, address).await?}))).into_response())
}

/// Lets the tenant send to the address again, or lifts the suppression for one reason only.
pub(super) async fn lift(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Named(address): Named<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "why", "reason"])?;
    let only = params.one_of("reason", &Reason::ALL, Reason::name)?;
    let (tenant, order) = ordered(&caller, &mut params, "DELETE /v1/suppressions/{address}")?;
    let entry = order.entry("suppression_lift", Timestamp::now());
    let lifted = api.state.store.lift(&tenant, &address, only, &entry).await?;
    if lifted.is_empty() { Err(Problem::NotFound.into()) } else { Ok(Json(json!({"lifted": lifted})).into_response()) }
}

/// Lists suppressions, the latest first.
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "address", "limit", "after"])?;
    let filter = SuppressionFilter {
        tenant: caller.tenant(params.text("tenant"))?,
        address: params.text("address"),
        page: params.page()?,
    };
    let listed = api.state.store.suppressions(&filter).await?;
    Ok(Json(json!({"suppressions": listed.rows, "next": listed.next})).into_response())
}

/// The tenant and the order of a change.
fn ordered(caller: &Caller, params: &mut Params, done: &str) -> Result<(String, Order), Refusal> {
    let tenant = caller.one_tenant(params.text("tenant"))?;
    let order = caller.order(params.text("why").unwrap_or_else(|| done.to_owned()))?;
    Ok((tenant, order))
}

/// The suppressions of an address; there is at least one.
async fn of_address(api: &Api, tenant: String, address: String) -> Result<Vec<Suppression>, Refusal> {
    let page = Page { limit: OF_ADDRESS, after: None };
    let filter = SuppressionFilter { tenant: Some(tenant), address: Some(address), page };
    let rows = api.state.store.suppressions(&filter).await?.rows;
    if rows.is_empty() { Err(Problem::NotFound.into()) } else { Ok(rows) }
}
