//! The identity of the installation, and the beats of its workers.

use futures::future::join_all;
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
    let beat = async |from, to, seconds| bench.store.beat(from, to, at(seconds)).await.unwrap();
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
    let beats = join_all((0..8).map(|n| bench.store.beat(made.beat, Uuid::from_u128(100 + n), at(100)))).await;
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
