//! `/v1/jobs`: one command for many keys. The routes only store and read jobs;
//! [`JobRunner`](crate::jobs::Runner) carries them out.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, Uri, header::LOCATION},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidings_model::{
    job::{Job, JobFilter, JobPlace, JobTask, KeyResult, MOST_WAITING},
    records::ListPage,
    settings::FormerNames,
};
use tidings_operations::key_filter::KeyFilter;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    ApiState, body,
    caller::ApiCaller,
    idempotency_key,
    openapi::operation::{ApiTag, Operation, Query, RequestHeader, ResponseHeader},
    operate::parse_future,
    params::{AnyTenant, PathParams, QueryParams},
    pauses::hide_operators,
    refusal::{ApiRefusal, Fault},
};
use crate::problem::Problem;

#[cfg(test)]
mod tests;

/// Reason in the audit trail if a cancellation gives none.
const NO_REASON: &str = "the job was cancelled";

/// A job as an operator writes it.
#[derive(Deserialize, ToSchema)]
#[schema(as = PostedJob)]
#[serde(deny_unknown_fields)]
struct JobRequest {
    #[schema(required = true, nullable = false)]
    order: Option<JobOrder>,
    /// The filter: `tenant=`, `digest_type=` and `user=`, joined by `and`.
    #[serde(default)]
    #[schema(required = true)]
    filter: String,
    /// The reason, for the audit trail.
    #[serde(default)]
    #[schema(required = true)]
    why: String,
    /// Of hold: the end, a time or a span from now.
    until: Option<String>,
    /// Of retime: the deadline, a time or a span from now.
    at: Option<String>,
    /// Of reopen: also digests that recipients may have already.
    may_duplicate: Option<bool>,
    /// Only selects the keys.
    #[serde(default)]
    dry_run: bool,
}

/// The order to each key.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[schema(as = JobOrder)]
#[serde(rename_all = "snake_case")]
enum JobOrder {
    Flush,
    Hold,
    Release,
    Drop,
    Retime,
    Reopen,
}

/// Stores a job. If the caller repeats an `Idempotency-Key`, this returns the existing job, or rejects
/// different content.
pub(super) async fn post(
    State(api): State<ApiState>,
    AnyTenant { caller, tenant }: AnyTenant,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Job>), ApiRefusal> {
    let key = idempotency_key::read_header(&headers).map_err(ApiRefusal::header)?;
    let mut job = parse_job(
        &headers,
        &bytes,
        &caller,
        tenant.clone(),
        &api.state.settings.names,
        Uuid::new_v4(),
        Timestamp::now(),
    )?;
    if let Some(key) = key {
        job.id = idempotency_key::order_id(&api, &caller, tenant.as_deref(), "job", key, &bytes).await?;
    }
    let job = api.state.store.post_job(&job).await?;
    let job = job.ok_or_else(|| {
        ApiRefusal::conflict(&format!("{MOST_WAITING} jobs of the tenant have not ended; cancel one"))
    })?;
    Ok((StatusCode::ACCEPTED, [(LOCATION, format!("/v1/jobs/{}", job.id))], Json(job)))
}

/// Restricts the filter to `tenant`.
fn parse_job(
    headers: &HeaderMap,
    bytes: &[u8],
    caller: &ApiCaller,
    tenant: Option<String>,
    names: &FormerNames,
    id: Uuid,
    now: Timestamp,
) -> Result<Job, ApiRefusal> {
    let mut posted: JobRequest = body::read_json(headers, bytes)?;
    let tenant = parse_filter(&posted.filter)?.within_tenant(tenant, names).ok_or(Problem::NotFound)?.tenant;
    let task = task(&mut posted)?;
    let JobRequest { filter, why, dry_run, .. } = posted;
    Ok(Job { dry_run, ..Job::new(id, task, filter, tenant, caller.as_operator(why)?, now) })
}

fn parse_filter(words: &str) -> Result<KeyFilter, ApiRefusal> {
    // No key can contain control characters.
    if words.contains(char::is_control) {
        return Err(ApiRefusal::body(Fault::new("filter", "has a control character")));
    }
    words.parse().map_err(|invalid| ApiRefusal::body(Fault::new("filter", format!("{invalid}"))))
}

fn task(posted: &mut JobRequest) -> Result<JobTask, ApiRefusal> {
    let missing = || Fault::new("order", "is required: flush, hold, release, drop, retime or reopen");
    let task = match posted.order.ok_or_else(|| ApiRefusal::body(missing()))? {
        JobOrder::Flush => JobTask::Flush,
        JobOrder::Hold => JobTask::Hold { until: parse_future("until", posted.until.take())? },
        JobOrder::Release => JobTask::Release,
        JobOrder::Drop => JobTask::Drop,
        JobOrder::Retime => JobTask::Retime { at: parse_future("at", posted.at.take())? },
        JobOrder::Reopen => {
            JobTask::Reopen { digest_id: None, may_duplicate: posted.may_duplicate.take().unwrap_or_default() }
        }
    };
    let others = [
        ("until", posted.until.is_some()),
        ("at", posted.at.is_some()),
        ("may_duplicate", posted.may_duplicate.is_some()),
    ];
    match others.into_iter().find(|(_, is_there)| *is_there) {
        Some((field, _)) => Err(ApiRefusal::body(Fault::new(field, format!("is not an argument of {}", task.name())))),
        None => Ok(task),
    }
}

/// Latest first. A token for one tenant sees only this tenant's jobs.
pub(super) async fn list(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<ListPage<Job, JobPlace>>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &["tenant", "limit", "after"])?;
    let filter = JobFilter { page: params.page()?, ..params.filter(&caller)? };
    Ok(Json(api.state.store.jobs(&filter).await?))
}

pub(super) async fn show(
    State(api): State<ApiState>,
    PathParams(id): PathParams<Uuid>,
    AnyTenant { tenant, .. }: AnyTenant,
) -> Result<Json<Job>, ApiRefusal> {
    Ok(Json(find(&api, tenant, id).await?))
}

pub(super) async fn results(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams(id): PathParams<Uuid>,
    uri: Uri,
) -> Result<Json<Value>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &["tenant", "limit", "after"])?;
    find(&api, caller.tenant(params.text("tenant"))?, id).await?;
    let mut listed = json!(api.state.store.job_results(id, &params.page()?).await?);
    hide_operators(&api, &caller, &mut listed).await?;
    Ok(Json(listed))
}

/// Commands already sent are not undone. A finished job stays as it is.
pub(super) async fn cancel(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams(id): PathParams<Uuid>,
    uri: Uri,
) -> Result<Json<Job>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &["tenant", "why"])?;
    find(&api, caller.tenant(params.text("tenant"))?, id).await?;
    let order = caller.as_operator(params.text("why").unwrap_or_else(|| NO_REASON.to_owned()))?;
    let mut entry = order.audit_entry("job cancel", Timestamp::now());
    entry.why = format!("{} (job {id})", entry.why);
    let job = api.state.store.cancel_job(id, &entry).await?;
    Ok(Json(job.ok_or(Problem::NotFound)?))
}

/// A token for all tenants finds every job.
async fn find(api: &ApiState, tenant: Option<String>, id: Uuid) -> Result<Job, ApiRefusal> {
    Ok(api.state.store.job(tenant.as_deref(), id).await?.ok_or(Problem::NotFound)?)
}

const TAG: ApiTag = ApiTag::Jobs;

pub(crate) fn describe_post() -> Operation {
    let bodies = [
        ("A hold", json!({"order": "hold", "filter": "digest_type=activity", "why": "wrong prices", "until": "2h"})),
        (
            "A dry run",
            json!({"order": "flush", "filter": "digest_type=activity", "why": "ticket 812", "dry_run": true}),
        ),
    ];
    Operation::new(TAG, "The filter is narrowed to the tenant of the token. The job goes on without the caller.")
        .query(&[Query::Tenant])
        .header(RequestHeader::IdempotencyKey)
        .body::<JobRequest>(&bodies)
        .answer_with::<Job>(202, "The job.", &[ResponseHeader::Location])
        .link(202, "GetJob", "id", "$response.body#/id")
        .problem(Problem::Conflict)
        .problem(Problem::OtherContent)
}

pub(crate) fn describe_list() -> Operation {
    Operation::new(TAG, "The latest job comes first.")
        .query(&[Query::Tenant, Query::Limit, Query::After])
        .page::<Job>("The jobs.")
}

pub(crate) fn describe_show() -> Operation {
    Operation::new(TAG, "A job that has ended is kept for 30 days.")
        .query(&[Query::Tenant])
        .answer::<Job>(200, "The job with its counts.")
}

pub(crate) fn describe_results() -> Operation {
    Operation::new(TAG, "The results come in the order of the keys.")
        .query(&[Query::Tenant, Query::Limit, Query::After])
        .page::<KeyResult>("The keys with their results.")
}

pub(crate) fn describe_cancel() -> Operation {
    Operation::new(TAG, "Keys that are left get no order. Orders that were sent are not taken back.")
        .query(&[Query::Tenant, Query::Why])
        .answer::<Job>(200, "The job, which has ended.")
}
