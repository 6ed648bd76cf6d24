//! `POST /v1/digests/{type}/{user}/reopen`: sends a digest that ended without a message, under its own id.

use axum::Json;
use serde::Deserialize;
use tidings_activities::operations::reopen::{latest_under_each_name, name_of};
use tidings_model::command::{Reopen, Reopened};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Answer, Call};
use crate::{api::refusal::Refusal, problem::Problem};

/// A reopen.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ReopenTerms)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
    /// The reason, for the audit trail.
    why: String,
    /// The digest. Without it the latest digest of the key that has an end.
    digest_id: Option<Uuid>,
    /// Reopens a digest that the recipient may have already.
    #[serde(default)]
    may_duplicate: bool,
}

/// Reopens a digest; 409 with the reason if that is refused.
pub(crate) async fn reopen(call: Call) -> Answer<Reopened> {
    let Terms { why, digest_id, may_duplicate } = call.terms()?;
    let order = call.caller.order(why)?;
    let (store, names) = (&*call.api.state.store, &call.api.state.settings.names);
    let (key, digest_id) = if let Some(digest_id) = digest_id {
        (name_of(store, names, &call.key, digest_id).await?, digest_id)
    } else {
        let latest = latest_under_each_name(store, names, &call.key).await?.ok_or(Problem::NotFound)?;
        (latest.key, latest.digest_id)
    };
    let (id, commands) = (call.update_id("reopen").await?, call.api.commands()?);
    let workflow = commands.digest(&key);
    let workflow = id.as_ref().map_or(workflow, |id| workflow.with_id(id));
    let reopened = workflow.reopen(Reopen { order, digest_id, may_duplicate }).await?;
    match &reopened.refused {
        Some(why) => Err(Refusal::conflict(why)),
        None => Ok(Json(reopened)),
    }
}
