//! Fleet statistics (rule 37): open windows from Temporal's visibility, digests from the ledger, and task
//! queue backlogs.
//!
//! If a window is due while no worker runs, it is not in the ledger yet. The digest queue's backlog shows it
//! and its age.

use std::{collections::BTreeMap, time::Duration};

use futures::{TryStreamExt as _, future::try_join_all, try_join};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use temporalio_client::{
    Client, NamespacedClient as _, RpcOptions, WorkflowListOptions,
    errors::ClientError,
    grpc::WorkflowService,
    schedules::ScheduleError,
    tonic::{Code, IntoRequest as _, Status},
};
use temporalio_common::protos::temporal::api::{
    enums::v1::TaskQueueType,
    taskqueue::v1::{TaskQueue, TaskQueueStats},
    workflowservice::v1::{DescribeTaskQueueRequest, DescribeTaskQueueResponse},
};
use tidings_model::{
    Key, Provider, RelaysToday, ZoneData,
    breaker::split_name,
    inbox::InboxDepth,
    known_zone, names,
    process::{ProcessDifference, UPKEEP_LATE_AFTER},
    retention::ArchiveRecord,
    statistics::{LedgerStatistics, StatisticsScope},
    subscription::{COUNTED, SubscriptionState},
    troubled_run::{RunTrouble, TroubledRun, WorkflowOwner, remedy_command},
    zone_data,
};
use tidings_services::{
    processes::compare_processes,
    visibility::{self, TaskKind, TaskQueueBacklog},
};
use tidings_store::{ListedRun, Store};
use tracing::{Instrument as _, debug_span};

const LISTED: usize = 50_000;
const TROUBLED: u32 = 100;

pub struct StatsQuery<'a> {
    pub store: &'a dyn Store,
    pub temporal: &'a Client,
    pub task_queue: &'a str,
    pub providers: BTreeMap<String, Provider>,
    pub relays: RelaysToday,
    pub scope: StatisticsScope,
}

#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    #[error("Temporal cannot count the open windows: {0}")]
    Visibility(#[from] ClientError),
    #[error("Temporal cannot describe a task queue: {0}")]
    TaskQueue(#[from] Box<Status>),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

/// Fleet statistics. JSON names are stable.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    pub at: Timestamp,
    pub since: Timestamp,
    /// Keys with a running workflow, including lingering ones.
    #[serde(rename = "openDigestCount")]
    pub open_digest_count: u64,
    /// Open keys by tenant and type. We use the workflow id if search attributes are missing.
    pub open: Vec<OpenDigests>,
    /// `true` if `open` covers only the first 50,000 keys.
    pub open_is_partial: bool,
    /// Digests claimed but not ended.
    pub undelivered_digest_count: u64,
    /// Undelivered digests past their deadline.
    pub overdue_digest_count: u64,
    /// Age of the oldest overdue digest, or of the oldest workflow task waiting for a digest worker. 0 if
    /// nothing waits.
    pub oldest_overdue_seconds: u64,
    /// Events in digests which ended within the span.
    pub event_count: u64,
    #[serde(flatten)]
    pub ledger: LedgerStatistics,
    /// Provider by relay, for `reported`.
    pub providers: BTreeMap<String, &'static str>,
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub task_queues: Vec<TaskQueueBacklog>,
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub breakers: Vec<OpenBreaker>,
    /// Events accepted by the API but not yet by Temporal, for all tenants.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub inbox: InboxDepth,
    /// Webhook events by subscription, for all its tenants.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub webhook_events: Vec<SubscriptionBacklog>,
    /// Runs in Temporal which need an operator: terminated, timed out or failed, or no worker can execute
    /// them.
    pub troubled_run_count: u64,
    /// Seconds since the oldest run in trouble ended or started. 0 if there is none.
    pub oldest_troubled_run_seconds: u64,
    /// Runs in trouble by kind.
    pub troubled: Vec<TroubleCount>,
    /// The latest 100 runs in trouble, each with the command to run.
    pub troubled_runs: Vec<TroubledRun>,
    /// Time zones in the directory or in preferences which no zone data contains. These digests use another
    /// zone.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub unknown_zones: Vec<UnknownZone>,
    /// The zone data used by this process.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub zone_data: ZoneData,
    /// The newest zone data release of any worker. Empty if none reported one.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub newest_zone_release: String,
    /// How live workers and gateways differ.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub differences: Vec<ProcessDifference>,
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub retention: RetentionStatus,
}

/// The nightly deletion of old data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetentionStatus {
    /// When the last one ended, or a worker's first heartbeat if none has ended yet. `None` if no worker has
    /// ever run.
    pub last_ended_at: Option<Timestamp>,
    /// Why the next one may not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A time zone which no zone data contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnknownZone {
    /// As written in the row.
    pub zone: String,
    /// Directory rows and preferences with this zone.
    pub rows: u64,
}

/// Runs with the same kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TroubledRuns))]
pub struct TroubleCount {
    pub trouble: RunTrouble,
    pub runs: u64,
}

/// Lists runs in trouble, each with its remedy.
///
/// # Errors
/// If the store fails.
pub async fn troubled_runs(
    store: &dyn Store,
    task_queue: &str,
    tenant: Option<&str>,
    limit: u32,
) -> tidings_store::Result<Vec<TroubledRun>> {
    let listed = store.troubled_runs(tenant, limit).await?.into_iter();
    let with_remedy = listed.map(|ListedRun { run, by, why }| {
        let remedy =
            remedy_command(&WorkflowOwner::from_workflow_id(&run.id.workflow_id, task_queue), &run.id, run.trouble);
        let (workflow_id, run_id) = (run.id.workflow_id, run.id.run_id);
        TroubledRun { workflow_id, run_id, trouble: run.trouble, since: run.since, by, why, remedy }
    });
    Ok(with_remedy.collect())
}

/// Webhook events for one subscription. Each count stops at 100,000.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SubscriptionBacklog))]
pub struct SubscriptionBacklog {
    pub subscription: String,
    pub waiting: u64,
    /// When the oldest pending webhook event was written. `None` if nothing is pending.
    pub oldest: Option<Timestamp>,
    pub dead_letters: u64,
    /// When the receiver returned 410.
    pub gone_at: Option<Timestamp>,
}

impl From<SubscriptionState> for SubscriptionBacklog {
    fn from(state: SubscriptionState) -> Self {
        let SubscriptionState { name, waiting, oldest_at, dead_letters, gone_at } = state;
        Self { subscription: name, waiting, oldest: oldest_at, dead_letters, gone_at }
    }
}

/// Keys with a running workflow, for one tenant and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OpenDigests))]
pub struct OpenDigests {
    pub tenant: String,
    pub digest_type: String,
    pub digests: u64,
}

/// A relay with an open circuit breaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenBreaker {
    pub relay: String,
    /// Only this tenant's email is blocked. Absent if the whole relay is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub cause: &'static str,
    pub why: String,
    pub open_since: Timestamp,
}

/// Collects the statistics from Temporal and the store.
///
/// # Errors
/// If either of them fails.
pub async fn stats(question: &StatsQuery<'_>) -> Result<Stats, StatsError> {
    let StatsQuery { store, temporal, task_queue, providers, relays, scope } = question;
    let counted = async { Ok(store.statistics(scope).await?) };
    let breakers = async { Ok(relays.breakers(store.breakers().await?)) };
    let inbox = async { Ok(store.inbox_depth().await?) };
    let subscriptions = async { Ok(store.subscriptions(COUNTED).await?) };
    let queues = task_queues(temporal, task_queue);
    let troubled = async { Ok(store.count_troubled_runs(scope.tenant.as_deref()).await?) };
    let runs = async { Ok(troubled_runs(*store, task_queue, scope.tenant.as_deref(), TROUBLED).await?) };
    let zones = async { Ok(store.count_zones(scope.tenant.as_deref()).await?) };
    let newest = async { Ok(store.zone_release().await?) };
    let differences = async { Ok(compare_processes(*store).await?) };
    let retention = retention_status(*store, temporal, task_queue, scope.now);
    let (
        open_digest_count,
        open,
        ledger,
        breakers,
        task_queues,
        inbox,
        subscriptions,
        troubled,
        troubled_runs,
        zones,
        newest_zone_release,
        differences,
        retention,
    ) = try_join!(
        count_open(temporal, scope.tenant.as_deref()),
        list_open(temporal, scope.tenant.as_deref()),
        counted,
        breakers,
        queues,
        inbox,
        subscriptions,
        troubled,
        runs,
        zones,
        newest,
        differences,
        retention,
    )?;
    let breakers = breakers.into_iter().filter_map(|(name, versioned)| {
        let open = versioned.breaker.open?;
        let (relay, tenant) = split_name(&name);
        let (relay, tenant) = (relay.to_owned(), tenant.map(str::to_owned));
        Some(OpenBreaker { relay, tenant, cause: open.cause.name(), why: open.why, open_since: open.since })
    });
    let oldest_troubled = troubled.iter().map(|(_, _, oldest_at)| *oldest_at).min();
    let reported = ledger.reported.iter().filter_map(|of| Some((of.relay.clone(), providers.get(&of.relay)?.name())));
    Ok(Stats {
        at: scope.now,
        since: scope.since,
        open_digest_count,
        open_is_partial: open.values().sum::<u64>() >= LISTED as u64,
        open: open
            .into_iter()
            .map(|((tenant, digest_type), digests)| OpenDigests { tenant, digest_type, digests })
            .collect(),
        undelivered_digest_count: ledger.undelivered.iter().map(|of| of.digests).sum(),
        overdue_digest_count: ledger.undelivered.iter().map(|of| of.overdue).sum(),
        oldest_overdue_seconds: oldest_overdue(&ledger, &task_queues, task_queue, scope.now),
        event_count: ledger.ended.iter().map(|of| of.events).sum(),
        providers: reported.collect(),
        ledger,
        task_queues,
        breakers: breakers.collect(),
        inbox,
        webhook_events: subscriptions.into_iter().map(Into::into).collect(),
        troubled_run_count: troubled.iter().map(|(_, runs, _)| runs).sum(),
        oldest_troubled_run_seconds: oldest_troubled.map_or(0, |at| age_in_seconds(at, scope.now)),
        troubled: troubled.into_iter().map(|(trouble, runs, _)| TroubleCount { trouble, runs }).collect(),
        troubled_runs,
        unknown_zones: zones
            .into_iter()
            .filter(|(zone, _)| known_zone(zone).is_none())
            .map(|(zone, rows)| UnknownZone { zone, rows })
            .collect(),
        zone_data: zone_data().clone(),
        newest_zone_release,
        differences,
        retention,
    })
}

async fn retention_status(
    store: &dyn Store,
    temporal: &Client,
    task_queue: &str,
    now: Timestamp,
) -> Result<RetentionStatus, StatsError> {
    let last_ended_at = store.upkeep_at().await?;
    let id = names::retention_schedule(task_queue);
    let span = debug_span!("temporal", call = "describe_schedule", id);
    let described = temporal.get_schedule_handle(&id).describe(RpcOptions::default()).instrument(span).await;
    let late = last_ended_at.map(|at| now.duration_since(at)).filter(|age| *age > UPKEEP_LATE_AFTER);
    let unscheduled = match described {
        Err(ScheduleError::Rpc(status)) if status.code() == Code::NotFound => Some(format!(
            "schedule {id} is missing: old data will not be deleted; a worker creates it at its start, or within an hour"
        )),
        Ok(schedule) if schedule.paused() => Some(format!("schedule {id} is paused: old data will not be deleted")),
        _ => late.map(|age| format!("last completed {} hours ago; see {id} in the Temporal UI", age.as_hours())),
    };
    let waits = store.archives().await?.into_iter().find_map(waits_for);
    Ok(RetentionStatus { last_ended_at, trouble: waits.or(unscheduled) })
}

fn waits_for(ArchiveRecord { failed_at, failure, .. }: ArchiveRecord) -> Option<String> {
    let (since, why) = (failed_at?, failure?);
    Some(format!("waits for its archive since {since:.0}, and the store grows: {why}"))
}

fn age_in_seconds(at: Timestamp, now: Timestamp) -> u64 {
    now.duration_since(at).max(SignedDuration::ZERO).as_secs().unsigned_abs()
}

fn oldest_overdue(ledger: &LedgerStatistics, queues: &[TaskQueueBacklog], digests: &str, now: Timestamp) -> u64 {
    let planning = queues.iter().find(|queue| queue.name == digests && queue.kind == TaskKind::Workflow);
    let waits = planning.and_then(|queue| SignedDuration::try_from_secs_f64(queue.backlog_seconds?).ok());
    let oldest = ledger.oldest_overdue(now).max(waits).unwrap_or(SignedDuration::ZERO);
    oldest.as_secs().unsigned_abs()
}

/// Matches a tenant's keys in any status. Uses the workflow id because search attributes are optional.
fn keys_of(tenant: Option<&str>) -> String {
    let workflow = names::WORKFLOW_TYPE;
    let ids = tenant.map_or_else(|| format!("{workflow}/"), Key::workflow_ids_of);
    format!("WorkflowType = '{workflow}' AND WorkflowId STARTS_WITH '{ids}'")
}

/// Counts open keys, including those paused in Temporal.
///
/// # Errors
/// If Temporal fails.
pub async fn count_open(temporal: &Client, tenant: Option<&str>) -> Result<u64, StatsError> {
    let span = debug_span!("temporal", call = "count_workflows", tenant);
    Ok(visibility::count_open(temporal, &keys_of(tenant)).instrument(span).await?)
}

async fn list_open(temporal: &Client, tenant: Option<&str>) -> Result<BTreeMap<(String, String), u64>, StatsError> {
    let options = WorkflowListOptions::builder().limit(LISTED).build();
    let span = debug_span!("temporal", call = "list_workflows", tenant);
    let found = visibility::list_open(temporal, &keys_of(tenant), options);
    let counts = found.try_fold(BTreeMap::new(), async |mut counts, run| {
        // A dev server ignores case in STARTS_WITH.
        if let Ok(key) = Key::from_workflow_id(run.id())
            && tenant.is_none_or(|tenant| key.tenant == tenant)
        {
            *counts.entry((key.tenant, key.digest_type)).or_default() += 1;
        }
        Ok(counts)
    });
    Ok(counts.instrument(span).await?)
}

/// Describes each task queue served by the workers of `task_queue`.
///
/// # Errors
/// If Temporal fails.
pub async fn task_queues(temporal: &Client, task_queue: &str) -> Result<Vec<TaskQueueBacklog>, StatsError> {
    let others =
        [names::bulk_queue(task_queue), names::transactional_queue(task_queue), names::retention_schedule(task_queue)];
    let queues = std::iter::once(task_queue.to_owned()).chain(others);
    let kinds = queues.flat_map(|name| [TaskKind::Workflow, TaskKind::Activity].map(|kind| (name.clone(), kind)));
    try_join_all(kinds.map(|(name, kind)| describe(temporal, name, kind))).await
}

async fn describe(temporal: &Client, name: String, kind: TaskKind) -> Result<TaskQueueBacklog, StatsError> {
    let of_type = match kind {
        TaskKind::Workflow => TaskQueueType::Workflow,
        TaskKind::Activity => TaskQueueType::Activity,
    };
    let request = DescribeTaskQueueRequest {
        namespace: temporal.namespace(),
        task_queue: Some(TaskQueue { name: name.clone(), ..Default::default() }),
        task_queue_type: of_type.into(),
        report_stats: true,
        ..Default::default()
    };
    let span = debug_span!("temporal", call = "describe_task_queue", task_queue = name);
    // Unlike `connection().workflow_service()`, the client retries.
    let mut client = temporal.clone();
    let described = WorkflowService::describe_task_queue(&mut client, request.into_request()).instrument(span).await;
    Ok(queue_backlog(name, kind, described.map_err(Box::new)?.into_inner()))
}

fn queue_backlog(name: String, kind: TaskKind, described: DescribeTaskQueueResponse) -> TaskQueueBacklog {
    let seconds = |stats: &TaskQueueStats| {
        let age = stats.approximate_backlog_age.unwrap_or_default();
        Duration::new(age.seconds.max(0).unsigned_abs(), age.nanos.max(0).unsigned_abs()).as_secs_f64()
    };
    let stats = described.stats.as_ref();
    TaskQueueBacklog {
        name,
        kind,
        backlog: stats.map(|stats| stats.approximate_backlog_count.max(0).unsigned_abs()),
        backlog_seconds: stats.map(seconds),
        pollers: described.pollers.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use tidings_model::statistics::UndeliveredDigests;

    use super::*;

    fn waiting(name: &str, kind: TaskKind, backlog_seconds: f64) -> TaskQueueBacklog {
        TaskQueueBacklog {
            name: name.into(),
            kind,
            backlog: Some(1),
            backlog_seconds: Some(backlog_seconds),
            pollers: 0,
        }
    }

    #[test]
    fn a_server_without_figures_is_not_a_server_without_a_backlog() {
        let of = |stats| {
            let described = DescribeTaskQueueResponse { stats, ..Default::default() };
            let queue = queue_backlog("tidings".into(), TaskKind::Workflow, described);
            (queue.backlog, queue.backlog_seconds)
        };
        assert_eq!(of(None), (None, None));
        assert_eq!(of(Some(TaskQueueStats::default())), (Some(0), Some(0.0)));
    }

    #[test]
    fn the_oldest_overdue_is_a_digest_or_a_waiting_key() {
        let now = Timestamp::from_second(1_000).unwrap();
        for (due, queue, oldest) in [
            (None, waiting("tidings", TaskKind::Workflow, 0.0), 0),
            (Some(900), waiting("tidings", TaskKind::Workflow, 30.5), 100),
            (Some(900), waiting("tidings", TaskKind::Workflow, 130.5), 130),
            (Some(2_000), waiting("tidings", TaskKind::Workflow, 2.9), 2),
            (None, waiting("tidings", TaskKind::Activity, 50.0), 0),
            (None, waiting("tidings-bulk", TaskKind::Workflow, 50.0), 0),
        ] {
            let undelivered = due.map(|due| UndeliveredDigests {
                tenant: "acme".into(),
                digest_type: "activity".into(),
                digests: 1,
                attempted: 0,
                overdue: 1,
                oldest_due_at: Timestamp::from_second(due).unwrap(),
            });
            let ledger = LedgerStatistics { undelivered: undelivered.into_iter().collect(), ..Default::default() };
            assert_eq!(
                oldest_overdue(&ledger, std::slice::from_ref(&queue), "tidings", now),
                oldest,
                "{due:?} {queue:?}"
            );
        }
    }

    #[test]
    fn the_open_windows_of_a_tenant_are_found_by_workflow_id() {
        let query = keys_of(Some("it's"));
        assert!(query.ends_with("AND WorkflowId STARTS_WITH 'digest/it%27s/'"), "{query}");
        assert!(keys_of(None).ends_with("AND WorkflowId STARTS_WITH 'digest/'"));
    }
}
