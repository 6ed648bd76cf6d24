//! Recipients' opens and clicks, for adapting a cadence.

use sqlx::Executor as _;
use tidings_model::{
    PersonId,
    attempt::AttemptClass,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind},
    records::{EngagementTimes, OutboxMessage},
    window::DigestOutcome,
};
use uuid::Uuid;

use super::{
    Bench, at,
    bench::Behind,
    delivery_events::{MOST, key_of, of_digest},
    ends, events, window_of,
};

/// Sends ann's `n`th digest at second `n`, with or without a tracking image.
async fn send(bench: &Bench, n: i64, counted: bool) -> Uuid {
    let window = window_of(&key_of("acme", "ann"), n);
    let id = window.digest_id;
    bench.claim(&window, &events(&[&format!("{n}")]), at(1)).await;
    let message = OutboxMessage { counted, ..of_digest(&window, "ann@example.com") };
    bench.store.put_message(&message, None).await.unwrap();
    let number = bench.past_the_dot(id).await;
    bench.store.end_attempt(id, number, &ends(AttemptClass::Sent, DigestOutcome::Sent), at(n)).await.unwrap();
    id
}

async fn report(bench: &Bench, message: Uuid, kind: ReportKind, machine: Option<bool>, seconds: i64) {
    let report = DeliveryReport { machine, ..DeliveryReport::new(kind, at(seconds)) };
    let of = vec![MessageReference::Id(message)];
    let event = CheckedDeliveryEvent {
        relay: None,
        reports_for: Vec::new(),
        tenant: Some("acme".into()),
        of,
        report,
        event_id: None,
    };
    bench.store.put_delivery_event(&event, MOST, at(9_000)).await.unwrap().unwrap();
}

async fn reading(bench: &Bench) -> EngagementTimes {
    bench.store.facts(&key_of("acme", "ann")).await.unwrap().reading
}

fn read(read_at: Option<i64>, unread_since: Option<i64>, fifth_unread_at: Option<i64>) -> EngagementTimes {
    let [read_at, unread_since, fifth_unread_at] = [read_at, unread_since, fifth_unread_at].map(|n| n.map(at));
    EngagementTimes { read_at, unread_since, fifth_unread_at }
}

pub async fn digests_count_as_unread_since_the_last_opening_of_a_person(bench: &Bench) {
    let first = send(bench, 300, true).await;
    assert_eq!(reading(bench).await, EngagementTimes::default(), "nobody is known to read");
    report(bench, first, ReportKind::Opened, Some(true), 301).await;
    assert_eq!(reading(bench).await, EngagementTimes::default(), "a machine says nothing");
    report(bench, first, ReportKind::Opened, Some(false), 302).await;
    assert_eq!(reading(bench).await, read(Some(302), None, None));
    send(bench, 400, false).await;
    for n in 401..=405 {
        assert_eq!(reading(bench).await, read(Some(302), (n > 401).then_some(401), None), "{n}");
        send(bench, n, true).await;
    }
    assert_eq!(reading(bench).await, read(Some(302), Some(401), Some(405)), "the one at 400 counts no openings");
    report(bench, first, ReportKind::Clicked, Some(false), 403).await;
    assert_eq!(reading(bench).await, read(Some(403), Some(404), None), "a click on an old message counts as well");
    report(bench, first, ReportKind::Opened, Some(false), 350).await;
    assert_eq!(reading(bench).await, read(Some(403), Some(404), None), "what comes late changes nothing");
}

pub async fn an_opening_of_nobody_known_starts_the_count_again_and_proves_no_reader(bench: &Bench) {
    let first = send(bench, 300, true).await;
    report(bench, first, ReportKind::Opened, None, 301).await;
    send(bench, 400, true).await;
    assert_eq!(reading(bench).await, read(None, Some(400), None));
    report(bench, first, ReportKind::Opened, Some(false), 302).await;
    report(bench, first, ReportKind::Clicked, None, 500).await;
    assert_eq!(reading(bench).await, read(Some(302), None, None));
}

pub async fn an_objection_and_an_erasure_forget_what_was_opened(bench: &Bench) {
    let first = send(bench, 300, true).await;
    report(bench, first, ReportKind::Opened, Some(false), 301).await;
    bench.store.forget_reading("other", first).await.unwrap();
    assert_eq!(reading(bench).await, read(Some(301), None, None), "another tenant's link");
    bench.store.forget_reading("acme", first).await.unwrap();
    assert_eq!(reading(bench).await, EngagementTimes::default());

    report(bench, first, ReportKind::Opened, Some(false), 302).await;
    let person = PersonId::from_key(&key_of("acme", "ann"));
    let held = bench.store.person(&person).await.unwrap().readings;
    assert_eq!(held.iter().map(|reading| reading.read_at).collect::<Vec<_>>(), [Some(at(302))]);
    let types = ["activity".to_owned()].into();
    assert!(bench.store.preview_erasure(&person, &types, &[].into()).await.unwrap().delivery_events > 0);
    bench.store.erase_choices(&person, &types).await.unwrap();
    while !bench.store.erase_digests(&key_of("acme", "ann"), at(950)).await.unwrap().is_nothing() {}
    report(bench, first, ReportKind::Opened, Some(false), 999).await;
    assert_eq!(reading(bench).await, EngagementTimes::default(), "an erased person's message counts for nobody");
}

pub async fn a_migration_keeps_what_was_opened_before(bench: &Bench) {
    let first = send(bench, 300, true).await;
    for (kind, machine, seconds) in [
        (ReportKind::Opened, Some(false), 301),
        (ReportKind::Clicked, None, 302),
        (ReportKind::Clicked, Some(true), 303),
        (ReportKind::Delivered, None, 304),
    ] {
        report(bench, first, kind, machine, seconds).await;
    }
    let rows = "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(MAX(read_at) AS TEXT) || ' ' || CAST(MAX(sign_at) AS TEXT) FROM readings";
    let before = bench.value(rows).await;
    assert_eq!(before, format!("1 {} {}", at(301).as_millisecond(), at(302).as_millisecond()));
    let migration = include_str!("../../migrations/postgres/0017_readings.sql");
    let insert = migration.split(';').find(|statement| statement.contains("INSERT INTO readings")).unwrap();
    for statement in ["DELETE FROM readings", insert] {
        match &bench.behind {
            Behind::Sqlite { pool, .. } => drop(pool.execute(statement).await.unwrap()),
            Behind::Postgres { pool, .. } => drop(pool.execute(statement).await.unwrap()),
        }
    }
    assert_eq!(bench.value(rows).await, before);
}
