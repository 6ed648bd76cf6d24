//! The cap of a recipient over all digest types (rule 13).

use std::time::Duration;

use futures::future::join_all;
use tidings_model::{
    Key,
    attempt::AttemptClass,
    records::{Actor, Closing},
    settings::Cap,
    step::{Outcome, Window},
};

use super::{Bench, at, closed, ends, events, message, recipient, window_of};

const CAP: Cap = Cap { most: 2, within: Duration::from_secs(100) };

/// A window of the person's own digest type `n`.
fn of_type(user: &str, n: i64) -> Window {
    window_of(&Key::new("acme".into(), format!("type{n}"), user.into()).unwrap(), 0)
}

/// Claims a window of `ann`'s with an event. `Err`: until when she has had enough, in seconds.
async fn claim(bench: &Bench, n: i64, seconds: i64) -> Result<u64, i64> {
    let claimed = bench.claim_on(&of_type("ann", n), &events(&["a"]), Some(CAP), &[], at(seconds)).await;
    claimed.map(|claim| claim.items).map_err(|until| until.duration_since(at(0)).as_secs())
}

async fn close(bench: &Bench, n: i64, outcome: Outcome) {
    let (window, closed) = (of_type("ann", n), closed(outcome));
    let closing = Closing {
        window: &window,
        events: &[],
        closed: &closed,
        by: Actor::Tidings,
        return_events: false,
        planned: None,
        now: at(50),
    };
    bench.store.close(closing).await.unwrap();
}

pub async fn a_recipient_gets_no_more_digests_than_the_cap_says(bench: &Bench) {
    assert_eq!((claim(bench, 1, 10).await, claim(bench, 2, 20).await), (Ok(1), Ok(1)));
    assert_eq!(claim(bench, 3, 30).await, Err(110), "when the first of them is long enough ago");
    assert!(bench.store.digest(of_type("ann", 3).digest_id).await.unwrap().is_none(), "nothing is written");
    let other = bench.claim_on(&of_type("bo", 3), &events(&["a"]), Some(CAP), &[], at(30)).await;
    assert!(other.is_ok(), "each person has their own");
    assert_eq!((claim(bench, 3, 109).await, claim(bench, 3, 110).await), (Err(110), Ok(1)));
    assert_eq!(claim(bench, 4, 111).await, Err(120));
}

pub async fn a_plan_hears_when_the_cap_allows_another_digest(bench: &Bench) {
    let (ann, bo) = (of_type("ann", 9).key, of_type("bo", 9).key);
    let until = async |key: &Key, seconds| {
        let until = bench.store.capped_until(key, CAP, at(seconds)).await.unwrap();
        until.map(|until| until.duration_since(at(0)).as_secs())
    };
    assert_eq!(until(&ann, 5).await, None);
    assert_eq!((claim(bench, 1, 10).await, until(&ann, 15).await), (Ok(1), None));
    assert_eq!((claim(bench, 2, 20).await, until(&ann, 25).await), (Ok(1), Some(110)));
    assert_eq!((until(&ann, 109).await, until(&ann, 110).await), (Some(110), None));
    assert_eq!(until(&bo, 25).await, None);
    close(bench, 1, Outcome::Failed).await;
    assert_eq!(until(&ann, 60).await, None, "a digest without a message does not count");
}

pub async fn what_came_to_nothing_does_not_count_toward_the_cap(bench: &Bench) {
    for (n, outcome) in [(1, Outcome::Failed), (2, Outcome::Dropped), (3, Outcome::Skipped), (4, Outcome::Suppressed)] {
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
            5 => bench.ended(&window, number, ends(AttemptClass::Sent, Outcome::Sent)).await,
            _ => bench.ended(&window, number, ends(AttemptClass::Ambiguous, Outcome::Ambiguous)).await,
        }
    }
    assert_eq!(claim(bench, 7, 30).await, Err(120));
}

pub async fn a_claim_that_is_repeated_is_not_counted_against_itself(bench: &Bench) {
    for n in [1, 2, 1, 2] {
        assert_eq!(claim(bench, n, 10).await, Ok(1));
    }
    // A claim with nothing to send does not count.
    let empty = bench.claim_on(&of_type("ann", 3), &events(&["a"]), Some(CAP), &["comment"], at(11)).await;
    assert_eq!(empty.map(|claim| (claim.items, claim.aside)), Ok((0, 1)));
}

pub async fn an_operators_flush_counts_and_is_not_refused(bench: &Bench) {
    for n in 1..=3 {
        assert!(bench.claim_on(&of_type("ann", n), &events(&["a"]), None, &[], at(n)).await.is_ok());
    }
    assert_eq!(claim(bench, 4, 10).await, Err(102), "of the last two the older one counts");
}

pub async fn keys_of_one_person_that_claim_at_once_never_pass_the_cap_together(bench: &Bench) {
    // Several times: at first the store has too few connections for a race.
    for user in ["ann", "bo", "cy", "dan", "eve", "fay"] {
        bench.store.put_recipients(&[recipient(user, "someone@example.com")], at(0)).await.unwrap();
        let windows: Vec<_> = (0..12).map(|n| of_type(user, n)).collect();
        let events = events(&["a"]);
        let claims = windows.iter().map(|window| bench.claim_on(window, &events, Some(CAP), &[], at(10)));
        let claims = join_all(claims).await;
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 2, "{claims:?}");
        assert!(claims.iter().all(|claim| claim.is_ok() || *claim == Err(at(110))), "{claims:?}");
    }
}
