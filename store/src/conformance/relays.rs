//! Concurrent changes to circuit breakers.

use futures::future::join_all;
use jiff::Timestamp;
use tidings_model::{
    attempt::{AttemptClass, AttemptPhase},
    breaker::{
        BreakerCause, BreakerProbe, CircuitBreaker, OpenState, RefusalHistory, RefusedRecipient, VersionedBreaker,
    },
    records::AttemptEnd,
};
use uuid::Uuid;

use super::{Bench, at, bench::Behind, end, entry, recipient};

fn open(probe: Option<BreakerProbe>) -> CircuitBreaker {
    let why = "rcpt: 550 5.7.1 no".to_owned();
    let open = OpenState { cause: BreakerCause::Policy, why, since: at(1), until: at(300), times: 2, probe };
    CircuitBreaker {
        open: Some(open),
        failures: 3,
        failing_since: Some(at(0)),
        sent: 40,
        bounced: 2,
        taken: 900,
        complained: 1,
        refusals: RefusalHistory {
            in_a_row: vec![RefusedRecipient { message: Uuid::from_u128(7), recipient: 1, domain: 2, ended: true }],
            openers: vec![Uuid::from_u128(8)],
            ended: 1,
            is_mixed: true,
            sender: Some("digest@acme.example".into()),
        },
    }
}

async fn put(bench: &Bench, name: &str, revision: u64, breaker: CircuitBreaker) -> bool {
    bench.store.put_breaker(name, &VersionedBreaker { revision, breaker }, None, at(2)).await.unwrap()
}

pub async fn what_is_remembered_of_a_relay_comes_back(bench: &Bench) {
    assert!(bench.store.breakers().await.unwrap().is_empty());
    let probe = BreakerProbe { message: Uuid::from_u128(7), until: at(900) };
    let for_good = CircuitBreaker::default().open_by_operator("they are moving", at(1));
    for (revision, breaker) in (1..).zip([open(None), open(Some(probe)), for_good, CircuitBreaker::closed()]) {
        assert!(put(bench, "ses", revision, breaker.clone()).await);
        assert_eq!(bench.store.breakers().await.unwrap()["ses"], VersionedBreaker { revision, breaker });
    }
    assert!(put(bench, "own", 1, CircuitBreaker::closed()).await);
    assert!(put(bench, "own/acme", 1, open(None)).await);
    let kept = bench.store.breakers().await.unwrap();
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["own", "own/acme", "ses"]);
    assert_eq!((&kept["own"].breaker, &kept["own/acme"].breaker), (&CircuitBreaker::closed(), &open(None)));
    assert_eq!(bench.value("SELECT state FROM relays WHERE name = 'ses'").await, "closed");
    let for_ever = CircuitBreaker::default().open_by_operator("", at(1)).open.map(|open| open.until);
    assert_eq!(for_ever, Some(Timestamp::MAX));
}

pub async fn of_many_changes_of_a_relay_at_once_one_counts(bench: &Bench) {
    for revision in 1..=3 {
        let changes = join_all((0..12).map(|n| {
            let probe = BreakerProbe { message: Uuid::from_u128(n), until: at(900) };
            put(bench, "ses", revision, open(Some(probe)))
        }));
        assert_eq!(changes.await.into_iter().filter(|won| *won).count(), 1);
    }
    assert!(!put(bench, "ses", 3, CircuitBreaker::closed()).await, "it was made of what is no longer so");
    assert!(bench.store.breakers().await.unwrap()["ses"].breaker.open.is_some());
}

pub async fn an_operators_change_of_a_relay_is_audited_when_it_counts(bench: &Bench) {
    let kept = |revision| VersionedBreaker {
        revision,
        breaker: CircuitBreaker::default().open_by_operator("they are moving", at(1)),
    };
    let entry = entry(1, "carol", "relay_open");
    assert!(bench.store.put_breaker("ses", &kept(1), Some(&entry), at(1)).await.unwrap());
    assert!(!bench.store.put_breaker("ses", &kept(1), Some(&entry), at(1)).await.unwrap());
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit").await, "1");
    assert_eq!(bench.value("SELECT action FROM audit WHERE tenant = ''").await, "relay_open ses");
}

pub async fn a_database_that_has_lost_a_table_is_not_healthy(bench: &Bench) {
    bench.store.ping().await.unwrap();
    let rename = "ALTER TABLE relays RENAME TO gone";
    match &bench.behind {
        Behind::Sqlite { pool, .. } => drop(sqlx::query(rename).execute(pool).await.unwrap()),
        Behind::Postgres { pool, .. } => drop(sqlx::query(rename).execute(pool).await.unwrap()),
    }
    assert!(bench.store.ping().await.is_err());
}

pub async fn the_latest_refusals_of_a_relay_come_first(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    let refused = |reply: &str, class| AttemptEnd { phase: AttemptPhase::Rcpt, reply: reply.into(), ..end(class) };
    let window = bench.rendered(0).await;
    for (n, reply, class) in [
        (210, "450 4.2.0 later", AttemptClass::Deferred),
        (220, "", AttemptClass::Deferred),
        (230, "550 relay not permitted", AttemptClass::Configuration),
        (240, "250 ok", AttemptClass::Sent),
    ] {
        let (number, _) = bench.begin(&window).await;
        bench.store.end_attempt(window.digest_id, number, &refused(reply, class), at(n)).await.unwrap();
    }
    let attempts = bench.store.attempts(window.digest_id).await.unwrap();
    let relay = &attempts[0].relay;
    let replies = async |limit| {
        let found = bench.store.refusals(relay, limit).await.unwrap();
        found.into_iter().map(|found| (found.message, found.at, found.class, found.reply)).collect::<Vec<_>>()
    };
    let id = window.digest_id;
    let latest = (id, at(230), AttemptClass::Configuration, "550 relay not permitted".to_owned());
    assert_eq!(replies(9).await, [latest.clone(), (id, at(210), AttemptClass::Deferred, "450 4.2.0 later".to_owned())]);
    assert_eq!(replies(1).await, [latest]);
    assert_eq!(bench.store.refusals("another", 9).await.unwrap(), []);
}
