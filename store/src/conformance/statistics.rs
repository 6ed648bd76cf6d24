//! Statistics: undelivered digests, and the span's ends, reports and dead letters.

use jiff::Timestamp;
use tidings_model::{
    Key,
    attempt::AttemptClass,
    decode::DeadLetter,
    delivery_events::{
        BounceKind, CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind, UnusablePart, WebhookRequest,
    },
    records::{AuditActor, CloseRequest, Suppression, SuppressionReason},
    statistics::{
        EndedDigests, LedgerStatistics, ReportedByKind, ReportedByRelay, StatisticsScope, SuppressedAddresses,
        UndeliveredDigests,
    },
    step::DeadLettersInput,
    window::DigestOutcome,
};

use super::{Bench, at, bench::Behind, closed, end, ends, events, window, window_of};
use crate::statistics::{REPORTED_BY_KIND, SUPPRESSED, UNDELIVERED};

async fn statistics(bench: &Bench, tenant: Option<&str>, since: Timestamp, now: Timestamp) -> LedgerStatistics {
    bench.store.statistics(&StatisticsScope { tenant: tenant.map(str::to_owned), since, now }).await.unwrap()
}

pub async fn an_empty_ledger_counts_nothing(bench: &Bench) {
    assert_eq!(statistics(bench, None, at(0), at(0)).await, LedgerStatistics::default());
}

pub async fn a_digest_is_undelivered_from_its_claim_to_its_end(bench: &Bench) {
    let other = Key::new("other".into(), "activity".into(), "bo".into()).unwrap();
    bench.claim(&window_of(&other, 3), &events(&["x"]), at(1)).await;
    bench.store.stash_events(&window(5), &events(&["stashed"]), None, at(1)).await.unwrap();
    let (first, second) = (bench.rendered(0).await, bench.rendered(1).await);
    let (number, _) = bench.begin(&first).await;
    bench.ended(&first, number, end(AttemptClass::Deferred)).await;
    let of_acme = |digests, attempted, overdue, due| UndeliveredDigests {
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
    bench.ended(&first, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(statistics(bench, acme, at(0), at(9_000)).await.undelivered, [of_acme(1, 0, 1, 1_060)]);
    assert_eq!(second.due_at, at(1_060));
}

pub async fn ends_count_by_outcome_with_their_events_from_the_begin_of_the_span(bench: &Bench) {
    let sent = bench.rendered(0).await;
    let (number, _) = bench.begin(&sent).await;
    bench.ended(&sent, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await; // at(202)
    let (window, events, closed) = (window(1), events(&["d1", "d2", "d3"]), closed(DigestOutcome::Dropped));
    let closing = CloseRequest {
        window: &window,
        events: &events,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(300),
    };
    bench.store.close_digest(closing).await.unwrap();
    let of = |outcome, digests, events| EndedDigests {
        tenant: "acme".into(),
        digest_type: "activity".into(),
        outcome,
        digests,
        events,
    };
    let dropped = of(DigestOutcome::Dropped, 1, 3);
    let both = statistics(bench, None, at(202), at(400)).await.ended;
    assert_eq!(both, [dropped.clone(), of(DigestOutcome::Sent, 1, 2)]);
    assert_eq!(statistics(bench, Some("acme"), at(203), at(400)).await.ended, [dropped]);
    assert_eq!(statistics(bench, Some("other"), at(0), at(400)).await.ended, []);
}

pub async fn reports_dead_letters_and_suppressions_count_by_relay_reason_and_tenant(bench: &Bench) {
    let sent = bench.rendered(0).await;
    let (number, _) = bench.begin(&sent).await;
    assert!(bench.dot(&sent, number).await);
    bench.ended(&sent, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    for kind in [
        ReportKind::Bounced(BounceKind::Soft),
        ReportKind::Bounced(BounceKind::Policy),
        ReportKind::Complained,
        ReportKind::Opened,
    ] {
        let report = DeliveryReport::new(kind, at(300));
        let of = vec![MessageReference::Id(sent.digest_id)];
        let event = CheckedDeliveryEvent {
            relay: Some("relay".into()),
            reports_for: Vec::new(),
            tenant: None,
            of,
            report,
            event_id: None,
        };
        bench.store.put_delivery_event(&event, 9, at(400)).await.unwrap().unwrap();
    }
    let letter = DeadLetter {
        seq: 0,
        reason: "no".into(),
        encoding: "json".into(),
        message_type: None,
        size: 1,
        sha256: "0".into(),
        head: String::new(),
    };
    for tenant in ["acme", "acm"] {
        let workflow_id = format!("digest/{tenant}/activity/ann");
        let input = DeadLettersInput { workflow_id, run_id: "run".into(), letters: vec![letter.clone()] };
        bench.store.put_dead_letters(&input, at(400)).await.unwrap();
    }
    let part = UnusablePart {
        reason: "no".into(),
        size: 1,
        sha256: "0".into(),
        head: String::new(),
        whole: true,
        ids: [].into(),
    };
    let request = WebhookRequest { relay: "relay".into(), unusable: vec![part], ..WebhookRequest::default() };
    bench.store.put_webhook_request(&request, 9, at(400)).await.unwrap();
    let by_relay = ReportedByRelay { relay: "relay".into(), bounces: 2, complaints: 1 };
    let all = statistics(bench, None, at(400), at(500)).await;
    assert_eq!(all.webhook_dead_letters, 1);
    assert_eq!((all.reported, all.dead_letters), (vec![by_relay], 2));
    assert_eq!(all.suppressed, [SuppressedAddresses { reason: SuppressionReason::Complaint, addresses: 1 }]);
    let of_tenant = statistics(bench, Some("acm"), at(400), at(500)).await;
    assert_eq!((of_tenant.dead_letters, of_tenant.webhook_dead_letters), (1, 0));
    let later = statistics(bench, None, at(401), at(500)).await;
    assert_eq!((later.reported, later.dead_letters, later.webhook_dead_letters), (vec![], 0, 0));
    assert_eq!(statistics(bench, Some("other"), at(0), at(500)).await.suppressed, []);
}

/// Records one delivery event per kind about the window's message.
async fn report(bench: &Bench, sent: &tidings_model::window::Window, kinds: &[ReportKind], received_at: Timestamp) {
    for &kind in kinds {
        let report = DeliveryReport::new(kind, at(300));
        let of = vec![MessageReference::Id(sent.digest_id)];
        let event = CheckedDeliveryEvent {
            relay: Some("relay".into()),
            reports_for: Vec::new(),
            tenant: None,
            of,
            report,
            event_id: None,
        };
        bench.store.put_delivery_event(&event, 9, received_at).await.unwrap().unwrap();
    }
}

pub async fn delivery_events_count_by_relay_and_kind_in_the_span_in_which_they_came(bench: &Bench) {
    let sent = bench.rendered(0).await;
    let (number, _) = bench.begin(&sent).await;
    assert!(bench.dot(&sent, number).await);
    bench.ended(&sent, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    report(
        bench,
        &sent,
        &[ReportKind::Delivered, ReportKind::Bounced(BounceKind::Soft), ReportKind::Bounced(BounceKind::Policy)],
        at(400),
    )
    .await;
    report(bench, &sent, &[ReportKind::Complained], at(500)).await;
    let of = |kind: &str, events| ReportedByKind { relay: "relay".into(), kind: kind.into(), events };
    let counted = bench.store.count_reported(at(399), at(500)).await.unwrap();
    assert_eq!(counted, [of("bounced", 2), of("complained", 1), of("delivered", 1)]);
    assert_eq!(bench.store.count_reported(at(400), at(499)).await.unwrap(), []);
    assert_eq!(bench.store.count_reported(at(400), at(500)).await.unwrap(), [of("complained", 1)]);
}

pub async fn counts_for_metrics_stop_at_their_number_of_rows(bench: &Bench) {
    for n in 0..3 {
        let sent = bench.rendered(n).await;
        if n > 0 {
            continue;
        }
        let (number, _) = bench.begin(&sent).await;
        bench.ended(&sent, number, end(AttemptClass::Deferred)).await;
    }
    let counted = async |most| {
        let undelivered = bench.store.count_undelivered(most, at(60)).await.unwrap();
        undelivered.iter().map(|of| of.digests).sum::<u64>()
    };
    assert_eq!((counted(9).await, counted(2).await), (3, 2));
    assert_eq!(bench.store.count_undelivered(9, at(61)).await.unwrap()[0].overdue, 1);
    for (address, reason) in [
        ("a@x", SuppressionReason::HardBounce),
        ("b@x", SuppressionReason::HardBounce),
        ("c@x", SuppressionReason::Complaint),
    ] {
        let (tenant, address) = ("acme".into(), address.into());
        let suppression = Suppression { tenant, address, reason, detail: String::new(), at: at(1) };
        bench.store.suppress(&suppression).await.unwrap();
    }
    let of = |reason, addresses| SuppressedAddresses { reason, addresses };
    let all = bench.store.suppressed_addresses(9).await.unwrap();
    assert_eq!(all, [of(SuppressionReason::Complaint, 1), of(SuppressionReason::HardBounce, 2)]);
    assert_eq!(bench.store.suppressed_addresses(2).await.unwrap(), [of(SuppressionReason::HardBounce, 2)]);
}

pub async fn counts_for_metrics_read_an_index(bench: &Bench) {
    let suppressions = match bench.behind {
        Behind::Sqlite { .. } => "sqlite_autoindex_suppressions_1",
        Behind::Postgres { .. } => "suppressions_pkey",
    };
    for (statement, index) in
        [(UNDELIVERED, "digests_to_empty"), (REPORTED_BY_KIND, "delivery_events_by_age"), (SUPPRESSED, suppressions)]
    {
        let plan = bench.plan(statement).await;
        let whole = ["Seq Scan", "SCAN digests", "SCAN delivery_events"].iter().any(|scan| plan.contains(scan));
        assert!(plan.contains(index) && !whole, "{statement}\n{plan}");
    }
}
