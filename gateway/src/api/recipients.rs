//! `/v1/recipients`: the directory.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use tidings_activities::{
    operations::{
        erase::{self, Erasure},
        recipients::{self, WrongValue},
    },
    team_directory,
};
use tidings_model::{
    command::Order,
    records::{Facts, ListedRecipient, PersonId, Recipient, RecipientFilter},
    step::{AuditInput, Note},
};

use super::{
    Api,
    caller::Caller,
    params::Params,
    path::Named,
    refusal::{Fault, Refusal},
    tenant::{Change, Question},
};
use crate::{problem::Problem, tell};

mod bulk;
mod fields;
pub(super) mod operations;
mod view;

pub(super) use bulk::post;

/// Answers 201 if the person is new, else 200. The body replaces everything that the directory has about the person.
pub(super) async fn put(
    State(api): State<Api>,
    Change { caller, tenant, order }: Change,
    Named(user): Named<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    writable(&api)?;
    let person = PersonId { tenant, user };
    let recipient = checked(&api, &person, &fields::whole(&headers, &bytes)?)?;
    let before = read(&api, &person).await?;
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    let stored = store(&api, before, recipient, &order).await?;
    Ok((status, Json(view::recipient(stored, &caller))).into_response())
}

/// Changes the fields that a JSON merge patch (RFC 7396) names.
pub(super) async fn patch(
    State(api): State<Api>,
    Change { caller, tenant, order }: Change,
    Named(user): Named<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    writable(&api)?;
    let person = PersonId { tenant, user };
    let before = read(&api, &person).await?.ok_or(Problem::NotFound)?;
    let recipient = checked(&api, &person, &fields::patched(&headers, &bytes, &before.recipient)?)?;
    let stored = store(&api, Some(before), recipient, &order).await?;
    Ok(Json(view::recipient(stored, &caller)).into_response())
}

/// Shows the row of the directory, or what the team's own directory says.
pub(super) async fn show(
    State(api): State<Api>,
    Question { caller, tenant }: Question,
    Named(user): Named<String>,
) -> Result<Response, Refusal> {
    let key = PersonId { tenant, user }.key("");
    let looked = team_directory::look(api.state.directory.as_deref(), &*api.state.store, &key).await?;
    let found = listed(looked).ok_or(Problem::NotFound)?;
    Ok(Json(view::recipient(found, &caller)).into_response())
}

/// Lists the directory by tenant and user.
pub(super) async fn list(State(api): State<Api>, caller: Caller, uri: Uri) -> Result<Response, Refusal> {
    let known = ["tenant", "address", "zone", "locale", "suppressed", "limit", "after"];
    let mut params = Params::read(&uri, &known)?;
    let filter = RecipientFilter {
        tenant: caller.tenant(params.text("tenant"))?,
        address: params.text("address"),
        zone: params.text("zone"),
        locale: params.text("locale"),
        suppressed: params.flag("suppressed")?,
        page: params.page()?,
    };
    let listed = api.state.store.recipients(&filter).await?;
    let recipients = listed.rows.into_iter().map(|row| view::recipient(row, &caller)).collect();
    Ok(Json(view::Rows { recipients, next: listed.next }).into_response())
}

/// Erases everything about the person, as `tidings recipients erase` does. A repeated request goes on after an error.
pub(super) async fn erase(
    State(api): State<Api>,
    Change { tenant, order, .. }: Change,
    Named(user): Named<String>,
) -> Result<Response, Refusal> {
    let person = PersonId { tenant, user };
    if api.state.store.person(&person).await?.is_empty() {
        return Err(Problem::NotFound.into());
    }
    let (temporal, commands, settings) = (api.temporal()?, api.commands()?, &api.state.settings);
    let types = settings.digest_types(&person.tenant);
    let erasure = Erasure { store: &*api.state.store, archive: api.archive.as_ref(), person: &person, types };
    let answer = erasure.run(&temporal, &commands, &order, settings.longest_linger(), |_| ()).await;
    let answer = answer.map_err(not_erased)?;
    if answer.left.is_nothing() { Ok(Json(answer).into_response()) } else { Err(Problem::StillArriving.into()) }
}

fn not_erased(error: erase::Error) -> Refusal {
    match error {
        erase::Error::Command(error) => error.into(),
        erase::Error::Store(error) => error.into(),
        erase::Error::Archive(error) => {
            tracing::error!(%error, "a person is not erased completely");
            Problem::Unavailable.into()
        }
    }
}

/// A row of the request, checked as an import checks it.
fn checked(api: &Api, person: &PersonId, value: &impl Fn(&str) -> String) -> Result<Recipient, Refusal> {
    let checked = recipients::recipient(
        |tenant| api.state.settings.digest_types(tenant),
        |column| match column {
            "tenant" => person.tenant.clone(),
            "user" => person.user.clone(),
            column => value(column),
        },
    );
    checked.map_err(|wrong| Refusal::body(Fault::from(wrong)))
}

/// The fault of a row, without what was written, which may be an address.
impl From<WrongValue> for Fault {
    fn from(WrongValue { field, problem, .. }: WrongValue) -> Self {
        Self { field, problem }
    }
}

async fn read(api: &Api, person: &PersonId) -> Result<Option<ListedRecipient>, Refusal> {
    // No digest type: the facts about the person alone.
    Ok(listed(api.state.store.facts(&person.key("")).await?))
}

fn listed(Facts { recipient, suppressed, .. }: Facts) -> Option<ListedRecipient> {
    recipient.map(|recipient| ListedRecipient { recipient, suppressed })
}

/// Refuses to write recipients that come from the team's own directory.
fn writable(api: &Api) -> Result<(), Refusal> {
    match &api.state.directory {
        Some(directory) => Err(Refusal::conflict(&directory.refusal())),
        None => Ok(()),
    }
}

/// Stores a row if it differs from the one before, and tells the windows of another zone. A change is audited first, so that no
/// change lacks its entry after a crash.
async fn store(
    api: &Api,
    before: Option<ListedRecipient>,
    recipient: Recipient,
    order: &Order,
) -> Result<ListedRecipient, Refusal> {
    if let Some(before) = before.filter(|before| before.recipient == recipient) {
        return Ok(before);
    }
    let person = PersonId { tenant: recipient.tenant.clone(), user: recipient.user.clone() };
    audit(api, &person, order, "recipient_put").await?;
    let moved = api.state.store.put_recipients(&[recipient], Timestamp::now()).await?;
    tell::open_windows(&api.state, &recipients::keys_of(&moved, &api.state.settings)).await;
    Ok(read(api, &person).await?.ok_or(Problem::NotFound)?)
}

async fn audit(api: &Api, person: &PersonId, order: &Order, action: &str) -> Result<(), Refusal> {
    let Order { by, why } = order.clone();
    let note = Note { at: Timestamp::now(), by, action: action.to_owned(), why };
    Ok(api.state.store.audit(&AuditInput { key: person.key(""), notes: vec![note] }).await?)
}
