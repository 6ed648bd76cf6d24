//! `/v1/suppressions`: addresses a tenant must not email.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, request::Parts},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidings_model::{
    AddressError, EmailAddress,
    records::{PageCursor, PageRequest, Suppression, SuppressionFilter, SuppressionPlace, SuppressionReason},
};
use utoipa::ToSchema;

use super::{
    ApiState, body,
    caller::ApiCaller,
    openapi::operation::{ApiTag, Operation, Query},
    params::{PathParams, QueryParams, TenantRead, TenantWrite},
    refusal::ApiRefusal,
};
use crate::problem::Problem;

const TAG: ApiTag = ApiTag::Suppressions;
const LIST: [Query; 4] = [Query::Tenant, Query::Address, Query::Limit, Query::After];
const LIFT: [Query; 3] = [Query::Tenant, Query::Why, Query::OfReason];

/// One per reason and address, plus those under the pseudonym left by an erasure.
const OF_ADDRESS: u32 = 100;

/// The body of a suppression.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SuppressionPut)]
#[serde(deny_unknown_fields)]
struct SuppressionTerms {
    reason: SuppressionReason,
}

/// Suppressions of an address, or a page of all.
#[derive(Serialize, ToSchema)]
#[schema(as = Suppressions)]
pub(super) struct SuppressionPage {
    suppressions: Vec<Suppression>,
    /// The cursor of the next page, if more rows follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    next: Option<PageCursor<SuppressionPlace>>,
}

/// Reasons that no longer suppress an address.
#[derive(Serialize, ToSchema)]
pub(super) struct Lifted {
    lifted: Vec<SuppressionReason>,
}

pub(super) async fn show(
    State(api): State<ApiState>,
    TenantRead { tenant, .. }: TenantRead,
    PathParams(address): PathParams<String>,
) -> Result<Json<SuppressionPage>, ApiRefusal> {
    Ok(Json(of_address(&api, tenant, address).await?))
}

pub(super) fn describe_show() -> Operation {
    Operation::new(TAG, "An address may be suppressed for several reasons.")
        .query(&TenantRead::QUERY)
        .answer::<SuppressionPage>(200, "The suppressions of the address.")
}

/// Returns 201, or 200 if this reason already suppresses the address.
pub(super) async fn put(
    State(api): State<ApiState>,
    TenantWrite { tenant, order, .. }: TenantWrite,
    PathParams(written): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<(StatusCode, Json<SuppressionPage>), ApiRefusal> {
    let SuppressionTerms { reason } = body::read_json(&headers, &bytes)?;
    let address: EmailAddress =
        written.parse().map_err(|error: AddressError| ApiRefusal::parameter("address", error.to_string()))?;
    let address = address.as_written().to_owned();
    let (at, detail) = (Timestamp::now(), "added by an operator".to_owned());
    let suppression = Suppression { tenant: tenant.clone(), address: address.clone(), reason, detail, at };
    let entry = order.audit_entry("suppression_add", at);
    let is_new = api.state.store.put_suppressions(&[suppression], &entry).await? > 0;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(of_address(&api, tenant, address).await?)))
}

pub(super) fn describe_put() -> Operation {
    Operation::new(TAG, "The tenant sends nothing more to the address that the reason forbids.")
        .query(&TenantWrite::QUERY)
        .body::<SuppressionTerms>(&[("A complaint", json!({"reason": "complaint"}))])
        .answer::<SuppressionPage>(200, "The address was suppressed for this reason before.")
        .answer::<SuppressionPage>(201, "The address is suppressed now.")
}

/// Lifts all suppressions of this address, or only one reason.
pub(super) async fn lift(
    State(api): State<ApiState>,
    PathParams(address): PathParams<String>,
    parts: Parts,
) -> Result<Json<Lifted>, ApiRefusal> {
    let params = QueryParams::from_query(&parts.uri, &LIFT)?;
    let only = params.value("reason")?;
    let TenantWrite { tenant, order, .. } = TenantWrite::from_params(&parts, params)?;
    let entry = order.audit_entry("suppression_lift", Timestamp::now());
    let lifted = api.state.store.lift(&tenant, &address, only, &entry).await?;
    if lifted.is_empty() { Err(Problem::NotFound.into()) } else { Ok(Json(Lifted { lifted })) }
}

pub(super) fn describe_lift() -> Operation {
    Operation::new(TAG, "The tenant may send to the address again. With a reason only that suppression is lifted.")
        .query(&LIFT)
        .answer::<Lifted>(200, "The reasons that no longer count.")
}

pub(super) async fn list(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<SuppressionPage>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &LIST)?;
    let filter = SuppressionFilter { page: params.page()?, ..params.filter(&caller)? };
    let listed = api.state.store.suppressions(&filter).await?;
    Ok(Json(SuppressionPage { suppressions: listed.rows, next: listed.next }))
}

pub(super) fn describe_list() -> Operation {
    Operation::new(TAG, "The latest suppression comes first.")
        .query(&LIST)
        .answer::<SuppressionPage>(200, "A page of suppressions.")
}

/// Returns 404 if there is none.
async fn of_address(api: &ApiState, tenant: String, address: String) -> Result<SuppressionPage, ApiRefusal> {
    let page = PageRequest { limit: OF_ADDRESS, after: None };
    let filter = SuppressionFilter { tenant: Some(tenant), address: Some(address), page };
    let suppressions = api.state.store.suppressions(&filter).await?.rows;
    if suppressions.is_empty() {
        Err(Problem::NotFound.into())
    } else {
        Ok(SuppressionPage { suppressions, next: None })
    }
}
