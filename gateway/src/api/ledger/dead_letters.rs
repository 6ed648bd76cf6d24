//! Dead letters: `GET /v1/dead-letters`, `GET /v1/dead-letters/{id}` and `POST /v1/dead-letters/{id}/emit`.
//!
//! A letter of a webhook belongs to no tenant, nor does a letter to a workflow whose id stands for no key. Only a token for all
//! tenants that names none finds them.

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
use tidings_activities::{
    delivery_events::Received,
    operations::dead_letters::{
        Emission, Error, LetterId, ShownLetter, emit as emit_events,
        list::{EventsOf, Filter, Letter, Place, Source, list as listed},
        shown,
        webhook::{self, Error as WebhookError},
    },
};
use tidings_client::{Client, Config};
use tidings_model::{
    command::Order,
    delivery_events::Reported,
    records::{DeadLetterId, KeptLetter, KeptWebhookLetter, Listed, WebhookLetterId},
};
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        body::{self, Why},
        caller::Caller,
        openapi::{
            operation::{Operation, Tag},
            parameter::Query,
        },
        params::Params,
        path::Named,
        refusal::Refusal,
    },
    problem::Problem,
    tell,
    webhooks::{ShownWebhookLetter, read_letter, shown_letter},
};

const LIST: [Query; 8] =
    [Query::Source, Query::Tenant, Query::Type, Query::User, Query::Since, Query::Until, Query::Limit, Query::After];
const FIND: [Query; 1] = [Query::Tenant];
/// Time for Temporal to take the events of a letter.
const DEADLINE: Duration = Duration::from_secs(10);

/// Lists dead letters, the latest first.
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Listed<Letter, Place>>, Refusal> {
    let now = Timestamp::now();
    let mut params = Params::read(&uri, &LIST)?;
    let source = params.one_of("source", &Source::ALL, Source::name)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let of = EventsOf { tenant, digest_type: params.text("type"), user: params.text("user") };
    let span = [params.moment("since", now)?, params.moment("until", now)?];
    let filter = Filter::new(source, of, span, params.page()?);
    Ok(Json(listed(&*api.state.store, &filter).await?))
}

pub(crate) fn describe_list() -> Operation {
    Operation::new(
        Tag::DeadLetters,
        "The latest letter comes first. Letters of webhooks belong to no tenant: only a token of all tenants \
         finds them.",
    )
    .query(&LIST)
    .page::<Letter>("A page of letters.")
    .link(200, "ShowDeadLetter", "id", "$response.body#/rows/0/id")
}

/// A letter of either source.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterShown)]
#[serde(untagged)]
pub(crate) enum Shown {
    Events(ShownLetter),
    Webhook(ShownWebhookLetter),
}

/// The emission of a webhook's letter.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookEmission {
    /// The letter.
    #[schema(value_type = String)]
    id: WebhookLetterId,
    /// Reports that were recorded.
    new: usize,
    /// Reports that were known.
    again: usize,
    /// Reports about messages that no relay was given.
    unknown: usize,
    /// Reports about messages that another relay was given.
    foreign: usize,
}

/// The emission of a letter of either source.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterEmitted)]
#[serde(untagged)]
pub(crate) enum Emitted {
    Events(Emission),
    Webhook(WebhookEmission),
}

/// Shows a letter without its payload, and what an emission would do.
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Json<Shown>, Refusal> {
    let found = find(&api, &caller, &id, &uri).await?;
    Ok(Json(match found {
        Found::Events(_, letter) => Shown::Events(shown(&letter)),
        Found::Webhook(_, letter) => Shown::Webhook(shown_letter(&letter, &read(&api, &letter))),
    }))
}

pub(crate) fn describe_show() -> Operation {
    Operation::new(Tag::DeadLetters, "The payload of a signal is not shown.")
        .query(&FIND)
        .answer::<Shown>(200, "The letter, and what an emission would do.")
}

/// Emits a letter once.
pub(crate) async fn emit(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Json<Emitted>, Refusal> {
    let Why { why } = body::read(&headers, &bytes)?;
    let order = caller.order(why)?;
    match find(&api, &caller, &id, &uri).await? {
        Found::Events(id, _) => emit_events_of(&api, &id, &order).await,
        Found::Webhook(id, letter) => emit_webhook(&api, &id, &letter, &order).await,
    }
}

pub(crate) fn describe_emit() -> Operation {
    Operation::new(
        Tag::DeadLetters,
        "A letter whose fault is fixed is emitted once. A letter that was emitted, or is still malformed, is \
         a 409.",
    )
    .query(&FIND)
    .body::<Why>(&[("A reason", json!({"why": "the producer was corrected"}))])
    .answer::<Emitted>(200, "What was emitted.")
    .problem(Problem::Conflict)
    .problem(Problem::NoAnswer)
}

enum Found {
    Events(DeadLetterId, KeptLetter),
    Webhook(WebhookLetterId, KeptWebhookLetter),
}

async fn find(api: &Api, caller: &Caller, id: &str, uri: &Uri) -> Result<Found, Refusal> {
    let tenant = caller.tenant(Params::read(uri, &FIND)?.text("tenant"))?;
    let store = &api.state.store;
    let found = match id.parse() {
        Ok(LetterId::Events(id)) => {
            // A workflow id may begin like those of a tenant, and stand for no key.
            let is_of_key = |letter: &KeptLetter| tenant.is_none() || letter.record.key().is_some();
            store.dead_letter(tenant.as_deref(), &id).await?.filter(is_of_key).map(|letter| Found::Events(id, letter))
        }
        Ok(LetterId::Webhook(id)) if tenant.is_none() => {
            store.webhook_letter(&id).await?.map(|letter| Found::Webhook(id, letter))
        }
        _ => None,
    };
    Ok(found.ok_or(Problem::NotFound)?)
}

/// The events that this version reads in a letter of a webhook.
fn read(api: &Api, letter: &KeptWebhookLetter) -> Result<Vec<Reported>, String> {
    let relay = api.state.settings.relays.get(&letter.record.relay);
    read_letter(letter, relay.map(|relay| relay.provider), Timestamp::now())
}

async fn emit_events_of(api: &Api, id: &DeadLetterId, order: &Order) -> Result<Json<Emitted>, Refusal> {
    let config = Config { task_queue: api.task_queue.clone(), deadline: DEADLINE, ..Config::default() };
    let client = Client::new(api.temporal()?, config);
    match emit_events(&*api.state.store, &client, id, order).await {
        Ok(sent) => Ok(Json(Emitted::Events(sent.of(id)))),
        Err(refused @ (Error::Emitted { .. } | Error::Refused { .. })) => Err(Refusal::conflict(&refused.to_string())),
        Err(Error::Unknown(_)) => Err(Problem::NotFound.into()),
        Err(Error::Store(error) | Error::NotMarked { error, .. }) => Err(error.into()),
        Err(error @ Error::NotTaken { .. }) => {
            tracing::warn!(%error, "a dead letter was not emitted");
            Err(Problem::NoAnswer.into())
        }
    }
}

async fn emit_webhook(
    api: &Api,
    id: &WebhookLetterId,
    letter: &KeptWebhookLetter,
    order: &Order,
) -> Result<Json<Emitted>, Refusal> {
    let events = read(api, letter).map_err(|why| Refusal::conflict(&why))?;
    match webhook::emit(&*api.state.store, &api.state.settings, id, events, order).await {
        Ok(received) => {
            let Received { new, again, unknown, foreign, withdrawn } = received;
            tell::open_windows(&api.state, &Vec::from_iter(withdrawn)).await;
            Ok(Json(Emitted::Webhook(WebhookEmission { id: id.clone(), new, again, unknown, foreign })))
        }
        Err(refused @ WebhookError::Emitted { .. }) => Err(Refusal::conflict(&refused.to_string())),
        Err(WebhookError::Unknown(_)) => Err(Problem::NotFound.into()),
        Err(WebhookError::Store(error)) => Err(error.into()),
    }
}
