//! Ledger digests (rule 36): `GET /v1/ledger/digests` and `GET /v1/ledger/digests/{id}`. Also `GET
//! /v1/digests/{digest_type}/{user}` for pending events of a key, and `GET /v1/audit`.

use axum::{Json, extract::State, http::Uri};
use jiff::Timestamp;
use serde_json::Value;
use tidings_client::CommandError;
use tidings_model::{
    Key,
    api_token::TokenScope,
    records::{AuditFilter, AuditPlace, AuditRecord, DigestFilter, DigestPlace, DigestRecord, EventPlace, ListPage},
    when,
};
use tidings_operations::digest::{DigestStory, digest_story};
use tidings_workflows::DigestStatus;
use uuid::Uuid;

use super::{
    ApiState,
    caller::ApiCaller,
    openapi::operation::{ApiTag, Operation, Query},
    params::{PathParams, QueryParams, TenantRead},
    pauses::hide_operators,
    refusal::ApiRefusal,
};
use crate::problem::Problem;

pub(super) mod dead_letters;

const LIST: [Query; 11] = [
    Query::Tenant,
    Query::DigestType,
    Query::User,
    Query::Outcome,
    Query::DigestState,
    Query::Since,
    Query::Until,
    Query::Window,
    Query::Overdue,
    Query::Limit,
    Query::After,
];
const SHOW: [Query; 4] = [Query::Tenant, Query::Addresses, Query::Limit, Query::After];

pub(super) async fn list(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<ListPage<DigestRecord, DigestPlace>>, ApiRefusal> {
    let filter = filter(&caller, QueryParams::from_query(&uri, &LIST)?, Timestamp::now())?;
    Ok(Json(api.state.store.list_digests(&filter).await?))
}

pub(super) fn describe_list() -> Operation {
    Operation::new(
        ApiTag::Digests,
        "The latest window comes first. A window that collects is in the ledger only if some of its events \
         are stashed: ask for its key.",
    )
    .query(&LIST)
    .page::<DigestRecord>("A page of digests.")
    .link(200, "ShowDigest", "id", "$response.body#/rows/0/digest_id")
}

fn filter(caller: &ApiCaller, mut params: QueryParams, now: Timestamp) -> Result<DigestFilter, ApiRefusal> {
    let filter: DigestFilter = params.filter(caller)?;
    check_user(filter.user.as_ref(), filter.tenant.as_ref())?;
    let DigestFilter { since, until, .. } = filter;
    let window = params.parse_with("window", |text| window(text, now))?;
    let (since, until) = match window {
        Some(_) if since.is_some() || until.is_some() => {
            return Err(ApiRefusal::parameter("window", "replaces since and until; send one or the other"));
        }
        Some(window) => window,
        None => (since, until),
    };
    let overdue_at = params.flag("overdue")?.then_some(now);
    if overdue_at.is_some() && filter.outcome.is_some() {
        return Err(ApiRefusal::parameter("overdue", "selects digests without an outcome; send one of them"));
    }
    Ok(DigestFilter { since, until, overdue_at, page: params.page()?, ..filter })
}

fn check_user(user: Option<&String>, tenant: Option<&String>) -> Result<(), ApiRefusal> {
    if user.is_some() && tenant.is_none() {
        return Err(ApiRefusal::parameter("user", "needs the tenant, too"));
    }
    Ok(())
}

/// Parses `24h` (windows opened within this span before now) or `SINCE/UNTIL`.
fn window(text: &str, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    match text.split_once('/') {
        Some((since, until)) => Ok((Some(when::parse_moment(since, now)?), Some(when::parse_moment(until, now)?))),
        None => Ok((Some(when::parse_moment(text, now)?), None)),
    }
}

/// Addresses and provider texts are included only if requested and if the token has `recipients:read`.
pub(super) async fn show(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams(id): PathParams<Uuid>,
    uri: Uri,
) -> Result<Json<DigestStory>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &SHOW)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let addresses = include_addresses(&caller, &mut params)?;
    let events = params.page::<EventPlace>()?;
    let story = digest_story(&*api.state.store, tenant.as_deref(), id, &events, addresses).await?;
    let mut story = story.ok_or(Problem::NotFound)?;
    if caller.own_tenant.is_some() {
        story.audit.iter_mut().filter(|entry| entry.tenant.is_empty()).for_each(AuditRecord::forget_operator);
    }
    Ok(Json(story))
}

pub(super) fn describe_show() -> Operation {
    Operation::new(
        ApiTag::Digests,
        "The events come in pages. Without addresses the message has no address, and reports have no texts of \
         providers.",
    )
    .query(&SHOW)
    .answer::<DigestStory>(200, "The digest with everything that is known about it.")
}

/// Parses `addresses`, which needs an extra scope.
fn include_addresses(caller: &ApiCaller, params: &mut QueryParams) -> Result<bool, ApiRefusal> {
    let addresses = params.flag("addresses")?;
    if addresses {
        caller.require_scope(TokenScope::RecipientsRead)?;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;

const AUDIT: [Query; 10] = [
    Query::Tenant,
    Query::DigestType,
    Query::User,
    Query::Actor,
    Query::Action,
    Query::Since,
    Query::Until,
    Query::Addresses,
    Query::Limit,
    Query::After,
];

/// Latest first. Addresses in operators' reasons are included only if requested and if the token has
/// `recipients:read`.
pub(crate) async fn list_audit(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<ListPage<AuditRecord, AuditPlace>>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &AUDIT)?;
    let filter: AuditFilter = params.filter(&caller)?;
    check_user(filter.user.as_ref(), filter.tenant.as_ref())?;
    let addresses = include_addresses(&caller, &mut params)?;
    let filter = AuditFilter { page: params.page()?, ..filter };
    let mut listed = api.state.store.audit_entries(&filter).await?;
    if !addresses {
        listed.rows.iter_mut().for_each(AuditRecord::forget_addresses);
    }
    Ok(Json(listed))
}

pub(crate) fn describe_audit() -> Operation {
    Operation::new(ApiTag::Audit, "The latest entry comes first. Without addresses the reasons have none.")
        .query(&AUDIT)
        .page::<AuditRecord>("A page of entries.")
}

/// Returns 404 if nothing is pending, or if this key belongs to another tenant. Only a token for all tenants
/// must name the tenant.
pub(super) async fn get(
    State(api): State<ApiState>,
    TenantRead { caller, tenant }: TenantRead,
    PathParams((digest_type, user)): PathParams<(String, String)>,
) -> Result<Json<Value>, ApiRefusal> {
    let key = Key::new(tenant, digest_type, user).map_err(|_| Problem::NotFound)?;
    let commands = api.commands()?;
    let status = async {
        let name = commands.open_name(&api.state.settings.names, &key).await?;
        commands.digest(&name).status::<Value>().await
    };
    let status =
        status.await.inspect_err(|error: &CommandError| tracing::warn!(%error, %key, "cannot get status of key"));
    let status = status.map_err(|_| Problem::NoAnswer)?.filter(|status| !status.is_null());
    let mut status = status.ok_or(Problem::NotFound)?;
    hide_operators(&api, &caller, &mut status).await?;
    Ok(Json(status))
}

pub(super) fn describe_get() -> Operation {
    Operation::new(
        ApiTag::Digests,
        "Answers with the number of pending events, when they go out and why. A key without anything pending \
         is a 404.",
    )
    .query(&TenantRead::QUERY)
    .answer::<DigestStatus>(200, "The state of the key.")
    .problem(Problem::NoAnswer)
}
