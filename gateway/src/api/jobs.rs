//! Jobs, which are orders to many keys: `/v1/jobs`. A route only records and reads; [`Runner`](crate::jobs::Runner) carries out.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, Uri, header::LOCATION},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_model::{
    job::{Job, JobFilter, JobPlace, MOST_WAITING},
    records::Listed,
};
use uuid::Uuid;

use super::{
    Api, caller::Caller, idempotency_key, params::Params, path::Named, pauses::hide_operators, refusal::Refusal,
};
use crate::problem::Problem;

pub(super) mod operations;
mod posted;
#[cfg(test)]
mod tests;

/// The reason of a cancellation without one.
const NO_REASON: &str = "the job was cancelled";

/// Records a job. A repeated `Idempotency-Key` of the same caller gives the job that the first request made, and is refused with another
/// content.
pub(super) async fn post(
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Job>), Refusal> {
    let tenant = caller.tenant(Params::read(&uri, &["tenant"])?.text("tenant"))?;
    let key = idempotency_key::read(&headers).map_err(Refusal::header)?;
    let mut job = posted::read(
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
    let job =
        job.ok_or_else(|| Refusal::conflict(&format!("{MOST_WAITING} jobs of the tenant have not ended; cancel one")))?;
    Ok((StatusCode::ACCEPTED, [(LOCATION, format!("/v1/jobs/{}", job.id))], Json(job)))
}

/// Lists jobs, the latest first. A token of one tenant sees the jobs of its tenant only.
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Listed<Job, JobPlace>>, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "limit", "after"])?;
    let tenant = caller.tenant(params.text("tenant"))?;
    Ok(Json(api.state.store.jobs(&JobFilter { tenant, page: params.page()? }).await?))
}

/// Shows a job with its counts.
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<Uuid>,
    uri: Uri,
) -> Result<Json<Job>, Refusal> {
    let mut params = Params::read(&uri, &["tenant"])?;
    Ok(Json(find(&api, &caller, id, &mut params).await?))
}

/// Lists the keys of a job with their results, in the order of the keys.
pub(super) async fn results(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<Uuid>,
    uri: Uri,
) -> Result<Json<Value>, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "limit", "after"])?;
    find(&api, &caller, id, &mut params).await?;
    let mut listed = json!(api.state.store.job_results(id, &params.page()?).await?);
    hide_operators(&api, &caller, &mut listed).await?;
    Ok(Json(listed))
}

/// Cancels what is left of a job. Orders that were sent are not taken back. A job that has ended does not change.
pub(super) async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<Uuid>,
    uri: Uri,
) -> Result<Json<Job>, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "why"])?;
    find(&api, &caller, id, &mut params).await?;
    let order = caller.order(params.text("why").unwrap_or_else(|| NO_REASON.to_owned()))?;
    let mut entry = order.entry("job cancel", Timestamp::now());
    entry.why = format!("{} (job {id})", entry.why);
    let job = api.state.store.cancel_job(id, &entry).await?;
    Ok(Json(job.ok_or(Problem::NotFound)?))
}

/// A job of the caller's tenant. A token of all tenants finds every job.
async fn find(api: &Api, caller: &Caller, id: Uuid, params: &mut Params) -> Result<Job, Refusal> {
    let tenant = caller.tenant(params.text("tenant"))?;
    Ok(api.state.store.job(tenant.as_deref(), id).await?.ok_or(Problem::NotFound)?)
}
