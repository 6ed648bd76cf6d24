//! An id identifies an event: what happens to other content under a known id.

use std::slice::from_ref;

use jiff::Timestamp;
use tidings_model::{
    Event, EventContent, EventRepetition, Retract,
    attempt::AttemptClass,
    records::{AttemptEnd, ClaimCounts, KnownEvents},
    statistics::StatisticsScope,
    window::{DigestOutcome, Window},
};

use super::{Bench, at, ends, event, key, shown, titled, window, window_of};

/// The event `a`, occurring at this second, with this title.
fn a(seconds: i64, title: &str) -> Event {
    Event { occurred_at: at(seconds), payload: titled(title.into()), ..event("a") }
}

async fn titles(bench: &Bench, window: &Window) -> Vec<String> {
    let contents = bench.store.contents(window, shown(50)).await.unwrap();
    let items = contents.lines.into_iter().flat_map(|line| line.latest);
    items.map(|item| item.payload["title"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn known(bench: &Bench, event: &Event) -> KnownEvents {
    let (ids, contents) = ([event.event_id.clone()], [event.content()]);
    bench.store.known_events(&key("ann"), &ids, &contents, Some(window(0).digest_id)).await.unwrap()
}

async fn refused(bench: &Bench) -> u64 {
    let scope = StatisticsScope { tenant: Some("acme".into()), since: at(0), now: at(9_000) };
    let counted = bench.store.statistics(&scope).await.unwrap().refused_contents;
    assert_eq!(bench.store.refused_contents(at(0)).await.unwrap(), counted);
    counted
}

/// Sends a digest of event `a` alone.
async fn sent(bench: &Bench) {
    bench.claim(&window(0), &[a(0, "down")], at(1)).await;
    bench.store.put_message(&super::message(&window(0), "<1@acme.example>"), None).await.unwrap();
    let (number, _) = bench.begin(&window(0)).await;
    bench.ended(&window(0), number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
}

pub async fn other_content_of_an_event_in_no_message_replaces_it(bench: &Bench) {
    let urgent = Event { urgent: true, ..a(0, "down") };
    bench.store.stash_events(&window(0), from_ref(&urgent), None, at(1)).await.unwrap();
    assert_eq!(known(bench, &urgent).await.event_ids, ["a"], "a repetition");
    let corrected = a(1, "slow");
    assert_eq!(known(bench, &corrected).await, KnownEvents::default());
    for _ in 0..2 {
        let claim = bench.claim(&window(0), from_ref(&corrected), at(2)).await;
        assert_eq!(claim, ClaimCounts { items: 1, lines: 1, taken: 1, aside: 0 });
        assert_eq!(titles(bench, &window(0)).await, ["slow"]);
    }
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM events WHERE urgent").await, "1");
    bench.claim(&window(0), &[a(0, "earlier")], at(3)).await;
    assert_eq!((titles(bench, &window(0)).await, refused(bench).await), (vec!["slow".to_owned()], 0));
}

pub async fn other_content_of_a_returned_event_replaces_it(bench: &Bench) {
    bench.claim(&window(0), &[a(0, "down")], at(1)).await;
    bench.store.put_message(&super::message(&window(0), "<1@acme.example>"), None).await.unwrap();
    let (number, _) = bench.begin(&window(0)).await;
    let failure = AttemptEnd { return_events: true, ..ends(AttemptClass::Deferred, DigestOutcome::Failed) };
    bench.ended(&window(0), number, failure).await;
    let later = a(1, "still down");
    assert_eq!(known(bench, &later).await, KnownEvents::default());
    assert_eq!(bench.claim(&window(1), &[later], at(300)).await.items, 1);
    assert_eq!((titles(bench, &window(1)).await, refused(bench).await), (vec!["still down".to_owned()], 0));
}

pub async fn other_content_of_an_event_that_is_over_is_refused_and_counted_once(bench: &Bench) {
    sent(bench).await;
    let again = a(86_400, "down");
    let refusal = vec![("a".to_owned(), again.content())];
    assert_eq!(known(bench, &again).await, KnownEvents { event_ids: vec!["a".into()], refused: refusal.clone() });
    assert_eq!(known(bench, &a(0, "down")).await.refused, []);
    assert_eq!(refused(bench).await, 0, "a question changes nothing");
    bench.store.refuse_contents(&key("ann"), &refusal, at(2_000)).await.unwrap();
    assert_eq!(refused(bench).await, 1);
    let other = [a(86_400, "down"), a(0, "down")];
    assert_eq!(
        bench.claim(&window(1), &other, at(2_001)).await,
        ClaimCounts { items: 0, lines: 0, taken: 2, aside: 0 }
    );
    assert_eq!((titles(bench, &window(0)).await, refused(bench).await), (vec!["down".to_owned()], 1));
}

pub async fn each_content_of_an_event_that_went_out_is_a_repetition(bench: &Bench) {
    let first = Event { urgent: true, category: "outage".into(), ..a(0, "down") };
    bench.store.stash_events(&window(0), from_ref(&first), None, at(1)).await.unwrap();
    let later = a(1, "slow");
    bench.store.stash_events(&window(0), from_ref(&later), None, at(2)).await.unwrap();
    let of_another_category = Event { category: "mention".into(), ..a(0, "down") };
    assert_eq!(known(bench, &of_another_category).await, KnownEvents::default(), "it adds its category");
    for is_sent in [false, true] {
        if is_sent {
            sent(bench).await;
        }
        for content in [&first, &later] {
            assert_eq!(known(bench, content).await, KnownEvents { event_ids: vec!["a".into()], refused: vec![] });
        }
    }
    let asked = [&first, &later].map(|event| (key("ann"), event.event_id.clone(), event.content()));
    assert_eq!(bench.store.find_repetitions(&asked).await.unwrap(), [Some(EventRepetition::Same); 2]);
    assert_eq!(known(bench, &a(2, "up")).await.refused.len(), 1);
}

pub async fn what_occurred_after_its_retract_is_new(bench: &Bench) {
    let retract = [Retract::Event("a".into())];
    bench.store.stash_events(&window(0), &[a(0, "down")], None, at(1)).await.unwrap();
    bench.store.put_retracts(&key("ann"), &retract, at(2)).await.unwrap();
    assert_eq!(bench.claim(&window(0), &[], at(3)).await.items, 0);
    assert_eq!(known(bench, &a(0, "down")).await.event_ids, ["a"]);
    let again = a(5, "down again");
    assert_eq!(known(bench, &again).await, KnownEvents::default());
    for _ in 0..2 {
        let claim = bench.claim(&window(1), from_ref(&again), at(6)).await;
        assert_eq!(claim, ClaimCounts { items: 1, lines: 1, taken: 1, aside: 0 });
        assert_eq!(titles(bench, &window(1)).await, ["down again"]);
    }
    bench.store.put_retracts(&key("ann"), &retract, at(7)).await.unwrap();
    assert_eq!(bench.claim(&window(1), &[], at(8)).await, ClaimCounts { items: 0, lines: 0, taken: 0, aside: 1 });
    assert_eq!(bench.claim(&window(2), &[a(9, "down")], at(10)).await.items, 1, "and once more");
    assert_eq!(refused(bench).await, 0);
}

pub async fn a_retract_by_id_covers_what_the_ledger_has_and_what_occurred_until_then(bench: &Bench) {
    // A producer whose clock is ahead.
    bench.store.stash_events(&window(0), &[a(50, "down")], None, at(1)).await.unwrap();
    let ids = ["a", "b", "c"].map(|id| Retract::Event(id.into()));
    bench.store.put_retracts(&key("ann"), &ids, at(10)).await.unwrap();
    let on = |id: &str, seconds| Event { occurred_at: at(seconds), ..event(id) };
    let claim = bench.claim(&window(0), &[on("b", 10), on("c", 11)], at(12)).await;
    assert_eq!((claim.items, claim.aside), (1, 2));
}

pub async fn a_retract_by_id_that_is_repeated_after_the_next_firing_does_not_cover_it(bench: &Bench) {
    let retract = [Retract::Event("a".into()).with_until(at(4))];
    bench.store.stash_events(&window(0), &[a(0, "down")], None, at(1)).await.unwrap();
    for _ in 0..2 {
        bench.store.put_retracts(&key("ann"), &retract, at(6)).await.unwrap();
        bench.store.stash_events(&window(0), &[a(5, "down again")], None, at(7)).await.unwrap();
    }
    let before = "SELECT CAST((SELECT MAX(occurred_at) FROM events) - until_at AS TEXT) FROM retracts";
    assert_eq!(bench.value(before).await, "1000");
    assert_eq!(bench.claim(&window(0), &[], at(8)).await.items, 1);
    assert_eq!(titles(bench, &window(0)).await, ["down again"]);
}

pub async fn a_retract_by_id_of_an_earlier_version_covers_what_occurred_until_it_came(bench: &Bench) {
    let retract = [Retract::Event("a".into())];
    bench.store.put_retracts(&key("ann"), &retract, at(2)).await.unwrap();
    assert_eq!(Timestamp::MAX.as_millisecond(), 253_402_207_200_999);
    let earlier_version = "UPDATE retracts SET until_at = 253402207200999 RETURNING event_id";
    assert_eq!(bench.value(earlier_version).await, "a");
    assert_eq!(bench.claim(&window(0), &[a(2, "down")], at(3)).await.items, 0);
    assert_eq!(bench.claim(&window(1), &[a(5, "down again")], at(6)).await.items, 1);
    bench.store.put_retracts(&key("ann"), &retract, at(7)).await.unwrap();
    assert_eq!(bench.claim(&window(1), &[], at(8)).await.items, 0, "a later retract counts");
}

pub async fn a_category_that_is_off_does_not_silence_another_one_of_the_event(bench: &Bench) {
    let of = |category: &str, seconds| Event { category: category.into(), ..a(seconds, "Plan") };
    let arriving = [of("mention", 0), of("like", 1), Event { category: "like".into(), ..event("b") }];
    let claim = bench.claim_on(&window(0), &arriving, None, &["like"], at(2)).await;
    assert_eq!(claim, Ok(ClaimCounts { items: 1, lines: 1, taken: 3, aside: 1 }));
    let contents = bench.store.contents(&window(0), shown(50)).await.unwrap();
    assert_eq!(contents.lines[0].category, "mention");
    let only = [Event { event_id: "c".into(), ..of("like", 0) }];
    assert_eq!(bench.claim_on(&window(1), &only, None, &["like"], at(3)).await.unwrap().items, 0);
}

pub async fn a_row_without_a_hash_has_any_content(bench: &Bench) {
    sent(bench).await;
    assert_eq!(known(bench, &a(1, "up")).await.refused.len(), 1);
    assert_eq!(bench.value("UPDATE events SET content_sha256 = NULL RETURNING event_id").await, "a");
    assert_eq!(known(bench, &a(1, "up")).await, KnownEvents { event_ids: vec!["a".into()], refused: vec![] });
}

pub async fn repetitions_of_many_keys_are_named(bench: &Bench) {
    sent(bench).await;
    let bo = window_of(&key("bo"), 0);
    bench.store.stash_events(&bo, &[event("a")], None, at(1)).await.unwrap();
    bench.store.put_retracts(&key("bo"), &[Retract::Event("a".into())], at(2)).await.unwrap();
    bench.claim(&bo, &[], at(3)).await;
    bench.store.stash_events(&window_of(&key("cy"), 0), &[event("a")], None, at(1)).await.unwrap();
    let asked = |user: &str, event: &Event| (key(user), event.event_id.clone(), event.content());
    let mut events: Vec<(_, String, EventContent)> = vec![
        asked("ann", &a(0, "down")),
        asked("ann", &a(1, "up")),
        asked("bo", &a(1, "up")),
        asked("cy", &a(1, "up")),
        asked("dee", &a(1, "up")),
    ];
    let named = [Some(EventRepetition::Same), Some(EventRepetition::Refused), Some(EventRepetition::New), None, None];
    assert_eq!(bench.store.find_repetitions(&events).await.unwrap(), named);
    // More than one statement takes.
    events.splice(0..0, (0..1_000).map(|n| asked("ann", &event(&format!("e{n}")))));
    assert_eq!(bench.store.find_repetitions(&events).await.unwrap()[1_000..], named);
}
