//! A fresh window, claimed together with its message, and contents that need no query.

use futures::future::join_all;
use jiff::SignedDuration;
use proptest::{collection::vec, prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::json;
use tidings_model::{
    Event, EventPayload, Retract,
    attempt::AttemptClass,
    records::{DigestState, MessageState, OutboxMessage, RenderedClaim, SentSchedule},
    rules::contents::digest_contents,
    settings::{CategorySettings, DigestCategories, DisplayLimits, SectionHeading},
    window::{DigestOutcome, PlanSummary, Window},
};

use super::{Bench, at, ends, event, events, key, message, window};

async fn claim(bench: &Bench, window: &Window, events: &[Event]) -> bool {
    claim_with(bench, window, events, &message(window, "first")).await
}

async fn claim_with(bench: &Bench, window: &Window, events: &[Event], message: &OutboxMessage) -> bool {
    let planned = PlanSummary { why: "daily 08:00".into(), cadence: "daily 08:00".into(), zone: "UTC".into() };
    let claim = RenderedClaim { window, events, planned: Some(&planned), message, slot_at: None, now: at(7) };
    bench.store.claim_rendered(claim).await.unwrap()
}

async fn is_fresh(bench: &Bench, window: &Window) -> bool {
    bench.store.facts_for_claim(window).await.unwrap().1
}

pub async fn a_fresh_window_becomes_a_digest_with_its_message_at_once(bench: &Bench) {
    let window = window(1);
    assert!(is_fresh(bench, &window).await);
    assert!(claim(bench, &window, &events(&["a", "b"])).await);
    let digest = bench.store.digest(window.digest_id).await.unwrap().unwrap();
    assert_eq!((digest.state, digest.claimed_at, digest.items), (DigestState::Rendered, Some(at(7)), 2));
    assert_eq!((digest.plan_why.as_str(), digest.zone.as_str(), digest.due_at), ("daily 08:00", "UTC", window.due_at));
    let stored = bench.store.message(window.digest_id).await.unwrap().unwrap();
    assert_eq!(stored.envelope_to, "ann@example.com");
    assert!(!is_fresh(bench, &window).await, "its digest is there");
    // A claim whose answer was lost goes on as the ledger knows the digest.
    assert!(!claim(bench, &window, &events(&["a", "b"])).await);
    assert_eq!(bench.claim(&window, &events(&["a", "b"]), at(9)).await.items, 2);
    assert!(bench.store.put_message(&message(&window, "second"), Some(2)).await.unwrap());
    assert_eq!(bench.begin(&window).await, (1, 0));
}

pub async fn the_schedule_of_the_last_digest_that_was_sent_is_known(bench: &Bench) {
    let window = window(0);
    assert!(claim(bench, &window, &events(&["a"])).await);
    assert_eq!(bench.store.facts(&key("ann")).await.unwrap().last_schedule, None, "it is not sent yet");
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    bench.ended(&window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    let (cadence, zone) = ("daily 08:00".to_owned(), "UTC".to_owned());
    let schedule = SentSchedule { at: window.due_at, cadence, zone };
    assert_eq!(bench.store.facts(&key("ann")).await.unwrap().last_schedule, Some(schedule));
    assert_eq!(bench.store.facts(&key("bo")).await.unwrap().last_schedule, None);
}

pub async fn a_window_with_a_known_event_is_not_claimed_with_its_message(bench: &Bench) {
    bench.claim(&window(1), &events(&["a"]), at(1)).await;
    let second = window(2);
    assert!(is_fresh(bench, &second).await, "the ledger looks for no event here");
    assert!(!claim(bench, &second, &events(&["b", "a"])).await);
    assert!(!claim(bench, &second, &events(&["b", "b"])).await);
    assert_eq!(bench.store.digest(second.digest_id).await.unwrap(), None);
    assert!(bench.store.message(second.digest_id).await.unwrap().is_none());
    assert!(bench.store.known_events(&key("ann"), &["b".into()], &[], None).await.unwrap().event_ids.is_empty());
}

pub async fn a_window_of_a_key_with_retracts_or_returned_events_is_not_fresh(bench: &Bench) {
    let retract = Retract::Event("other".into());
    bench.store.put_retracts(&key("bob"), &[retract], at(1)).await.unwrap();
    let of_bob = super::window_of(&key("bob"), 1);
    assert!(!is_fresh(bench, &of_bob).await);
    assert!(!claim(bench, &of_bob, &events(&["a"])).await);

    let failed = bench.rendered(1).await;
    let (number, _) = bench.begin(&failed).await;
    assert!(is_fresh(bench, &window(2)).await);
    let end = ends(AttemptClass::Deferred, DigestOutcome::Failed);
    bench.ended(&failed, number, tidings_model::records::AttemptEnd { return_events: true, ..end }).await;
    assert!(!is_fresh(bench, &window(2)).await);
    assert!(!claim(bench, &window(2), &events(&["c"])).await);
    assert_eq!(bench.joins(&window(2), at(300)).await, 2, "the claim of today takes the returned events");
}

pub async fn of_claims_of_the_same_events_at_once_one_counts(bench: &Bench) {
    let (windows, same) = ([window(1), window(2), window(3)], events(&["a", "b"]));
    let claims = (0..12).map(|n| claim(bench, &windows[n % 3], &same));
    assert_eq!(join_all(claims).await.into_iter().filter(|claimed| *claimed).count(), 1);
    let mut claimed = Vec::new();
    for window in windows {
        let message = bench.store.message(window.digest_id).await.unwrap();
        let digest = bench.store.digest(window.digest_id).await.unwrap();
        claimed.extend(message.map(|_| digest.expect("a message has its digest")));
    }
    assert_eq!(
        claimed.iter().map(|digest| (digest.state, digest.items)).collect::<Vec<_>>(),
        [(DigestState::Rendered, 2)]
    );
    let written = "SELECT CAST((SELECT COUNT(*) FROM digests) + (SELECT COUNT(*) FROM events) AS TEXT)";
    assert_eq!(bench.value(written).await, "3", "the other calls write nothing");
}

pub async fn a_window_that_is_dropped_while_it_is_claimed_has_no_open_message(bench: &Bench) {
    for n in 0..12 {
        let window = window(n);
        let ids = [format!("{n}a"), format!("{n}b")];
        let events = events(&[&ids[0], &ids[1]]);
        let (claimed, ()) = tokio::join!(claim(bench, &window, &events), bench.drop_digest(&window));
        assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Dropped));
        let message = bench.store.message(window.digest_id).await.unwrap();
        assert_eq!(message.map(|message| message.state), claimed.then_some(MessageState::Cancelled));
        assert_eq!(bench.items(&window).await, if claimed { 2 } else { 0 });
    }
}

pub async fn a_claim_that_waits_for_another_of_the_digest_writes_nothing(bench: &Bench) {
    const OPEN: &str = "
INSERT INTO digests (digest_id, tenant, digest_type, user_id, opened_at, due_at, state)
VALUES ($1, 'acme', 'activity', 'ann', 0, 0, 'open')";
    let window = window(1);
    assert!(!bench.while_it_waits(&[OPEN], &window, claim(bench, &window, &events(&["a"]))).await);
    assert_eq!((bench.items(&window).await, bench.store.message(window.digest_id).await.unwrap().is_none()), (0, true));
}

fn any_event() -> impl Strategy<Value = Event> {
    let word = |words: &'static [&'static str]| proptest::sample::select(words).prop_map(str::to_owned);
    let counts = proptest::collection::btree_map(
        word(&["critical", "ü\"\\", "w"]),
        prop_oneof![Just(i64::MAX), Just(i64::MIN), -3..3_i64],
        0..3,
    );
    let random =
        (word(&["comment", "share", "Share"]), word(&["", "doc", "ä"]), word(&["", "z", "Z", "😀", "a-b", "a b"]));
    // One group has more events than its items are made from.
    let about = prop_oneof![random, (word(&["share"]), word(&["doc"]), word(&["z"]))];
    let text = || proptest::sample::select(vec![json!("x"), json!("x "), json!("nul \0"), json!(1), json!(null)]);
    // Microseconds apart: the store keeps milliseconds.
    let at = (-2_000..2_000_i64).prop_map(|micros| at(0) + SignedDuration::from_micros(micros));
    (about, word(&["", "Ann", "Änn", "Bo", "Cy", "Dee"]), at, counts, (text(), text(), any::<f64>())).prop_map(
        |((category, entity_type, entity_id), actor, occurred_at, counts, (title, excerpt, number))| {
            let nested = json!({"b": [number, u64::MAX, -1], "a": "ü \" \\ \u{1}"});
            let payload = EventPayload::from_iter(
                [("title", title), ("excerpt", excerpt), ("nested", nested)]
                    .map(|(name, value)| (name.to_owned(), value)),
            );
            Event { category, entity_type, entity_id, actor, occurred_at, counts, payload, ..event("") }
        },
    )
}

pub async fn contents_of_events_are_those_that_the_store_reads(bench: &Bench) {
    let mut runner = TestRunner::deterministic();
    for n in 0..60 {
        let (most, tree) = (n % 7, vec(any_event(), 1..80).new_tree(&mut runner).unwrap());
        let mut events = tree.current();
        for (i, event) in events.iter_mut().enumerate() {
            event.event_id = format!("{n}-{}", (i * 7) % 80);
        }
        let (window, now) = (window(i64::from(n)), at(7) + SignedDuration::from_nanos(1_999_999));
        bench.claim(&window, &events, now).await;
        let section = Some(SectionHeading::new("share", "Shared"));
        let placed = CategorySettings { section, priority: n % 3, ..CategorySettings::default() };
        let categories = DigestCategories::from_iter([("share", placed)]);
        let shown = DisplayLimits { lines: most, items: 1 + n % 5, categories: &categories };
        assert_eq!(
            digest_contents(&events, now, shown),
            bench.store.contents(&window, shown).await.unwrap(),
            "{events:?}"
        );
    }
}
