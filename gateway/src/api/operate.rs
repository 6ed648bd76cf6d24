//! Commands to one key, as `tidings digest` gives them: `POST /v1/digests/{type}/{user}/flush` and its neighbours.
//!
//! `Idempotency-Key` makes the id of the workflow update: a run of the workflow carries it out once, and repeats its answer. Another
//! content under a used key is refused.

use axum::{
    Json,
    body::{Bytes, to_bytes},
    extract::{FromRequest, FromRequestParts as _, Request},
    http::HeaderMap,
};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tidings_activities::{
    Deps, Error,
    digest::preview::Instead,
    operations::preview::{PreviewError, PreviewView, preview as previewed},
};
use tidings_client::commands::Deed;
use tidings_model::{
    Key,
    command::{Hold, Release, Retime},
    when,
};
use utoipa::ToSchema;

use super::{
    Api,
    body::{self, Why},
    caller::Caller,
    idempotency_key,
    path::Named,
    pauses::hide_operators,
    refusal::{Fault, Refusal},
    tenant::Question,
};
use crate::problem::Problem;

pub(super) mod by_key;
pub(super) mod operations;
pub(super) mod reopen;
#[cfg(test)]
mod tests;

type Answer<T = Value> = Result<Json<T>, Refusal>;

/// A command to a key: the caller, the key and the body.
pub(super) struct Call {
    api: Api,
    caller: Caller,
    key: Key,
    /// The value of `Idempotency-Key`.
    idempotency_key: Option<String>,
    headers: HeaderMap,
    body: Bytes,
}

impl FromRequest<Api> for Call {
    type Rejection = Refusal;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let Named((digest_type, user)) = Named::from_request_parts(&mut parts, api).await?;
        let Question { caller, tenant } = Question::from_request_parts(&mut parts, api).await?;
        let key = Key::new(tenant, digest_type, user).map_err(|_| Problem::NotFound)?;
        // A layer has bounded the body, and read it into memory.
        let body = to_bytes(body, usize::MAX).await.map_err(|_| Problem::TooSlow)?;
        Self::new(api.clone(), caller, key, parts.headers, body)
    }
}

impl Call {
    fn new(api: Api, caller: Caller, key: Key, headers: HeaderMap, body: Bytes) -> Result<Self, Refusal> {
        let idempotency_key = idempotency_key::read(&headers).map_err(Refusal::header)?.map(str::to_owned);
        Ok(Self { api, caller, key, idempotency_key, headers, body })
    }

    fn terms<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        body::read(&self.headers, &self.body)
    }

    /// The id of the update. Two commands with one `Idempotency-Key` are two.
    async fn update_id(&self, command: &str) -> Result<Option<String>, Refusal> {
        let Some(key) = &self.idempotency_key else { return Ok(None) };
        let (tenant, order) = (Some(self.key.tenant.as_str()), format!("{command} {}", self.key));
        let id = idempotency_key::order_id(&self.api, &self.caller, tenant, &order, key, &self.body).await?;
        Ok(Some(format!("{command}/{id}")))
    }

    async fn carry_out(&self, deed: Deed) -> Answer {
        let (id, commands) = (self.update_id(deed.name()).await?, self.api.commands()?);
        let key = commands.open_name(&self.api.state.settings.names, &self.key).await?;
        let workflow = commands.digest(&key);
        let workflow = id.as_ref().map_or(workflow, |id| workflow.with_id(id));
        let mut done = json!(deed.send(workflow).await?);
        hide_operators(&self.api, &self.caller, &mut done).await?;
        Ok(Json(done))
    }
}

/// Sends the pending events now.
pub(super) async fn flush(call: Call) -> Answer {
    let Why { why } = call.terms()?;
    call.carry_out(Deed::Flush(call.caller.order(why)?)).await
}

/// A hold.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HoldTerms {
    /// The reason, for the audit trail.
    why: String,
    /// The end of the hold: a time, or a span from now. Without it only a release ends the hold.
    until: Option<String>,
}

/// Collects events, and sends nothing until the hold ends.
pub(super) async fn hold(call: Call) -> Answer {
    let HoldTerms { why, until } = call.terms()?;
    let (order, until) = (call.caller.order(why)?, later("until", until)?);
    call.carry_out(Deed::Hold(Hold { order, until })).await
}

/// Ends a hold. What is overdue goes out at once.
pub(super) async fn release(call: Call) -> Answer {
    let Why { why } = call.terms()?;
    call.carry_out(Deed::Release(Release::from(call.caller.order(why)?))).await
}

/// Drops the pending events and the digest in delivery.
pub(super) async fn drop(call: Call) -> Answer {
    let Why { why } = call.terms()?;
    call.carry_out(Deed::Drop(call.caller.order(why)?)).await
}

/// Another deadline.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RetimeTerms {
    /// The reason, for the audit trail.
    why: String,
    /// The deadline: a time, or a span from now. Without it the deadline is that of today's configuration.
    at: Option<String>,
}

/// Gives the pending events another deadline.
pub(super) async fn retime(call: Call) -> Answer {
    let RetimeTerms { why, at } = call.terms()?;
    let (order, at) = (call.caller.order(why)?, later("at", at)?);
    call.carry_out(Deed::Retime(Retime { order, at })).await
}

/// Shows the message as it would go out now; 404 if no window is open. Nothing is claimed, stored or sent.
pub(super) async fn preview(call: Call) -> Answer {
    let Api { state, making, .. } = &call.api;
    let renderer = making.as_ref().ok_or(Problem::CannotMake)?.renderer.clone();
    let (store, directory) = (state.store.clone(), state.directory.clone());
    let deps = Deps::for_previews(store, directory, renderer, state.settings.as_ref().clone());
    let commands = call.api.commands()?;
    let key = commands.open_name(&state.settings.names, &call.key).await?;
    let shown = previewed(&commands, &deps, &key, &Instead::default()).await;
    let (due, preview) = shown.map_err(|error| failed(&call.key, error))?.ok_or(Problem::NotFound)?;
    let mut preview = json!(PreviewView::new(&due, preview));
    hide_operators(&call.api, &call.caller, &mut preview).await?;
    Ok(Json(preview))
}

fn failed(key: &Key, error: PreviewError) -> Refusal {
    match error {
        PreviewError::Command(error) => error.into(),
        PreviewError::Render(Error::Store(error)) => error.into(),
        PreviewError::Render(Error::Directory(_)) => Problem::NoDirectory.into(),
        PreviewError::Render(error) => {
            tracing::warn!(%error, %key, "no preview of a key");
            Refusal::conflict(&error.to_string())
        }
    }
}

/// Parses a field with a time in the future, or a span from now.
pub(super) fn later(field: &str, text: Option<String>) -> Result<Option<Timestamp>, Refusal> {
    let read = |text: String| {
        when::later(&text, Timestamp::now()).map_err(|problem| Refusal::body(Fault::new(field, problem)))
    };
    text.map(read).transpose()
}
