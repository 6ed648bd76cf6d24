//! The recipient's cap over all digest types (rule 13).

use std::collections::BTreeSet;

use futures::future::join_all;
use tidings_model::{
    Key, StoredWait,
    attempt::AttemptClass,
    command::{CommandContext, ReopenCommand},
    records::{AuditActor, CapSpan, ClaimLimits, ClaimOutcome, CloseRequest},
    settings::DigestCategories,
    step::{ReopenAnswer, ReopenInput},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, closed, ends, events, message, recipient, window_of};

/// Two digests per `seconds`.
fn cap(seconds: i64) -> CapSpan {
    CapSpan { most: 2, since: at(seconds - 100), until: StoredWait::PAST.latest_plausible(at(seconds)) }
}

/// A window of the person's digest type `n`.
fn of_type(user: &str, n: i64) -> Window {
    window_of(&Key::new("acme".into(), format!("type{n}"), user.into()).unwrap(), 0)
}

/// Claims ann's window with an event. `Err` if the cap is reached: when the oldest digest counts from, in
/// seconds.
async fn claim(bench: &Bench, n: i64, seconds: i64) -> Result<u64, i64> {
    let claimed = bench.claim_on(&of_type("ann", n), &events(&["a"]), Some(cap(seconds)), &[], at(seconds)).await;
    claimed.map(|claim| claim.items).map_err(|oldest| oldest.duration_since(at(0)).as_secs())
}

async fn close(bench: &Bench, n: i64, outcome: DigestOutcome) {
    let (window, closed) = (of_type("ann", n), closed(outcome));
    let closing = CloseRequest {
        window: &window,
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(50),
    };
    bench.store.close_digest(closing).await.unwrap();
}

pub async fn a_recipient_gets_no_more_digests_than_the_cap_says(bench: &Bench) {
    assert_eq!((claim(bench, 1, 10).await, claim(bench, 2, 20).await), (Ok(1), Ok(1)));
    assert_eq!(claim(bench, 3, 30).await, Err(10), "from the first of them on");
    assert!(bench.store.digest(of_type("ann", 3).digest_id).await.unwrap().is_none(), "nothing is written");
    let other = bench.claim_on(&of_type("bo", 3), &events(&["a"]), Some(cap(30)), &[], at(30)).await;
    assert!(other.is_ok(), "each person has their own");
    assert_eq!((claim(bench, 3, 109).await, claim(bench, 3, 110).await), (Err(10), Ok(1)));
    assert_eq!(claim(bench, 4, 111).await, Err(20));
}

pub async fn a_plan_hears_which_digests_the_cap_counts(bench: &Bench) {
    let (ann, bo) = (of_type("ann", 9).key, of_type("bo", 9).key);
    let oldest = async |key: &Key, seconds| {
        let oldest = bench.store.capped_from(key, cap(seconds)).await.unwrap();
        oldest.map(|oldest| oldest.duration_since(at(0)).as_secs())
    };
    assert_eq!(oldest(&ann, 5).await, None);
    assert_eq!((claim(bench, 1, 10).await, oldest(&ann, 15).await), (Ok(1), None));
    assert_eq!((claim(bench, 2, 20).await, oldest(&ann, 25).await), (Ok(1), Some(10)));
    assert_eq!((oldest(&ann, 109).await, oldest(&ann, 110).await), (Some(10), None));
    assert_eq!(oldest(&bo, 25).await, None);
    close(bench, 1, DigestOutcome::Failed).await;
    assert_eq!(oldest(&ann, 60).await, None, "a digest without a message does not count");
}

pub async fn a_digest_counts_from_its_slot_for_its_own_type_and_from_its_claim_for_others(bench: &Bench) {
    let claim = async |window: &Window, slot: Option<i64>, seconds| {
        let limits = ClaimLimits {
            cap: Some(cap(seconds)),
            slot_at: slot.map(at),
            off: &BTreeSet::new(),
            seen: &BTreeSet::new(),
            categories: &DigestCategories::NONE,
            planned: None,
        };
        bench.store.claim(window, &events(&[&seconds.to_string()]), &limits, at(seconds)).await.unwrap()
    };
    let (own, other) = (|n| window_of(&of_type("ann", 1).key, n), of_type("ann", 2));
    for (window, slot, seconds) in [(&own(1), Some(10), 90), (&own(2), None, 20)] {
        assert!(matches!(claim(window, slot, seconds).await, ClaimOutcome::Claim(_)));
    }
    assert_eq!(claim(&own(3), Some(100), 109).await, ClaimOutcome::Capped { oldest: at(10) });
    // A pause or an outage held the first one back: it is mail of today for the others.
    assert_eq!(claim(&other, Some(100), 110).await, ClaimOutcome::Capped { oldest: at(20) });
    let capped_from = async |window: &Window| bench.store.capped_from(&window.key, cap(110)).await.unwrap();
    assert_eq!((capped_from(&own(3)).await, capped_from(&other).await), (None, Some(at(20))));
    assert!(
        matches!(claim(&own(3), Some(100), 110).await, ClaimOutcome::Claim(_)),
        "although the first was claimed 20 s ago"
    );
    assert_eq!(
        claim(&own(4), None, 111).await,
        ClaimOutcome::Capped { oldest: at(20) },
        "the latest by their slots count"
    );
}

pub async fn a_reopened_digest_counts_from_its_sending(bench: &Bench) {
    let window = of_type("ann", 1);
    let limits = ClaimLimits {
        cap: None,
        slot_at: Some(at(10)),
        off: &BTreeSet::new(),
        seen: &BTreeSet::new(),
        categories: &DigestCategories::NONE,
        planned: None,
    };
    bench.store.claim(&window, &events(&["a"]), &limits, at(20)).await.unwrap();
    close(bench, 1, DigestOutcome::Dropped).await;
    let order = CommandContext { by: "carol".into(), why: "ticket 812".into() };
    let reopen = ReopenCommand { order, digest_id: window.digest_id, may_duplicate: false };
    let input = ReopenInput { asked_at: at(900), key: window.key.clone(), reopen };
    assert!(matches!(bench.store.reopen_digest(&input, at(900)).await, Ok(ReopenAnswer::Claimed { .. })));
    bench.store.put_message(&message(&window, "mail"), None).await.unwrap();
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    bench.ended(&window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    let facts = bench.store.facts(&window.key).await.unwrap();
    assert!(facts.last_sent_at.is_some());
    assert_eq!(facts.last_slot_at, facts.last_sent_at);
}

pub async fn what_came_to_nothing_does_not_count_toward_the_cap(bench: &Bench) {
    for (n, outcome) in [
        (1, DigestOutcome::Failed),
        (2, DigestOutcome::Dropped),
        (3, DigestOutcome::Skipped),
        (4, DigestOutcome::Suppressed),
    ] {
        assert_eq!(claim(bench, n, 10).await, Ok(1));
        close(bench, n, outcome).await;
    }
    for n in [5, 6] {
        let window = of_type("ann", n);
        assert_eq!(claim(bench, n, 20).await, Ok(1));
        bench.store.put_message(&message(&window, "mail"), None).await.unwrap();
        let (number, _) = bench.begin(&window).await;
        assert!(bench.dot(&window, number).await);
        match n {
            5 => bench.ended(&window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await,
            _ => bench.ended(&window, number, ends(AttemptClass::Ambiguous, DigestOutcome::Ambiguous)).await,
        }
    }
    assert_eq!(claim(bench, 7, 30).await, Err(20));
}

pub async fn a_claim_that_is_repeated_is_not_counted_against_itself(bench: &Bench) {
    for n in [1, 2, 1, 2] {
        assert_eq!(claim(bench, n, 10).await, Ok(1));
    }
    // A claim with nothing to send does not count.
    let empty = bench.claim_on(&of_type("ann", 3), &events(&["a"]), Some(cap(11)), &["comment"], at(11)).await;
    assert_eq!(empty.map(|claim| (claim.items, claim.aside)), Ok((0, 1)));
}

pub async fn an_operators_flush_counts_and_is_not_refused(bench: &Bench) {
    for n in 1..=3 {
        assert!(bench.claim_on(&of_type("ann", n), &events(&["a"]), None, &[], at(n)).await.is_ok());
    }
    assert_eq!(claim(bench, 4, 10).await, Err(2), "of the last two the older one counts");
}

pub async fn keys_of_one_person_that_claim_at_once_never_pass_the_cap_together(bench: &Bench) {
    // Several times: at first the store has too few connections for a race.
    for user in ["ann", "bo", "cy", "dan", "eve", "fay"] {
        bench.store.put_recipients(&[recipient(user, "someone@example.com")], at(0)).await.unwrap();
        let windows: Vec<_> = (0..12).map(|n| of_type(user, n)).collect();
        let events = events(&["a"]);
        let claims = windows.iter().map(|window| bench.claim_on(window, &events, Some(cap(10)), &[], at(10)));
        let claims = join_all(claims).await;
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 2, "{claims:?}");
        assert!(claims.iter().all(|claim| claim.is_ok() || *claim == Err(at(10))), "{claims:?}");
    }
}
