//! `/v1/recipients`: the directory.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tidings_model::{
    PersonId,
    command::CommandContext,
    records::{KeyFacts, ListedRecipient, Recipient, RecipientFilter},
    step::{AuditInput, AuditNote},
};
use tidings_operations::{
    erase::{self, PersonErasure},
    move_person::{self, MoveKind, PersonMove},
    person_keys,
};
use tidings_services::{
    recipients::{self, WrongValue},
    team_directory,
};
use utoipa::ToSchema;

use super::{
    ApiState, body,
    caller::ApiCaller,
    openapi::operation::{ApiTag, Operation, Query},
    params::{PathParams, QueryParams, TenantRead, TenantWrite},
    refusal::{ApiRefusal, Fault},
};
use crate::problem::Problem;

mod bulk;
mod fields;

pub(super) use bulk::{describe_post, post};

const TAG: ApiTag = ApiTag::Recipients;
const LIST: [Query; 7] =
    [Query::Tenant, Query::Address, Query::Zone, Query::Locale, Query::Suppressed, Query::Limit, Query::After];

/// Returns 201 if the recipient is new, else 200. The body replaces the whole row.
pub(super) async fn put(
    State(api): State<ApiState>,
    TenantWrite { caller, tenant, order }: TenantWrite,
    PathParams(user): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    require_writable(&api)?;
    let person = PersonId { tenant, user };
    let recipient = check_row(&api, &person, &fields::read_row(&headers, &bytes)?)?;
    let before = load_recipient(&api, &person).await?;
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    let stored = store(&api, before, recipient, &order).await?;
    Ok((status, Json(fields::recipient(stored, &caller))).into_response())
}

pub(super) fn describe_put() -> Operation {
    let ann = json!({"address": "ann@example.net", "name": "Ann", "zone": "Europe/Berlin", "locale": "de"});
    Operation::new(TAG, "The body replaces everything that the directory has about the person.")
        .query(&TenantWrite::QUERY)
        .body::<fields::RecipientTerms>(&[
            ("A person", ann),
            ("An address alone", json!({"address": "ann@example.net"})),
        ])
        .answer::<fields::RecipientView>(200, "The person was known before.")
        .answer::<fields::RecipientView>(201, "The person is new.")
        .problem(Problem::Conflict)
}

/// Applies a JSON merge patch (RFC 7396).
pub(super) async fn patch(
    State(api): State<ApiState>,
    TenantWrite { caller, tenant, order }: TenantWrite,
    PathParams(user): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    require_writable(&api)?;
    let person = PersonId { tenant, user };
    let before = load_recipient(&api, &person).await?.ok_or(Problem::NotFound)?;
    let recipient = check_row(&api, &person, &fields::apply_patch(&headers, &bytes, &before.recipient)?)?;
    let stored = store(&api, Some(before), recipient, &order).await?;
    Ok(Json(fields::recipient(stored, &caller)).into_response())
}

pub(super) fn describe_patch() -> Operation {
    let text = json!({"type": ["string", "null"]});
    let patch = json!({
        "type": "object",
        "additionalProperties": false,
        "description": "The fields to change. null clears one.",
        "properties": {"address": {"type": "string"}, "name": text, "zone": text, "locale": text},
    });
    let examples = [("Another zone", json!({"zone": "Asia/Tokyo", "locale": null}))];
    let reference = json!({"$ref": "#/components/schemas/RecipientPatch"});
    Operation::new(TAG, "The body is a JSON merge patch (RFC 7396). The last of two patches at the same moment counts.")
        .query(&TenantWrite::QUERY)
        .schema("RecipientPatch", patch)
        .content("application/merge-patch+json", &reference, &examples)
        .content("application/json", &reference, &examples)
        .answer::<fields::RecipientView>(200, "The row of the directory.")
        .problem(Problem::Conflict)
}

/// Reads the team's own directory if one is configured.
pub(super) async fn show(
    State(api): State<ApiState>,
    TenantRead { caller, tenant }: TenantRead,
    PathParams(user): PathParams<String>,
) -> Result<Response, ApiRefusal> {
    let key = PersonId { tenant, user }.key("");
    let looked = team_directory::facts_for_display(api.state.directory.as_deref(), &*api.state.store, &key).await?;
    let found = listed_recipient(looked).ok_or(Problem::NotFound)?;
    Ok(Json(fields::recipient(found, &caller)).into_response())
}

pub(super) fn describe_show() -> Operation {
    Operation::new(TAG, "The address is there only if the token has the scope recipients:read, too.")
        .query(&TenantRead::QUERY)
        .answer::<fields::RecipientView>(200, "The row of the directory.")
}

pub(super) async fn list(State(api): State<ApiState>, caller: ApiCaller, uri: Uri) -> Result<Response, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &LIST)?;
    let filter = RecipientFilter { page: params.page()?, ..params.filter(&caller)? };
    let listed = api.state.store.recipients(&filter).await?;
    let recipients = listed.rows.into_iter().map(|row| fields::recipient(row, &caller)).collect();
    Ok(Json(fields::RecipientPage { recipients, next: listed.next }).into_response())
}

pub(super) fn describe_list() -> Operation {
    Operation::new(TAG, "The order is by tenant and user.")
        .query(&LIST)
        .answer::<fields::RecipientPage>(200, "A page of the directory.")
}

/// Same as `tidings recipients erase`. After an error this can be repeated.
pub(super) async fn erase(
    State(api): State<ApiState>,
    TenantWrite { tenant, order, .. }: TenantWrite,
    PathParams(user): PathParams<String>,
) -> Result<Response, ApiRefusal> {
    let person = PersonId { tenant, user };
    let (temporal, commands, settings) = (api.temporal()?, api.commands()?, &api.state.settings);
    let people = person_keys::person_under_each_name(&*api.state.store, settings, &person).await?;
    if person_keys::stored_person(&*api.state.store, &people).await?.is_empty() {
        // An open window with an unconfigured digest type exists only in Temporal.
        let runs = person_keys::find_runs(&temporal, &people).await.map_err(|error| not_erased(error.into()))?;
        if runs.types.is_empty() {
            return Err(Problem::NotFound.into());
        }
    }
    let types = settings.digest_types(&person.tenant);
    let erasure = PersonErasure {
        store: &*api.state.store,
        archive: api.archive.as_ref(),
        person: &person,
        people: &people,
        types,
        task_queue: &api.task_queue,
    };
    let answer = erasure.run(&temporal, &commands, &order, settings.longest_linger(), |_| ()).await;
    let answer = answer.map_err(not_erased)?;
    erasure_response(answer)
}

pub(super) fn describe_erase() -> Operation {
    Operation::new(
        TAG,
        "Erases the person everywhere. After a 503 a repeated request goes on; a 409 says that something \
         about the person came meanwhile. Folders in `unreachable_archives` were archived to and may have lines about the person, but the \
         gateway's machine lacks them: erase once more with `tidings recipients erase` where they are.",
    )
    .query(&TenantWrite::QUERY)
    .answer::<erase::ErasureResult>(200, "What was erased.")
    .problem(Problem::StillArriving)
    .problem(Problem::NoAnswer)
}

/// Returns 409 if data arrived during the erasure: a repeated request will erase this, too. It will not help
/// with an archive folder missing on this machine, so the response lists it.
fn erasure_response(answer: erase::ErasureResult) -> Result<Response, ApiRefusal> {
    for folder in &answer.unreachable_archives {
        tracing::error!(folder, "cannot finish erasing person: an archive folder is missing on this machine");
    }
    if answer.came_meanwhile() == 0 { Ok(Json(answer).into_response()) } else { Err(Problem::StillArriving.into()) }
}

/// The other id of a recipient.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RecipientMove)]
#[serde(deny_unknown_fields)]
struct MoveTo {
    /// The id that everything goes to.
    to: String,
}

/// Same as `tidings recipients rename`. After an error this can be repeated.
pub(super) async fn rename(
    State(api): State<ApiState>,
    TenantWrite { tenant, order, .. }: TenantWrite,
    PathParams(user): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let MoveTo { to } = body::read_json(&headers, &bytes)?;
    move_recipient(&api, MoveKind::Rename, &PersonId { tenant, user }, to, &order).await
}

pub(super) fn describe_rename() -> Operation {
    describe_move(
        "Choices, consent, open windows, waiting messages and links go on under the other id. Let the producers use it first: `left` \
         has the keys that still got something, and a repeated request moves that, too. A 409 says that the other id is in use.",
    )
}

pub(super) async fn merge(
    State(api): State<ApiState>,
    TenantWrite { tenant, order, .. }: TenantWrite,
    PathParams(user): PathParams<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let MoveTo { to } = body::read_json(&headers, &bytes)?;
    move_recipient(&api, MoveKind::Merge, &PersonId { tenant, user }, to, &order).await
}

pub(super) fn describe_merge() -> Operation {
    describe_move(
        "The recipient goes, and the one in the body keeps address, name, zone and language. What either does not want, the person \
         does not want; of other choices the later one counts.",
    )
}

fn describe_move(description: &'static str) -> Operation {
    Operation::new(TAG, description)
        .query(&TenantWrite::QUERY)
        .body::<MoveTo>(&[("Another id", json!({"to": "anna"}))])
        .answer::<move_person::MoveResult>(200, "What was moved.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}

async fn move_recipient(
    api: &ApiState,
    kind: MoveKind,
    from: &PersonId,
    to: String,
    order: &CommandContext,
) -> Result<Response, ApiRefusal> {
    let to = PersonId::new(from.tenant.clone(), to)
        .map_err(|invalid| ApiRefusal::body(Fault::new("to", invalid.problem)))?;
    let (temporal, commands) = (api.temporal()?, api.commands()?);
    let person_move = PersonMove {
        store: &*api.state.store,
        temporal: &temporal,
        commands: &commands,
        task_queue: &api.task_queue,
        settings: &api.state.settings,
        from,
        to: &to,
    };
    Ok(Json(person_move.run(kind, order).await.map_err(not_moved)?).into_response())
}

fn not_moved(error: move_person::MoveError) -> ApiRefusal {
    match error {
        move_person::MoveError::Unknown(_) => Problem::NotFound.into(),
        move_person::MoveError::InUse(_)
        | move_person::MoveError::Moving(_)
        | move_person::MoveError::Ended(_)
        | move_person::MoveError::Busy(_) => ApiRefusal::conflict(&error.to_string()),
        move_person::MoveError::Invalid(invalid) => ApiRefusal::body(Fault::new("to", invalid.problem)),
        move_person::MoveError::Command(error) => error.into(),
        move_person::MoveError::Store(error) => error.into(),
        move_person::MoveError::List(_) | move_person::MoveError::Emit(_) => {
            tracing::warn!(%error, "cannot finish moving person: repeat the request");
            Problem::NoAnswer.into()
        }
    }
}

fn not_erased(error: erase::ErasureError) -> ApiRefusal {
    match error {
        erase::ErasureError::Command(error) => error.into(),
        erase::ErasureError::Store(error) => error.into(),
        erase::ErasureError::Archive(error) => {
            tracing::error!(%error, "cannot finish erasing person: repeat the request");
            Problem::Unavailable.into()
        }
        erase::ErasureError::Agreement(error) => {
            tracing::error!(%error, "cannot erase person");
            Problem::Unavailable.into()
        }
        erase::ErasureError::Visibility(error) => {
            tracing::error!(%error, "cannot erase person: keys could not be listed in Temporal");
            Problem::NoAnswer.into()
        }
    }
}

/// Validates a row the same way as an import.
fn check_row(api: &ApiState, person: &PersonId, value: &impl Fn(&str) -> String) -> Result<Recipient, ApiRefusal> {
    let checked = recipients::validate_recipient(
        &api.state.settings.names,
        |tenant| api.state.settings.digest_types(tenant),
        |column| {
            Some(match column {
                "tenant" => person.tenant.clone(),
                "user" => person.user.clone(),
                column => value(column),
            })
        },
    );
    checked.map(Recipient::from).map_err(|wrong| ApiRefusal::body(Fault::from(wrong)))
}

/// Omits the value, because this may be an email address.
impl From<WrongValue> for Fault {
    fn from(WrongValue { field, problem, .. }: WrongValue) -> Self {
        Self { field, problem }
    }
}

async fn load_recipient(api: &ApiState, person: &PersonId) -> Result<Option<ListedRecipient>, ApiRefusal> {
    // An empty digest type selects only facts about the person.
    Ok(listed_recipient(api.state.store.facts(&person.key("")).await?))
}

fn listed_recipient(KeyFacts { recipient, suppressed, .. }: KeyFacts) -> Option<ListedRecipient> {
    recipient.map(|recipient| ListedRecipient { recipient, suppressed })
}

/// Rejects writes if recipients come from the team's own directory.
fn require_writable(api: &ApiState) -> Result<(), ApiRefusal> {
    match &api.state.directory {
        Some(directory) => Err(ApiRefusal::conflict(&directory.refusal_text())),
        None => Ok(()),
    }
}

/// Stores a row if it changed. Writes the audit entry first, so a crash cannot leave a change without one.
/// Windows are signalled if the time zone changed.
async fn store(
    api: &ApiState,
    before: Option<ListedRecipient>,
    recipient: Recipient,
    order: &CommandContext,
) -> Result<ListedRecipient, ApiRefusal> {
    if let Some(before) = before.filter(|before| before.recipient == recipient) {
        return Ok(before);
    }
    let person = PersonId { tenant: recipient.tenant.clone(), user: recipient.user.clone() };
    audit(api, &person, order, "recipient_put").await?;
    let moved = api.state.store.put_recipients(&[recipient], Timestamp::now()).await?;
    api.state.wake_windows(&recipients::keys_of(&moved, &api.state.settings)).await;
    Ok(load_recipient(api, &person).await?.ok_or(Problem::NotFound)?)
}

async fn audit(api: &ApiState, person: &PersonId, order: &CommandContext, action: &str) -> Result<(), ApiRefusal> {
    let CommandContext { by, why } = order.clone();
    let note = AuditNote { at: Timestamp::now(), by, action: action.to_owned(), why };
    Ok(api.state.store.record_audit(&AuditInput { key: person.key(""), notes: vec![note] }).await?)
}

#[cfg(test)]
mod tests {
    use tidings_model::records::ErasedRows;

    use super::*;

    #[test]
    fn an_erasure_names_the_folders_that_the_machine_lacks_and_a_repetition_would_not_help() {
        let answer = |pending| erase::ErasureResult {
            dropped: 0,
            erased: ErasedRows::default(),
            left: ErasedRows::default(),
            pending,
            archives: Vec::new(),
            unreachable_archives: vec!["/srv/archive".to_owned()],
            shared_addresses: 0,
            histories_until: None,
        };
        assert_eq!(erasure_response(answer(0)).ok().map(|answer| answer.status()), Some(StatusCode::OK));
        assert!(erasure_response(answer(1)).is_err());
    }
}
