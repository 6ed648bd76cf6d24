//! Ledger digests (rule 36): `GET /v1/digests` and `GET /v1/ledger/digests/{id}`. Also `GET
//! /v1/digests/{type}/{user}` for pending events of a key, and `GET /v1/audit`.

use axum::{Json, extract::State, http::Uri};
use jiff::Timestamp;
use serde_json::Value;
use tidings_client::CommandError;
use tidings_model::{
    Key,
    api_token::Scope,
    records::{AuditFilter, AuditPlace, AuditRecord, DigestFilter, DigestPlace, DigestRecord, EventPlace, Listed},
    when,
};
use tidings_operations::digest::{Story, story};
use tidings_workflows::Status;
use uuid::Uuid;

use super::{
    Api,
    caller::Caller,
    openapi::operation::{Operation, Query, Tag},
    params::{Named, Params, Question},
    pauses::hide_operators,
    refusal::Refusal,
};
use crate::problem::Problem;

pub(super) mod dead_letters;

const LIST: [Query; 11] = [
    Query::Tenant,
    Query::Type,
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
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Listed<DigestRecord, DigestPlace>>, Refusal> {
    let filter = filter(&caller, Params::read(&uri, &LIST)?, Timestamp::now())?;
    Ok(Json(api.state.store.list_digests(&filter).await?))
}

pub(super) fn describe_list() -> Operation {
    Operation::new(
        Tag::Digests,
        "The latest window comes first. A window that collects is in the ledger only if some of its events \
         are stashed: ask for its key.",
    )
    .query(&LIST)
    .page::<DigestRecord>("A page of digests.")
    .link(200, "ShowDigest", "id", "$response.body#/rows/0/digest_id")
}

fn filter(caller: &Caller, mut params: Params, now: Timestamp) -> Result<DigestFilter, Refusal> {
    let filter: DigestFilter = params.filter(caller)?;
    check_user(filter.user.as_ref(), filter.tenant.as_ref())?;
    let DigestFilter { since, until, .. } = filter;
    let window = params.with("window", |text| window(text, now))?;
    let (since, until) = match window {
        Some(_) if since.is_some() || until.is_some() => {
            return Err(Refusal::parameter("window", "is another spelling of since and until; send one of them"));
        }
        Some(window) => window,
        None => (since, until),
    };
    let overdue_at = params.flag("overdue")?.then_some(now);
    if overdue_at.is_some() && filter.outcome.is_some() {
        return Err(Refusal::parameter("overdue", "selects digests without an outcome; send one of them"));
    }
    Ok(DigestFilter { since, until, overdue_at, page: params.page()?, ..filter })
}

fn check_user(user: Option<&String>, tenant: Option<&String>) -> Result<(), Refusal> {
    if user.is_some() && tenant.is_none() {
        return Err(Refusal::parameter("user", "needs the tenant, too"));
    }
    Ok(())
}

/// Parses `24h` (windows opened within this span before now) or `SINCE/UNTIL`.
fn window(text: &str, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    match text.split_once('/') {
        Some((since, until)) => Ok((Some(when::moment(since, now)?), Some(when::moment(until, now)?))),
        None => Ok((Some(when::moment(text, now)?), None)),
    }
}

/// Addresses and provider texts are included only if requested and if the token has `recipients:read`.
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<Uuid>,
    uri: Uri,
) -> Result<Json<Story>, Refusal> {
    let mut params = Params::read(&uri, &SHOW)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let addresses = addresses(&caller, &mut params)?;
    let events = params.page::<EventPlace>()?;
    let story = story(&*api.state.store, tenant.as_deref(), id, &events, addresses).await?;
    let mut story = story.ok_or(Problem::NotFound)?;
    if caller.own_tenant.is_some() {
        story.audit.iter_mut().filter(|entry| entry.tenant.is_empty()).for_each(AuditRecord::forget_operator);
    }
    Ok(Json(story))
}

pub(super) fn describe_show() -> Operation {
    Operation::new(
        Tag::Digests,
        "The events come in pages. Without addresses the message has no address, and reports have no texts of \
         providers.",
    )
    .query(&SHOW)
    .answer::<Story>(200, "The digest with everything that is known about it.")
}

/// Parses `addresses`, which needs an extra scope.
fn addresses(caller: &Caller, params: &mut Params) -> Result<bool, Refusal> {
    let addresses = params.flag("addresses")?;
    if addresses {
        caller.may(Scope::RecipientsRead)?;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;

const AUDIT: [Query; 10] = [
    Query::Tenant,
    Query::Type,
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
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Listed<AuditRecord, AuditPlace>>, Refusal> {
    let mut params = Params::read(&uri, &AUDIT)?;
    let filter: AuditFilter = params.filter(&caller)?;
    check_user(filter.user.as_ref(), filter.tenant.as_ref())?;
    let addresses = addresses(&caller, &mut params)?;
    let filter = AuditFilter { page: params.page()?, ..filter };
    let mut listed = api.state.store.audit_entries(&filter).await?;
    if !addresses {
        listed.rows.iter_mut().for_each(AuditRecord::forget_addresses);
    }
    Ok(Json(listed))
}

pub(crate) fn describe_audit() -> Operation {
    Operation::new(Tag::Audit, "The latest entry comes first. Without addresses the reasons have none.")
        .query(&AUDIT)
        .page::<AuditRecord>("A page of entries.")
}

/// Returns 404 if nothing is pending, or if this key belongs to another tenant. Only a token for all tenants
/// must name the tenant.
pub(super) async fn get(
    State(api): State<Api>,
    Question { caller, tenant }: Question,
    Named((digest_type, user)): Named<(String, String)>,
) -> Result<Json<Value>, Refusal> {
    let key = Key::new(tenant, digest_type, user).map_err(|_| Problem::NotFound)?;
    let commands = api.commands()?;
    let status = async {
        let name = commands.open_name(&api.state.settings.names, &key).await?;
        commands.digest(&name).status::<Value>().await
    };
    let status = status.await.inspect_err(|error: &CommandError| tracing::warn!(%error, %key, "no status of a key"));
    let status = status.map_err(|_| Problem::NoAnswer)?.filter(|status| !status.is_null());
    let mut status = status.ok_or(Problem::NotFound)?;
    hide_operators(&api, &caller, &mut status).await?;
    Ok(Json(status))
}

pub(super) fn describe_get() -> Operation {
    Operation::new(
        Tag::Digests,
        "Answers with the number of pending events, when they go out and why. A key without anything pending \
         is a 404.",
    )
    .query(&Question::QUERY)
    .answer::<Status>(200, "The state of the key.")
    .problem(Problem::NoAnswer)
}
