//! `GET /v1/digests/{type}/{user}`: what is pending for a key, when it goes out and why.

use axum::{Json, extract::State};
use serde_json::Value;
use tidings_client::CommandError;
use tidings_model::Key;
use tidings_workflows::Status;

use super::{
    Api,
    openapi::operation::{Operation, Tag},
    path::Named,
    pauses::hide_operators,
    refusal::Refusal,
    tenant::Question,
};
use crate::problem::Problem;

/// Answers with the status of the key's workflow, or 404 if nothing is pending. A key of another tenant has the same answer. Only a
/// token for all tenants must name the tenant.
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
