//! `POST /v1/events`: events and retracts, with a result for each of them.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use tidings_model::{
    inbox::{Item, Kind},
    records::PersonId,
    settings::UnknownRecipients,
};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::{
    Api,
    caller::Caller,
    idempotency_key,
    refusal::{Fault, Refusal},
};
use crate::{parsing, problem::Problem};

pub(super) mod body;
pub(super) mod operations;
mod read;
mod zstd;

pub(super) use body::BODY_BYTES;
use read::{Checked, Checks, Read, Refused};

/// Time for the directory's answer. Warnings are worth no longer wait: the events are durable by then.
const DIRECTORY_TIME: Duration = Duration::from_millis(500);

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
struct Outcome {
    status: Status,
    event_id: String,
    /// The problem of a refused item, where it has one of its own: `/problems/unknown-digest`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The wrong field of a refused item, as the contract names it; empty for the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What is wrong in a refused item.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What looks like a mistake in an accepted item.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = EventStatus)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// The item is durable.
    Accepted,
    /// The request has an event of this key and id before.
    Duplicate,
    /// The item breaks a rule of the contract.
    Refused,
}

/// A refused item of a request without any accepted one.
#[derive(Debug, Serialize)]
struct Error {
    index: usize,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(flatten)]
    why: Fault,
}

/// The items of a request by what becomes of them.
struct Sorted {
    /// The accepted items.
    items: Arc<[Item]>,
    /// The outcome of each item.
    outcomes: Vec<Outcome>,
    /// Each item is refused for this reason. `None`: for several ones, or not all are refused.
    problem: Option<Problem>,
}

/// Answers 202 if all items are durable, 200 if some were refused, and 400 or 422 if none was accepted.
pub(super) async fn post(State(api): State<Api>, caller: Caller, headers: HeaderMap, bytes: Bytes) -> Response {
    match accept(&api, caller, headers, bytes).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn accept(api: &Api, caller: Caller, headers: HeaderMap, bytes: Bytes) -> Result<Response, Refusal> {
    let length = body::longest(&headers, &bytes);
    let (settings, now) = (api.state.settings.clone(), Timestamp::now());
    let reading = move || {
        let kind = body::Kind::of(&headers)?;
        let plain = body::decoded(&headers, &bytes)?;
        let key = idempotency_key::read(&headers).map_err(Refusal::header)?;
        let read = read::items(kind, &plain, Checks { caller: &caller, key, settings: &settings, now })?;
        if read.is_empty() {
            return Err(Refusal::of(Problem::NothingAccepted, "", "has no event and no retract; send at least one"));
        }
        Ok(sorted(read))
    };
    let Sorted { items, mut outcomes, problem } = parsing::run(length, reading).await??;
    if items.is_empty() {
        return Ok(problem.unwrap_or(Problem::NothingAccepted).with_errors(&errors(outcomes)));
    }
    let (received, strangers) = tokio::join!(api.inbox.receive(items.clone(), now), strangers(api, &items));
    received?;
    warn_of(&strangers, &items, &mut outcomes);
    let count = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    let (accepted, duplicates, refused) = (count(Status::Accepted), count(Status::Duplicate), count(Status::Refused));
    let status = if refused == 0 { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(Answer { accepted, duplicates, refused, results: outcomes })).into_response())
}

fn sorted(read: Vec<Read>) -> Sorted {
    let mut seen = HashSet::new();
    let (mut items, mut outcomes) = (Vec::with_capacity(read.len()), Vec::with_capacity(read.len()));
    let problem_of = |read: &Read| read.result.as_ref().err().and_then(|why| why.problem);
    let first = read.first().and_then(problem_of);
    let problem = first.filter(|_| read.iter().all(|read| problem_of(read) == first));
    for Read { event_id, result } in read {
        outcomes.push(match result {
            Err(why) => Outcome::refused(event_id, why),
            Ok(Checked { item, .. })
                if item.kind == Kind::Event && !seen.insert((item.key.clone(), event_id.clone())) =>
            {
                Outcome::new(Status::Duplicate, event_id, Vec::new())
            }
            Ok(Checked { item, warnings }) => {
                items.push(item);
                Outcome::new(Status::Accepted, event_id, warnings)
            }
        });
    }
    Sorted { items: items.into(), outcomes, problem }
}

impl Outcome {
    fn new(status: Status, event_id: String, warnings: Vec<Fault>) -> Self {
        Self { status, event_id, kind: None, field: None, problem: None, warnings }
    }

    fn refused(event_id: String, Refused { fault: Fault { field, problem }, problem: kind }: Refused) -> Self {
        let (field, problem) = (Some(field), Some(problem));
        Self { kind: kind.map(Problem::address), field, problem, ..Self::new(Status::Refused, event_id, Vec::new()) }
    }
}

/// The recipients of events whom the directory does not have, as far as this gateway can know: a team's own directory is not asked,
/// and on a laptop everyone is known.
async fn strangers(api: &Api, items: &[Item]) -> BTreeSet<PersonId> {
    let state = &api.state;
    if state.directory.is_some() || state.settings.unknown_recipients == UnknownRecipients::Invent {
        return BTreeSet::new();
    }
    let people = items.iter().filter(|item| item.kind == Kind::Event).map(|item| PersonId::of(&item.key)).collect();
    match timeout(DIRECTORY_TIME, state.store.strangers(&people)).await {
        Ok(Ok(strangers)) => strangers,
        Ok(Err(error)) => {
            tracing::debug!(%error, "events are accepted without a look at the directory");
            BTreeSet::new()
        }
        Err(_) => BTreeSet::new(),
    }
}

/// Adds a warning to each accepted event for one of the strangers.
fn warn_of(strangers: &BTreeSet<PersonId>, items: &[Item], outcomes: &mut [Outcome]) {
    let accepted = outcomes.iter_mut().filter(|outcome| outcome.status == Status::Accepted);
    for (outcome, item) in accepted.zip(items) {
        if item.kind == Kind::Event && strangers.contains(&PersonId::of(&item.key)) {
            let problem = "is not in the directory; put the user there within seven days, or the digest is not sent";
            outcome.warnings.push(Fault::new("user", problem));
        }
    }
}

fn errors(outcomes: Vec<Outcome>) -> Vec<Error> {
    let refused = outcomes.into_iter().enumerate().filter_map(|(index, outcome)| {
        let why = Fault { field: outcome.field?, problem: outcome.problem? };
        Some(Error { index, kind: outcome.kind, why })
    });
    refused.take(ERRORS).collect()
}
