//! `GET /v1/audit`: who did what, when and why.

use axum::{Json, extract::State, http::Uri};
use jiff::Timestamp;
use tidings_model::records::{Actor, AuditFilter, AuditPlace, AuditRecord, Listed};

use super::addresses;
use crate::api::{
    Api,
    caller::Caller,
    openapi::{
        operation::{Operation, Tag},
        parameter::Query,
    },
    params::Params,
    refusal::Refusal,
};

const LIST: [Query; 10] = [
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

/// Lists audit entries, the latest first. Addresses that operators wrote into reasons are there only on request of a token that may
/// read recipients.
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Listed<AuditRecord, AuditPlace>>, Refusal> {
    let now = Timestamp::now();
    let mut params = Params::read(&uri, &LIST)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let (digest_type, user) = (params.text("type"), params.text("user"));
    if user.is_some() && tenant.is_none() {
        return Err(Refusal::parameter("user", "needs the tenant, too"));
    }
    let (actor, action) = (params.text("actor").map(Actor::from), params.text("action"));
    let (since, until) = (params.moment("since", now)?, params.moment("until", now)?);
    let addresses = addresses(&caller, &mut params)?;
    let page = params.page()?;
    let filter = AuditFilter { tenant, digest_type, user, actor, action, since, until, page };
    let mut listed = api.state.store.audit_entries(&filter).await?;
    if !addresses {
        listed.rows.iter_mut().for_each(AuditRecord::forget_addresses);
    }
    Ok(Json(listed))
}

pub(crate) fn describe_list() -> Operation {
    Operation::new(Tag::Audit, "The latest entry comes first. Without addresses the reasons have none.")
        .query(&LIST)
        .page::<AuditRecord>("A page of entries.")
}
