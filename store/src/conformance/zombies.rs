//! Late and repeated calls: a timed-out activity may still run at any later time, even concurrently with its
//! successor.

use std::time::Duration;

use tidings_model::{
    attempt::AttemptClass,
    records::{AttemptEnd, AttemptStart, AuditActor, CloseRequest},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, closed, end, ends, events, message, window};

/// The calls in one digest's life, in order.
#[derive(Clone, Copy, Debug)]
enum Call {
    Stash,
    Claim,
    PutMessage,
    Begin,
    Dot,
    End,
    Close,
}

const LIFE: [Call; 6] = [Call::Stash, Call::Claim, Call::PutMessage, Call::Begin, Call::Dot, Call::End];

/// Makes a call in the life with attempt `number`. Returns the number of any attempt it began.
async fn make(bench: &Bench, window: &Window, call: Call, number: u32) -> Option<u32> {
    let id = window.digest_id;
    match call {
        Call::Stash => {
            bench.store.stash_events(window, &events(&["a", "b"]), None, at(1)).await.unwrap();
        }
        Call::Claim => {
            bench.claim(window, &events(&["c"]), at(2)).await;
        }
        Call::PutMessage => {
            bench.store.put_message(&message(window, "first"), None).await.unwrap();
        }
        Call::Begin => match bench.store.begin_attempt(id, "relay", Duration::ZERO, at(3)).await {
            Ok(AttemptStart::Proceed { number, .. }) => return Some(number),
            Ok(AttemptStart::AwaitsReply { .. }) => panic!("it awaits no reply"),
            Ok(AttemptStart::Closed(_)) => {}
            Err(error) => assert!(error.to_string().contains("has no message"), "{error}"),
        },
        Call::Dot => {
            bench.store.mark_in_doubt(id, number, at(4)).await.unwrap();
        }
        Call::End => bench.ended(window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await,
        Call::Close => {
            let (events, closed) = (events(&["c"]), closed(DigestOutcome::Dropped));
            let closing = CloseRequest {
                window,
                events: &events,
                closed: &closed,
                by: AuditActor::Tidings,
                return_events: false,
                planned: None,
                now: at(5),
            };
            bench.store.close_digest(closing).await.unwrap();
        }
    }
    None
}

/// Lives a whole life, with zombies of earlier calls after the given steps. The life's own attempt comes
/// first.
async fn live(bench: &Bench, window: &Window, zombies: &[(usize, Call)]) {
    for (step, call) in LIFE.into_iter().enumerate() {
        make(bench, window, call, 1).await;
        for (_, zombie) in zombies.iter().filter(|(after, _)| *after == step) {
            make(bench, window, *zombie, 1).await;
        }
    }
}

async fn lived_well(bench: &Bench, window: &Window, told: &str) {
    let digest = bench.store.digest(window.digest_id).await.unwrap().unwrap();
    assert_eq!((digest.items, digest.state.name()), (3, "closed"), "{told}");
    assert_eq!(digest.closed, Some(closed(DigestOutcome::Sent)), "{told}");
    let begun = bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(9)).await.unwrap();
    assert!(begun == AttemptStart::Closed(closed(DigestOutcome::Sent)), "{told}");
    assert_eq!(bench.joins(&Window { digest_id: uuid::Uuid::new_v4(), ..window.clone() }, at(9)).await, 0);
}

pub async fn any_call_repeated_after_any_other_is_harmless(bench: &Bench) {
    for (after, _) in LIFE.iter().enumerate() {
        for zombie in &LIFE[..=after] {
            let window = super::window_of(&super::key(&format!("{zombie:?} after {after}")), 0);
            live(bench, &window, &[(after, *zombie)]).await;
            lived_well(bench, &window, &format!("{zombie:?} after step {after}")).await;
        }
    }
    // An attempt that a later one fenced is ambiguous only if it was past the dot.
    let wrong = "SELECT CAST(COUNT(*) AS TEXT) FROM attempts
                 WHERE (class = 'ambiguous') <> (fenced_at IS NOT NULL AND past_the_dot_at IS NOT NULL)";
    assert_eq!(bench.value(wrong).await, "0");
}

pub async fn two_calls_repeated_late_are_harmless(bench: &Bench) {
    for first in LIFE {
        for second in LIFE {
            let window = super::window_of(&super::key(&format!("{first:?} {second:?}")), 0);
            live(bench, &window, &[(5, first), (5, second), (5, Call::Close)]).await;
            lived_well(bench, &window, &format!("{first:?}, {second:?} and a close after the end")).await;
        }
    }
}

pub async fn a_zombie_of_a_failed_digest_takes_nothing_from_the_next(bench: &Bench) {
    let (failed, next) = (bench.rendered(0).await, window(1));
    let (number, _) = bench.begin(&failed).await;
    let failure = AttemptEnd { return_events: true, ..ends(AttemptClass::Deferred, DigestOutcome::Failed) };
    bench.ended(&failed, number, failure.clone()).await;
    let again = events(&["0a", "0b"]);
    for claimed in [false, true] {
        if claimed {
            assert_eq!(bench.claim(&next, &events(&["new"]), at(6)).await.items, 3);
        }
        bench.store.stash_events(&failed, &again, None, at(7)).await.unwrap();
        bench.claim(&failed, &again, at(7)).await;
        bench.store.put_message(&message(&failed, "zombie"), None).await.unwrap();
        bench.ended(&failed, number, failure.clone()).await;
        bench.ended(&failed, number, end(AttemptClass::Deferred)).await;
        let closed = closed(DigestOutcome::Failed);
        let closing = CloseRequest {
            window: &failed,
            events: &again,
            closed: &closed,
            by: AuditActor::Tidings,
            return_events: true,
            planned: None,
            now: at(8),
        };
        bench.store.close_digest(closing).await.unwrap();
        assert!(!bench.dot(&failed, number).await);
    }
    assert_eq!((bench.items(&failed).await, bench.items(&next).await), (0, 3));
    assert_eq!(bench.joins(&window(2), at(9)).await, 0);
}
