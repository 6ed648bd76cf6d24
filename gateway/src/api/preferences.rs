//! `/v1/recipients/{user}/preferences/{digest_type}` and `/v1/recipients/{user}/consent/{digest_type}`.

use std::collections::BTreeSet;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, header::ETAG},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidings_model::{
    Key,
    limits::InvalidField,
    records::{KeyFacts, Preferences},
    settings::DigestSettings,
    when,
};
use tidings_services::choices::{self, PreferencesError, PreferencesView, StoredPreferences};
use utoipa::ToSchema;

use super::{
    ApiState, body,
    caller::ApiCaller,
    if_match::{self, ExpectedVersion, etag},
    openapi::operation::{ApiTag, Operation, RequestHeader, ResponseHeader},
    params::{PathParams, TenantRead, TenantWrite},
    pauses::hide_operators,
    refusal::ApiRefusal,
};
use crate::problem::Problem;

const TAG: ApiTag = ApiTag::Preferences;

/// All choices of a recipient for a digest type.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// A cadence that the digest type offers.
    cadence: Option<String>,
    /// IANA time zone that overrides the directory's.
    zone: Option<String>,
    /// The time of day, `18:30`, in place of the cadence's own.
    at: Option<String>,
    /// Quiet times in the words of `tidings.toml`; an empty list: none at all.
    quiet: Option<Vec<String>>,
    /// Categories that the recipient turned off.
    #[serde(default)]
    off: BTreeSet<String>,
    /// No message goes out before then. Windows go on collecting.
    #[serde(default, deserialize_with = "when::optional")]
    paused_until: Option<Timestamp>,
}

/// The recipient's consent to a digest type.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Consent {
    consent: bool,
}

/// The consent of a key.
#[derive(Serialize, ToSchema)]
struct ConsentView<'a> {
    key: &'a Key,
    consent: bool,
}

pub(super) async fn show(
    State(api): State<ApiState>,
    TenantRead { caller, tenant, .. }: TenantRead,
    PathParams((user, digest_type)): PathParams<(String, String)>,
) -> Result<Response, ApiRefusal> {
    preferences_response(&api, &caller, &checked_key(&api, tenant, digest_type, user)?).await
}

pub(super) fn describe_show() -> Operation {
    Operation::new(TAG, "Answers with the choices, what is in force, and when a window would be due.")
        .query(&TenantRead::QUERY)
        .answer_with::<PreferencesView<'_>>(200, "The choices and their effect.", &[ResponseHeader::Tag])
}

/// Replaces all preferences, if `If-Match` names the current version.
pub(super) async fn put(
    State(api): State<ApiState>,
    TenantWrite { caller, tenant, order, .. }: TenantWrite,
    PathParams((user, digest_type)): PathParams<(String, String)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let Choice { cadence, zone, at, quiet, off, paused_until } = body::read_json(&headers, &bytes)?;
    let wanted = Preferences { cadence, zone, at, quiet, off, paused_until };
    let key = checked_key(&api, tenant, digest_type, user)?;
    let expected = match if_match::read_header(&headers)?.ok_or(Problem::NoVersion)? {
        ExpectedVersion::Any => None,
        // A tag we never issued matches no version.
        ExpectedVersion::Tag(tag) => Some(tag.parse().unwrap_or(u64::MAX)),
    };
    let (store, settings) = (&*api.state.store, &api.state.settings);
    let changed =
        choices::update_preferences(store, settings, &key, |_| wanted.clone(), expected, &order, Timestamp::now())
            .await;
    match changed {
        Ok(StoredPreferences { changed: true, .. }) => api.state.wake_windows([&key]).await,
        Ok(StoredPreferences { changed: false, .. }) => {}
        // The first response may have been lost, so we accept a repeated request if its values are already
        // stored (RFC 9110, section 13.1.1).
        Err(PreferencesError::Conflict(_)) if has_chosen(&store.facts(&key).await?, settings.digest(&key), &wanted) => {
        }
        Err(error) => return Err(choice_refusal(error)),
    }
    preferences_response(&api, &caller, &key).await
}

pub(super) fn describe_put() -> Operation {
    let bodies = [
        ("Weekly without shares", json!({"cadence": "weekly mon 08:00", "off": ["share"]})),
        ("The defaults", json!({})),
    ];
    Operation::new(
        TAG,
        "An omitted field is the default again. A repeated request whose wish is true already is answered \
         with 200.",
    )
    .query(&TenantWrite::QUERY)
    .header(RequestHeader::RequiredIfMatch)
    .body::<Choice>(&bodies)
    .answer_with::<PreferencesView<'_>>(200, "The choices and their effect.", &[ResponseHeader::Tag])
    .problem(Problem::NoVersion)
    .problem(Problem::Changed)
}

pub(super) async fn show_consent(
    State(api): State<ApiState>,
    TenantRead { tenant, .. }: TenantRead,
    PathParams((user, digest_type)): PathParams<(String, String)>,
) -> Result<Response, ApiRefusal> {
    consent_response(&api, &checked_key(&api, tenant, digest_type, user)?).await
}

pub(super) fn describe_show_consent() -> Operation {
    Operation::new(TAG, "A recipient consents unless the consent was withdrawn.")
        .query(&TenantRead::QUERY)
        .answer_with::<ConsentView<'_>>(200, "The consent.", &[ResponseHeader::Tag])
}

/// `If-Match` is optional, because the body already is the complete state.
pub(super) async fn put_consent(
    State(api): State<ApiState>,
    TenantWrite { tenant, order, .. }: TenantWrite,
    PathParams((user, digest_type)): PathParams<(String, String)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiRefusal> {
    let Consent { consent: wanted } = body::read_json(&headers, &bytes)?;
    let key = checked_key(&api, tenant, digest_type, user)?;
    let (store, settings) = (&*api.state.store, &api.state.settings);
    let before = store.facts(&key).await?.consent;
    if let Some(ExpectedVersion::Tag(tag)) = if_match::read_header(&headers)?
        && tag != consent_tag(before)
        && before != wanted
    {
        return Err(Problem::Changed.into());
    }
    choices::set_consent(store, settings, &key, wanted, &order, Timestamp::now()).await.map_err(choice_refusal)?;
    if before != wanted {
        api.state.wake_windows([&key]).await;
    }
    consent_response(&api, &key).await
}

pub(super) fn describe_put_consent() -> Operation {
    let bodies = [("Withdrawn", json!({"consent": false})), ("Given", json!({"consent": true}))];
    Operation::new(TAG, "A withdrawn consent takes effect at once, also for the open window.")
        .query(&TenantWrite::QUERY)
        .header(RequestHeader::IfMatch)
        .body::<Consent>(&bodies)
        .answer_with::<ConsentView<'_>>(200, "The consent.", &[ResponseHeader::Tag])
        .problem(Problem::Changed)
}

/// Suggesting similar types is safe, because this caller's token is valid for the tenant.
fn checked_key(api: &ApiState, tenant: String, digest_type: String, user: String) -> Result<Key, ApiRefusal> {
    let key = Key::new(tenant, digest_type, user).map_err(|_| Problem::NotFound)?;
    let unknown = |invalid: InvalidField| ApiRefusal::with_fault(Problem::NotFound, "digest_type", invalid.problem);
    api.state.settings.check_digest(&key).map_err(unknown)?;
    Ok(api.state.settings.names.key_today(&key))
}

/// A category may be stored under a former name.
fn has_chosen(facts: &KeyFacts, digest: Option<&DigestSettings>, wanted: &Preferences) -> bool {
    let chosen = &facts.preferences;
    let off = digest.map_or_else(|| chosen.off.clone(), |digest| digest.off_today(&chosen.off));
    Preferences { off, ..chosen.clone() } == *wanted
}

async fn preferences_response(api: &ApiState, caller: &ApiCaller, key: &Key) -> Result<Response, ApiRefusal> {
    let settings = api.state.settings.digest(key).ok_or(Problem::NotFound)?;
    let (facts, now) = (api.state.store.facts(key).await?, Timestamp::now());
    let limits = api.state.settings.frequency_limits(settings);
    let capped_from = choices::capped_from(&*api.state.store, limits.cap, key, now).await?;
    let mut view = json!(PreferencesView::new(settings, &limits, capped_from, &facts, key, now));
    hide_operators(api, caller, &mut view).await?;
    Ok(([(ETAG, etag(&facts.revision.to_string()))], Json(view)).into_response())
}

async fn consent_response(api: &ApiState, key: &Key) -> Result<Response, ApiRefusal> {
    let consent = api.state.store.facts(key).await?.consent;
    Ok(([(ETAG, etag(consent_tag(consent)))], Json(ConsentView { key, consent })).into_response())
}

const fn consent_tag(consent: bool) -> &'static str {
    if consent { "given" } else { "withdrawn" }
}

fn choice_refusal(error: PreferencesError) -> ApiRefusal {
    match error {
        PreferencesError::Invalid(invalid) => ApiRefusal::body(invalid),
        PreferencesError::UnknownType(_) => Problem::NotFound.into(),
        PreferencesError::Conflict(_) => Problem::Changed.into(),
        PreferencesError::Store(error) => error.into(),
    }
}
