//! `POST /v1/events`: events and retracts, with a result for each of them.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use tidings_model::inbox::{Item, Kind};
use utoipa::ToSchema;

use super::{
    Api,
    caller::Caller,
    idempotency_key,
    refusal::{Fault, Refusal},
};
use crate::problem::Problem;

pub(super) mod body;
pub(super) mod operations;
mod read;
mod zstd;

pub(super) use body::BODY_BYTES;
use read::Read;

/// Refused items that an answer without any accepted item names.
const ERRORS: usize = 100;

/// The outcome of each item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventResults)]
struct Answer {
    accepted: usize,
    duplicates: usize,
    refused: usize,
    /// One for each item: the events first, in their order, and then the retracts.
    results: Vec<Outcome>,
}

/// The outcome of an item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventResult)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Outcome {
    /// The item is durable.
    Accepted { event_id: String },
    /// The request has an event of this key and id before.
    Duplicate { event_id: String },
    /// The item breaks a rule of the contract.
    Refused {
        event_id: String,
        #[serde(flatten)]
        why: Fault,
    },
}

/// A refused item of a request without any accepted one.
#[derive(Debug, Serialize)]
struct Error {
    index: usize,
    #[serde(flatten)]
    why: Fault,
}

/// Answers 202 if all items are durable, 200 if some were refused, and 400 if none was accepted.
pub(super) async fn post(State(api): State<Api>, caller: Caller, headers: HeaderMap, bytes: Bytes) -> Response {
    match accept(&api, &caller, &headers, &bytes).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn accept(api: &Api, caller: &Caller, headers: &HeaderMap, bytes: &[u8]) -> Result<Response, Refusal> {
    let kind = body::Kind::of(headers)?;
    let bytes = body::decoded(headers, bytes)?;
    let key = match idempotency_key::read(headers) {
        Ok(key) => key,
        Err(why) => return Err(Refusal::header(why)),
    };
    let (items, outcomes) = sorted(read::items(kind, &bytes, caller, key)?);
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused { .. })).count();
    if items.is_empty() {
        return Ok(Problem::NothingAccepted.with_errors(&errors(outcomes)));
    }
    let accepted = items.len();
    api.inbox.receive(items, Timestamp::now()).await?;
    let duplicates = outcomes.len() - accepted - refused;
    let status = if refused == 0 { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(Answer { accepted, duplicates, refused, results: outcomes })).into_response())
}

/// The items to store, and the outcome of all.
fn sorted(read: Vec<Read>) -> (Arc<[Item]>, Vec<Outcome>) {
    let mut seen = HashSet::new();
    let (mut items, mut outcomes) = (Vec::with_capacity(read.len()), Vec::with_capacity(read.len()));
    for Read { event_id, result } in read {
        outcomes.push(match result {
            Err(why) => Outcome::Refused { event_id, why },
            Ok(item) if item.kind == Kind::Event && !seen.insert((item.key.clone(), event_id.clone())) => {
                Outcome::Duplicate { event_id }
            }
            Ok(item) => {
                items.push(item);
                Outcome::Accepted { event_id }
            }
        });
    }
    (items.into(), outcomes)
}

fn errors(outcomes: Vec<Outcome>) -> Vec<Error> {
    let refused = outcomes.into_iter().enumerate().filter_map(|(index, outcome)| match outcome {
        Outcome::Refused { why, .. } => Some(Error { index, why }),
        _ => None,
    });
    refused.take(ERRORS).collect()
}
