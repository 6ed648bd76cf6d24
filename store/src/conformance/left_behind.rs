//! Orphaned digests: their run was terminated, and its call arrived later.

use std::time::Duration;

use tidings_model::{
    records::{AttemptStart, AuditActor, CloseRequest, EventExclusion},
    window::{DigestOutcome, Window, WindowEnd},
};
use uuid::Uuid;

use super::{Bench, at, closed, events, key, message, shown, window_of};

fn window(n: i64) -> Window {
    window_of(&key("ann"), n)
}

/// Claims two events for a terminated run.
async fn left_behind(bench: &Bench, window: Window) -> Window {
    bench.claim(&window, &events(&["a", "b"]), at(1)).await;
    window
}

async fn went_on(bench: &Bench, left: &Window, to: &Window) {
    let digest = bench.store.digest(left.digest_id).await.unwrap().unwrap();
    let why = format!("left behind; its events went on to digest {}", to.digest_id);
    assert_eq!((digest.items, digest.closed), (0, Some(WindowEnd { outcome: DigestOutcome::Skipped, why })));
    let untold = "SELECT CAST(COUNT(*) AS TEXT) FROM digests d WHERE d.why LIKE 'left behind%' AND
                  (2 <> (SELECT COUNT(*) FROM events e WHERE e.returned_from = d.digest_id) OR
                   1 <> (SELECT COUNT(*) FROM audit a WHERE a.digest_id = d.digest_id AND a.action = 'close'))";
    assert_eq!(bench.value(untold).await, "0");
}

pub async fn a_claim_takes_over_all_of_a_digest_that_has_one_of_its_events(bench: &Bench) {
    for rendered in [false, true] {
        let user = key(if rendered { "bo" } else { "ann" });
        let (left, next) = (left_behind(bench, window_of(&user, 0)).await, window_of(&user, 1));
        if rendered {
            bench.store.put_message(&message(&left, "never sent"), None).await.unwrap();
        }
        for _ in 0..2 {
            let claim = bench.claim(&next, &events(&["a", "new"]), at(2)).await;
            assert_eq!((claim.items, claim.taken), (3, 2));
        }
        went_on(bench, &left, &next).await;
        // Whoever claimed it comes late, and has nothing.
        assert_eq!(bench.claim(&left, &events(&["a", "b", "c"]), at(3)).await.items, 0);
        bench.store.put_message(&message(&left, "zombie"), None).await.unwrap();
        if rendered {
            let begun = bench.store.begin_attempt(left.digest_id, "relay", Duration::ZERO, at(4)).await.unwrap();
            assert!(matches!(begun, AttemptStart::Closed(_)));
        }
        assert_eq!(bench.items(&next).await, 3);
    }
}

pub async fn a_page_takes_it_over_unless_it_is_on_its_way(bench: &Bench) {
    let (left, page) = (left_behind(bench, window(0)).await, events(&["a", "b", "new"]));
    assert_eq!(bench.store.stash_events(&window(1), &page, Some(left.digest_id), at(2)).await.unwrap(), 3);
    assert_eq!((bench.items(&left).await, bench.items(&window(1)).await), (2, 1));
    assert_eq!(bench.store.stash_events(&window(1), &page, None, at(2)).await.unwrap(), 3);
    went_on(bench, &left, &window(1)).await;
}

pub async fn a_preview_leaves_it_alone_because_it_may_be_on_its_way(bench: &Bench) {
    left_behind(bench, window(0)).await;
    let preview = bench.store.preview_claim(&window(1), &events(&["a", "new"]), &[].into(), shown(50)).await.unwrap();
    assert_eq!(preview.items, 1);
}

pub async fn a_drop_takes_it_over(bench: &Bench) {
    let left = left_behind(bench, window(0)).await;
    let (events, closed) = (events(&["a"]), closed(DigestOutcome::Dropped));
    let closing = CloseRequest {
        window: &window(1),
        events: &events,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(2),
    };
    assert_eq!(bench.store.close_digest(closing).await.unwrap().taken, 1);
    went_on(bench, &left, &window(1)).await;
}

async fn take_back(bench: &Bench, ids: &[&str], delivering: Option<Uuid>) -> u64 {
    let (window, events, closed) = (window(1), events(ids), closed(DigestOutcome::Skipped));
    let window = Window { digest_id: EventExclusion::Retracted.digest_id(&window), ..window };
    let closing = CloseRequest {
        window: &window,
        events: &events,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(2),
    };
    bench.store.exclude_events(closing, delivering).await.unwrap().taken
}

pub async fn taking_back_a_repeated_event_leaves_its_digest_alone_that_is_on_its_way(bench: &Bench) {
    let left = left_behind(bench, window(0)).await;
    assert_eq!(take_back(bench, &["a"], Some(left.digest_id)).await, 1);
    assert_eq!(bench.items(&left).await, 2);
    assert_eq!(bench.store.digest(left.digest_id).await.unwrap().unwrap().closed, None);
}

pub async fn taking_back_one_event_of_it_leaves_the_others_to_the_next_claim(bench: &Bench) {
    let left = left_behind(bench, window(0)).await;
    assert_eq!(take_back(bench, &["a"], None).await, 1);
    assert_eq!(bench.items(&left).await, 1);
    assert_eq!(bench.store.digest(left.digest_id).await.unwrap().unwrap().closed, None);
    let claim = bench.claim(&window(1), &events(&["b", "new"]), at(3)).await;
    assert_eq!((claim.items, claim.taken), (2, 2));
    let ended = bench.store.digest(left.digest_id).await.unwrap().unwrap();
    assert_eq!((ended.items, ended.closed.map(|closed| closed.outcome)), (0, Some(DigestOutcome::Skipped)));
}

pub async fn taking_back_an_event_of_its_mail_changes_nothing(bench: &Bench) {
    let left = left_behind(bench, window(0)).await;
    bench.store.put_message(&message(&left, "never sent"), None).await.unwrap();
    take_back(bench, &["a"], None).await;
    assert_eq!(bench.items(&left).await, 2);
}

pub async fn taking_back_all_of_it_ends_it(bench: &Bench) {
    let left = left_behind(bench, window(0)).await;
    assert_eq!(take_back(bench, &["a"], None).await, 1);
    take_back(bench, &["b"], None).await;
    let ended = bench.store.digest(left.digest_id).await.unwrap().unwrap();
    assert_eq!((ended.items, ended.closed.map(|closed| closed.outcome)), (0, Some(DigestOutcome::Skipped)));
}

pub async fn nothing_is_taken_from_a_later_window_or_from_a_digest_that_was_attempted(bench: &Bench) {
    let claimed = left_behind(bench, window(2)).await;
    // The call of an earlier run comes through when its events were claimed again.
    assert_eq!(bench.claim(&window(1), &events(&["a", "b"]), at(2)).await.items, 0);
    bench.store.put_message(&message(&claimed, "mail"), None).await.unwrap();
    bench.begin(&claimed).await;
    assert_eq!(bench.claim(&window(3), &events(&["a", "b"]), at(3)).await.items, 0);
    assert_eq!(bench.items(&claimed).await, 2);
}

pub async fn a_late_call_takes_no_events_that_a_failed_digest_returned(bench: &Bench) {
    let failed = bench.rendered(0).await;
    left_behind(bench, window(2)).await;
    let closed = closed(DigestOutcome::Failed);
    let closing = CloseRequest {
        window: &failed,
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: true,
        planned: None,
        now: at(2),
    };
    bench.store.close_digest(closing).await.unwrap();
    assert_eq!(bench.claim(&window(1), &events(&["a", "b"]), at(3)).await.items, 0);
    assert_eq!(bench.joins(&window(3), at(4)).await, 2);
}
