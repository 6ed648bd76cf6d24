//! `POST /v1/events` accepts events and retracts, and returns a result for each.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use tidings_model::{
    Event, EventContent, EventRepetition, Key, PersonId, Retract,
    inbox::{InboxItem, InboxItemKind},
    records::{RetractEffect, RetractReach},
    settings::UnknownRecipients,
    wire,
};
use tidings_operations::digest::take_back;
use tokio::time::{Instant, timeout, timeout_at};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    ApiState,
    caller::ApiCaller,
    idempotency_key,
    refusal::{ApiRefusal, Fault},
};
use crate::{problem::Problem, request_body};

pub(super) mod body;
pub(super) mod operations;
mod read;

pub(super) use body::BODY_BYTES;
use read::{ItemChecks, ItemRefusal, ParsedItem, ValidItem};

/// Response header that confirms `Prefer: handling=strict`.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const STRICT: HeaderValue = HeaderValue::from_static("handling=strict");

/// Time limit for warnings from the directory and the ledger, because the events are already durable.
const DIRECTORY_TIME: Duration = Duration::from_millis(500);

/// Time limit for the ledger's results about retracts, which are already durable.
const LEDGER_TIME: Duration = Duration::from_secs(2);

/// Most retracts, and most changed events, looked up in the ledger per request.
const RETRACTS: usize = 500;

/// Most errors in a response if nothing was accepted.
const ERRORS: usize = 100;

/// The outcome of each item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventResults)]
struct EventsResponse {
    accepted: usize,
    duplicates: usize,
    refused: usize,
    /// One for each item: the events first, in their order, and then the retracts.
    results: Vec<EventResult>,
}

/// The outcome of an item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventResult)]
struct EventResult {
    status: EventStatus,
    event_id: String,
    /// What the ledger knows of the event's id, if a digest that is over has it and the ledger answers in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<EventRepetition>,
    /// The problem of a refused item, where it has one of its own: `/problems/unknown-digest`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The wrong field of a refused item, as the contract names it; empty for the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What is wrong in a refused item.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What an accepted retract reaches at this moment: no message (`pending`), one that waits and is made again (`waiting`), or one that
    /// went out before (`sent`). Absent where the ledger does not say so in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<RetractReach>,
    /// The digest of the message that a retract reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest_id: Option<Uuid>,
    /// The time when that digest was claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<Timestamp>,
    /// What looks like a mistake in an accepted item.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = EventStatus)]
#[serde(rename_all = "snake_case")]
enum EventStatus {
    /// The item is durable.
    Accepted,
    /// The same event came before in the request; or the id is that of an event that is over, and `result` says if the content is.
    Duplicate,
    /// The item breaks a rule of the contract.
    Refused,
}

/// Used if no item was accepted.
#[derive(Debug, Serialize)]
struct EventItemError {
    index: usize,
    /// Empty if the id is unreadable.
    #[serde(skip_serializing_if = "String::is_empty")]
    event_id: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(flatten)]
    why: Fault,
}

struct SortedItems {
    items: Arc<[InboxItem]>,
    outcomes: Vec<EventResult>,
    /// Accepted events, each with its index in `outcomes`.
    events: Vec<(usize, (Key, String, EventContent))>,
    /// Set if every item has this problem.
    problem: Option<Problem>,
}

/// Returns 202 if all items are durable, 200 if some were rejected, and 400 or 422 if none was accepted. With
/// `Prefer: handling=strict`, changed content for a finished event rejects the whole request with 409.
pub(super) async fn post(State(api): State<ApiState>, caller: ApiCaller, headers: HeaderMap, bytes: Bytes) -> Response {
    match accept_events(&api, caller, headers, bytes).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn accept_events(
    api: &ApiState,
    caller: ApiCaller,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let length = body::max_length(&headers, &bytes);
    let is_strict = prefers_strict(&headers);
    let (settings, now) = (api.state.settings.clone(), Timestamp::now());
    let reading = move || {
        let kind = body::BodyFormat::from_headers(&headers)?;
        let plain = body::decode_body(&headers, &bytes)?;
        let key = idempotency_key::read_header(&headers).map_err(ApiRefusal::header)?;
        let read = read::items(kind, &plain, ItemChecks { caller: &caller, key, settings: &settings, now })?;
        if read.is_empty() {
            return Err(ApiRefusal::with_fault(
                Problem::NothingAccepted,
                "",
                "has no event and no retract; send at least one",
            ));
        }
        Ok(sort_items(read))
    };
    let SortedItems { items, mut outcomes, events, problem } = request_body::run_bounded(length, reading).await??;
    if items.is_empty() {
        return Ok(problem.unwrap_or(Problem::NothingAccepted).with_errors(&errors(outcomes)));
    }
    let (places, events): (Vec<_>, Vec<_>) = events.into_iter().unzip();
    let known = if is_strict { Some(known_repetitions(api, &events).await?) } else { None };
    let other_contents = other_contents(&places, known.as_deref().unwrap_or_default(), &outcomes);
    if !other_contents.is_empty() {
        return Ok(Problem::OtherContent.with_errors(&other_contents));
    }
    let (received, strangers, mut known) =
        tokio::join!(api.inbox.receive(items.clone(), now), unknown_recipients(api, &items), async {
            if let Some(known) = known { known } else { find_repetitions(api, &events).await }
        },);
    received?;
    warn_of(&strangers, &items, &mut outcomes);
    tell_reached(api, &items, &mut outcomes, now).await;
    take_contents(api, &items, &outcomes, (&places, &mut known), now).await;
    name_repetitions(&places, &known, &mut outcomes);
    let count = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    let (accepted, duplicates, refused) =
        (count(EventStatus::Accepted), count(EventStatus::Duplicate), count(EventStatus::Refused));
    let status = if refused == 0 { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response =
        (status, Json(EventsResponse { accepted, duplicates, refused, results: outcomes })).into_response();
    if is_strict {
        response.headers_mut().insert(PREFERENCE_APPLIED, STRICT);
    }
    Ok(response)
}

/// RFC 7240, section 4.4.
fn prefers_strict(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").into_iter().filter_map(|value| value.to_str().ok());
    let preferences = values.flat_map(|value| value.split(','));
    let names = preferences.filter_map(|preference| preference.split(';').next());
    names.map(|name| name.replace(['"', ' ', '\t'], "")).any(|name| name.eq_ignore_ascii_case("handling=strict"))
}

fn sort_items(read: Vec<ParsedItem>) -> SortedItems {
    let (mut seen, mut events) = (HashSet::new(), Vec::new());
    let (mut items, mut outcomes) = (Vec::with_capacity(read.len()), Vec::with_capacity(read.len()));
    let problem_of = |read: &ParsedItem| read.result.as_ref().err().and_then(|why| why.problem);
    let first = read.first().and_then(problem_of);
    let problem = first.filter(|_| read.iter().all(|read| problem_of(read) == first));
    for ParsedItem { event_id, result } in read {
        outcomes.push(match result {
            Err(why) => EventResult::from_refusal(event_id, why),
            Ok(ValidItem { item, content: Some(content), .. })
                if !seen.insert((item.key.clone(), event_id.clone(), content.sha256.clone())) =>
            {
                EventResult::new(EventStatus::Duplicate, event_id, Vec::new())
            }
            Ok(ValidItem { item, content, warnings }) => {
                let event = content.map(|content| (item.key.clone(), event_id.clone(), content));
                events.extend(event.map(|event| (outcomes.len(), event)));
                items.push(item);
                EventResult::new(EventStatus::Accepted, event_id, warnings)
            }
        });
    }
    SortedItems { items: items.into(), outcomes, events, problem }
}

impl EventResult {
    fn new(status: EventStatus, event_id: String, warnings: Vec<Fault>) -> Self {
        let (kind, field, problem, reached, digest_id, claimed_at) = (None, None, None, None, None, None);
        Self { status, event_id, result: None, kind, field, problem, reached, digest_id, claimed_at, warnings }
    }

    fn from_refusal(
        event_id: String,
        ItemRefusal { fault: Fault { field, problem }, problem: kind }: ItemRefusal,
    ) -> Self {
        let (field, problem) = (Some(field), Some(problem));
        Self {
            kind: kind.map(Problem::type_path),
            field,
            problem,
            ..Self::new(EventStatus::Refused, event_id, Vec::new())
        }
    }
}

/// Returns recipients missing in our directory. This is empty if the team has its own directory, which we
/// should not query here, or if unknown recipients are invented.
async fn unknown_recipients(api: &ApiState, items: &[InboxItem]) -> BTreeSet<PersonId> {
    let state = &api.state;
    if state.directory.is_some() || state.settings.unknown_recipients == UnknownRecipients::Invent {
        return BTreeSet::new();
    }
    let people = items
        .iter()
        .filter(|item| item.kind == InboxItemKind::Event)
        .map(|item| PersonId::from_key(&item.key))
        .collect();
    match timeout(DIRECTORY_TIME, state.store.unknown_people(&people)).await {
        Ok(Ok(strangers)) => strangers,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot look up recipients; events accepted without warnings");
            BTreeSet::new()
        }
        Err(_) => BTreeSet::new(),
    }
}

/// If this fails, the key's workflow will still compare the content.
async fn find_repetitions(api: &ApiState, events: &[(Key, String, EventContent)]) -> Vec<Option<EventRepetition>> {
    match timeout(DIRECTORY_TIME, known_repetitions(api, events)).await {
        Ok(Ok(known)) => known,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot look up event ids in the ledger; events accepted");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

async fn known_repetitions(
    api: &ApiState,
    events: &[(Key, String, EventContent)],
) -> Result<Vec<Option<EventRepetition>>, tidings_store::StoreError> {
    let names = &api.state.settings.names;
    let asked = events.iter().enumerate().flat_map(|(place, (key, id, content))| {
        names.all_keys(key).into_iter().map(move |key| (place, (key, id.clone(), content.clone())))
    });
    let (places, asked): (Vec<_>, Vec<_>) = asked.unzip();
    let mut known = vec![None; events.len()];
    for (place, repetition) in places.into_iter().zip(api.state.store.find_repetitions(&asked).await?) {
        if let Some(known) = known.get_mut(place) {
            *known = known.or(repetition);
        }
    }
    Ok(known)
}

fn name_repetitions(places: &[usize], known: &[Option<EventRepetition>], outcomes: &mut [EventResult]) {
    for (place, repetition) in places.iter().zip(known) {
        let (Some(repetition), Some(outcome)) = (repetition, outcomes.get_mut(*place)) else { continue };
        outcome.result = Some(*repetition);
        if matches!(repetition, EventRepetition::Same | EventRepetition::Refused) {
            outcome.status = EventStatus::Duplicate;
        }
    }
}

/// Lists events with changed content whose original is already finished.
fn other_contents(
    places: &[usize],
    known: &[Option<EventRepetition>],
    outcomes: &[EventResult],
) -> Vec<EventItemError> {
    let refused = places.iter().zip(known).filter(|(_, known)| **known == Some(EventRepetition::Refused));
    let problem = format!("{}; send it under an id of its own", EventRepetition::Refused);
    let refused = refused.filter_map(|(&index, _)| Some((index, outcomes.get(index)?.event_id.clone())));
    let errors = refused.map(|(index, event_id)| EventItemError {
        index,
        event_id,
        kind: None,
        why: Fault::new("event_id", problem.clone()),
    });
    errors.take(ERRORS).collect()
}

fn warn_of(strangers: &BTreeSet<PersonId>, items: &[InboxItem], outcomes: &mut [EventResult]) {
    let accepted = outcomes.iter_mut().filter(|outcome| outcome.status == EventStatus::Accepted);
    for (outcome, item) in accepted.zip(items) {
        if item.kind == InboxItemKind::Event && strangers.contains(&PersonId::from_key(&item.key)) {
            let problem = "is not in the directory; put the user there within seven days, or the digest is not sent";
            outcome.warnings.push(Fault::new("user", problem));
        }
    }
}

/// Adds the effect of each accepted retract. This first blocks a waiting message, because its workflow may be
/// at an attempt while the retract is still in the inbox.
async fn tell_reached(api: &ApiState, items: &[InboxItem], outcomes: &mut [EventResult], now: Timestamp) {
    let accepted = outcomes.iter_mut().filter(|outcome| outcome.status == EventStatus::Accepted);
    let retracts = accepted.zip(items).filter(|(_, item)| item.kind == InboxItemKind::Retract).take(RETRACTS);
    let (outcomes, retracts): (Vec<_>, Vec<_>) =
        retracts.filter_map(|(outcome, item)| Some((outcome, retract(item)?))).unzip();
    if retracts.is_empty() {
        return;
    }
    match timeout(LEDGER_TIME, take_back(&*api.state.store, &retracts, now)).await {
        Ok(Ok(reached)) => {
            for (outcome, RetractEffect { reach, digest }) in outcomes.into_iter().zip(reached) {
                outcome.reached = Some(reach);
                (outcome.digest_id, outcome.claimed_at) = digest.map_or((None, None), |(id, at)| (Some(id), at));
            }
        }
        Ok(Err(error)) => tracing::debug!(%error, "cannot look up retracts in the ledger; retracts accepted"),
        Err(_) => tracing::debug!("ledger lookup timed out; retracts accepted"),
    }
}

/// Stores changed content for waiting messages before we confirm it; the key's workflow will read the event
/// once the message is finished. A late change is rejected. If the ledger is too slow, there is no result.
async fn take_contents(
    api: &ApiState,
    items: &[InboxItem],
    outcomes: &[EventResult],
    (places, known): (&[usize], &mut [Option<EventRepetition>]),
    now: Timestamp,
) {
    let accepted = outcomes.iter().enumerate().filter(|(_, outcome)| outcome.status == EventStatus::Accepted);
    let items: BTreeMap<_, _> = accepted.map(|(place, _)| place).zip(items).collect();
    let replacing = places.iter().zip(known).filter(|(_, known)| **known == Some(EventRepetition::Replaces));
    let deadline = Instant::now() + LEDGER_TIME;
    for (taken, (place, known)) in replacing.enumerate() {
        *known = None;
        let Some((key, event)) = items.get(place).filter(|_| taken < RETRACTS).and_then(|item| event(item)) else {
            continue;
        };
        match timeout_at(deadline, api.state.store.take_content(&key, &event, now)).await {
            Ok(Ok(true)) => *known = Some(EventRepetition::Replaces),
            Ok(Ok(false)) => *known = Some(EventRepetition::Refused),
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot update the waiting message; event accepted");
            }
            Err(_) => {}
        }
    }
}

fn event(item: &InboxItem) -> Option<(Key, Event)> {
    let wire = wire::parse_event(item.json.as_bytes()).ok()?;
    Event::from_wire(wire, Some(&item.key)).ok()
}

fn retract(item: &InboxItem) -> Option<(Key, Retract)> {
    let wire = wire::parse_retract(item.json.as_bytes()).ok()?;
    Retract::from_wire(wire, Some(&item.key)).ok()
}

fn errors(outcomes: Vec<EventResult>) -> Vec<EventItemError> {
    let refused = outcomes.into_iter().enumerate().filter_map(|(index, outcome)| {
        let why = Fault { field: outcome.field?, problem: outcome.problem? };
        Some(EventItemError { index, event_id: outcome.event_id, kind: outcome.kind, why })
    });
    refused.take(ERRORS).collect()
}
