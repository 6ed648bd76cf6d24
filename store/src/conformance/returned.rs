//! Events which failed digests returned to their key (rule 25).

use std::collections::BTreeMap;

use serde_json::json;
use tidings_model::{
    Event, Retract,
    attempt::AttemptClass,
    records::{AttemptEnd, AuditActor, CloseRequest},
    step::{CloseAnswer, ReturnedEvents},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, closed, ends, events, key, message, shown, window, window_of};

/// Claims the window with these events; its last attempt fails.
async fn fail(bench: &Bench, window: &Window, ids: &[&str]) {
    bench.claim(window, &events(ids), at(1)).await;
    bench.store.put_message(&message(window, "first"), None).await.unwrap();
    let (number, _) = bench.begin(window).await;
    let end = AttemptEnd { return_events: true, ..ends(AttemptClass::Deferred, DigestOutcome::Failed) };
    bench.ended(window, number, end.clone()).await;
    bench.ended(window, number, end).await;
}

async fn close(bench: &Bench, window: &Window, own: &[Event], outcome: DigestOutcome) -> CloseAnswer {
    let closed = closed(outcome);
    let by = AuditActor::Tidings;
    let closing =
        CloseRequest { window, events: own, closed: &closed, by, return_events: false, planned: None, now: at(300) };
    bench.store.close_digest(closing).await.unwrap()
}

fn returned(digests: &[(&Window, u64)]) -> ReturnedEvents {
    let digests: BTreeMap<_, _> = digests.iter().map(|(window, count)| (window.digest_id, *count)).collect();
    ReturnedEvents { at: at(202), digests }
}

pub async fn a_key_knows_what_waits_and_which_digest_returned_it(bench: &Bench) {
    assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), None);
    let others = window_of(&key("bo"), 0);
    fail(bench, &others, &["a"]).await;
    fail(bench, &window(0), &["b", "a"]).await;
    for _ in 0..2 {
        assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), Some(returned(&[(&window(0), 2)])));
    }
    assert_eq!(bench.store.returned_events(&others.key).await.unwrap(), Some(returned(&[(&others, 1)])));
    bench.claim(&window(1), &[], at(400)).await;
    assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), None);
}

pub async fn a_returned_event_reads_as_it_was_recorded(bench: &Bench) {
    let json = json!({"event_id": "a", "category": "comment", "entity_type": "page", "entity_id": "plans", "actor": "Bob",
                      "occurred_at": "2026-01-31T08:00:00.5Z", "counts": {"critical": 2}, "urgent": true,
                      "payload": {"title": "Plan", "n": 3}});
    let event: Event = serde_json::from_value(json).unwrap();
    bench.claim(&window(0), std::slice::from_ref(&event), at(1)).await;
    assert_eq!(bench.store.returned_event(&key("ann")).await.unwrap(), None);
    fail(bench, &window(0), &[]).await;
    assert_eq!(bench.store.returned_event(&key("ann")).await.unwrap(), Some(event));
}

pub async fn a_claim_takes_returned_events_without_any_of_its_own(bench: &Bench) {
    fail(bench, &window(0), &["a", "b"]).await;
    let preview = bench.store.preview_claim(&window(1), &[], &[].into(), shown(50)).await.unwrap();
    assert_eq!((preview.items, bench.items(&window(0)).await), (2, 2), "a preview leaves them where they are");
    for _ in 0..2 {
        let claim = bench.claim(&window(1), &[], at(400)).await;
        assert_eq!((claim.items, claim.taken), (2, 0));
    }
    assert_eq!((bench.items(&window(0)).await, bench.outcome(&window(0)).await), (0, Some(DigestOutcome::Failed)));
}

pub async fn an_event_returns_twice_and_then_stays_with_its_digest(bench: &Bench) {
    for n in 0..2 {
        fail(bench, &window(n), if n == 0 { &["a"] } else { &[] }).await;
        assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), Some(returned(&[(&window(n), 1)])));
    }
    // A later event is returned, and the one that was returned twice stays.
    fail(bench, &window(2), &["b"]).await;
    assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), Some(returned(&[(&window(2), 1)])));
    assert_eq!(bench.claim(&window(3), &[], at(400)).await.items, 1);
    assert_eq!((bench.items(&window(2)).await, bench.items(&window(3)).await), (1, 1));
    assert_eq!(bench.outcome(&window(2)).await, Some(DigestOutcome::Failed));
}

pub async fn the_end_of_a_window_takes_returned_events_and_that_of_a_digest_takes_none(bench: &Bench) {
    bench.claim(&window(9), &events(&["d"]), at(1)).await;
    fail(bench, &window(0), &["a"]).await;
    // A digest in delivery, and a part of a window, end without them.
    close(bench, &window(9), &[], DigestOutcome::Dropped).await;
    let (skipped, own) = (closed(DigestOutcome::Skipped), events(&["x"]));
    let closing = CloseRequest {
        window: &window(8),
        events: &own,
        closed: &skipped,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(300),
    };
    bench.store.exclude_events(closing, None).await.unwrap();
    assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), Some(returned(&[(&window(0), 1)])));
    for _ in 0..2 {
        let ending = close(bench, &window(1), &events(&["b"]), DigestOutcome::Dropped).await;
        assert_eq!((ending.closed, ending.taken), (closed(DigestOutcome::Dropped), 1));
    }
    assert_eq!((bench.items(&window(0)).await, bench.items(&window(1)).await), (0, 2));
    assert_eq!(bench.store.digest(window(1).digest_id).await.unwrap().unwrap().items, 2);
}

pub async fn a_returned_event_that_was_retracted_is_in_no_mail(bench: &Bench) {
    fail(bench, &window(0), &["a", "b"]).await;
    let retract = Retract::Event("a".to_owned());
    bench.store.put_retracts(&key("ann"), &[retract], at(300)).await.unwrap();
    assert_eq!(bench.claim(&window(1), &[], at(400)).await.items, 1);
    assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), None);
}
