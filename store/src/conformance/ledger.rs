use std::{any::Any, collections::BTreeSet, time::Duration};

use futures::future::join_all;
use tidings_model::{
    Event, Key,
    attempt::AttemptClass,
    records::{AttemptStart, AuditActor, ClaimCounts, ClaimLimits, CloseRequest},
    settings::DigestCategories,
    window::{DigestOutcome, Window, WindowEnd},
};
use tokio::time::timeout;

use super::{Bench, at, bench::Behind, closed, ends, event, events, key, message, shown, window, window_of};
use crate::StoreError;

async fn close(bench: &Bench, window: &Window, ids: &[&str], outcome: DigestOutcome, return_events: bool) -> WindowEnd {
    let (events, closed) = (events(ids), closed(outcome));
    let closing = CloseRequest {
        window,
        events: &events,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events,
        planned: None,
        now: at(300),
    };
    bench.store.close_digest(closing).await.unwrap().closed
}

async fn known(bench: &Bench, key: &Key, ids: &[&str]) -> Vec<String> {
    let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
    bench.store.known_events(key, &ids, &[], None).await.unwrap().event_ids
}

pub async fn an_event_is_written_once_and_its_contents_merge(bench: &Bench) {
    let (mine, mut second) = (window(0), event("e1"));
    second.category = "share".into();
    bench.store.stash_events(&mine, &[event("e1"), second.clone()], None, at(1)).await.unwrap();
    bench.store.stash_events(&mine, &[second.clone()], None, at(2)).await.unwrap();
    bench.store.stash_events(&window(1), &[second], Some(mine.digest_id), at(3)).await.unwrap();
    let contents = bench.store.contents(&mine, shown(50)).await.unwrap();
    assert_eq!((contents.items, contents.lines[0].category.as_str()), (1, "share"), "of one instant, by the content");
    assert_eq!(bench.items(&window(1)).await, 0);
    let elsewhere = window_of(&key("bo"), 0);
    bench.store.stash_events(&elsewhere, &events(&["e1"]), None, at(1)).await.unwrap();
    assert_eq!(bench.items(&elsewhere).await, 1);
}

pub async fn a_claim_is_the_same_when_repeated(bench: &Bench) {
    bench.store.stash_events(&window(0), &events(&["a", "b"]), None, at(1)).await.unwrap();
    let mut other = event("c");
    other.entity_id = "d2".into();
    for _ in 0..3 {
        let claim = bench.claim(&window(0), &[event("b"), other.clone()], at(2)).await;
        assert_eq!(claim, ClaimCounts { items: 3, lines: 2, taken: 2, aside: 0 });
    }
    assert_eq!(bench.joins(&window(1), at(3)).await, 0);
}

pub async fn a_page_of_many_events_is_written_whole(bench: &Bench) {
    let many: Vec<Event> = (0..1_201).map(|n| event(&format!("e{n}"))).collect();
    assert_eq!(bench.claim(&window(0), &many, at(1)).await.items, 1_201);
}

pub async fn what_comes_too_late_for_a_mail_stays_with_the_caller(bench: &Bench) {
    let window = bench.rendered(0).await;
    // The claim that the mail was made of, again with what has arrived since.
    let again = events(&["0a", "0b", "new", "0a", "newer"]);
    assert_eq!(bench.claim(&window, &again, at(3)).await.taken, 2);
    assert_eq!(bench.store.stash_events(&window, &again, None, at(3)).await.unwrap(), 2);
    let closed = closed(DigestOutcome::Dropped);
    let closing = CloseRequest {
        window: &window,
        events: &again,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(4),
    };
    assert_eq!(bench.store.close_digest(closing).await.unwrap().taken, 2);
    assert_eq!(
        bench.store.stash_events(&super::window(1), &again, None, at(5)).await.unwrap(),
        5,
        "the next window takes them"
    );
}

pub async fn an_event_is_known_when_its_digest_has_an_end_or_is_the_open_one(bench: &Bench) {
    let window = window(0);
    bench.claim(&window, &events(&["a"]), at(1)).await;
    let known = async |open| {
        bench.store.known_events(&window.key, &["a".into(), "b".into()], &[], open).await.unwrap().event_ids
    };
    // A claim whose answer was lost: whoever made it comes again, and the event must be new to them.
    assert!(known(None).await.is_empty());
    assert_eq!(known(Some(window.digest_id)).await, ["a"]);
    close(bench, &window, &[], DigestOutcome::Skipped, false).await;
    assert_eq!(known(None).await, ["a"]);
}

pub async fn nothing_is_written_under_a_message(bench: &Bench) {
    let window = bench.rendered(0).await;
    let before = bench.store.contents(&window, shown(50)).await.unwrap();
    bench.store.stash_events(&window, &events(&["late"]), None, at(3)).await.unwrap();
    assert_eq!(bench.claim(&window, &events(&["later"]), at(3)).await.items, 2);
    close(bench, &window, &["latest"], DigestOutcome::Dropped, false).await;
    bench.store.stash_events(&window, &events(&["late"]), None, at(4)).await.unwrap();
    assert_eq!(bench.store.contents(&window, shown(50)).await.unwrap(), before);
    assert!(known(bench, &window.key, &["late", "later", "latest"]).await.is_empty());
}

pub async fn what_comes_after_an_end_belongs_to_a_later_window_unless_the_end_is_recorded_again(bench: &Bench) {
    let window = window(0);
    close(bench, &window, &["a"], DigestOutcome::Skipped, false).await;
    assert_eq!(bench.store.stash_events(&window, &events(&["a", "b"]), None, at(3)).await.unwrap(), 1);
    assert_eq!(
        bench.claim(&window, &events(&["a", "c"]), at(3)).await,
        ClaimCounts { items: 1, lines: 1, taken: 1, aside: 0 }
    );
    assert_eq!(close(bench, &window, &["d"], DigestOutcome::Dropped, true).await.outcome, DigestOutcome::Skipped);
    assert!(known(bench, &window.key, &["b", "c", "d"]).await.is_empty());
    // The answer to that was lost, and another event has come.
    close(bench, &window, &["a", "e"], DigestOutcome::Skipped, false).await;
    assert_eq!(known(bench, &window.key, &["a", "e"]).await.len(), 2);
    assert_eq!(bench.joins(&super::window(1), at(4)).await, 0, "their digest has an end");
    bench.store.put_message(&message(&window, "zombie"), None).await.unwrap();
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM messages").await, "0");
}

pub async fn the_first_end_stays_and_is_audited_once(bench: &Bench) {
    for outcome in [DigestOutcome::Dropped, DigestOutcome::Dropped, DigestOutcome::Unknown] {
        assert_eq!(close(bench, &window(0), &["a"], outcome, false).await, closed(DigestOutcome::Dropped));
    }
    let audit = "SELECT CAST(COUNT(*) AS TEXT) || MIN(action) || MIN(why) FROM audit";
    assert_eq!(bench.value(audit).await, "1closedropped: because dropped");
    let digest = bench.store.digest(window(0).digest_id).await.unwrap().unwrap();
    assert_eq!(
        (digest.closed, digest.closed_at, digest.items),
        (Some(closed(DigestOutcome::Dropped)), Some(at(300)), 1)
    );
}

pub async fn known_events_keep_their_order_and_their_key(bench: &Bench) {
    close(bench, &window(0), &["a", "ü", "c"], DigestOutcome::Skipped, false).await;
    assert_eq!(known(bench, &key("ann"), &["c", "x", "ü", "a"]).await, ["c", "ü", "a"]);
    assert!(known(bench, &key("bo"), &["a"]).await.is_empty());
    assert!(known(bench, &key("ann"), &[]).await.is_empty());
}

pub async fn returned_events_join_exactly_one_claim(bench: &Bench) {
    let failed = bench.rendered(0).await;
    let (number, _) = bench.begin(&failed).await;
    let mut end = ends(AttemptClass::Deferred, DigestOutcome::Failed);
    end.return_events = true;
    bench.ended(&failed, number, end.clone()).await;
    bench.ended(&failed, number, end).await;
    assert_eq!(known(bench, &failed.key, &["0a", "0b"]).await.len(), 2);
    assert_eq!(bench.claim(&window_of(&key("bo"), 1), &[], at(9)).await.items, 0, "another key's");
    // One of them is sent again by its producer, too.
    for _ in 0..2 {
        assert_eq!(bench.claim(&window(1), &events(&["0a", "new"]), at(10)).await.items, 3);
    }
    assert_eq!(bench.joins(&window(2), at(11)).await, 0);
    assert_eq!((bench.items(&failed).await, bench.outcome(&failed).await), (0, Some(DigestOutcome::Failed)));
    let story = "SELECT CAST(COUNT(*) AS TEXT) FROM events e JOIN digests d ON d.digest_id = e.returned_from
                 WHERE d.outcome = 'failed' AND e.digest_id <> d.digest_id AND e.returned_at IS NULL";
    assert_eq!(bench.value(story).await, "2");
}

pub async fn a_late_event_of_a_digest_that_returned_its_events_goes_on_to_the_next(bench: &Bench) {
    close(bench, &window(0), &["a"], DigestOutcome::Failed, true).await;
    close(bench, &window(0), &["a", "b"], DigestOutcome::Failed, true).await;
    assert_eq!(bench.joins(&window(2), at(3)).await, 2);
    close(bench, &window(0), &["a", "b"], DigestOutcome::Failed, true).await;
    assert_eq!((bench.items(&window(0)).await, bench.items(&window(2)).await), (0, 3));
}

pub async fn what_a_lost_task_claimed_is_found_by_the_window_that_it_was_claimed_for(bench: &Bench) {
    // The task ended a window, claimed the next, and made its mail. Its answer was lost.
    close(bench, &window(0), &["a"], DigestOutcome::Skipped, false).await;
    let lost = bench.rendered(1).await;
    let again = events(&["1a", "1b", "new"]);
    assert_eq!(bench.claim(&window(0), &again, at(3)).await, ClaimCounts { items: 1, lines: 1, taken: 0, aside: 0 });
    assert_eq!(bench.store.stash_events(&window(0), &again, None, at(3)).await.unwrap(), 0);
    assert_eq!(bench.claim(&lost, &again, at(4)).await, ClaimCounts { items: 2, lines: 1, taken: 2, aside: 0 });
}

pub async fn digests_are_listed_latest_first_with_their_state(bench: &Bench) {
    bench.store.stash_events(&window(0), &events(&["a"]), None, at(1)).await.unwrap();
    bench.claim(&window(1), &events(&["b"]), at(1)).await;
    let rendered = bench.rendered(2).await;
    bench.begin(&rendered).await;
    close(bench, &window(3), &[], DigestOutcome::Skipped, false).await;
    let digests = bench.store.digests(&key("ann"), 10).await.unwrap();
    let told: Vec<_> = digests.iter().map(|d| (d.state.name(), d.items, d.attempts, d.opened_at, d.due_at)).collect();
    assert_eq!(
        told,
        [
            ("closed", 0, 0, at(3_000), at(3_060)),
            ("rendered", 2, 1, at(2_000), at(2_060)),
            ("claimed", 1, 0, at(1_000), at(1_060)),
            ("open", 1, 0, at(0), at(60)),
        ]
    );
    assert_eq!(digests[1].key, key("ann"));
    assert_eq!(bench.store.digests(&key("ann"), 1).await.unwrap(), digests[..1]);
    assert!(bench.store.digests(&key("bo"), 1).await.unwrap().is_empty());
    assert!(bench.store.digest(window(9).digest_id).await.unwrap().is_none());
}

pub async fn writers_wait_for_each_other(bench: &Bench) {
    let page: Vec<Event> = (0..50).map(|n| event(&format!("e{n}"))).collect();
    let claims = (0..40).map(|n| {
        let (page, window) = (&page, window_of(&key(&format!("user{}", n % 4)), 0));
        async move { bench.claim(&window, page, at(1)).await.items }
    });
    assert_eq!(join_all(claims).await, [50; 40]);
}

/// A lost call renders what it read, and its successor has added an event since.
pub async fn a_mail_that_tells_of_less_than_its_digest_has_is_not_stored(bench: &Bench) {
    let window = window(0);
    bench.claim(&window, &events(&["a"]), at(1)).await;
    let tells_of = bench.items(&window).await;
    bench.claim(&window, &events(&["a", "b"]), at(2)).await;
    assert!(!bench.store.put_message(&message(&window, "of a"), Some(tells_of)).await.unwrap());
    assert_eq!(bench.claim(&window, &events(&["a", "b", "c"]), at(3)).await.items, 3, "it has no mail yet");
    assert!(bench.store.put_message(&message(&window, "of all"), Some(3)).await.unwrap());
    // The first one wins, whatever a later one tells of.
    assert!(bench.store.put_message(&message(&window, "zombie"), Some(tells_of)).await.unwrap());
    match bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(200)).await.unwrap() {
        AttemptStart::Proceed { message: stored, .. } => assert!(*stored == message(&window, "of all")),
        AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
        AttemptStart::Closed(closed) => panic!("{closed:?}"),
    }
}

/// The holder may be gone with its worker, so waiting calls should not keep a connection that long.
pub async fn who_waits_for_what_somebody_has_locked_hears_that_the_store_is_away(bench: &Bench) {
    const LOCK: &str = "UPDATE digests SET due_at = due_at";
    let window = window(0);
    bench.claim(&window, &events(&["a"]), at(1)).await;
    let _locked: Box<dyn Any> = match &bench.behind {
        Behind::Sqlite { pool, .. } => {
            let mut transaction = pool.begin().await.unwrap();
            sqlx::query(LOCK).execute(&mut *transaction).await.unwrap();
            Box::new(transaction)
        }
        Behind::Postgres { pool, .. } => {
            let mut transaction = pool.begin().await.unwrap();
            sqlx::query(LOCK).execute(&mut *transaction).await.unwrap();
            Box::new(transaction)
        }
    };
    let (events, off) = (events(&["a"]), BTreeSet::new());
    let terms = ClaimLimits {
        cap: None,
        slot_at: None,
        off: &off,
        seen: &BTreeSet::new(),
        categories: &DigestCategories::NONE,
        planned: None,
    };
    let claim = bench.store.claim(&window, &events, &terms, at(2));
    let claimed = timeout(Duration::from_mins(1), claim).await.expect("it waits for ever");
    assert!(matches!(claimed, Err(StoreError::Unavailable(_))), "{claimed:?}");
}
