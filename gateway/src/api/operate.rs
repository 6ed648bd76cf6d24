//! Commands for one key, like `tidings digest`: `POST /v1/digests/{digest_type}/{user}/flush` and others.
//!
//! `Idempotency-Key` becomes the update id, so each run of the workflow executes this command once and
//! repeats its result. Reusing a key with other content is rejected.

use axum::{
    Json,
    body::{Bytes, to_bytes},
    extract::{FromRequest, FromRequestParts as _, Request, State},
    http::{HeaderMap, Uri, header::ALLOW},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tidings_client::commands::{CommandResult, WorkflowCommands};
use tidings_model::{
    Key,
    command::{CommandContext, DropResult, FlushResult, HoldResult, ReleaseResult, ReopenResult, RetimeResult},
    job::JobTask,
    when,
};
use tidings_operations::{
    digest::{PreviewError, PreviewView, latest_under_each_name, name_of, preview_window as previewed},
    preview::PreviewOverrides,
};
use tidings_services::{StepError, StepServices};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    ApiState,
    body::{self, Why},
    caller::ApiCaller,
    idempotency_key,
    openapi::operation::{ApiTag, Operation, Query, RequestHeader},
    params::{PathParams, QueryParams, TenantRead},
    pauses::hide_operators,
    refusal::{ApiRefusal, Fault},
};
use crate::problem::Problem;

#[cfg(test)]
mod tests;

type CommandResponse = Result<Json<Value>, ApiRefusal>;

pub(super) struct KeyCommand {
    api: ApiState,
    caller: ApiCaller,
    key: Key,
    idempotency_key: Option<String>,
    headers: HeaderMap,
    body: Bytes,
}

impl FromRequest<ApiState> for KeyCommand {
    type Rejection = ApiRefusal;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, ApiRefusal> {
        let (mut parts, body) = request.into_parts();
        let PathParams((digest_type, user)) = PathParams::from_request_parts(&mut parts, api).await?;
        let TenantRead { caller, tenant } = TenantRead::from_request_parts(&mut parts, api).await?;
        let key = Key::new(tenant, digest_type, user).map_err(|_| Problem::NotFound)?;
        // A layer has already bounded and buffered the body.
        let body = to_bytes(body, usize::MAX).await.map_err(|_| Problem::TooSlow)?;
        Self::new(api.clone(), caller, key, parts.headers, body)
    }
}

impl KeyCommand {
    fn new(api: ApiState, caller: ApiCaller, key: Key, headers: HeaderMap, body: Bytes) -> Result<Self, ApiRefusal> {
        let idempotency_key = idempotency_key::read_header(&headers).map_err(ApiRefusal::header)?.map(str::to_owned);
        Ok(Self { api, caller, key, idempotency_key, headers, body })
    }

    fn terms<T: DeserializeOwned>(&self) -> Result<T, ApiRefusal> {
        body::read_json(&self.headers, &self.body)
    }

    /// Different commands may share one `Idempotency-Key`.
    async fn update_id(&self, command: &str) -> Result<Option<String>, ApiRefusal> {
        let Some(key) = &self.idempotency_key else { return Ok(None) };
        let (tenant, order) = (Some(self.key.tenant.as_str()), format!("{command} {}", self.key));
        let id = idempotency_key::order_id(&self.api, &self.caller, tenant, &order, key, &self.body).await?;
        Ok(Some(format!("{command}/{id}")))
    }

    /// The key may be open under a former name, so this finds it first.
    async fn carry_out(&self, order: CommandContext, task: JobTask) -> CommandResponse {
        let (id, commands) = (self.update_id(task.name()).await?, self.api.commands()?);
        let key = commands.open_name(&self.api.state.settings.names, &self.key).await?;
        self.send_command(&commands, &key, id, order, task).await
    }

    /// Returns 409 with the reason if a digest cannot be reopened.
    async fn send_command(
        &self,
        commands: &WorkflowCommands,
        key: &Key,
        id: Option<String>,
        order: CommandContext,
        task: JobTask,
    ) -> CommandResponse {
        let workflow = commands.digest(key);
        let workflow = id.as_ref().map_or(workflow, |id| workflow.with_id(id));
        let done = workflow.send(&task, order, false).await?;
        if let CommandResult::Reopened(ReopenResult { refused: Some(why), .. }) = &done {
            return Err(ApiRefusal::conflict(why));
        }
        let mut done = json!(done);
        hide_operators(&self.api, &self.caller, &mut done).await?;
        Ok(Json(done))
    }

    async fn without_terms(self, task: JobTask) -> CommandResponse {
        let Why { why } = self.terms()?;
        self.carry_out(self.caller.as_operator(why)?, task).await
    }
}

pub(super) async fn flush(call: KeyCommand) -> CommandResponse {
    call.without_terms(JobTask::Flush).await
}

/// Overdue events are sent now.
pub(super) async fn release(call: KeyCommand) -> CommandResponse {
    call.without_terms(JobTask::Release).await
}

/// Drops the pending events and the digest in delivery.
pub(super) async fn drop(call: KeyCommand) -> CommandResponse {
    call.without_terms(JobTask::Drop).await
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

pub(super) async fn hold(call: KeyCommand) -> CommandResponse {
    let HoldTerms { why, until } = call.terms()?;
    let (order, until) = (call.caller.as_operator(why)?, parse_future("until", until)?);
    call.carry_out(order, JobTask::Hold { until }).await
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

pub(super) async fn retime(call: KeyCommand) -> CommandResponse {
    let RetimeTerms { why, at } = call.terms()?;
    let (order, at) = (call.caller.as_operator(why)?, parse_future("at", at)?);
    call.carry_out(order, JobTask::Retime { at }).await
}

/// A reopen.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReopenTerms {
    /// The reason, for the audit trail.
    why: String,
    /// The digest. Without it the latest digest of the key that has an end.
    digest_id: Option<Uuid>,
    /// Reopens a digest that the recipient may have already.
    #[serde(default)]
    may_duplicate: bool,
}

/// Sends a digest that ended without a message, under its own id. The command goes to the workflow of the
/// name that owns it.
pub(super) async fn reopen(call: KeyCommand) -> CommandResponse {
    let ReopenTerms { why, digest_id, may_duplicate } = call.terms()?;
    let order = call.caller.as_operator(why)?;
    let (store, names) = (&*call.api.state.store, &call.api.state.settings.names);
    let (key, digest_id) = if let Some(digest_id) = digest_id {
        (name_of(store, names, &call.key, digest_id).await?, digest_id)
    } else {
        let latest = latest_under_each_name(store, names, &call.key).await?.ok_or(Problem::NotFound)?;
        (latest.key, latest.digest_id)
    };
    let (id, commands) = (call.update_id("reopen").await?, call.api.commands()?);
    call.send_command(&commands, &key, id, order, JobTask::Reopen { digest_id: Some(digest_id), may_duplicate }).await
}

/// Here the key is one path segment: `TENANT/TYPE/USER` with slashes as `%2F`. This route shares its path
/// with a key's status, because a user may be called `reopen`.
pub(super) async fn reopen_by_key(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams((key, command)): PathParams<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiRefusal> {
    if command != "reopen" {
        return Ok(([(ALLOW, "GET,HEAD")], Problem::WrongMethod).into_response());
    }
    let tenant = caller.tenant(QueryParams::from_query(&uri, &TenantRead::QUERY)?.text("tenant"))?;
    let key = parse_key(&api, tenant, &key)?;
    Ok(reopen(KeyCommand::new(api, caller, key, headers, body)?).await?.into_response())
}

/// The key is one path segment, as above. The parameter `why` gives the reason.
pub(super) async fn delete_by_key(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams(key): PathParams<String>,
    uri: Uri,
    headers: HeaderMap,
) -> CommandResponse {
    let mut params = QueryParams::from_query(&uri, &["tenant", "why"])?;
    let key = parse_key(&api, caller.tenant(params.text("tenant"))?, &key)?;
    let why = params.text("why").ok_or_else(|| ApiRefusal::parameter("why", "is required"))?;
    // Hash this as if it were a body.
    let content = json!({"why": why}).to_string().into();
    let call = KeyCommand::new(api, caller, key, headers, content)?;
    call.carry_out(call.caller.as_operator(why)?, JobTask::Drop).await
}

fn parse_key(api: &ApiState, tenant: Option<String>, key: &str) -> Result<Key, Problem> {
    let key: Key = key.parse().map_err(|_| Problem::NotFound)?;
    let names = &api.state.settings.names;
    if tenant.is_none_or(|tenant| names.tenant(&tenant) == names.tenant(&key.tenant)) {
        Ok(key)
    } else {
        Err(Problem::NotFound)
    }
}

/// Renders the message as we would send it now, or returns 404 if no window is open. This claims, stores and
/// sends nothing.
pub(super) async fn preview(call: KeyCommand) -> CommandResponse {
    let ApiState { state, making, .. } = &call.api;
    let renderer = making.as_ref().ok_or(Problem::CannotMake)?.renderer.clone();
    let (store, directory) = (state.store.clone(), state.directory.clone());
    let deps = StepServices::for_previews(store, directory, renderer, state.settings.as_ref().clone());
    let commands = call.api.commands()?;
    let key = commands.open_name(&state.settings.names, &call.key).await?;
    let shown = previewed(&commands, &deps, &key, &PreviewOverrides::default()).await;
    let (due, preview) = shown.map_err(|error| preview_refusal(&call.key, error))?.ok_or(Problem::NotFound)?;
    let mut preview = json!(PreviewView::new(&due, preview));
    hide_operators(&call.api, &call.caller, &mut preview).await?;
    Ok(Json(preview))
}

fn preview_refusal(key: &Key, error: PreviewError) -> ApiRefusal {
    match error {
        PreviewError::Command(error) => error.into(),
        PreviewError::Render(StepError::Store(error)) => error.into(),
        PreviewError::Render(StepError::Directory(_)) => Problem::NoDirectory.into(),
        PreviewError::Render(error) => {
            tracing::warn!(%error, %key, "cannot preview digest");
            ApiRefusal::conflict(&error.to_string())
        }
    }
}

/// Parses a future time, or a span from now.
pub(super) fn parse_future(field: &str, text: Option<String>) -> Result<Option<Timestamp>, ApiRefusal> {
    let read = |text: String| {
        when::parse_later(&text, Timestamp::now()).map_err(|problem| ApiRefusal::body(Fault::new(field, problem)))
    };
    text.map(read).transpose()
}

const REASON: &str = "ticket 812";

fn command(description: &'static str) -> Operation {
    Operation::new(ApiTag::Commands, description)
        .header(RequestHeader::IdempotencyKey)
        .problem(Problem::Conflict)
        .problem(Problem::OtherContent)
        .problem(Problem::NoAnswer)
}

pub(crate) fn describe_flush() -> Operation {
    command(
        "The window is due at once, past spread, quiet hours and throttle. A hold, a pause and a withdrawn \
         consent still count.",
    )
    .query(&[Query::Tenant])
    .body::<Why>(&[("A reason", json!({"why": REASON}))])
    .answer::<FlushResult>(200, "The events that go out.")
}

pub(crate) fn describe_hold() -> Operation {
    command("The key collects events and sends nothing until the hold ends.")
        .query(&[Query::Tenant])
        .body::<HoldTerms>(&[("For two hours", json!({"why": "wrong prices", "until": "2h"}))])
        .answer::<HoldResult>(200, "The events that wait.")
}

pub(crate) fn describe_release() -> Operation {
    command("What is overdue goes out at once.")
        .query(&[Query::Tenant])
        .body::<Why>(&[("A reason", json!({"why": REASON}))])
        .answer::<ReleaseResult>(200, "The events that wait, and their time.")
}

pub(crate) fn describe_drop() -> Operation {
    command("The events stay in the ledger, and a digest in delivery ends, unless an attempt is past the dot.")
        .query(&[Query::Tenant])
        .body::<Why>(&[("A reason", json!({"why": REASON}))])
        .answer::<DropResult>(200, "The events that go nowhere.")
}

pub(crate) fn describe_delete_by_key() -> Operation {
    command("The command drop, with the key in one part of the path and the reason in the query.")
        .query(&[Query::Tenant, Query::RequiredWhy])
        .answer::<DropResult>(200, "The events that go nowhere.")
}

pub(crate) fn describe_retime() -> Operation {
    let bodies = [
        ("In a quarter of an hour", json!({"why": REASON, "at": "15m"})),
        ("By the file of today", json!({"why": REASON})),
    ];
    command("Without at the deadline is what the configuration of today and the recipient's choices make.")
        .query(&[Query::Tenant])
        .body::<RetimeTerms>(&bodies)
        .answer::<RetimeResult>(200, "The deadline before and now.")
}

pub(crate) fn describe_reopen() -> Operation {
    command("A digest that was dropped or failed goes out under its own id, and collects nothing new.")
        .query(&[Query::Tenant])
        .body::<ReopenTerms>(&[("The latest digest", json!({"why": REASON}))])
        .answer::<ReopenResult>(200, "The events that go out.")
}

pub(crate) fn describe_preview() -> Operation {
    Operation::new(ApiTag::Commands, "Nothing is claimed, stored or sent. If no window is open, the answer is 404.")
        .query(&[Query::Tenant])
        .answer::<PreviewView>(200, "The message and its window.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}
