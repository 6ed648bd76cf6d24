//! Statistics for operators: `GET /v1/stats`, `GET /v1/report` and `GET /v1/relays`.

use axum::{
    Json,
    extract::State,
    http::Uri,
    response::{IntoResponse as _, Response},
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use tidings_model::{
    RelaysToday,
    report::{self, ReportLine},
    statistics::StatisticsScope,
};
use tidings_operations::stats::{Stats, StatsError, StatsQuery, stats as asked};
use tidings_services::relays::RelayView;
use utoipa::ToSchema;

use super::{
    ApiState,
    caller::ApiCaller,
    openapi::operation::{ApiTag, Operation, Query},
    params::{self, AnyTenant, QueryParams},
    refusal::ApiRefusal,
};
use crate::problem::Problem;

const TAG: ApiTag = ApiTag::Statistics;
const STATS: [Query; 2] = [Query::Tenant, Query::Since];
const REPORT: [Query; 4] = [Query::Tenant, Query::By, Query::Since, Query::Until];

/// Default span of statistics.
const SPAN: SignedDuration = SignedDuration::from_hours(24);
/// Default span of a report.
const REPORTED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Fields tied to no tenant. We remove them for tokens of one tenant.
const OF_ALL_TENANTS: [&str; 6] = ["task_queues", "breakers", "inbox", "webhook_events", "differences", "retention"];

/// A report.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageReport)]
pub(super) struct MessageReport {
    /// One line for each value of the property; one line in all without a property.
    rows: Vec<ReportLine>,
}

/// The relays of the streams.
#[derive(Serialize, ToSchema)]
struct Relays<'a> {
    rows: Vec<RelayView<'a>>,
}

pub(super) async fn stats(State(api): State<ApiState>, caller: ApiCaller, uri: Uri) -> Result<Json<Value>, ApiRefusal> {
    let now = Timestamp::now();
    let mut params = QueryParams::from_query(&uri, &STATS)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let since = params.take_time("since", now)?.unwrap_or(now - SPAN);
    let (relays, temporal) = (&api.state.settings.relays, api.temporal()?);
    let question = StatsQuery {
        store: &*api.state.store,
        temporal: &temporal,
        task_queue: &api.task_queue,
        providers: relays.iter().map(|(name, relay)| (name.clone(), relay.provider)).collect(),
        relays: RelaysToday::from_settings(&api.state.settings),
        scope: StatisticsScope { tenant, since, now },
    };
    let mut stats = asked(&question).await.map_err(stats_refusal)?;
    if caller.own_tenant.is_some() {
        // A tenant should not see who works in the Temporal namespace, nor operators' notes there.
        for run in &mut stats.troubled_runs {
            (run.by, run.why) = (None, None);
        }
    }
    let mut answer = json!(stats);
    if let (Some(fields), Some(_)) = (answer.as_object_mut(), &caller.own_tenant) {
        fields.retain(|name, _| !OF_ALL_TENANTS.contains(&name.as_str()));
    }
    Ok(Json(answer))
}

pub(super) fn describe_stats() -> Operation {
    Operation::new(
        TAG,
        "Counts over a span that ends now; 24 hours unless since says more. A token of one tenant does not \
         get task_queues, breakers, inbox, webhook_events, differences and retention, which belong to all tenants.",
    )
    .query(&STATS)
    .answer::<Stats>(200, "The statistics.")
    .problem(Problem::NoAnswer)
}

fn stats_refusal(error: StatsError) -> ApiRefusal {
    match error {
        StatsError::Store(error) => error.into(),
        error @ (StatsError::Visibility(_) | StatsError::TaskQueue(_)) => {
            tracing::warn!(%error, "cannot get statistics");
            Problem::NoAnswer.into()
        }
    }
}

pub(super) async fn report(
    State(api): State<ApiState>,
    caller: ApiCaller,
    uri: Uri,
) -> Result<Json<MessageReport>, ApiRefusal> {
    let now = Timestamp::now();
    let mut params = QueryParams::from_query(&uri, &REPORT)?;
    let tenant = caller.tenant(params.text("tenant"))?;
    let by = params.value("by")?;
    let since = params.take_time("since", now)?.unwrap_or(now - REPORTED);
    let until = params.take_time("until", now)?.unwrap_or(now);
    let counted = api.state.store.message_report(&report::ReportQuery::new(tenant, since, until, by)).await?;
    let rows = counted.into_iter().map(|(bucket, counts)| ReportLine::new(by, bucket, counts)).collect();
    Ok(Json(MessageReport { rows }))
}

pub(super) fn describe_report() -> Operation {
    Operation::new(TAG, "Counts the messages that were made in a span; 30 days unless since says more.")
        .query(&REPORT)
        .answer::<MessageReport>(200, "The report.")
}

/// Relays are shared by all tenants, so this needs a token for all tenants.
pub(super) async fn relays(
    State(api): State<ApiState>,
    AnyTenant { tenant, .. }: AnyTenant,
) -> Result<Response, ApiRefusal> {
    if tenant.is_some() {
        return Err(Problem::NotFound.into());
    }
    let (now, settings) = (Timestamp::now(), &api.state.settings);
    let breakers = RelaysToday::from_settings(settings).breakers(api.state.store.breakers().await?);
    let relays = settings.relays.iter().map(|(name, relay)| (name.as_str(), relay.relay.to_string()));
    Ok(Json(Relays { rows: RelayView::all(relays, settings, &breakers, now) }).into_response())
}

pub(super) fn describe_relays() -> Operation {
    Operation::new(TAG, "Relays belong to no tenant. Only a token of all tenants that names none finds them.")
        .query(&params::TenantRead::QUERY)
        .answer::<Relays<'_>>(200, "The relays with their breakers.")
}

#[cfg(test)]
mod tests {
    use tidings_model::{api_token::TokenScope as Permission, inbox::InboxLimits};

    use crate::api::tests::Env;

    #[tokio::test]
    async fn only_a_token_of_all_tenants_reads_the_relays() {
        let env = Env::start(InboxLimits::default()).await;
        let own = env.token(Some("acme"), &[Permission::StatsRead], None).await;
        let all = env.token(None, &[Permission::StatsRead], None).await;
        let get = async |token: &str, path: &str| env.ask(token, "GET", path, serde_json::Value::Null).await;
        let (relays, none) = ("/v1/relays", serde_json::json!({"rows": []}));
        assert_eq!(get(&all, relays).await.json(), none);
        assert_eq!(get(&own, relays).await.problem(), "not-found");
        assert_eq!(get(&own, "/v1/report?by=day&since=7d").await.json(), none);
        for (path, status, problem) in [
            ("/v1/report?by=month", 400, "wrong-parameter"),
            ("/v1/report?tenant=zeta", 404, "not-found"),
            ("/v1/stats?tenant=zeta", 404, "not-found"),
            ("/v1/stats", 503, "no-answer"),
        ] {
            let answer = get(&own, path).await;
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem), "{path}");
        }
    }
}
