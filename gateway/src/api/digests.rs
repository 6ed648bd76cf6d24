//! `GET /v1/digests/{type}/{user}`: what is pending for a key, when it goes out and why.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::Value;
use tidings_client::{CommandError, Commands};
use tidings_model::Key;

use super::{Api, caller::Caller};
use crate::problem::Problem;

/// Time for an answer of the workflow.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tenant, which only a token for every tenant must name.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    tenant: Option<String>,
}

/// Answers with the status of the key's workflow, or 404 if nothing is pending. A key of another tenant has the same answer.
pub(super) async fn get(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path((digest_type, user)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> Response {
    match status(&api, &caller, digest_type, user, asked.tenant).await {
        Ok(status) => Json(status).into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn status(
    api: &Api,
    caller: &Caller,
    digest_type: String,
    user: String,
    tenant: Option<String>,
) -> Result<Value, Problem> {
    let tenant = tenant.or_else(|| caller.own_tenant.clone()).filter(|tenant| caller.covers(tenant));
    let tenant = tenant.ok_or(Problem::NotFound)?;
    let key = Key::new(tenant, digest_type, user).map_err(|_| Problem::NotFound)?;
    let temporal = api.state.temporal().ok_or(Problem::NoAnswer)?;
    let commands = Commands::new(temporal, &api.task_queue).with_patience(PATIENCE);
    let status = commands.digest(&key).status::<Value>().await;
    let status = status.inspect_err(|error: &CommandError| tracing::warn!(%error, %key, "no status of a key"));
    status.map_err(|_| Problem::NoAnswer)?.filter(|status| !status.is_null()).ok_or(Problem::NotFound)
}
