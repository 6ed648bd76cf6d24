//! Pauses (rule 35): `GET /v1/pauses`, `POST /v1/pauses` and `POST /v1/pauses/{id}/resume`.
//!
//! The store is the truth. The signals to the running keys only hurry them, so that they follow the answer.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_activities::{
    choices,
    operations::{
        at_rate::at_rate,
        pauses::{self, Resumed, by_id, latest, running, scope},
    },
};
use tidings_model::pause::{Pause, Paused, Scope};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Api,
    body::{self, Why},
    caller::Caller,
    operate::later,
    params::Params,
    path::Named,
    refusal::{Fault, Refusal},
};
use crate::problem::Problem;

pub(super) mod operations;

/// Signals to running keys a second.
const RATE: u32 = 50;

/// The pauses of a listing.
#[derive(Serialize, ToSchema)]
#[schema(as = Pauses)]
pub(super) struct Rows {
    rows: Vec<Pause>,
}

/// A pause that an operator started or changed.
#[derive(Serialize, ToSchema)]
pub(super) struct PauseStarted {
    pause: Pause,
}

/// A pause that an operator ended.
#[derive(Serialize, ToSchema)]
pub(super) struct PauseEnded {
    /// The pause; `null` if it was not in force any more.
    ended: Option<Pause>,
    /// The pauses in force that cover some of its keys.
    still: Vec<Pause>,
}

/// Lists the pauses that cover a tenant, those of all tenants included; without a tenant every pause. Only with `all` those that have
/// ended are there, too.
pub(super) async fn list(State(api): State<Api>, caller: Caller, uri: Uri) -> Result<Json<Rows>, Refusal> {
    let mut params = Params::read(&uri, &["tenant", "all"])?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let mut pauses = api.state.store.pauses(params.flag("all")?, Timestamp::now()).await?;
    pauses.retain(|pause| tenant.as_ref().is_none_or(|tenant| pause.scope.covers_tenant(tenant)));
    Ok(Json(Rows { rows: pauses }))
}

/// A pause.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PauseTerms)]
#[serde(deny_unknown_fields)]
struct Terms {
    /// The keys: `type=activity`, `tenant=acme and type=activity`, or `all`.
    #[serde(rename = "where")]
    words: String,
    /// The reason, for the audit trail.
    why: String,
    /// The end of the pause: a time, or a span from now. Without it only a resume ends the pause.
    until: Option<String>,
    /// Single messages of the tenant wait, too.
    #[serde(default)]
    messages: bool,
}

/// Starts a pause, or gives the one of the same scope new terms. Answers 201 if there was none.
pub(super) async fn pause(
    State(api): State<Api>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<(StatusCode, Json<PauseStarted>), Refusal> {
    let tenant = caller.tenant(Params::read(&uri, &["tenant"])?.text("tenant"))?;
    let Terms { words, why, until, messages } = body::read(&headers, &bytes)?;
    let scope = scope(&words).map_err(|problem| Refusal::body(Fault::new("where", problem)))?;
    let scope = of_tenant(scope, tenant)?;
    if messages && scope.tenant.is_none() && scope.digest_type.is_some() {
        let problem = "single messages have no digest type; name their tenant in where";
        return Err(Refusal::body(Fault::new("messages", problem)));
    }
    let (order, until, now) = (caller.order(why)?, later("until", until)?, Timestamp::now());
    let paused = Paused { by: order.by, why: order.why, since: now, until };
    let store = &*api.state.store;
    let before = latest(store, &scope).await?;
    let pause = store.pause(&scope, messages, &paused).await?;
    wake(&api, scope, messages || before.as_ref().is_some_and(|before| before.messages));
    let known = before.is_some_and(|before| before.in_force(now));
    let status = if known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(PauseStarted { pause })))
}

/// Fills in the tenant, or refuses another one.
fn of_tenant(scope: Scope, tenant: Option<String>) -> Result<Scope, Problem> {
    match (scope.tenant.as_ref(), tenant) {
        (None, tenant) => Ok(Scope { tenant, ..scope }),
        (Some(named), Some(tenant)) if *named != tenant => Err(Problem::NotFound),
        (Some(_), _) => Ok(scope),
    }
}

/// Ends a pause. A token of one tenant ends only those of its tenant.
pub(super) async fn resume(
    State(api): State<Api>,
    caller: Caller,
    Named(id): Named<Uuid>,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Json<PauseEnded>, Refusal> {
    let tenant = caller.tenant(Params::read(&uri, &["tenant"])?.text("tenant"))?;
    let Why { why } = body::read(&headers, &bytes)?;
    let entry = caller.order(why)?.entry("resume", Timestamp::now());
    let is_of = |pause: &Pause| tenant.is_none() || pause.scope.tenant == tenant;
    let known = by_id(&*api.state.store, id).await?.filter(is_of).ok_or(Problem::NotFound)?;
    let Resumed { ended, still } = pauses::resume(&*api.state.store, &known, &entry).await?;
    wake(&api, known.scope, known.messages);
    Ok(Json(PauseEnded { ended, still }))
}

/// Signals the running keys of the scope in the background. A key that no signal reaches looks by itself within an hour.
fn wake(api: &Api, scope: Scope, messages: bool) {
    let Ok(temporal) = api.temporal() else {
        tracing::warn!(%scope, "no key is signalled: Temporal has not answered yet");
        return;
    };
    tokio::spawn(async move {
        let ids = match running(&temporal, &scope, messages).await {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!(%scope, %error, "no key is signalled"),
        };
        let (all, mut failed) = (ids.len(), 0_usize);
        let send = |id: String| choices::signal(&temporal, id);
        at_rate(ids, RATE, send, |answer| failed += usize::from(answer.is_err())).await;
        tracing::info!(%scope, all, failed, "the running workflows of a pause are signalled");
    });
}
