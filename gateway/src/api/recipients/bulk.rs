//! `POST /v1/recipients`: many rows of the directory, with a result for each of them.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tidings_activities::{operations::rows::Row, recipients};
use tidings_model::{Key, PersonId, records::RecipientChange, settings::Settings};
use tokio::time::sleep;
use utoipa::ToSchema;

use super::{TAG, audit, writable};
use crate::{
    State as Shared,
    api::{
        Api,
        caller::Caller,
        events,
        openapi::operation::Operation,
        params::Params,
        refusal::{Fault, Refusal},
        tenant::{Change, order},
    },
    parsing,
    problem::Problem,
    tell,
};

mod rows;

/// Rows that go to the store together.
const BATCH: usize = 500;
/// Keys that are signalled together after a change of zones, and the pause after them.
const TOLD: usize = 32;
const PAUSE: Duration = Duration::from_millis(320);
/// Refused rows that an answer without any accepted row names.
const ERRORS: usize = 100;

/// The outcome of each row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RowResults)]
pub(super) struct Answer {
    accepted: usize,
    refused: usize,
    /// One for each row, in order.
    results: Vec<Outcome>,
}

/// The outcome of a row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RowResult)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Outcome {
    Accepted { user: String },
    Refused(Wrong),
}

/// A refused row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WrongRow)]
struct Wrong {
    /// Counted from 1; the first line of CSV is line 1.
    line: u64,
    #[serde(flatten)]
    why: Fault,
}

/// Answers 200 with the outcome of each row, or 400 if none was accepted.
pub(crate) async fn post(
    State(api): State<Api>,
    caller: Caller,
    parts: Parts,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let mut params = Params::read(&parts.uri, &Change::QUERY)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let order = order(&parts, &caller, &mut params)?;
    writable(&api)?;
    let length = events::body::longest(&parts.headers, &bytes);
    let settings = api.state.settings.clone();
    let reading = move || read(&parts.headers, &bytes, tenant.as_deref(), &caller, &settings);
    let (people, results) = parsing::run(length, reading).await??;
    if people.is_empty() {
        let wrong = results.into_iter().filter_map(|result| match result {
            Outcome::Refused(wrong) => Some(wrong),
            Outcome::Accepted { .. } => None,
        });
        return Ok(Problem::NothingAccepted.with_errors(&wrong.take(ERRORS).collect::<Vec<_>>()));
    }
    for (tenant, count) in counted(&people) {
        let person = PersonId { tenant, user: String::new() };
        audit(&api, &person, &order, &format!("recipients_put {count}")).await?;
    }
    let mut moved = Vec::new();
    for batch in people.chunks(BATCH) {
        moved.extend(api.state.store.change_recipients(batch, Timestamp::now()).await?);
    }
    let keys = recipients::keys_of(&moved, &api.state.settings);
    tokio::spawn(tell_all(api.state.clone(), keys));
    let (accepted, refused) = (people.len(), results.len() - people.len());
    Ok((StatusCode::OK, Json(Answer { accepted, refused, results })).into_response())
}

pub(crate) fn describe_post() -> Operation {
    let text = json!({"type": "string"});
    let lines =
        "{\"user\": \"ann\", \"address\": \"ann@example.net\"}\n{\"user\": \"bo\", \"address\": \"bo@example.net\"}\n";
    let table = "user,address,zone\nann,ann@example.net,Europe/Berlin\n";
    Operation::new(
        TAG,
        "NDJSON, or CSV with the columns user, address, and optionally tenant, name, zone and locale: 1 MiB \
         and 10,000 rows. What a row does not have stays as it is, and an empty value or a null clears it. Content-Encoding may be gzip or \
         zstd.",
    )
    .query(&Change::QUERY)
    .content("application/x-ndjson", &text, &[("Two people", json!(lines))])
    .content("text/csv", &text, &[("A table", json!(table))])
    .answer::<Answer>(200, "At least one row is stored. Each row has a result.")
    .problem(Problem::Conflict)
}

/// The people to store, and the outcome of each row.
fn read(
    headers: &HeaderMap,
    bytes: &[u8],
    tenant: Option<&str>,
    caller: &Caller,
    settings: &Settings,
) -> Result<(Vec<RecipientChange>, Vec<Outcome>), Refusal> {
    let plain = events::body::decoded(headers, bytes)?;
    parsing::bound_values(&plain, parsing::VALUES).map_err(Refusal::unreadable)?;
    let (mut people, mut results) = (Vec::new(), Vec::new());
    for (line, row) in rows::read(headers, &plain)? {
        match row.and_then(|row| recipient(&row, tenant, caller, settings)) {
            Ok(person) => {
                results.push(Outcome::Accepted { user: person.user.clone() });
                people.push(person);
            }
            Err(why) => results.push(Outcome::Refused(Wrong { line, why })),
        }
    }
    Ok((people, results))
}

/// Checks a row. It names a tenant, or is of the request's.
fn recipient(row: &Row, tenant: Option<&str>, caller: &Caller, settings: &Settings) -> Result<RecipientChange, Fault> {
    let own = row.get("tenant").unwrap_or_default();
    let tenant = if own.is_empty() { tenant.unwrap_or_default().to_owned() } else { own };
    if !tenant.is_empty() && caller.tenant(Some(tenant.clone())).is_err() {
        return Err(Fault::new("tenant", "is not the token's tenant"));
    }
    let value = |column: &str| if column == "tenant" { Some(tenant.clone()) } else { row.get(column) };
    Ok(recipients::recipient(&settings.names, |tenant| settings.digest_types(tenant), value)?)
}

/// The number of rows of each tenant.
fn counted(people: &[RecipientChange]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for person in people {
        *counts.entry(person.tenant.clone()).or_default() += 1;
    }
    counts
}

/// Signals the keys after the answer, at most a hundred a second. A window that hears nothing follows when it is due.
async fn tell_all(state: Shared, keys: Vec<Key>) {
    for keys in keys.chunks(TOLD) {
        tell::open_windows(&state, keys).await;
        sleep(PAUSE).await;
    }
}
