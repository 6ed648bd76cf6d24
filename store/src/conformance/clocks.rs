//! A clock running ahead for one call holds nothing back for longer than the longest wait of its kind
//! (rule 59).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_model::{
    StoredWait,
    attempt::AttemptClass,
    breaker::{BreakerCause, BreakerDecision, CircuitBreaker, RelayObservation, VersionedBreaker},
    command::CommandContext,
    inbox::{ForwarderStep, InboxItem, InboxItemKind, KeyLease, next},
    job::{Job, JobState, JobTask},
    records::{AttemptStart, CapSpan},
    subscription::{DeliveryOutcomes, DeliveryResult, NoticeType, WebhookSubscription, retry_at},
    troubled_run::{FoundRun, RunId, RunTrouble, try_again_after},
    window::DigestOutcome,
};
use uuid::Uuid;

use super::{Bench, at, ends, entry, events, key, window_of};

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);
/// How far the clock is ahead, in seconds: up to a minute and a half as clocks differ, an hour, a day, a
/// year.
const AHEAD: [i64; 5] = [30, 90, 3_600, 86_400, 365 * 86_400];

fn now() -> Timestamp {
    at(1_000)
}

/// The clock's jumps, each with its own name.
fn jumps() -> impl Iterator<Item = (String, Timestamp)> {
    AHEAD.into_iter().map(|seconds| (format!("ahead by {seconds} s"), now() + SignedDuration::from_secs(seconds)))
}

/// Checks that the stored value is free immediately, or after the longest wait of its kind.
async fn assert_free(kind: StoredWait, said: &str, is_free: impl AsyncFn(Timestamp) -> bool) {
    assert!(is_free(now()).await || is_free(kind.latest_plausible(now())).await, "{kind:?}, {said}");
}

fn opened(cause: BreakerCause, opener: Uuid, at: Timestamp) -> CircuitBreaker {
    let mut breaker = CircuitBreaker::closed();
    while breaker.open.is_none() {
        breaker = breaker.after_attempt(opener, RelayObservation::Fault(cause), "451 4.3.2 not now", at).unwrap();
    }
    breaker
}

async fn put(bench: &Bench, name: &str, breaker: CircuitBreaker) {
    let first = VersionedBreaker { revision: 1, breaker };
    assert!(bench.store.put_breaker(name, &first, None, now()).await.unwrap());
}

pub async fn a_relay_is_left_alone_no_longer_than_its_cause_wants(bench: &Bench) {
    for cause in BreakerCause::ALL.into_iter().filter(|cause| *cause != BreakerCause::Operator) {
        for (said, ahead) in jumps() {
            let relay = format!("{cause} {said}");
            put(bench, &relay, opened(cause, ONE, ahead)).await;
            for message in [ONE, TWO] {
                assert_free(StoredWait::of_breaker(cause), &said, async |now| {
                    let breaker = bench.store.breakers().await.unwrap()[&relay].breaker.clone();
                    !matches!(breaker.admit_message(message, now), BreakerDecision::Wait { .. })
                })
                .await;
            }
        }
    }
}

pub async fn a_message_that_tries_a_relay_is_waited_for_no_longer_than_it_takes(bench: &Bench) {
    for (said, ahead) in jumps() {
        let breaker = opened(BreakerCause::Throttled, ONE, at(0));
        let BreakerDecision::Try(tried) = breaker.admit_message(ONE, ahead) else { panic!("it may be tried, {said}") };
        put(bench, &said, *tried).await;
        assert_free(StoredWait::PROBE, &said, async |now| {
            let breaker = bench.store.breakers().await.unwrap()[&said].breaker.clone();
            matches!(breaker.admit_message(TWO, now), BreakerDecision::Try(_))
        })
        .await;
    }
}

pub async fn a_key_of_the_inbox_is_free_no_later_than_after_a_lease(bench: &Bench) {
    for failures in [0, 9] {
        for (said, ahead) in jumps() {
            let key = key(&format!("{said}, {failures}"));
            let item = InboxItem { key: key.clone(), kind: InboxItemKind::Event, json: "{}".into() };
            bench.store.receive_items([item].into(), now()).await.unwrap();
            let leased = bench.store.lease_keys(ONE, std::slice::from_ref(&key), ahead).await.unwrap();
            if failures > 0 {
                let failed = KeyLease { failures, ..leased[0].1 }.after_failure(ahead);
                bench.store.mark_forwarded(ONE, &key, &[], failed, ahead).await.unwrap();
            }
            assert_free(StoredWait::INBOX_LEASE, &said, async |now| {
                let mut found = bench.store.waiting_keys("", 99).await.unwrap();
                found.retain(|found| found.key == key);
                let is_free = matches!(next(found, 9, now), ForwarderStep::Lease(_));
                let leased = bench.store.lease_keys(TWO, std::slice::from_ref(&key), now).await.unwrap();
                assert_eq!(!leased.is_empty(), is_free, "forwarder and store agree, {said}");
                is_free
            })
            .await;
        }
    }
}

pub async fn a_job_and_its_place_are_free_no_later_than_after_a_lease(bench: &Bench) {
    for (n, (said, ahead)) in (1..).zip(jumps()) {
        let order = CommandContext { by: "token:1".into(), why: "ticket 812".into() };
        let job = Job::new(Uuid::from_u128(n), JobTask::Release, "all".into(), Some("acme".into()), order, now());
        bench.store.post_job(&job).await.unwrap();
        assert_eq!(bench.store.lease_job(ONE, ahead).await.unwrap().map(|job| job.id), Some(job.id), "{said}");
        assert_free(StoredWait::JOB_LEASE, &said, async |now| {
            bench.store.lease_job(TWO, now).await.unwrap().is_some_and(|leased| leased.id == job.id)
        })
        .await;
        bench.store.end_job(job.id, TWO, JobState::Done, "", now()).await.unwrap();
    }
}

pub async fn the_sweep_is_free_no_later_than_after_a_lease(bench: &Bench) {
    for (said, ahead) in jumps() {
        assert!(bench.store.lease_sweep(ONE, ahead).await.unwrap().is_some(), "{said}");
        assert_free(StoredWait::SWEEP_LEASE, &said, async |now| {
            let leased = bench.store.lease_sweep(TWO, now).await.unwrap();
            if let Some(swept) = leased {
                bench.store.end_sweep(TWO, swept, at(0)).await.unwrap();
            }
            leased.is_some()
        })
        .await;
    }
}

pub async fn a_run_in_trouble_is_handled_no_later_than_after_the_longest_pause(bench: &Bench) {
    for (said, ahead) in jumps() {
        for lists in [false, true] {
            let id = RunId { workflow_id: key(&said).workflow_id(), run_id: format!("{said}, {lists}") };
            let run = FoundRun { id: id.clone(), trouble: RunTrouble::TimedOut, since: at(10) };
            bench.store.put_ended_runs(&[run], "tidings", now()).await.unwrap();
            assert_eq!(bench.store.due_runs(99, ahead).await.unwrap().len(), 1, "{said}");
            if lists {
                let again_at = ahead + try_again_after(99);
                bench.store.list_run(&id, None, "past the dot", Some(again_at)).await.unwrap();
            }
            assert_free(StoredWait::RUN_RETRY, &said, async |now| {
                bench.store.due_runs(99, now).await.unwrap().into_iter().any(|due| due.run.id == id)
            })
            .await;
            bench.store.list_run(&id, None, "", None).await.unwrap();
        }
    }
}

pub async fn a_notice_is_tried_again_no_later_than_after_the_longest_pause(bench: &Bench) {
    let crm = WebhookSubscription {
        name: "crm".into(),
        url: "https://app.acme.example/notices".parse().unwrap(),
        events: NoticeType::ALL.into_iter().collect(),
        tenant: None,
        digest_type: None,
        was: Vec::new(),
        secrets: Vec::new(),
        secret_env: "A_NOTICES".into(),
    };
    bench.store.subscribe(&[crm], true).await.unwrap();
    for (said, ahead) in jumps() {
        bench.store.put_consent(&key(&said), false, &entry(999, "recipient", "withdraw")).await.unwrap();
        let ready = async |now| {
            let ready = bench.store.ready_notices("crm", 99, now).await.unwrap();
            ready.into_iter().find(|notice| notice.about.user == said)
        };
        let seq = ready(now()).await.unwrap().seq;
        let failed = vec![(seq, DeliveryResult::Refused, retry_at(ahead, 99, ahead))];
        bench
            .store
            .settle_notices("crm", &DeliveryOutcomes { failed, ..DeliveryOutcomes::default() }, ahead)
            .await
            .unwrap();
        assert_free(StoredWait::NOTICE_RETRY, &said, async |now| {
            let is_ready = ready(now).await.is_some();
            assert!(is_ready || bench.store.next_notice("crm", now).await.unwrap().is_some(), "it is not forgotten");
            is_ready
        })
        .await;
    }
}

pub async fn a_digest_of_the_future_holds_no_other_back(bench: &Bench) {
    for (said, ahead) in jumps() {
        let window = window_of(&key(&said), 0);
        bench.claim(&window, &events(&["e"]), ahead).await;
        bench.store.put_message(&super::message(&window, "first"), None).await.unwrap();
        let begun =
            async |now| bench.store.begin_attempt(window.digest_id, "relay", Duration::from_secs(100), now).await;
        assert!(matches!(begun(ahead).await.unwrap(), AttemptStart::Proceed { .. }));
        assert!(bench.store.mark_in_doubt(window.digest_id, 1, ahead).await.unwrap());
        // For the reply to an attempt.
        let awaited = match begun(now()).await.unwrap() {
            AttemptStart::AwaitsReply { until, .. } => until,
            _ => now(),
        };
        assert!(awaited <= now() + SignedDuration::from_secs(100), "{said}");
        let number = bench.store.attempts(window.digest_id).await.unwrap().len();
        let sent = ends(AttemptClass::Sent, DigestOutcome::Sent);
        bench.store.end_attempt(window.digest_id, u32::try_from(number).unwrap(), &sent, ahead).await.unwrap();
        // For throttles, a minute after an urgent digest, and slots of the calendar.
        let facts = bench.store.facts(&window.key).await.unwrap();
        assert_eq!(facts.last_sent_at, Some(ahead), "{said}");
        let facts = facts.without_future_dates(now());
        let dates = [facts.last_sent_at, facts.last_slot_at, facts.last_schedule.as_ref().map(|last| last.at)];
        let farthest = StoredWait::PAST.latest_plausible(now());
        assert!(dates.iter().flatten().all(|date| *date <= farthest), "{said}");
        // For the cap.
        let cap = CapSpan { most: 1, since: at(0), until: farthest };
        let oldest = bench.store.capped_from(&key(&said), cap).await.unwrap();
        assert!(oldest.is_none_or(|oldest| oldest <= farthest), "{said}");
    }
}

/// Columns with an instant that holds something back, with its kind, or why it has no longest wait. Add new
/// ones here, and to [`StoredWait`] if a clock writes them.
const HELD_UNTIL: [(&str, &str); 12] = [
    ("api_tokens.expires_at", "an operator chose it"),
    ("digests.due_at", "the time of the window, for reports and views: the workflow waits, and not the store"),
    ("inbox_leases.free_at", "InboxLease"),
    ("jobs.free_at", "JobLease"),
    ("notices.retry_at", "NoticeRetry"),
    ("pauses.until_at", "an operator chose it"),
    ("relays.probe_until", "Probe"),
    ("relays.until_at", "Breaker"),
    ("retracts.until_at", "it covers what occurred before, and holds nothing back"),
    ("sweep.free_at", "SweepLease"),
    ("sweep.until_at", "the next look begins at the present at the latest"),
    ("troubled_runs.due_at", "RunRetry"),
];

pub async fn each_column_that_holds_something_back_has_a_longest_wait(bench: &Bench) {
    let mut columns = bench.all_columns().await;
    let names = ["free_at", "until_at", "due_at", "retry_at", "expires_at"];
    columns.retain(|column| {
        let (_, name) = column.split_once('.').unwrap();
        names.contains(&name) || name.ends_with("_until")
    });
    let unknown: Vec<_> = columns.iter().filter(|column| HELD_UNTIL.iter().all(|(known, _)| known != column)).collect();
    assert!(unknown.is_empty(), "{unknown:?}: add the columns to HELD_UNTIL");
    for (known, _) in HELD_UNTIL {
        assert!(columns.iter().any(|column| column == known), "{known} is gone");
    }
}
