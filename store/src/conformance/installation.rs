//! The installation's identity, its workers' beats, and its processes.

use futures::future::join_all;
use jiff::Timestamp;
use tidings_model::process::{ClockOffsets, ProcessProfile, ProcessRecord, ProcessRole};
use uuid::Uuid;

use super::{Bench, at};

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);

pub async fn an_identity_is_made_once_and_replaced_on_demand(bench: &Bench) {
    assert_eq!(bench.store.installation().await.unwrap(), None);
    let made = bench.store.put_installation(ONE, false).await.unwrap();
    assert_eq!((made.identity, made.beat), (ONE, made.before));
    assert!(!made.place.is_empty());
    assert_eq!(bench.store.put_installation(TWO, false).await.unwrap(), made);
    let replaced = bench.store.put_installation(TWO, true).await.unwrap();
    assert_eq!((replaced.identity, &replaced.place), (TWO, &made.place));
    assert_ne!(replaced.beat, made.beat);
    assert_eq!(bench.store.installation().await.unwrap(), Some(replaced));
}

pub async fn a_beat_follows_the_one_before_and_not_too_soon(bench: &Bench) {
    let made = bench.store.put_installation(ONE, false).await.unwrap();
    let beat = async |from, to, seconds| bench.store.advance_beat(from, to, at(seconds)).await.unwrap();
    assert!(!beat(TWO, ONE, 100).await, "the beat is another");
    assert!(beat(made.beat, ONE, 100).await);
    assert!(!beat(ONE, TWO, 119).await);
    assert!(beat(ONE, TWO, 120).await);
    let now = bench.store.installation().await.unwrap().unwrap();
    assert_eq!((now.beat, now.before), (TWO, ONE));
    // A clock that was ahead holds no beat back.
    assert!(beat(TWO, ONE, 50).await);
}

pub async fn of_many_workers_at_once_one_changes_the_beat(bench: &Bench) {
    let made = bench.store.put_installation(ONE, false).await.unwrap();
    let beats = join_all((0..8).map(|n| bench.store.advance_beat(made.beat, Uuid::from_u128(100 + n), at(100)))).await;
    assert_eq!(beats.into_iter().filter(|beat| *beat.as_ref().unwrap()).count(), 1);
}

pub async fn the_newest_zone_data_of_all_workers_is_kept(bench: &Bench) {
    bench.store.put_installation(ONE, false).await.unwrap();
    for (release, newest) in
        [("", ""), ("2026b", "2026b"), ("2026a", "2026b"), ("2026za", "2026za"), ("2026z", "2026za")]
    {
        bench.store.keep_zone_release(release).await.unwrap();
        assert_eq!(bench.store.zone_release().await.unwrap(), newest, "{release}");
    }
}

fn process(id: Uuid, seconds: i64) -> ProcessRecord {
    let profile = ProcessProfile {
        sections: [("retention".to_owned(), "ab".to_owned())].into(),
        link_keys: vec!["cd".into()],
        dkim_keys: ["ef".to_owned()].into(),
        installation: Some(ONE),
        clock: ClockOffsets { store_ms: Some(-2), temporal_ms: None },
        ..ProcessProfile::new(ProcessRole::Worker, "mail", 7, "tidings")
    };
    ProcessRecord { id, seen_at: at(seconds), profile }
}

pub async fn a_process_is_seen_until_it_ends_or_is_forgotten(bench: &Bench) {
    let store = &bench.store;
    for process in [process(TWO, 30), process(ONE, 0), process(ONE, 60)] {
        store.put_process(&process).await.unwrap();
        store.put_process(&process).await.unwrap();
    }
    assert_eq!(store.processes().await.unwrap(), [process(ONE, 60), process(TWO, 30)]);
    bench
        .execute(
            "INSERT INTO processes (id, seen_at, profile) VALUES ('00000000-0000-0000-0000-000000000009', 0, '{}')",
        )
        .await;
    assert_eq!(store.processes().await.unwrap().len(), 2, "one that cannot be read is left out");
    store.forget_processes(at(30)).await.unwrap();
    assert_eq!(store.processes().await.unwrap().len(), 2);
    store.forget_processes(at(31)).await.unwrap();
    assert_eq!(store.processes().await.unwrap(), [process(ONE, 60)]);
    for _ in 0..2 {
        store.remove_process(ONE).await.unwrap();
        assert_eq!(store.processes().await.unwrap(), []);
    }
}

pub async fn the_clock_of_the_database_is_that_of_this_machine_here(bench: &Bench) {
    let difference = bench.store.database_clock().await.unwrap().duration_since(Timestamp::now());
    assert!(difference.abs().as_secs() < 5, "{difference}");
}

pub async fn the_last_upkeep_counts_from_the_first_beat_on(bench: &Bench) {
    let store = &bench.store;
    assert_eq!(store.upkeep_at().await.unwrap(), None);
    let made = store.put_installation(ONE, false).await.unwrap();
    assert_eq!(store.upkeep_at().await.unwrap(), None);
    store.advance_beat(made.beat, ONE, at(100)).await.unwrap();
    store.advance_beat(ONE, TWO, at(200)).await.unwrap();
    assert_eq!(store.upkeep_at().await.unwrap(), Some(at(100)));
    for (ended, last) in [(300, 300), (250, 300), (99_999, 99_999), (400, 400)] {
        store.keep_upkeep(at(ended)).await.unwrap();
        assert_eq!(store.upkeep_at().await.unwrap(), Some(at(last)), "an upkeep of a wrong clock hides none");
    }
    store.keep_upkeep(at(99_999)).await.unwrap();
    store.advance_beat(TWO, ONE, at(500)).await.unwrap();
    assert_eq!(store.upkeep_at().await.unwrap(), Some(at(500)));
}
