//! Pauses (rule 35): `GET /v1/pauses`, `POST /v1/pauses` and `POST /v1/pauses/{id}/resume`.
//!
//! The store is authoritative. Signals only make keys notice a change sooner, so we send them after the
//! response.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidings_model::pause::{Pause, PauseDetails, PauseScope};
use tidings_operations::{
    at_rate,
    pauses::{self, ResumeOutcome, by_id, latest_pause, parse_scope, running_workflows},
};
use tidings_services::choices;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    ApiState,
    body::{self, Why},
    caller::ApiCaller,
    openapi::operation::{ApiTag, Operation, Query},
    operate::parse_future,
    params::{AnyTenant, PathParams, QueryParams},
    refusal::{ApiRefusal, Fault},
};
use crate::problem::Problem;

/// Signals to running keys per second.
const RATE: u32 = 50;

/// The pauses of a listing.
#[derive(Serialize, ToSchema)]
#[schema(as = Pauses)]
pub(super) struct PausePage {
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

/// A token for one tenant should not see who paused all tenants, nor why.
fn hide_operator(caller: &ApiCaller, pause: &mut Pause) {
    if caller.own_tenant.is_some() && pause.scope.tenant.is_none() {
        pause.forget_operator();
    }
}

/// Without a tenant, this lists every pause. Otherwise it lists those covering the tenant, including pauses
/// for all tenants. Ended ones need `all`.
pub(super) async fn list(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<PausePage>, ApiRefusal> {
    let mut params = QueryParams::from_query(&uri, &["tenant", "all"])?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let mut pauses = api.state.store.pauses(params.flag("all")?, Timestamp::now()).await?;
    let names = &api.state.settings.names;
    pauses.retain(|pause| {
        tenant.as_ref().is_none_or(|tenant| names.scope_today(&pause.scope).covers_tenant(names.tenant(tenant)))
    });
    for pause in &mut pauses {
        hide_operator(&caller, pause);
    }
    Ok(Json(PausePage { rows: pauses }))
}

/// A pause.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PauseTerms)]
#[serde(deny_unknown_fields)]
struct PauseTerms {
    /// The keys: `digest_type=activity`, `tenant=acme and digest_type=activity`, or `all`.
    filter: String,
    /// The reason, for the audit trail.
    why: String,
    /// The end of the pause: a time, or a span from now. Without it only a resume ends the pause.
    until: Option<String>,
    /// Single messages of the tenant wait, too.
    #[serde(default)]
    messages: bool,
}

/// Changes the existing pause if it has the same scope. Returns 201 if none was in force.
pub(super) async fn pause(
    State(api): State<ApiState>,
    AnyTenant { caller, tenant }: AnyTenant,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<(StatusCode, Json<PauseStarted>), ApiRefusal> {
    let PauseTerms { filter, why, until, messages } = body::read_json(&headers, &bytes)?;
    let scope = parse_scope(&filter).map_err(|problem| ApiRefusal::body(Fault::new("filter", problem)))?;
    let names = &api.state.settings.names;
    let scope = of_tenant(names.scope_today(&scope), tenant.map(|tenant| names.tenant(&tenant).to_owned()))?;
    if messages && scope.tenant.is_none() && scope.digest_type.is_some() {
        let problem = "single messages have no digest type; name their tenant in filter";
        return Err(ApiRefusal::body(Fault::new("messages", problem)));
    }
    let (order, until, now) = (caller.as_operator(why)?, parse_future("until", until)?, Timestamp::now());
    let paused = PauseDetails { by: order.by, why: order.why, since: now, until };
    let store = &*api.state.store;
    let before = latest_pause(store, names, &scope).await?;
    let pause = store.pause(&scope, messages, &paused).await?;
    signal_keys(&api, scope, messages || before.as_ref().is_some_and(|before| before.messages));
    let known = before.is_some_and(|before| before.in_force(now));
    let status = if known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(PauseStarted { pause })))
}

/// Fills in the tenant or rejects a different one.
fn of_tenant(scope: PauseScope, tenant: Option<String>) -> Result<PauseScope, Problem> {
    match (scope.tenant.as_ref(), tenant) {
        (None, tenant) => Ok(PauseScope { tenant, ..scope }),
        (Some(named), Some(tenant)) if *named != tenant => Err(Problem::NotFound),
        (Some(_), _) => Ok(scope),
    }
}

/// A token for one tenant can end only this tenant's pauses.
pub(super) async fn resume(
    State(api): State<ApiState>,
    PathParams(id): PathParams<Uuid>,
    AnyTenant { caller, tenant }: AnyTenant,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Json<PauseEnded>, ApiRefusal> {
    let Why { why } = body::read_json(&headers, &bytes)?;
    let entry = caller.as_operator(why)?.audit_entry("resume", Timestamp::now());
    let names = &api.state.settings.names;
    let tenant = tenant.map(|tenant| names.tenant(&tenant).to_owned());
    let is_of = |pause: &Pause| tenant.is_none() || names.scope_today(&pause.scope).tenant == tenant;
    let known = by_id(&*api.state.store, id).await?.filter(is_of).ok_or(Problem::NotFound)?;
    let ResumeOutcome { ended, mut still } = pauses::resume(&*api.state.store, names, &known, &entry).await?;
    for pause in &mut still {
        hide_operator(&caller, pause);
    }
    signal_keys(&api, known.scope, known.messages);
    Ok(Json(PauseEnded { ended, still }))
}

/// Hides who paused all tenants, and why, from a token for one tenant. Note: this appears both in fields and
/// inside reason texts.
pub(super) async fn hide_operators(api: &ApiState, caller: &ApiCaller, answer: &mut Value) -> Result<(), ApiRefusal> {
    let mut foreign = Vec::new();
    if caller.own_tenant.is_none() || !names_pauses(answer, &mut foreign) {
        return Ok(());
    }
    let pauses = api.state.store.pauses(true, Timestamp::now()).await?;
    // A pause may have changed since the key saw it, so we hide all but the tenant's own.
    let is_own = |pause: &Pause| pause.scope.tenant.as_deref().is_some_and(|tenant| caller.covers(tenant));
    foreign.retain(|met| !pauses.iter().any(|pause| is_own(pause) && pause.paused == *met));
    foreign.extend(pauses.into_iter().filter(|pause| pause.scope.tenant.is_none()).map(|pause| pause.paused));
    for paused in foreign {
        let mut hidden = paused.clone();
        hidden.forget_operator();
        replace_paused(answer, &paused, &hidden);
    }
    Ok(())
}

/// Returns `true` if this mentions a pause, and collects pauses found in fields.
fn names_pauses(answer: &Value, found: &mut Vec<PauseDetails>) -> bool {
    match answer {
        Value::String(text) => text.contains("paused by "),
        // Uses `count`, not `any`, because every element may add a pause.
        Value::Array(items) => items.iter().filter(|item| names_pauses(item, found)).count() > 0,
        Value::Object(fields) => {
            let met = ["pause", "paused"].iter().filter_map(|name| PauseDetails::deserialize(fields.get(*name)?).ok());
            found.extend(met);
            let names = fields.values().filter(|value| names_pauses(value, found)).count() > 0;
            names || !found.is_empty()
        }
        _ => false,
    }
}

fn replace_paused(answer: &mut Value, paused: &PauseDetails, hidden: &PauseDetails) {
    match answer {
        Value::String(text) => *text = text.replace(&paused.to_string(), &hidden.to_string()),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_paused(item, paused, hidden)),
        object if *object == json!(paused) => *object = json!(hidden),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_paused(value, paused, hidden)),
        _ => {}
    }
}

/// Signals running keys in the background. A missed key will notice within an hour.
fn signal_keys(api: &ApiState, scope: PauseScope, messages: bool) {
    let Ok(temporal) = api.temporal() else {
        tracing::warn!(%scope, "pause stored, but workflows could not be signalled: not connected to Temporal yet");
        return;
    };
    let settings = api.state.settings.clone();
    tokio::spawn(async move {
        let ids = match running_workflows(&temporal, &settings.names, &scope, messages).await {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!(%scope, %error, "pause stored, but workflows could not be signalled"),
        };
        let (all, mut failed) = (ids.len(), 0_usize);
        let send = |id: String| choices::signal_workflow(&temporal, id);
        at_rate(ids, RATE, send, |answer| failed += usize::from(answer.is_err())).await;
        tracing::info!(%scope, all, failed, "signalled running workflows of pause");
    });
}

const TAG: ApiTag = ApiTag::Pauses;

pub(crate) fn describe_list() -> Operation {
    Operation::new(TAG, "The pauses of a tenant are its own and those of all tenants.")
        .query(&[Query::Tenant, Query::All])
        .answer::<PausePage>(200, "The pauses.")
}

pub(crate) fn describe_pause() -> Operation {
    let bodies = [
        ("A digest type", json!({"filter": "digest_type=activity", "why": "wrong prices", "until": "2h"})),
        ("A whole tenant", json!({"filter": "all", "why": "ticket 812", "messages": true})),
    ];
    Operation::new(TAG, "Events collect, and nothing goes out. A pause of the same scope gets the new terms.")
        .query(&[Query::Tenant])
        .body::<PauseTerms>(&bodies)
        .answer::<PauseStarted>(200, "The scope was paused before.")
        .answer::<PauseStarted>(201, "The scope is paused now.")
        .link(200, "Resume", "id", "$response.body#/pause/id")
        .link(201, "Resume", "id", "$response.body#/pause/id")
}

pub(crate) fn describe_resume() -> Operation {
    Operation::new(
        TAG,
        "What is overdue goes out, spread over some time. A token of one tenant ends only pauses of its \
         tenant.",
    )
    .query(&[Query::Tenant])
    .body::<Why>(&[("A reason", json!({"why": "prices are right again"}))])
    .answer::<PauseEnded>(200, "The pause that ended, and those that still cover some of its keys.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_all_tenants_keeps_its_times_wherever_an_answer_names_it() {
        let since = Timestamp::from_second(1_800_000_000).unwrap();
        let paused = |by: &str| PauseDetails { by: by.into(), why: "zeta is attacked".into(), since, until: None };
        let (foreign, own) = (paused("root"), paused("ann"));
        let mut hidden = foreign.clone();
        hidden.forget_operator();
        let mut answer = json!({
            "pause": foreign, "own": [own], "delivering": {"why": format!("waits: {foreign}")}, "events": 1,
        });
        let mut found = Vec::new();
        assert!(!names_pauses(&json!({"events": 1, "why": "paused until Monday", "paused": null}), &mut found));
        assert!(names_pauses(&json!({"why": foreign.to_string()}), &mut found) && found.is_empty());
        assert!(names_pauses(&answer, &mut found) && found == [foreign.clone()]);
        replace_paused(&mut answer, &foreign, &hidden);
        assert_eq!(
            answer,
            json!({
                "pause": {"since": since}, "own": [own], "events": 1,
                "delivering": {"why": "waits: paused since 2027-01-15T08:00:00Z"},
            })
        );
    }
}
