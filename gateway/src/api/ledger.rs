//! The ledger's digests (rule 36): `GET /v1/digests` lists them, and `GET /v1/ledger/digests/{id}` tells the story of one.

use axum::{Json, extract::State, http::Uri};
use jiff::Timestamp;
use tidings_activities::operations::digest::{Story, story};
use tidings_model::{
    api_token::Scope,
    records::{AuditRecord, DigestFilter, DigestPlace, DigestRecord, DigestState, EventPlace, Listed},
    when,
    window::Outcome,
};
use uuid::Uuid;

use super::{
    Api,
    caller::Caller,
    openapi::{
        operation::{Operation, Tag},
        parameter::Query,
    },
    params::Params,
    path::Named,
    refusal::Refusal,
};
use crate::problem::Problem;

pub(super) mod audit;
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

/// Lists digests, the latest window first.
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
    let tenant = caller.tenant(params.text("tenant"))?;
    let digest_type = params.text("type");
    let user = params.text("user");
    if user.is_some() && tenant.is_none() {
        return Err(Refusal::parameter("user", "needs the tenant, too"));
    }
    let outcome = params.one_of("outcome", &Outcome::ALL, Outcome::name)?;
    let state = params.one_of("state", &DigestState::ALL, DigestState::name)?;
    let (since, until) = (params.moment("since", now)?, params.moment("until", now)?);
    let window = params.with("window", |text| window(text, now))?;
    let (since, until) = match window {
        Some(_) if since.is_some() || until.is_some() => {
            return Err(Refusal::parameter("window", "is another spelling of since and until; send one of them"));
        }
        Some(window) => window,
        None => (since, until),
    };
    let overdue_at = params.flag("overdue")?.then_some(now);
    if overdue_at.is_some() && outcome.is_some() {
        return Err(Refusal::parameter("overdue", "selects digests without an outcome; send one of them"));
    }
    Ok(DigestFilter { tenant, digest_type, user, outcome, state, since, until, overdue_at, page: params.page()? })
}

/// Parses `24h`: the windows opened in the span before now, or `SINCE/UNTIL`.
fn window(text: &str, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    match text.split_once('/') {
        Some((since, until)) => Ok((Some(when::moment(since, now)?), Some(when::moment(until, now)?))),
        None => Ok((Some(when::moment(text, now)?), None)),
    }
}

/// Shows a digest: its events, each step that moved its time, who did what, its message and attempts. The address and the texts of
/// providers are in it only on request of a token that may read recipients.
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

/// Reads `addresses`, which needs a scope of its own.
fn addresses(caller: &Caller, params: &mut Params) -> Result<bool, Refusal> {
    let addresses = params.flag("addresses")?;
    if addresses {
        caller.may(Scope::RecipientsRead)?;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;
