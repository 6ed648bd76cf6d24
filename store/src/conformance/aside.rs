//! Events excluded from messages: retracted, or in a category the recipient turned off.

use std::{collections::BTreeSet, time::Duration};

use tidings_model::{
    Event, Retract,
    attempt::AttemptClass,
    records::{AttemptEnd, ClaimCounts, ClaimLimits, ClaimOutcome, DigestContents, DigestState},
    settings::{CategorySettings, DigestCategories, DisplayLimits},
    window::DigestOutcome,
};
use uuid::Uuid;

use super::{Bench, at, event, events, key, shown, window, window_of};

fn on(id: &str, entity_id: &str, seconds: i64) -> Event {
    Event { entity_id: entity_id.into(), occurred_at: at(seconds), ..event(id) }
}

fn of(id: &str, category: &str) -> Event {
    Event { category: category.into(), ..event(id) }
}

fn about(entity_id: &str, until: i64) -> Retract {
    Retract::Entity {
        category: "comment".into(),
        entity_type: "doc".into(),
        entity_id: entity_id.into(),
        until: at(until),
    }
}

async fn retract(bench: &Bench, retracts: &[Retract]) {
    bench.store.put_retracts(&key("ann"), retracts, at(1)).await.unwrap();
}

/// The digest of excluded events: events, outcome, reason.
async fn beside(bench: &Bench, n: i64, name: &str) -> (u64, DigestOutcome, String) {
    let id = Uuid::new_v5(&window(n).digest_id, name.as_bytes());
    let digest = bench.store.digest(id).await.unwrap().unwrap();
    assert_eq!((digest.key, digest.opened_at, digest.due_at), (key("ann"), window(n).opened_at, window(n).due_at));
    let closed = digest.closed.unwrap();
    (digest.items, closed.outcome, closed.why)
}

pub async fn a_retracted_event_is_in_no_mail_and_in_the_ledger_with_the_reason(bench: &Bench) {
    bench.store.stash_events(&window(0), &events(&["a", "b"]), None, at(1)).await.unwrap();
    for _ in 0..2 {
        retract(bench, &[Retract::Event("a".into()), Retract::Event("c".into()), Retract::Event("a".into())]).await;
        let claim = bench.claim(&window(0), &events(&["c", "d"]), at(2)).await;
        assert_eq!(claim, ClaimCounts { items: 2, lines: 1, taken: 2, aside: 2 });
        assert_eq!(beside(bench, 0, "retracted").await, (2, DigestOutcome::Skipped, "retracted".into()));
    }
    let known = bench.store.known_events(&key("ann"), &["a".into(), "b".into()], &[], None).await.unwrap().event_ids;
    assert_eq!(known, ["a"], "what was taken back is over; what is claimed is not");
    // Whatever arrives again changes nothing.
    assert_eq!(bench.claim(&window(1), &events(&["a", "c"]), at(3)).await.items, 0);
}

pub async fn a_retract_that_comes_first_waits(bench: &Bench) {
    retract(bench, &[Retract::Event("a".into()), about("d2", 5)]).await;
    let arriving = [event("a"), on("b", "d2", 5), on("c", "d2", 6)];
    assert_eq!(bench.claim(&window(0), &arriving, at(9)).await.items, 1);
    assert_eq!(beside(bench, 0, "retracted").await.0, 2);
}

pub async fn a_retract_by_entity_covers_what_occurred_until_then_and_the_latest_stays(bench: &Bench) {
    for retracts in [vec![about("d1", 5), about("d1", 7)], vec![about("d1", 6)], vec![about("d1", 7)]] {
        retract(bench, &retracts).await;
    }
    let elsewhere = Event { entity_type: "folder".into(), ..event("e") };
    let arriving = [on("a", "d1", 7), on("b", "d1", 8), on("c", "d2", 1), of("d", "share"), elsewhere];
    assert_eq!(bench.claim(&window(0), &arriving, at(9)).await, ClaimCounts { items: 4, lines: 4, taken: 5, aside: 1 });
    let other = window_of(&key("bo"), 0);
    assert_eq!(bench.claim(&other, &arriving, at(9)).await.items, 5, "of this key alone");
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM retracts").await, "1");
}

pub async fn a_retract_reaches_what_a_failed_digest_returned_but_no_mail(bench: &Bench) {
    let failed = bench.rendered(0).await;
    retract(bench, &[Retract::Event("0a".into())]).await;
    assert_eq!(bench.claim(&failed, &[], at(3)).await.items, 2, "the mail is made");
    let (number, _) = bench.begin(&failed).await;
    let failure = AttemptEnd { return_events: true, ..super::ends(AttemptClass::Deferred, DigestOutcome::Failed) };
    bench.ended(&failed, number, failure).await;
    assert_eq!(
        bench.claim(&window(1), &events(&["new"]), at(4)).await,
        ClaimCounts { items: 2, lines: 1, taken: 1, aside: 1 }
    );
    assert_eq!(beside(bench, 1, "retracted").await.0, 1);
}

pub async fn a_category_that_is_off_is_in_no_mail_and_in_the_ledger_with_the_reason(bench: &Bench) {
    let arriving = [event("a"), of("b", "share"), of("c", "like"), of("d", "mention")];
    retract(bench, &[Retract::Event("d".into())]).await;
    for _ in 0..2 {
        let claim = bench.claim_on(&window(0), &arriving, None, &["share", "like", "mention", "none"], at(2)).await;
        assert_eq!(claim, Ok(ClaimCounts { items: 1, lines: 1, taken: 4, aside: 3 }));
    }
    let why = "the recipient turned their category off";
    assert_eq!(beside(bench, 0, "opted out").await, (2, DigestOutcome::Skipped, why.into()));
    assert_eq!(beside(bench, 0, "retracted").await.0, 1);
    // On again, for what comes later.
    assert_eq!(bench.claim(&window(1), &[of("b", "share"), of("e", "share")], at(3)).await.items, 1);
}

/// Ignores likes older than 10 seconds, or fewer than 3.
fn of_likes() -> DigestCategories {
    let (min_count, max_age) = (Some(3), Some(Duration::from_secs(10)));
    DigestCategories::from_iter([("like", CategorySettings { min_count, max_age, ..CategorySettings::default() })])
}

pub async fn old_and_few_events_are_in_no_mail_and_in_the_ledger_with_the_reason(bench: &Bench) {
    let like = |id: &str, seconds| Event { occurred_at: at(seconds), ..of(id, "like") };
    let urgent = |id: &str, seconds| Event { urgent: true, ..like(id, seconds) };
    let categories = of_likes();
    // The claim is at 20 seconds: number of the window, its events, those that it keeps, too old, too few.
    for (n, events, kept, old, few) in [
        (0, vec![event("0"), like("0a", 9), like("0b", 10), like("0c", 20), like("0d", 20)], 4, 1, 0),
        (1, vec![event("1"), like("1a", 9), like("1b", 10), like("1c", 20)], 1, 1, 2),
        (2, vec![like("2a", 20), like("2b", 20)], 0, 0, 2),
        (3, vec![like("3a", 20), urgent("3b", 0)], 2, 0, 0),
        (4, vec![event("4")], 1, 0, 0),
    ] {
        assert_eq!(categories.leave_out(&events, at(20)), old + few > 0 || n == 3, "window {n}");
        let limits = ClaimLimits {
            cap: None,
            slot_at: None,
            off: &BTreeSet::new(),
            seen: &BTreeSet::new(),
            categories: &categories,
            planned: None,
        };
        let claimed = bench.store.claim(&window(n), &events, &limits, at(20)).await.unwrap();
        let ClaimOutcome::Claim(claim) = claimed else { panic!("{claimed:?}") };
        assert_eq!((claim.items, claim.aside, claim.taken), (kept, old + few, events.len() as u64), "window {n}");
        if old > 0 {
            let why = "older than the max_age of their category";
            assert_eq!(beside(bench, n, "too old").await, (old, DigestOutcome::Skipped, why.into()));
        }
        if few > 0 {
            let why = "fewer than the min_count of their category";
            assert_eq!(beside(bench, n, "too few").await, (few, DigestOutcome::Skipped, why.into()));
        }
    }
    let shown = DisplayLimits { categories: &categories, ..shown(50) };
    let events = [event("5"), like("5a", window(5).due_at.as_second() - at(0).as_second())];
    assert_eq!(bench.store.preview_claim(&window(5), &events, &[].into(), shown).await.unwrap().items, 1);
}

/// Ten-year-old events in unconfigured categories.
pub async fn the_limits_of_a_digest_type_are_those_of_every_category_without_its_own(bench: &Bench) {
    let others = CategorySettings { min_count: Some(2), max_age: Some(Duration::from_secs(10)), ..Default::default() };
    let free = CategorySettings { min_count: Some(1), max_age: Some(Duration::from_mins(1)), ..Default::default() };
    let categories = DigestCategories { others, ..DigestCategories::from_iter([("bill", free)]) };
    let old = |id: &str, category| Event { occurred_at: at(0), ..of(id, category) };
    let new = |id: &str, category| Event { occurred_at: at(20), ..of(id, category) };
    let events = [
        old("a", "badge"),
        old("b", "badge"),
        new("c", "like"),
        new("d", "like"),
        old("e", "like"),
        new("f", "share"),
        old("g", "share"),
        old("h", "bill"),
        Event { urgent: true, ..old("i", "comment") },
    ];
    assert!(categories.leave_out(&events, at(20)) && !categories.leave_out(&events[7..8], at(20)));
    let (off, seen) = (BTreeSet::new(), BTreeSet::new());
    let limits =
        ClaimLimits { cap: None, slot_at: None, off: &off, seen: &seen, categories: &categories, planned: None };
    let claimed = bench.store.claim(&window(0), &events, &limits, at(20)).await.unwrap();
    assert_eq!(claimed, ClaimOutcome::Claim(ClaimCounts { items: 4, lines: 3, taken: 9, aside: 5 }));
    assert_eq!(beside(bench, 0, "too old").await.0, 4);
    assert_eq!(beside(bench, 0, "too few").await.0, 1);
}

pub async fn seen_events_are_in_no_mail_and_in_the_ledger(bench: &Bench) {
    let categories = of_likes();
    let failed = bench.rendered(0).await;
    let (number, _) = bench.begin(&failed).await;
    let failure = AttemptEnd { return_events: true, ..super::ends(AttemptClass::Deferred, DigestOutcome::Failed) };
    bench.ended(&failed, number, failure).await;
    bench.store.stash_events(&window(1), &[event("a"), event("b")], None, at(1)).await.unwrap();
    let mut stored = bench.store.window_events(&window(1), 9).await.unwrap();
    stored.sort();
    assert_eq!(stored, ["0a", "0b", "a", "b"]);
    assert_eq!(bench.store.window_events(&window(1), 3).await.unwrap().len(), 3);
    let likes = ["l1", "l2", "l3"].map(|id| Event { occurred_at: at(20), ..of(id, "like") });
    let urgent = Event { urgent: true, ..event("u") };
    let arriving = [likes.to_vec(), vec![urgent, event("c")]].concat();
    for ids in [&["0a", "a", "c", "l1", "u", "elsewhere"][..], &["b"], &[]] {
        let seen = ids.iter().map(|&id| id.to_owned()).collect();
        let limits = ClaimLimits {
            cap: None,
            slot_at: None,
            off: &BTreeSet::new(),
            seen: &seen,
            categories: &categories,
            planned: None,
        };
        let claimed = bench.store.claim(&window(1), &arriving, &limits, at(20)).await.unwrap();
        // Two likes are left, which are too few. A later answer changes nothing.
        assert_eq!(claimed, ClaimOutcome::Claim(ClaimCounts { items: 2, lines: 1, taken: 5, aside: 7 }), "{ids:?}");
        bench.store.put_message(&super::message(&window(1), "first"), None).await.unwrap();
    }
    let why = "the recipient has seen them elsewhere";
    assert_eq!(beside(bench, 1, "seen").await, (5, DigestOutcome::Skipped, why.into()));
    assert_eq!(beside(bench, 1, "too few").await.0, 2);
    assert_eq!(bench.items(&window(1)).await, 2);
}

pub async fn a_window_of_which_nothing_is_left_claims_nothing(bench: &Bench) {
    let claim = bench.claim_on(&window(0), &events(&["a", "b"]), None, &["comment"], at(2)).await;
    assert_eq!(claim, Ok(ClaimCounts { items: 0, lines: 0, taken: 2, aside: 2 }));
}

pub async fn a_preview_shows_what_a_claim_would_make_and_leaves_no_trace(bench: &Bench) {
    let failed = bench.rendered(0).await;
    let (number, _) = bench.begin(&failed).await;
    let failure = AttemptEnd { return_events: true, ..super::ends(AttemptClass::Deferred, DigestOutcome::Failed) };
    bench.ended(&failed, number, failure).await;
    retract(bench, &[Retract::Event("b".into())]).await;
    bench.store.stash_events(&window(1), &events(&["a"]), None, at(3)).await.unwrap();
    let (arriving, off) = ([event("b"), event("c"), of("d", "share")], ["share".to_owned()].into());
    let tables = "SELECT CAST((SELECT COUNT(*) FROM digests) AS TEXT) || '/' || (SELECT COUNT(*) FROM events) || '/' ||
                  (SELECT COUNT(*) FROM events WHERE returned_at IS NOT NULL) || '/' || (SELECT COUNT(*) FROM audit)";
    let before = bench.value(tables).await;
    let preview = bench.store.preview_claim(&window(1), &arriving, &off, shown(50)).await.unwrap();
    assert_eq!((preview.items, preview.line_count), (4, 1));
    assert_eq!(bench.value(tables).await, before);
    assert_eq!(bench.store.digest(window(1).digest_id).await.unwrap().unwrap().state, DigestState::Open);
    bench.claim_on(&window(1), &arriving, None, &["share"], at(5)).await.unwrap();
    let contents = bench.store.contents(&window(1), shown(50)).await.unwrap();
    assert_eq!(DigestContents { claimed_at: None, ..contents }, preview);
    let never_opened = bench.store.preview_claim(&window(7), &[event("x")], &off, shown(50)).await.unwrap();
    assert_eq!((never_opened.items, bench.store.digest(window(7).digest_id).await.unwrap()), (1, None));
}
