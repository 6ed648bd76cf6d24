//! `POST /v1/recipients`: writes many rows of the directory, and returns a result for each.

use std::collections::BTreeMap;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use tidings_model::{
    PersonId,
    foreign_text::{WrongEncoding, is_utf16},
    records::RecipientChange,
    settings::Settings,
};
use tidings_operations::{
    at_rate,
    rows::{InputRow, InputRows, WrongHeader, WrongLine},
};
use tidings_services::recipients::{self, COLUMNS};
use utoipa::ToSchema;

use super::{TAG, audit, require_writable};
use crate::{
    api::{
        ApiState, body,
        caller::ApiCaller,
        events,
        openapi::operation::Operation,
        params::{QueryParams, TenantWrite, order_of_request},
        refusal::{ApiRefusal, Fault},
    },
    problem::Problem,
    request_body,
};

/// Rows per store call.
const BATCH: usize = 500;
/// Keys signalled per second after time zones changed.
const RATE: u32 = 100;
/// Most errors in a response if no row was accepted.
const ERRORS: usize = 100;

/// The outcome of each row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RowResults)]
pub(super) struct BulkResponse {
    accepted: usize,
    refused: usize,
    /// One for each row, in order.
    results: Vec<RecipientRowResult>,
}

/// The outcome of a row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RowResult)]
#[serde(tag = "status", rename_all = "snake_case")]
enum RecipientRowResult {
    Accepted { user: String },
    Refused(RecipientRowError),
}

/// A refused row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WrongRow)]
struct RecipientRowError {
    /// Counted from 1; the first line of CSV is line 1.
    line: u64,
    #[serde(flatten)]
    why: Fault,
}

/// Returns 200 with a result per row, or 400 if none was accepted.
pub(crate) async fn post(
    State(api): State<ApiState>,
    caller: ApiCaller,
    parts: Parts,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let mut params = QueryParams::from_query(&parts.uri, &TenantWrite::QUERY)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let order = order_of_request(&parts, &caller, &mut params)?;
    require_writable(&api)?;
    let length = events::body::max_length(&parts.headers, &bytes);
    let settings = api.state.settings.clone();
    let reading = move || check_rows(&parts.headers, &bytes, tenant.as_deref(), &caller, &settings);
    let (people, results) = request_body::run_bounded(length, reading).await??;
    if people.is_empty() {
        let wrong = results.into_iter().filter_map(|result| match result {
            RecipientRowResult::Refused(wrong) => Some(wrong),
            RecipientRowResult::Accepted { .. } => None,
        });
        return Ok(Problem::NothingAccepted.with_errors(&wrong.take(ERRORS).collect::<Vec<_>>()));
    }
    for (tenant, count) in count_rows(&people) {
        let person = PersonId { tenant, user: String::new() };
        audit(&api, &person, &order, &format!("recipients_put {count}")).await?;
    }
    let mut moved = Vec::new();
    for batch in people.chunks(BATCH) {
        moved.extend(api.state.store.change_recipients(batch, Timestamp::now()).await?);
    }
    let keys = recipients::keys_of(&moved, &api.state.settings);
    // In the background. A window missing this signal will notice the change when it is due.
    let state = api.state.clone();
    tokio::spawn(async move {
        let wake = |key| {
            let state = &state;
            async move { state.wake_windows([&key]).await }
        };
        at_rate(keys, RATE, wake, drop).await;
    });
    let (accepted, refused) = (people.len(), results.len() - people.len());
    Ok((StatusCode::OK, Json(BulkResponse { accepted, refused, results })).into_response())
}

pub(crate) fn describe_post() -> Operation {
    let lines =
        "{\"user\": \"ann\", \"address\": \"ann@example.net\"}\n{\"user\": \"bo\", \"address\": \"bo@example.net\"}\n";
    let table = "user,address,zone\nann,ann@example.net,Europe/Berlin\n";
    Operation::new(
        TAG,
        "NDJSON, or CSV with the columns user, address, and optionally tenant, name, zone and locale: 1 MiB \
         and 10,000 rows. What a row does not have stays as it is, and an empty value or a null clears it. Content-Encoding may be gzip or \
         zstd.",
    )
    .query(&TenantWrite::QUERY)
    .lines("application/x-ndjson", "Two people", lines)
    .lines("text/csv", "A table", table)
    .answer::<BulkResponse>(200, "At least one row is stored. Each row has a result.")
    .problem(Problem::Conflict)
}

fn check_rows(
    headers: &HeaderMap,
    bytes: &[u8],
    tenant: Option<&str>,
    caller: &ApiCaller,
    settings: &Settings,
) -> Result<(Vec<RecipientChange>, Vec<RecipientRowResult>), ApiRefusal> {
    let plain = events::body::decode_body(headers, bytes)?;
    request_body::bound_values(&plain, request_body::VALUES).map_err(ApiRefusal::unreadable)?;
    let (mut people, mut results) = (Vec::new(), Vec::new());
    for (line, row) in read_rows(headers, &plain)? {
        match row.and_then(|row| recipient(&row, tenant, caller, settings)) {
            Ok(person) => {
                results.push(RecipientRowResult::Accepted { user: person.user.clone() });
                people.push(person);
            }
            Err(why) => results.push(RecipientRowResult::Refused(RecipientRowError { line, why })),
        }
    }
    Ok((people, results))
}

/// The tenant defaults to the request's.
fn recipient(
    row: &InputRow,
    tenant: Option<&str>,
    caller: &ApiCaller,
    settings: &Settings,
) -> Result<RecipientChange, Fault> {
    let own = row.get("tenant").unwrap_or_default();
    let tenant = if own.is_empty() { tenant.unwrap_or_default().to_owned() } else { own };
    if !tenant.is_empty() && caller.tenant(Some(tenant.clone())).is_err() {
        return Err(Fault::new("tenant", "is not the token's tenant"));
    }
    let value = |column: &str| if column == "tenant" { Some(tenant.clone()) } else { row.get(column) };
    Ok(recipients::validate_recipient(&settings.names, |tenant| settings.digest_types(tenant), value)?)
}

fn count_rows(people: &[RecipientChange]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for person in people {
        *counts.entry(person.tenant.clone()).or_default() += 1;
    }
    counts
}

const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv";

/// Most rows per request.
const ROWS: usize = 10_000;

type NumberedRow = (u64, Result<InputRow, Fault>);

fn read_rows(headers: &HeaderMap, bytes: &[u8]) -> Result<Vec<NumberedRow>, ApiRefusal> {
    let rows = match body::media_type(headers).as_str() {
        NDJSON | CSV if is_utf16(bytes) => return Err(ApiRefusal::unreadable(WrongEncoding::Utf16.to_string())),
        NDJSON => InputRows::json(bytes),
        CSV => csv_rows(bytes)?,
        _ => return Err(ApiRefusal::media_type(headers, &[NDJSON, CSV])),
    };
    let rows: Result<Vec<_>, _> = rows.take(ROWS + 1).map(|row| row.map(check_columns)).collect();
    let rows = rows.map_err(|unreadable| ApiRefusal::unreadable(unreadable.to_string()))?;
    if rows.len() > ROWS { Err(Problem::TooManyItems.into()) } else { Ok(rows) }
}

fn csv_rows(bytes: &[u8]) -> Result<InputRows<&[u8]>, ApiRefusal> {
    let rows = InputRows::csv(bytes).map_err(|wrong| match wrong {
        WrongHeader::Columns(fault) => ApiRefusal::body(Fault::new("", fault)),
        WrongHeader::NotUtf8 | WrongHeader::Unreadable(_) => {
            ApiRefusal::unreadable("has a first line that is not UTF-8")
        }
    })?;
    if let InputRows::Csv { header, .. } = &rows
        && let Some(unknown) = header.iter().find(|column| !COLUMNS.contains(column))
    {
        return Err(ApiRefusal::body(Fault::new(unknown, format!("is not a column; take {}", COLUMNS.join(", ")))));
    }
    Ok(rows)
}

/// Rejects unknown columns and values other than strings.
fn check_columns(row: Result<InputRow, WrongLine>) -> NumberedRow {
    let row = match row {
        Ok(row) => row,
        Err(WrongLine { line, problem }) => return (line, Err(Fault::new("", problem))),
    };
    for (name, value) in &row.values {
        if !COLUMNS.contains(&name.as_str()) {
            return (row.line, Err(Fault::new(name, format!("is not one of {}", COLUMNS.join(", ")))));
        }
        if !value.is_string() && !value.is_null() {
            return (row.line, Err(Fault::new(name, "is not a string")));
        }
    }
    (row.line, Ok(row))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header::CONTENT_TYPE};

    use super::*;

    fn read_as(kind: &'static str, bytes: &[u8]) -> Result<Vec<NumberedRow>, ApiRefusal> {
        read_rows(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]), bytes)
    }

    /// Users, or the lines and faults of wrong rows.
    fn shown(rows: Vec<NumberedRow>) -> Vec<String> {
        let shown = rows.into_iter().map(|(line, row)| match row {
            Ok(row) => row.get("user").unwrap_or_default(),
            Err(Fault { field, problem }) => format!("{line} {field}: {problem}"),
        });
        shown.collect()
    }

    #[test]
    fn ndjson_and_csv_are_read_row_by_row() {
        let ndjson = b"{\"user\":\"ann\"}\n\n[1]\n{\"user\":7}\n{\"uzer\":\"bo\"}\r\n{\"user\":\"bo\",\"name\":null}";
        assert_eq!(
            shown(read_as("application/x-ndjson", ndjson).unwrap()),
            [
                "ann",
                "3 : is not a JSON object",
                "4 user: is not a string",
                "5 uzer: is not one of tenant, user, address, name, zone, locale",
                "bo"
            ]
        );
        let ndjson =
            b"\xef\xbb\xbf{\"user\":\"\xc2\xa0ann\"}\n{\"user\":\"\xff\"}\n{\"user\":\"bo\",\"name\":\"\\ud83d\"}";
        assert_eq!(
            shown(read_as("application/x-ndjson", ndjson).unwrap()),
            ["ann", "2 : is not UTF-8 at byte 10; save it as UTF-8", "bo"]
        );
        let csv = b"\xef\xbb\xbfuser,address\nann,a@b.example\nbo\n\xff,x\n cy\xe2\x80\x8b ,c@b.example\n";
        assert_eq!(
            shown(read_as("text/csv; charset=utf-8", csv).unwrap()),
            ["ann", "3 : has 1 values, the first line has 2 columns", "4 : is not UTF-8", "cy"]
        );
    }

    #[test]
    fn another_type_an_unknown_column_and_too_many_rows_are_refused() {
        let refused = |kind, bytes: &[u8]| read_as(kind, bytes).unwrap_err().problem();
        assert_eq!(refused("application/json", b"[]"), Problem::UnsupportedMedia);
        assert_eq!(refused("text/csv", b"user,mail\n"), Problem::WrongBody);
        assert_eq!(refused("text/csv", b"user;address\n"), Problem::WrongBody);
        assert_eq!(refused("text/csv", b"user,user\n"), Problem::WrongBody);
        for kind in ["application/x-ndjson", "text/csv"] {
            assert_eq!(refused(kind, b"\xff\xfeu\0s\0"), Problem::Unreadable);
        }
        assert_eq!(refused("application/x-ndjson", "{}\n".repeat(ROWS + 1).as_bytes()), Problem::TooManyItems);
        assert_eq!(refused("text/csv", format!("user\n{}", "a\n".repeat(ROWS + 1)).as_bytes()), Problem::TooManyItems);
    }
}
