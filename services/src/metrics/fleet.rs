//! Gauges for shared state. Each worker's poller sets them, so all export the same figures.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::AtomicU64,
};

use jiff::Timestamp;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use tidings_model::{
    breaker::VersionedBreaker,
    delivery_events::ReportKind,
    process::{ProcessAspect, ProcessDifference},
    records::SuppressionReason,
    settings::Settings,
    statistics::{ReportedByKind, SuppressedAddresses, UndeliveredDigests},
    subscription::SubscriptionState,
    troubled_run::RunTrouble,
};

use super::labels::{
    AspectLabels, OTHER, QueueLabels, ReasonLabels, RelayLabels, ReportLabels, SourceLabels, SubscriptionLabels,
    TenantLabels, TroubleLabels, digest_types, report_labels, tenant_label, tenants,
};
use crate::{metrics::labels, visibility};

type SecondsGauge = Gauge<f64, AtomicU64>;

metrics_table! {
    pub struct FleetMetrics {
        undelivered_digests: Family<TenantLabels, Gauge>, "Digests that were claimed and have no end";
        overdue_digests: Family<TenantLabels, Gauge>, "Undelivered digests past their due time";
        oldest_overdue: Family<TenantLabels, SecondsGauge>, "Time since the oldest overdue digest was due", Seconds;
        open_digests: Gauge, "Keys whose workflow runs";
        troubled_runs: Family<TroubleLabels, Gauge>, "Runs in Temporal that wait for an operator: tidings runs list";
        process_differences: Family<AspectLabels, Gauge>, "1 while processes of the installation differ in this: tidings stats";
        last_upkeep_timestamp: SecondsGauge, "The end of the last upkeep, or else the first beat of a worker", Seconds;
        refused_contents: Gauge, "Events of the last 24 hours with other content under a known id, which are in no message";
        suppressions: Family<ReasonLabels, Gauge>, "Suppressed addresses, at most a million";
        delivery_events: Family<ReportLabels, Counter>, "Delivery events that reached the store since this worker started";
        waiting_webhook_events: Family<SubscriptionLabels, Gauge>, "Webhook events that wait for their delivery, at most 100,000";
        oldest_webhook_event: Family<SubscriptionLabels, SecondsGauge>, "Age of the oldest webhook event that waits", Seconds;
        dead_webhook_events: Family<SubscriptionLabels, Gauge>, "Webhook events that were not delivered within 24 hours, at most 100,000";
        task_queue_backlog: Family<QueueLabels, Gauge>, "Tasks that wait for a worker";
        task_queue_backlog_age: Family<QueueLabels, SecondsGauge>, "Age of the oldest task that waits for a worker", Seconds;
        task_queue_pollers: Family<QueueLabels, Gauge>, "Pollers in the last minutes";
        relay_open: Family<RelayLabels, Gauge>, "Whether the relay's circuit breaker is open";
        poller_last_success_timestamp: Family<SourceLabels, SecondsGauge>, "The time of the poller's last success", Seconds;
    }
}

#[derive(Clone, Copy, Debug)]
pub enum PolledSource {
    Store,
    Temporal,
}

impl PolledSource {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Temporal => "temporal",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DigestBacklog {
    undelivered: u64,
    overdue: u64,
    oldest: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct NoticeBacklog {
    waiting: u64,
    oldest: f64,
    dead: u64,
}

impl FleetMetrics {
    pub(super) fn create_series(&self, settings: &Settings) {
        self.set_digest_backlogs(settings, &BTreeMap::new());
        self.set_suppressions(&[]);
        self.troubled_runs(&[]);
        self.set_differences(&[]);
        self.set_webhook_events(&BTreeSet::new(), &[], Timestamp::UNIX_EPOCH);
        for relay in settings.relays.keys().map(String::as_str).chain([OTHER]) {
            for kind in ReportKind::ALL {
                drop(self.delivery_events.get_or_create(&report_labels(settings, relay, kind.name())));
            }
        }
        for source in [PolledSource::Store, PolledSource::Temporal] {
            drop(self.poller_last_success_timestamp.get_or_create(&SourceLabels { source: source.name() }));
        }
    }

    pub fn set_undelivered(&self, settings: &Settings, digests: &[UndeliveredDigests], now: Timestamp) {
        self.set_digest_backlogs(settings, &sum_digests(settings, digests, now));
    }

    fn set_digest_backlogs(&self, settings: &Settings, waiting: &BTreeMap<(String, String), DigestBacklog>) {
        for tenant in tenants(settings) {
            for name in digest_types(settings) {
                let DigestBacklog { undelivered, overdue, oldest } =
                    waiting.get(&(tenant.clone(), name.clone())).copied().unwrap_or_default();
                let of = TenantLabels { tenant: tenant.clone(), digest_type: name };
                self.undelivered_digests.get_or_create(&of).set(gauge_value(undelivered));
                self.overdue_digests.get_or_create(&of).set(gauge_value(overdue));
                self.oldest_overdue.get_or_create(&of).set(oldest);
            }
        }
    }

    pub fn add_reports(&self, settings: &Settings, events: &[ReportedByKind]) {
        for ReportedByKind { relay, kind, events } in events {
            // A newer version may have written other kinds.
            let Some(kind) = ReportKind::ALL.into_iter().find(|known| known.name() == kind) else { continue };
            self.delivery_events.get_or_create(&report_labels(settings, relay, kind.name())).inc_by(*events);
        }
    }

    pub fn set_suppressions(&self, suppressed: &[SuppressedAddresses]) {
        for reason in SuppressionReason::ALL {
            let found = suppressed.iter().find(|of| of.reason == reason);
            let of = ReasonLabels { reason: reason.name() };
            self.suppressions.get_or_create(&of).set(gauge_value(found.map_or(0, |of| of.addresses)));
        }
    }

    pub fn troubled_runs(&self, counted: &[(RunTrouble, u64, Timestamp)]) {
        for trouble in RunTrouble::ALL {
            let found = counted.iter().find(|(of, ..)| *of == trouble);
            let of = TroubleLabels { trouble: trouble.name() };
            self.troubled_runs.get_or_create(&of).set(gauge_value(found.map_or(0, |(_, runs, _)| *runs)));
        }
    }

    pub fn set_differences(&self, differences: &[ProcessDifference]) {
        for aspect in ProcessAspect::ALL {
            let differs = differences.iter().any(|found| found.aspect == aspect);
            self.process_differences.get_or_create(&AspectLabels { aspect: aspect.name() }).set(differs.into());
        }
    }

    pub fn set_upkeep(&self, ended_at: Timestamp) {
        self.last_upkeep_timestamp.set(ended_at.as_duration().as_secs_f64());
    }

    pub fn set_webhook_events(&self, subscriptions: &BTreeSet<String>, states: &[SubscriptionState], now: Timestamp) {
        let backlogs = sum_webhook_events(subscriptions, states, now);
        for name in subscriptions.iter().map(String::as_str).chain([OTHER]) {
            let NoticeBacklog { waiting, oldest, dead } = backlogs.get(name).copied().unwrap_or_default();
            let of = SubscriptionLabels { subscription: name.to_owned() };
            self.waiting_webhook_events.get_or_create(&of).set(gauge_value(waiting));
            self.oldest_webhook_event.get_or_create(&of).set(oldest);
            self.dead_webhook_events.get_or_create(&of).set(gauge_value(dead));
        }
    }

    pub fn set_open(&self, digests: u64) {
        self.open_digests.set(gauge_value(digests));
    }

    /// Sets the number of events rejected because their id was used with other content.
    pub fn refused_contents(&self, events: u64) {
        self.refused_contents.set(gauge_value(events));
    }

    /// Removes the gauge if the server does not report the backlog, since 0 would be misleading.
    pub fn task_queue(&self, queue: &visibility::TaskQueueBacklog) {
        let of = QueueLabels { task_queue: queue.name.clone(), kind: queue.kind.name() };
        match queue.backlog {
            Some(backlog) => drop(self.task_queue_backlog.get_or_create(&of).set(gauge_value(backlog))),
            None => drop(self.task_queue_backlog.remove(&of)),
        }
        match queue.backlog_seconds {
            Some(seconds) => drop(self.task_queue_backlog_age.get_or_create(&of).set(seconds)),
            None => drop(self.task_queue_backlog_age.remove(&of)),
        }
        self.task_queue_pollers.get_or_create(&of).set(gauge_value(queue.pollers));
    }

    pub fn set_breakers<'a>(
        &self,
        relays: impl IntoIterator<Item = &'a String>,
        breakers: &BTreeMap<String, VersionedBreaker>,
    ) {
        for name in relays {
            self.set_relay(name, breakers.get(name).is_some_and(|kept| kept.breaker.open.is_some()));
        }
    }

    pub fn set_relay(&self, name: &str, open: bool) {
        self.relay_open.get_or_create(&RelayLabels { relay: name.to_owned() }).set(open.into());
    }

    pub fn record_success(&self, source: PolledSource, now: Timestamp) {
        self.poller_last_success_timestamp
            .get_or_create(&SourceLabels { source: source.name() })
            .set(now.as_duration().as_secs_f64());
    }
}

fn gauge_value(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn sum_digests(
    settings: &Settings,
    digests: &[UndeliveredDigests],
    now: Timestamp,
) -> BTreeMap<(String, String), DigestBacklog> {
    let mut waiting = BTreeMap::<_, DigestBacklog>::new();
    for UndeliveredDigests { tenant: of_tenant, digest_type, digests, overdue, oldest_due_at, .. } in digests {
        let labels = (tenant_label(settings, of_tenant), labels::digest_type(settings, digest_type));
        let sum = waiting.entry(labels).or_default();
        sum.undelivered += digests;
        sum.overdue += overdue;
        sum.oldest = sum.oldest.max(now.duration_since(*oldest_due_at).as_secs_f64());
    }
    waiting
}

fn sum_webhook_events<'a>(
    subscriptions: &'a BTreeSet<String>,
    states: &[SubscriptionState],
    now: Timestamp,
) -> BTreeMap<&'a str, NoticeBacklog> {
    let mut backlogs = BTreeMap::<_, NoticeBacklog>::new();
    for SubscriptionState { name, waiting, oldest_at, dead_letters, .. } in states {
        let sum = backlogs.entry(subscriptions.get(name).map_or(OTHER, String::as_str)).or_default();
        sum.waiting += waiting;
        sum.oldest = sum.oldest.max(oldest_at.map_or(0.0, |at| now.duration_since(at).as_secs_f64()));
        sum.dead += dead_letters;
    }
    backlogs
}

#[cfg(test)]
mod tests {
    use tidings_model::settings::{DeliveryStreams, DigestSettings, SenderIdentity, StreamSettings, TenantSettings};

    use super::*;

    fn settings() -> Settings {
        let (name, domain) = ("Tidings".to_owned(), "tidings.example".to_owned());
        let sender =
            SenderIdentity { name, address: format!("digest@{domain}").parse().unwrap(), reply_to: None, domain };
        let (bulk, transactional) =
            (StreamSettings::new(&["default"], sender.clone()), StreamSettings::new(&["default"], sender));
        let alerts = DigestSettings::new("alerts", "instant".parse().unwrap());
        let streams = DeliveryStreams { bulk, transactional };
        Settings {
            digests: BTreeMap::from([("alerts".to_owned(), alerts)]),
            tenants: BTreeMap::from([("acme".to_owned(), TenantSettings::new(streams.clone()))]),
            ..Settings::new(streams)
        }
    }

    #[test]
    fn tenants_and_types_without_a_table_count_together() {
        let now = Timestamp::from_second(1_000).unwrap();
        let of = |tenant: &str, digest_type: &str, overdue, due| UndeliveredDigests {
            tenant: tenant.into(),
            digest_type: digest_type.into(),
            digests: 2,
            attempted: 0,
            overdue,
            oldest_due_at: Timestamp::from_second(due).unwrap(),
        };
        let digests = [
            of("acme", "alerts", 1, 900),
            of("bolt", "alerts", 2, 700),
            of("cask", "alerts", 0, 1_100),
            of("acme", "gone", 2, 800),
        ];
        let counted: Vec<_> = sum_digests(&settings(), &digests, now).into_iter().collect();
        let labels = |tenant: &str, name: &str| (tenant.to_owned(), name.to_owned());
        assert_eq!(
            counted,
            [
                (labels("acme", "alerts"), DigestBacklog { undelivered: 2, overdue: 1, oldest: 100.0 }),
                (labels("acme", "other"), DigestBacklog { undelivered: 2, overdue: 2, oldest: 200.0 }),
                (labels("other", "alerts"), DigestBacklog { undelivered: 4, overdue: 2, oldest: 300.0 }),
            ]
        );
    }

    #[test]
    fn subscriptions_that_are_configured_no_more_count_together() {
        let now = Timestamp::from_second(1_000).unwrap();
        let of = |name: &str, waiting, oldest: Option<i64>, dead_letters| SubscriptionState {
            name: name.into(),
            waiting,
            oldest_at: oldest.map(|at| Timestamp::from_second(at).unwrap()),
            dead_letters,
            gone_at: None,
        };
        let states =
            [of("crm", 2, Some(900), 0), of("erp", 0, None, 3), of("old", 0, None, 4), of("older", 1, Some(400), 5)];
        let configured = ["crm", "erp"].map(str::to_owned).into();
        let backlog = |waiting, oldest, dead| NoticeBacklog { waiting, oldest, dead };
        assert_eq!(
            sum_webhook_events(&configured, &states, now),
            BTreeMap::from(
                [("crm", backlog(2, 100.0, 0)), ("erp", backlog(0, 0.0, 3)), (OTHER, backlog(1, 600.0, 9)),]
            )
        );
    }
}
