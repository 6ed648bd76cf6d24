//! Gauges for state shared by all workers. Each worker's poller sets these, so all export the same figures.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::AtomicU64,
};

use jiff::Timestamp;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use tidings_model::{
    breaker::VersionedBreaker,
    delivery_events::Kind,
    process::{Aspect, Difference},
    records::Reason,
    settings::Settings,
    statistics::{ReportedByKind, Suppressed, Undelivered},
    subscription::SubscriptionState,
    troubled_run::Trouble,
};

use super::labels::{
    OTHER, OfAspect, OfReason, OfSubscription, OfTenant, OfTrouble, Queue, Relay, Reported, Source, digest_types,
    reported, tenant, tenants,
};
use crate::{metrics::labels, visibility};

type Seconds = Gauge<f64, AtomicU64>;

metrics_table! {
    pub struct Fleet {
        undelivered_digests: Family<OfTenant, Gauge>, "Digests that were claimed and have no end";
        overdue_digests: Family<OfTenant, Gauge>, "Undelivered digests past their due time";
        oldest_overdue: Family<OfTenant, Seconds>, "Time since the oldest overdue digest was due", Seconds;
        open_digests: Gauge, "Keys whose workflow runs";
        troubled_runs: Family<OfTrouble, Gauge>, "Runs in Temporal that wait for an operator: tidings runs list";
        process_differences: Family<OfAspect, Gauge>, "1 while processes of the installation differ in this: tidings stats";
        last_upkeep_timestamp: Seconds, "The end of the last upkeep, or else the first beat of a worker", Seconds;
        refused_contents: Gauge, "Events of the last 24 hours with other content under a known id, which are in no message";
        suppressions: Family<OfReason, Gauge>, "Suppressed addresses, at most a million";
        delivery_events: Family<Reported, Counter>, "Delivery events that reached the store since this worker started";
        waiting_notices: Family<OfSubscription, Gauge>, "Notices that wait for their delivery, at most 100,000";
        oldest_notice: Family<OfSubscription, Seconds>, "Age of the oldest notice that waits", Seconds;
        dead_notices: Family<OfSubscription, Gauge>, "Notices that were not delivered within 24 hours, at most 100,000";
        task_queue_backlog: Family<Queue, Gauge>, "Tasks that wait for a worker";
        task_queue_backlog_age: Family<Queue, Seconds>, "Age of the oldest task that waits for a worker", Seconds;
        task_queue_pollers: Family<Queue, Gauge>, "Pollers in the last minutes";
        relay_open: Family<Relay, Gauge>, "Whether the relay is left alone";
        poller_last_success_timestamp: Family<Source, Seconds>, "The time of the poller's last success", Seconds;
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
struct Waiting {
    undelivered: u64,
    overdue: u64,
    oldest: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Backlog {
    waiting: u64,
    oldest: f64,
    dead: u64,
}

impl Fleet {
    pub(super) fn prepare(&self, settings: &Settings) {
        self.waiting(settings, &BTreeMap::new());
        self.suppressions(&[]);
        self.troubled_runs(&[]);
        self.processes(&[]);
        self.notices(&BTreeSet::new(), &[], Timestamp::UNIX_EPOCH);
        for relay in settings.relays.keys().map(String::as_str).chain([OTHER]) {
            for kind in Kind::ALL {
                drop(self.delivery_events.get_or_create(&reported(settings, relay, kind.name())));
            }
        }
        for source in [PolledSource::Store, PolledSource::Temporal] {
            drop(self.poller_last_success_timestamp.get_or_create(&Source { source: source.name() }));
        }
    }

    pub fn undelivered(&self, settings: &Settings, digests: &[Undelivered], now: Timestamp) {
        self.waiting(settings, &waiting(settings, digests, now));
    }

    fn waiting(&self, settings: &Settings, waiting: &BTreeMap<(String, String), Waiting>) {
        for tenant in tenants(settings) {
            for name in digest_types(settings) {
                let Waiting { undelivered, overdue, oldest } =
                    waiting.get(&(tenant.clone(), name.clone())).copied().unwrap_or_default();
                let of = OfTenant { tenant: tenant.clone(), r#type: name };
                self.undelivered_digests.get_or_create(&of).set(count(undelivered));
                self.overdue_digests.get_or_create(&of).set(count(overdue));
                self.oldest_overdue.get_or_create(&of).set(oldest);
            }
        }
    }

    pub fn reported(&self, settings: &Settings, events: &[ReportedByKind]) {
        for ReportedByKind { relay, kind, events } in events {
            // A newer version may have written other kinds.
            let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) else { continue };
            self.delivery_events.get_or_create(&reported(settings, relay, kind.name())).inc_by(*events);
        }
    }

    pub fn suppressions(&self, suppressed: &[Suppressed]) {
        for reason in Reason::ALL {
            let found = suppressed.iter().find(|of| of.reason == reason);
            let of = OfReason { reason: reason.name() };
            self.suppressions.get_or_create(&of).set(count(found.map_or(0, |of| of.addresses)));
        }
    }

    pub fn troubled_runs(&self, counted: &[(Trouble, u64, Timestamp)]) {
        for trouble in Trouble::ALL {
            let found = counted.iter().find(|(of, ..)| *of == trouble);
            let of = OfTrouble { trouble: trouble.name() };
            self.troubled_runs.get_or_create(&of).set(count(found.map_or(0, |(_, runs, _)| *runs)));
        }
    }

    pub fn processes(&self, differences: &[Difference]) {
        for aspect in Aspect::ALL {
            let differs = differences.iter().any(|found| found.aspect == aspect);
            self.process_differences.get_or_create(&OfAspect { aspect: aspect.name() }).set(differs.into());
        }
    }

    pub fn upkeep(&self, ended_at: Timestamp) {
        self.last_upkeep_timestamp.set(ended_at.as_duration().as_secs_f64());
    }

    pub fn notices(&self, subscriptions: &BTreeSet<String>, states: &[SubscriptionState], now: Timestamp) {
        let backlogs = backlogs(subscriptions, states, now);
        for name in subscriptions.iter().map(String::as_str).chain([OTHER]) {
            let Backlog { waiting, oldest, dead } = backlogs.get(name).copied().unwrap_or_default();
            let of = OfSubscription { subscription: name.to_owned() };
            self.waiting_notices.get_or_create(&of).set(count(waiting));
            self.oldest_notice.get_or_create(&of).set(oldest);
            self.dead_notices.get_or_create(&of).set(count(dead));
        }
    }

    pub fn open(&self, digests: u64) {
        self.open_digests.set(count(digests));
    }

    /// Sets the number of events rejected because their id was used with other content.
    pub fn refused_contents(&self, events: u64) {
        self.refused_contents.set(count(events));
    }

    /// Sets a task queue's backlog. If the server does not report one, we remove the gauge, since 0 would be
    /// misleading.
    pub fn task_queue(&self, queue: &visibility::Queue) {
        let of = Queue { task_queue: queue.name.clone(), kind: queue.kind.name() };
        match queue.backlog {
            Some(backlog) => drop(self.task_queue_backlog.get_or_create(&of).set(count(backlog))),
            None => drop(self.task_queue_backlog.remove(&of)),
        }
        match queue.backlog_seconds {
            Some(seconds) => drop(self.task_queue_backlog_age.get_or_create(&of).set(seconds)),
            None => drop(self.task_queue_backlog_age.remove(&of)),
        }
        self.task_queue_pollers.get_or_create(&of).set(count(queue.pollers));
    }

    pub fn breakers<'a>(
        &self,
        relays: impl IntoIterator<Item = &'a String>,
        breakers: &BTreeMap<String, VersionedBreaker>,
    ) {
        for name in relays {
            self.relay(name, breakers.get(name).is_some_and(|kept| kept.breaker.open.is_some()));
        }
    }

    pub fn relay(&self, name: &str, open: bool) {
        self.relay_open.get_or_create(&Relay { relay: name.to_owned() }).set(open.into());
    }

    pub fn succeeded(&self, source: PolledSource, now: Timestamp) {
        self.poller_last_success_timestamp
            .get_or_create(&Source { source: source.name() })
            .set(now.as_duration().as_secs_f64());
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn waiting(settings: &Settings, digests: &[Undelivered], now: Timestamp) -> BTreeMap<(String, String), Waiting> {
    let mut waiting = BTreeMap::<_, Waiting>::new();
    for Undelivered { tenant: of_tenant, digest_type, digests, overdue, oldest_due_at, .. } in digests {
        let labels = (tenant(settings, of_tenant), labels::digest_type(settings, digest_type));
        let sum = waiting.entry(labels).or_default();
        sum.undelivered += digests;
        sum.overdue += overdue;
        sum.oldest = sum.oldest.max(now.duration_since(*oldest_due_at).as_secs_f64());
    }
    waiting
}

fn backlogs<'a>(
    subscriptions: &'a BTreeSet<String>,
    states: &[SubscriptionState],
    now: Timestamp,
) -> BTreeMap<&'a str, Backlog> {
    let mut backlogs = BTreeMap::<_, Backlog>::new();
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
    use tidings_model::settings::{DigestSettings, Sender, Stream, Streams, TenantSettings};

    use super::*;

    /// The digest type `alerts` and a table of the tenant `acme`.
    fn settings() -> Settings {
        let (name, domain) = ("Tidings".to_owned(), "tidings.example".to_owned());
        let sender = Sender { name, address: format!("digest@{domain}").parse().unwrap(), reply_to: None, domain };
        let (bulk, transactional) = (Stream::new(&["default"], sender.clone()), Stream::new(&["default"], sender));
        let alerts = DigestSettings::new("alerts", "instant".parse().unwrap());
        let streams = Streams { bulk, transactional };
        Settings {
            digests: BTreeMap::from([("alerts".to_owned(), alerts)]),
            tenants: BTreeMap::from([("acme".to_owned(), TenantSettings::new(streams.clone()))]),
            ..Settings::new(streams)
        }
    }

    #[test]
    fn tenants_and_types_without_a_table_count_together() {
        let now = Timestamp::from_second(1_000).unwrap();
        let of = |tenant: &str, digest_type: &str, overdue, due| Undelivered {
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
        let counted: Vec<_> = waiting(&settings(), &digests, now).into_iter().collect();
        let labels = |tenant: &str, name: &str| (tenant.to_owned(), name.to_owned());
        assert_eq!(
            counted,
            [
                (labels("acme", "alerts"), Waiting { undelivered: 2, overdue: 1, oldest: 100.0 }),
                (labels("acme", "other"), Waiting { undelivered: 2, overdue: 2, oldest: 200.0 }),
                (labels("other", "alerts"), Waiting { undelivered: 4, overdue: 2, oldest: 300.0 }),
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
        let backlog = |waiting, oldest, dead| Backlog { waiting, oldest, dead };
        assert_eq!(
            backlogs(&configured, &states, now),
            BTreeMap::from(
                [("crm", backlog(2, 100.0, 0)), ("erp", backlog(0, 0.0, 3)), (OTHER, backlog(1, 600.0, 9)),]
            )
        );
    }
}
