//! The message report matches an independent model, whatever is purged and in whatever order reports arrive.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{Timestamp, civil::date};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use sqlx::Executor as _;
use tidings_model::{
    PersonId,
    attempt::AttemptClass,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, ReportKind},
    records::{AttemptStart, OutboxMessage},
    report::{CountedReport, ReportCounts, ReportGrouping, ReportQuery},
    retention::{RetentionCutoff, RetentionKind as Kept},
    settings::StreamName,
    window::DigestOutcome,
};
use uuid::Uuid;

use super::{
    Bench,
    bench::Behind,
    delivery_events::{MOST, reported, single},
    ends,
};
use crate::statistics::report_statement;

const DAY: i64 = 86_400;

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

struct Known {
    tenant: String,
    day: i64,
    template: String,
    relay: String,
    sent: bool,
    reports: BTreeSet<CountedReport>,
    stored: bool,
}

#[derive(Default)]
struct Model {
    messages: BTreeMap<Uuid, Known>,
}

/// The store's column for a count.
fn column(counts: &ReportCounts, counted: CountedReport) -> u64 {
    match counted {
        CountedReport::Delivered => counts.delivered,
        CountedReport::Deferred => counts.deferred,
        CountedReport::BouncedHard => counts.bounced.hard,
        CountedReport::BouncedSoft => counts.bounced.soft,
        CountedReport::BouncedPolicy => counts.bounced.policy,
        CountedReport::NeverSent => counts.never_sent,
        CountedReport::Complained => counts.complained,
        CountedReport::Unsubscribed => counts.unsubscribed,
        CountedReport::OpenedPeople => counts.opened.people,
        CountedReport::OpenedMachines => counts.opened.machines,
        CountedReport::OpenedUnknown => counts.opened.unknown,
        CountedReport::ClickedPeople => counts.clicked.people,
        CountedReport::ClickedMachines => counts.clicked.machines,
        CountedReport::ClickedUnknown => counts.clicked.unknown,
    }
}

impl Model {
    /// Stores the `n`th message, created on a day, and optionally sent.
    async fn add(&mut self, bench: &Bench, n: usize, day: i64, sent: bool) {
        let (tenant, relay) = (["acme", "bolt", "zoo"][n % 3], ["ses", "own"][n / 3 % 2]);
        let template = ["", "welcome", "invoice"][n / 2 % 3];
        let at = second(day * DAY + 3_600);
        let made = single(tenant, &format!("m{n}"), &format!("ann{n}@example.com"));
        let message = OutboxMessage { template: template.into(), made_at: at, stream: StreamName::Bulk, ..made };
        let id = message.id;
        bench.store.put_message(&message, None).await.unwrap();
        let AttemptStart::Proceed { number, .. } =
            bench.store.begin_attempt(id, relay, Duration::ZERO, at).await.unwrap()
        else {
            panic!("it is fresh")
        };
        assert!(bench.store.mark_in_doubt(id, number, at).await.unwrap());
        let end = if sent {
            ends(AttemptClass::Sent, DigestOutcome::Sent)
        } else {
            ends(AttemptClass::Failed, DigestOutcome::Failed)
        };
        bench.store.end_attempt(id, number, &end, at).await.unwrap();
        let (tenant, template, relay) = (tenant.to_owned(), template.to_owned(), relay.to_owned());
        self.messages.insert(id, Known { tenant, day, template, relay, sent, reports: BTreeSet::new(), stored: true });
    }

    /// Reports about a message; counted if the message is stored.
    async fn tell(&mut self, bench: &Bench, message: Uuid, report: &DeliveryReport, at: Timestamp) {
        let relay = Some(self.messages[&message].relay.clone());
        let event = CheckedDeliveryEvent { relay, report: report.clone(), ..reported(message, report.kind, 0) };
        let recorded = bench.store.put_delivery_event(&event, MOST, at).await.unwrap();
        let known = self.messages.get_mut(&message).unwrap();
        assert_eq!(recorded.is_some(), known.stored);
        if known.stored {
            known.reports.insert(CountedReport::from_report(report));
        }
    }

    /// Unsubscribes with a message's link; counted if the message is stored.
    async fn leave(&mut self, bench: &Bench, message: Uuid) {
        bench.store.count_unsubscribed(message).await.unwrap();
        let known = self.messages.get_mut(&message).unwrap();
        if known.stored {
            known.reports.insert(CountedReport::Unsubscribed);
        }
    }

    /// Deletes messages which ended before a day.
    async fn purge(&mut self, bench: &Bench, day: i64) {
        let cutoff = RetentionCutoff { kind: Kept::Messages, before: second(day * DAY) };
        while bench.store.purge(cutoff, 2, None, &[], second(day * DAY)).await.unwrap().more {}
        self.messages.values_mut().filter(|known| known.day < day).for_each(|known| known.stored = false);
    }

    /// Checks each of the store's reports, including those of one tenant and of a few days.
    async fn check(&self, bench: &Bench) {
        let whole = [date(1970, 1, 1), date(1970, 2, 1)];
        let part = [date(1970, 1, 3), date(1970, 1, 5)];
        for by in [None].into_iter().chain(ReportGrouping::ALL.map(Some)) {
            for tenant in [None, Some("bolt")] {
                for [from, until] in [whole, part] {
                    let question = ReportQuery { tenant: tenant.map(str::to_owned), from, until, by };
                    let found = bench.store.message_report(&question).await.unwrap();
                    assert_eq!(Self::shown(found), self.counted(&question), "{question:?}");
                }
            }
        }
    }

    /// The nonzero counts by bucket and column.
    fn shown(found: Vec<(String, ReportCounts)>) -> BTreeMap<(String, &'static str), u64> {
        let mut shown = BTreeMap::new();
        for (bucket, counts) in found {
            for counted in CountedReport::ALL {
                shown.insert((bucket.clone(), counted.name()), column(&counts, counted));
            }
            shown.insert((bucket, "sent"), counts.sent);
        }
        shown.retain(|_, count| *count > 0);
        shown
    }

    fn counted(&self, question: &ReportQuery) -> BTreeMap<(String, &'static str), u64> {
        let [from, until] = question.days();
        let mut counted = BTreeMap::new();
        for known in self.messages.values() {
            let theirs = question.tenant.as_ref().is_none_or(|tenant| *tenant == known.tenant);
            if !theirs || known.day < from || known.day >= until {
                continue;
            }
            let bucket = match question.by {
                None | Some(ReportGrouping::DigestType) => String::new(),
                Some(ReportGrouping::Template) => known.template.clone(),
                Some(ReportGrouping::Relay) => known.relay.clone(),
                Some(ReportGrouping::Day) => known.day.to_string(),
            };
            for name in known.sent.then_some("sent").into_iter().chain(known.reports.iter().map(|of| of.name())) {
                *counted.entry((bucket.clone(), name)).or_default() += 1;
            }
        }
        counted
    }
}

/// A report about the `n`th message, a use of its unsubscribe link, or a purge.
#[derive(Clone, Debug)]
enum Step {
    Tell { message: usize, kind: usize, machine: Option<bool>, second: i64 },
    Leave { message: usize },
    Purge { messages: bool, day: i64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let machine = prop_oneof![Just(None), any::<bool>().prop_map(Some)];
    let tell = (0..12_usize, 0..ReportKind::ALL.len(), machine, 0..3_i64)
        .prop_map(|(message, kind, machine, second)| Step::Tell { message, kind, machine, second });
    let leave = (0..12_usize).prop_map(|message| Step::Leave { message });
    let purge = (any::<bool>(), 1..7_i64).prop_map(|(messages, day)| Step::Purge { messages, day });
    proptest::collection::vec(prop_oneof![12 => tell, 1 => leave, 1 => purge], 1..60)
}

pub async fn a_report_is_the_same_in_any_order_and_after_any_purge(bench: &Bench) {
    let mut runner = TestRunner::deterministic();
    let mut model = Model::default();
    let mut first = 0;
    // Each round adds messages to those that are there.
    for _ in 0..8 {
        let ids: Vec<_> = {
            for n in first..first + 12 {
                // The end of a message that was not sent stays unless a report says otherwise.
                model.add(bench, n, 1 + i64::try_from(n % 6).unwrap(), true).await;
            }
            (first..first + 12).map(|n| single(["acme", "bolt", "zoo"][n % 3], &format!("m{n}"), "x@y").id).collect()
        };
        first += 12;
        for step in steps().new_tree(&mut runner).unwrap().current() {
            match step {
                Step::Tell { message, kind, machine, second: later } => {
                    let kind = ReportKind::ALL[kind];
                    let machine = machine.filter(|_| matches!(kind, ReportKind::Opened | ReportKind::Clicked));
                    let report = DeliveryReport { machine, ..DeliveryReport::new(kind, second(8 * DAY + later)) };
                    model.tell(bench, ids[message], &report, second(9 * DAY)).await;
                }
                Step::Leave { message } => model.leave(bench, ids[message]).await,
                Step::Purge { messages: true, day } => model.purge(bench, day).await,
                // Reports go by their own age, and change no count.
                Step::Purge { messages: false, .. } => {
                    let cutoff = RetentionCutoff { kind: Kept::DeliveryEvents, before: second(10 * DAY) };
                    while bench.store.purge(cutoff, 3, None, &[], second(10 * DAY)).await.unwrap().more {}
                }
            }
        }
        model.check(bench).await;
    }
    assert!(model.messages.values().any(|known| !known.stored) && model.messages.values().any(|known| known.stored));
    model.purge(bench, 30).await;
    model.check(bench).await;
    let rows = bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM messages").await;
    assert_eq!(rows, "0", "all of it is in the counts of days");
}

pub async fn a_migration_counts_what_was_reported_before(bench: &Bench) {
    let mut model = Model::default();
    for n in 0..12 {
        model.add(bench, n, 2, n % 4 != 3).await;
    }
    let ids: Vec<_> = model.messages.keys().copied().collect();
    for (n, id) in ids.iter().enumerate().skip(1) {
        for kind in [ReportKind::ALL[n % 9], ReportKind::ALL[n / 2 % 9]] {
            let machine = [None, Some(true), Some(false)][n % 3]
                .filter(|_| matches!(kind, ReportKind::Opened | ReportKind::Clicked));
            let never_sent = n % 5 == 0 && kind.fits_never_sent();
            let report = DeliveryReport { never_sent, machine, ..DeliveryReport::new(kind, second(8 * DAY)) };
            model.tell(bench, *id, &report, second(9 * DAY)).await;
        }
    }
    // A report may make a message sent that was not.
    let sent = bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM messages WHERE sent_at IS NOT NULL").await;
    let question = ReportQuery { tenant: None, from: date(1970, 1, 1), until: date(1970, 2, 1), by: None };
    let before = bench.store.message_report(&question).await.unwrap();
    assert_eq!(before[0].1.sent.to_string(), sent);
    let migration = include_str!("../../migrations/postgres/0010_reports.sql");
    let update = migration.split(';').find(|statement| statement.contains("UPDATE messages")).unwrap();
    for statement in ["UPDATE messages SET reported = 0", update] {
        match &bench.behind {
            Behind::Sqlite { pool, .. } => drop(pool.execute(statement).await.unwrap()),
            Behind::Postgres { pool, .. } => drop(pool.execute(statement).await.unwrap()),
        }
    }
    assert_eq!(bench.store.message_report(&question).await.unwrap(), before);
}

pub async fn a_report_reads_an_index_and_the_erasure_of_a_person_changes_none(bench: &Bench) {
    let index = match bench.behind {
        Behind::Sqlite { .. } => "messages_by_age",
        // While the table is empty, any index that begins with the tenant will do.
        Behind::Postgres { .. } => "using messages_",
    };
    for (by, of_tenant) in [(None, true), (Some(ReportGrouping::Relay), true), (Some(ReportGrouping::Day), false)] {
        let plan = bench.plan(&report_statement(by, of_tenant)).await;
        assert!(plan.contains(index) && !plan.contains("Seq Scan on messages"), "{plan}");
    }
    let mut model = Model::default();
    for n in 0..6 {
        model.add(bench, n, 2, true).await;
    }
    let ids: Vec<_> = model.messages.keys().copied().collect();
    for id in ids {
        model.tell(bench, id, &DeliveryReport::new(ReportKind::Opened, second(8 * DAY)), second(9 * DAY)).await;
    }
    let (person, page) = (
        PersonId { tenant: "acme".into(), user: "ann".into() },
        tidings_model::records::PageRequest { limit: 9, after: None },
    );
    let addresses = (0..6).map(|n| format!("ann{n}@example.com")).collect();
    let (erased, _) = bench.store.erase_messages(&person, &addresses, &page, second(9 * DAY)).await.unwrap();
    assert_eq!(erased.messages, 2);
    model.check(bench).await;
}
