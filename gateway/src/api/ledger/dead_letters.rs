//! Dead letters: `GET /v1/dead-letters`, `GET /v1/dead-letters/{id}` and `POST /v1/dead-letters/{id}/emit`.
//!
//! A webhook's letter has no tenant, nor does a letter for a workflow whose id is not a key. We show these
//! only to a token for all tenants, and only if the request names no tenant.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Uri},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tidings_client::{Client, Config};
use tidings_model::{
    delivery_events::CheckedDeliveryEvent,
    records::{DeadLetterId, KeptLetter, KeptWebhookLetter, ListPage, WebhookLetterId},
};
use tidings_operations::dead_letters::{
    DeadLetterEntry, DeadLetterError, LetterCursor, LetterEmission, LetterId, ShownLetter, describe_letter,
    emit_events, emit_webhook, list as listed,
};
use utoipa::ToSchema;

use crate::{
    api::{
        ApiState,
        body::{self, Why},
        caller::ApiCaller,
        openapi::operation::{ApiTag, Operation, Query},
        params::{PathParams, QueryParams},
        refusal::ApiRefusal,
    },
    problem::Problem,
    webhooks::{ShownWebhookLetter, read_letter, shown_letter},
};

const LIST: [Query; 8] = [
    Query::Source,
    Query::Tenant,
    Query::DigestType,
    Query::User,
    Query::Since,
    Query::Until,
    Query::Limit,
    Query::After,
];
const FIND: [Query; 1] = [Query::Tenant];
/// How long to wait for Temporal to accept the events.
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) async fn list(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<ListPage<DeadLetterEntry, LetterCursor>>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &LIST)?;
    let source = params.value("source")?;
    let filter = params.filter(&caller)?;
    Ok(Json(listed(&*api.state.store, source, &filter, &params.page()?).await?))
}

pub(crate) fn describe_list() -> Operation {
    Operation::new(
        ApiTag::DeadLetters,
        "The latest letter comes first. Letters of webhooks belong to no tenant: only a token of all tenants \
         finds them.",
    )
    .query(&LIST)
    .page::<DeadLetterEntry>("A page of letters.")
    .link(200, "ShowDeadLetter", "id", "$response.body#/rows/0/id")
}

/// A letter of either source.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterShown)]
#[serde(untagged)]
pub(crate) enum DeadLetterView {
    Events(ShownLetter),
    Webhook(ShownWebhookLetter),
}

/// Shows the effect of emitting a letter, without its payload.
pub(crate) async fn show(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams(id): PathParams<String>,
    uri: Uri,
) -> Result<Json<DeadLetterView>, ApiRefusal> {
    let found = find_letter(&api, &caller, &id, &uri).await?;
    Ok(Json(match found {
        LetterLookup::Events(_, letter) => DeadLetterView::Events(describe_letter(&letter)),
        LetterLookup::Webhook(_, letter) => DeadLetterView::Webhook(shown_letter(&letter, &read_events(&api, &letter))),
    }))
}

pub(crate) fn describe_show() -> Operation {
    Operation::new(ApiTag::DeadLetters, "The payload of a signal is not shown.")
        .query(&FIND)
        .answer::<DeadLetterView>(200, "The letter, and what an emission would do.")
}

pub(crate) async fn emit(
    State(api): State<ApiState>,
    caller: ApiCaller,
    PathParams(id): PathParams<String>,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Json<LetterEmission>, ApiRefusal> {
    let Why { why } = body::read_json(&headers, &bytes)?;
    let order = caller.as_operator(why)?;
    let store = &*api.state.store;
    let emitted = match find_letter(&api, &caller, &id, &uri).await? {
        LetterLookup::Events(id, _) => {
            let config = Config { task_queue: api.task_queue.clone(), deadline: DEADLINE, ..Config::default() };
            emit_events(store, &Client::new(api.temporal()?, config), &id, &order).await
        }
        LetterLookup::Webhook(id, letter) => {
            let emitted = emit_webhook(store, &api.state.settings, &id, read_events(&api, &letter), &order).await;
            if let Ok((_, withdrawn)) = &emitted {
                api.state.wake_windows(withdrawn).await;
            }
            emitted.map(|(emitted, _)| emitted)
        }
    };
    match emitted {
        Ok(emitted) => Ok(Json(emitted)),
        Err(DeadLetterError::Refused { id: LetterId::Webhook(_), why }) => Err(ApiRefusal::conflict(&why)),
        Err(refused @ (DeadLetterError::Emitted { .. } | DeadLetterError::Refused { .. })) => {
            Err(ApiRefusal::conflict(&refused.to_string()))
        }
        Err(DeadLetterError::Unknown(_)) => Err(Problem::NotFound.into()),
        Err(DeadLetterError::Store(error) | DeadLetterError::NotMarked { error, .. }) => Err(error.into()),
        Err(error @ DeadLetterError::NotTaken { .. }) => {
            tracing::warn!(%error, "dead letter was not emitted");
            Err(Problem::NoAnswer.into())
        }
    }
}

pub(crate) fn describe_emit() -> Operation {
    Operation::new(
        ApiTag::DeadLetters,
        "A letter whose fault is fixed is emitted once. A letter that was emitted, or is still malformed, is \
         a 409.",
    )
    .query(&FIND)
    .body::<Why>(&[("A reason", json!({"why": "the producer was corrected"}))])
    .answer::<LetterEmission>(200, "What was emitted.")
    .problem(Problem::Conflict)
    .problem(Problem::NoAnswer)
}

enum LetterLookup {
    Events(DeadLetterId, KeptLetter),
    Webhook(WebhookLetterId, KeptWebhookLetter),
}

async fn find_letter(api: &ApiState, caller: &ApiCaller, id: &str, uri: &Uri) -> Result<LetterLookup, ApiRefusal> {
    let tenant = caller.tenant(QueryParams::from_query(uri, &FIND)?.text("tenant"))?;
    let store = &api.state.store;
    let found = match id.parse() {
        Ok(LetterId::Events(id)) => {
            // A workflow id can start with the tenant's prefix and still not be a key.
            let is_of_key = |letter: &KeptLetter| tenant.is_none() || letter.record.key().is_some();
            store
                .dead_letter(tenant.as_deref(), &id)
                .await?
                .filter(is_of_key)
                .map(|letter| LetterLookup::Events(id, letter))
        }
        Ok(LetterId::Webhook(id)) if tenant.is_none() => {
            store.webhook_letter(&id).await?.map(|letter| LetterLookup::Webhook(id, letter))
        }
        _ => None,
    };
    Ok(found.ok_or(Problem::NotFound)?)
}

fn read_events(api: &ApiState, letter: &KeptWebhookLetter) -> Result<Vec<CheckedDeliveryEvent>, String> {
    let relay = api.state.settings.relays.get(&letter.record.relay);
    read_letter(letter, relay.map(|relay| relay.provider), Timestamp::now())
}
