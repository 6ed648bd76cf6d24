//! Statistics: undelivered digests, and the ends, reports and dead letters of a span.

use jiff::Timestamp;
use tidings_model::{
    Key,
    attempt::AttemptClass,
    delivery_events::{Bounce, Kind, Report, Reported, Which},
    records::{Actor, Closing, Reason},
    statistics::{Ended, LedgerStatistics, ReportedByRelay, Scope, Suppressed, Undelivered},
    step::{DeadLetter, DeadLettersInput, Outcome},
};

use super::{Bench, at, closed, end, ends, events, window, window_of};

async fn statistics(bench: &Bench, tenant: Option<&str>, since: Timestamp, now: Timestamp) -> LedgerStatistics {
    bench.store.statistics(&Scope { tenant: tenant.map(str::to_owned), since, now }).await.unwrap()
}

pub async fn an_empty_ledger_counts_nothing(bench: &Bench) {
    assert_eq!(statistics(bench, None, at(0), at(0)).await, LedgerStatistics::default());
}

pub async fn a_digest_is_undelivered_from_its_claim_to_its_end(bench: &Bench) {
    let other = Key::new("other".into(), "activity".into(), "bo".into()).unwrap();
    bench.claim(&window_of(&other, 3), &events(&["x"]), at(1)).await;
    bench.store.stash(&window(5), &events(&["stashed"]), None, at(1)).await.unwrap();
    let (first, second) = (bench.rendered(0).await, bench.rendered(1).await);
    let (number, _) = bench.begin(&first).await;
    bench.ended(&first, number, end(AttemptClass::Deferred)).await;
    let of_acme = |digests, attempted, overdue, due| Undelivered {
        tenant: "acme".into(),
        digest_type: "activity".into(),
        digests,
        attempted,
        overdue,
        oldest_due_at: at(due),
    };
    let acme = Some("acme");
    assert_eq!(statistics(bench, acme, at(0), at(60)).await.undelivered, [of_acme(2, 1, 0, 60)]);
    assert_eq!(statistics(bench, acme, at(0), at(61)).await.undelivered, [of_acme(2, 1, 1, 60)]);
    let all = statistics(bench, None, at(0), at(9_000)).await;
    assert_eq!(
        all.undelivered.iter().map(|counted| (&*counted.tenant, counted.overdue)).collect::<Vec<_>>(),
        [("acme", 2), ("other", 1)]
    );
    let (number, _) = bench.begin(&first).await;
    bench.ended(&first, number, ends(AttemptClass::Sent, Outcome::Sent)).await;
    assert_eq!(statistics(bench, acme, at(0), at(9_000)).await.undelivered, [of_acme(1, 0, 1, 1_060)]);
    assert_eq!(second.due_at, at(1_060));
}

pub async fn ends_count_by_outcome_with_their_events_from_the_begin_of_the_span(bench: &Bench) {
    let sent = bench.rendered(0).await;
    let (number, _) = bench.begin(&sent).await;
    bench.ended(&sent, number, ends(AttemptClass::Sent, Outcome::Sent)).await; // at(202)
    let (window, events, closed) = (window(1), events(&["d1", "d2", "d3"]), closed(Outcome::Dropped));
    let closing = Closing {
        window: &window,
        events: &events,
        closed: &closed,
        by: Actor::Tidings,
        return_events: false,
        planned: None,
        now: at(300),
    };
    bench.store.close(closing).await.unwrap();
    let of = |outcome, digests, events| Ended {
        tenant: "acme".into(),
        digest_type: "activity".into(),
        outcome,
        digests,
        events,
    };
    let dropped = of(Outcome::Dropped, 1, 3);
    let both = statistics(bench, None, at(202), at(400)).await.ended;
    assert_eq!(both, [dropped.clone(), of(Outcome::Sent, 1, 2)]);
    assert_eq!(statistics(bench, Some("acme"), at(203), at(400)).await.ended, [dropped]);
    assert_eq!(statistics(bench, Some("other"), at(0), at(400)).await.ended, []);
}

pub async fn reports_dead_letters_and_suppressions_count_by_relay_reason_and_tenant(bench: &Bench) {
    let sent = bench.rendered(0).await;
    let (number, _) = bench.begin(&sent).await;
    assert!(bench.dot(&sent, number).await);
    bench.ended(&sent, number, ends(AttemptClass::Sent, Outcome::Sent)).await;
    for kind in [Kind::Bounced(Bounce::Soft), Kind::Bounced(Bounce::Policy), Kind::Complained, Kind::Opened] {
        let report = Report { kind, status: None, diagnostic: String::new(), occurred_at: at(300) };
        let of = Which::Id(sent.digest_id);
        let event = Reported { relay: Some("relay".into()), tenant: None, of, report, event_id: None };
        bench.store.put_delivery_event(&event, 9, at(400)).await.unwrap().unwrap();
    }
    let letter = DeadLetter {
        seq: 0,
        reason: "no".into(),
        encoding: "json".into(),
        size: 1,
        sha256: "0".into(),
        head: String::new(),
    };
    for tenant in ["acme", "acm"] {
        let workflow_id = format!("digest/{tenant}/activity/ann");
        let input = DeadLettersInput { workflow_id, run_id: "run".into(), letters: vec![letter.clone()] };
        bench.store.put_dead_letters(&input, at(400)).await.unwrap();
    }
    let by_relay = ReportedByRelay { relay: "relay".into(), bounces: 2, complaints: 1 };
    let all = statistics(bench, None, at(400), at(500)).await;
    assert_eq!((all.reported, all.dead_letters), (vec![by_relay], 2));
    assert_eq!(all.suppressed, [Suppressed { reason: Reason::Complaint, addresses: 1 }]);
    assert_eq!(statistics(bench, Some("acm"), at(400), at(500)).await.dead_letters, 1);
    let later = statistics(bench, None, at(401), at(500)).await;
    assert_eq!((later.reported, later.dead_letters), (vec![], 0));
    assert_eq!(statistics(bench, Some("other"), at(0), at(500)).await.suppressed, []);
}
