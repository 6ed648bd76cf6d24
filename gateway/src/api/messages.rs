//! `/v1/messages`: accepts, shows, lists, cancels and retries single messages.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header::LOCATION},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidings_model::{
    MessageKey,
    delivery_events::ReportRecord,
    message::{command::RetryCommand, contract::RetryResult},
    records::{AttemptRecord, MessageFilter, MessageOrigin, MessagePlace, MessageRecord, MessageState, PageCursor},
};
use tidings_operations::{
    message::{self, CancelAnswer, MessageError, RetryAnswer},
    submit::{self, AcceptedMessage, SubmitError},
};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::{
    ApiState,
    body::{self, Why},
    caller::ApiCaller,
    openapi::operation::{ApiTag, Operation, Query, RequestHeader, ResponseHeader},
    params::{PathParams, QueryParams, TenantRead},
    refusal::ApiRefusal,
};
use crate::{problem::Problem, request_body};

mod posted;

pub(super) use posted::BODY_BYTES;

const TAG: ApiTag = ApiTag::Messages;
const LIST: [Query; 4] = [Query::Tenant, Query::MessageState, Query::Limit, Query::After];

/// The body of a retry.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RetryTerms)]
#[serde(deny_unknown_fields)]
struct RetryTerms {
    /// The reason, for the audit trail.
    why: String,
    /// Sends a message that the recipient may have already.
    #[serde(default)]
    may_duplicate: bool,
}

/// Returns 201, or 200 if the same message was already accepted. By then the message is in the outbox and its
/// workflow is started.
pub(super) async fn post(
    State(api): State<ApiState>,
    TenantRead { caller, tenant }: TenantRead,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let length = bytes.len();
    let reading = move || {
        request_body::bound_values(&bytes, request_body::VALUES).map_err(ApiRefusal::unreadable)?;
        posted::read_submission(&headers, &bytes, tenant)
    };
    let submission = request_body::run_bounded(length, reading).await??;
    let making = api.making.as_deref().ok_or(Problem::CannotMake)?;
    let (store, settings) = (&*api.state.store, &api.state.settings);
    let directory = api.state.directory.as_deref();
    let accepted = submit::accept(store, directory, &making.renderer, &making.signers, settings, &submission).await;
    let AcceptedMessage { message, again } = accepted.map_err(submission_refusal)?;
    let temporal = api.temporal()?;
    match timeout(super::state::PATIENCE, submit::start_message(&temporal, &api.task_queue, &message)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, message = %message.id, "message is in the outbox, but its workflow could not be started");
            return Err(Problem::NoAnswer.into());
        }
        Err(_) => return Err(Problem::NoAnswer.into()),
    }
    let status = if again { StatusCode::OK } else { StatusCode::CREATED };
    let message = view_of(message, &caller);
    let url = message.url.clone().unwrap_or_default();
    Ok((status, [(LOCATION, url)], Json(AcceptedView { message, again })).into_response())
}

pub(super) fn describe_post() -> Operation {
    let bodies = [
        (
            "Finished parts",
            json!({"key": "invoice-812", "to": {"user": "ann"}, "subject": "Your invoice", "text": "It is 12 euros."}),
        ),
        (
            "An attachment",
            json!({
                "key": "invoice-813",
                "to": {"address": "bo@example.net", "name": "Bo"},
                "subject": "Your invoice",
                "text": "See the file.",
                "attachments": [{"name": "invoice.txt", "type": "text/plain", "content": "MTIgZXVyb3M="}],
            }),
        ),
    ];
    let key = "$request.body#/key";
    Operation::new(
        TAG,
        "The message is in the outbox, and its workflow runs. A key that was used for another content is a \
         409; an unknown or suppressed recipient and a template that fails are a 422.",
    )
    .query(&TenantRead::QUERY)
    .header(RequestHeader::IdempotencyKey)
    .body::<posted::MessageRequest>(&bodies)
    .answer_with::<AcceptedView>(200, "The same message was handed over before.", &[ResponseHeader::Location])
    .answer_with::<AcceptedView>(201, "The message is new.", &[ResponseHeader::Location])
    .problem(Problem::OtherContent)
    .problem(Problem::UnknownRecipient)
    .link(200, "GetMessage", "key", key)
    .link(201, "GetMessage", "key", key)
    .link(201, "CancelMessage", "key", key)
    .link(201, "RetryMessage", "key", key)
}

/// Includes messages of digests. Latest first.
pub(super) async fn list(State(api): State<ApiState>, caller: ApiCaller, uri: Uri) -> Result<Response, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &LIST)?;
    let filter = MessageFilter { page: params.page()?, ..params.filter(&caller)? };
    let listed = api.state.store.messages(&filter).await?;
    let messages = listed.rows.into_iter().map(|message| view_of(message, &caller)).collect();
    Ok(Json(MessagePage { messages, next: listed.next }).into_response())
}

pub(super) fn describe_list() -> Operation {
    Operation::new(TAG, "The outbox with the messages of digests; the latest message comes first.")
        .query(&LIST)
        .answer::<MessagePage>(200, "A page of messages.")
}

pub(super) async fn show(
    State(api): State<ApiState>,
    TenantRead { caller, tenant }: TenantRead,
    PathParams(key): PathParams<String>,
) -> Result<Response, ApiRefusal> {
    let message = find(&api, tenant, key).await?;
    let attempts = api.state.store.attempts(message.id).await?;
    let mut reports = api.state.store.delivery_events(message.id).await?;
    if !caller.sees_addresses() {
        // A link may contain the recipient's address.
        for reported in &mut reports {
            reported.report.url = None;
        }
    }
    let message = view_of(message, &caller);
    Ok(Json(MessageStory { message, attempts, delivery_events: reports }).into_response())
}

pub(super) fn describe_show() -> Operation {
    Operation::new(TAG, "Addresses and links are there only if the token has the scope recipients:read, too.")
        .query(&TenantRead::QUERY)
        .answer::<MessageStory>(200, "The message with its attempts and the reports of providers.")
}

/// Rejects this if the message already ended differently.
pub(super) async fn cancel(
    State(api): State<ApiState>,
    TenantRead { caller, tenant }: TenantRead,
    PathParams(key): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let Why { why } = body::read_json(&headers, &bytes)?;
    let order = caller.as_operator(why)?;
    let found = find(&api, tenant, key).await?;
    let cancelled = message::cancel(&*api.state.store, &api.commands()?, found.id, order).await.map_err(not_done)?;
    match cancelled {
        CancelAnswer::Single(answer) => {
            let state = answer.closed.map(|closed| MessageState::from_outcome(closed.outcome));
            match state {
                Some(MessageState::Cancelled) => answer_with(&api, &caller, &found).await,
                Some(state) => Err(ApiRefusal::conflict(&format!("the message is already {state}"))),
                None => Err(ApiRefusal::conflict("the message was not changed")),
            }
        }
        // Cannot happen: this id was derived from a single message's key.
        CancelAnswer::Digest { .. } => Err(Problem::NotFound.into()),
    }
}

pub(super) fn describe_cancel() -> Operation {
    Operation::new(TAG, "A message that had another end before is a 409.")
        .query(&TenantRead::QUERY)
        .body::<Why>(&[("A reason", json!({"why": "wrong invoice"}))])
        .answer::<MessageResponse>(200, "The message is cancelled.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}

/// Rejects this if it could do harm, e.g. send a duplicate.
pub(super) async fn retry(
    State(api): State<ApiState>,
    TenantRead { caller, tenant }: TenantRead,
    PathParams(key): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let RetryTerms { why, may_duplicate } = body::read_json(&headers, &bytes)?;
    let retry = RetryCommand { order: caller.as_operator(why)?, may_duplicate };
    let found = find(&api, tenant, key).await?;
    match message::retry(&*api.state.store, &api.commands()?, found.id, retry).await.map_err(not_done)? {
        RetryAnswer::Single(RetryResult::Queued) => answer_with(&api, &caller, &found).await,
        RetryAnswer::Single(RetryResult::Refused { why }) => Err(ApiRefusal::conflict(&why)),
        RetryAnswer::Digest { .. } => Err(Problem::NotFound.into()),
    }
}

pub(super) fn describe_retry() -> Operation {
    let bodies = [
        ("A reason", json!({"why": "the mailbox has room again"})),
        ("Perhaps twice", json!({"why": "ticket 812", "may_duplicate": true})),
    ];
    Operation::new(TAG, "A message that waits, or that was sent, is a 409.")
        .query(&TenantRead::QUERY)
        .body::<RetryTerms>(&bodies)
        .answer::<MessageResponse>(200, "The message is sent again.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}

async fn find(api: &ApiState, tenant: String, key: String) -> Result<MessageRecord, ApiRefusal> {
    let key = MessageKey::new(tenant, key).map_err(|_| Problem::NotFound)?;
    Ok(api.state.store.message(key.message_id()).await?.ok_or(Problem::NotFound)?)
}

async fn answer_with(api: &ApiState, caller: &ApiCaller, found: &MessageRecord) -> Result<Response, ApiRefusal> {
    let message = api.state.store.message(found.id).await?.ok_or(Problem::NotFound)?;
    Ok(Json(MessageResponse { message: view_of(message, caller) }).into_response())
}

fn submission_refusal(refused: SubmitError) -> ApiRefusal {
    match refused {
        SubmitError::Invalid(invalid) => ApiRefusal::body(invalid),
        SubmitError::UnknownRecipient { .. } => {
            ApiRefusal::with_fault(Problem::UnknownRecipient, "to.user", "is not in the directory")
        }
        SubmitError::Suppressed { reason } => {
            ApiRefusal::with_fault(Problem::Suppressed, "to", format!("is suppressed: {reason}"))
        }
        SubmitError::OtherContent => Problem::OtherContent.into(),
        SubmitError::Template(error) => ApiRefusal::with_fault(Problem::Template, "template", error.to_string()),
        SubmitError::Unsigned(problem) => {
            tracing::error!(problem, "cannot render message");
            Problem::CannotMake.into()
        }
        SubmitError::Directory(_) => Problem::NoDirectory.into(),
        SubmitError::Store(error) => error.into(),
    }
}

fn not_done(error: MessageError) -> ApiRefusal {
    match error {
        MessageError::Command(error) => error.into(),
        MessageError::Store(error) => error.into(),
        MessageError::Unknown(_) | MessageError::Ended { .. } | MessageError::NotInDelivery { .. } => {
            Problem::NotFound.into()
        }
    }
}

/// A message of the outbox.
#[derive(Serialize, ToSchema)]
#[schema(as = Message)]
struct MessageView {
    #[serde(flatten)]
    record: MessageRecord,
    /// The path of the state of a single message; `null` for the message of a digest.
    pub url: Option<String>,
}

/// A message that was handed over.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageAccepted)]
struct AcceptedView {
    pub message: MessageView,
    /// The same message was handed over before.
    pub again: bool,
}

/// A page of messages.
#[derive(Serialize, ToSchema)]
#[schema(as = Messages)]
struct MessagePage {
    pub messages: Vec<MessageView>,
    /// The cursor of the next page, if more rows follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<PageCursor<MessagePlace>>,
}

/// A message with its attempts and the reports of providers.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageStory)]
struct MessageStory {
    pub message: MessageView,
    pub attempts: Vec<AttemptRecord>,
    pub delivery_events: Vec<ReportRecord>,
}

/// A message after a command.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageAfter)]
struct MessageResponse {
    pub message: MessageView,
}

/// Includes the address only if the token has `recipients:read`.
fn view_of(record: MessageRecord, caller: &ApiCaller) -> MessageView {
    let url = message_path(&record.origin, caller);
    let envelope_to = if caller.sees_addresses() { record.envelope_to.clone() } else { String::new() };
    MessageView { record: MessageRecord { envelope_to, ..record }, url }
}

/// `None` for a digest's message.
fn message_path(origin: &MessageOrigin, caller: &ApiCaller) -> Option<String> {
    let MessageOrigin::Single { key, .. } = origin else { return None };
    // Percent-encodes everything, including `/`.
    let text = key.to_string();
    let (tenant, key) = text.split_once('/')?;
    let tenant = if caller.own_tenant.is_none() { format!("?tenant={tenant}") } else { String::new() };
    Some(format!("/v1/messages/{key}{tenant}"))
}
