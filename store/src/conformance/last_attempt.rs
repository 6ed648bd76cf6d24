//! Attempts that end their message and digest, concurrently with other writers.

use std::time::Duration;

use futures::future::join_all;
use tidings_model::{
    attempt::AttemptClass,
    records::{AttemptEnd, AttemptRecord, AttemptStart, MessageState},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, ends};

fn sent() -> AttemptEnd {
    ends(AttemptClass::Sent, DigestOutcome::Sent)
}

fn failed() -> AttemptEnd {
    ends(AttemptClass::Failed, DigestOutcome::Failed)
}

async fn past_the_dot(bench: &Bench, n: i64) -> (Window, u32) {
    let window = bench.rendered(n).await;
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    (window, number)
}

async fn ended_as(bench: &Bench, window: &Window) -> (Option<DigestOutcome>, MessageState) {
    let message = bench.store.message(window.digest_id).await.unwrap().unwrap();
    (bench.outcome(window).await, message.state)
}

async fn attempt(bench: &Bench, window: &Window, number: u32) -> AttemptRecord {
    let attempts = bench.store.attempts(window.digest_id).await.unwrap();
    attempts.into_iter().find(|attempt| attempt.number == number).unwrap()
}

pub async fn of_ends_of_an_attempt_at_once_the_first_counts(bench: &Bench) {
    for n in 0..6 {
        let (window, number) = past_the_dot(bench, n).await;
        join_all((0..6).map(|n| bench.ended(&window, number, if n % 2 == 0 { sent() } else { failed() }))).await;
        let expected = match attempt(bench, &window, number).await.class {
            Some(AttemptClass::Sent) => (Some(DigestOutcome::Sent), MessageState::Sent),
            Some(AttemptClass::Failed) => (Some(DigestOutcome::Failed), MessageState::Failed),
            other => panic!("{other:?}"),
        };
        assert_eq!(ended_as(bench, &window).await, expected);
    }
}

pub async fn a_drop_at_once_with_the_end_of_an_attempt_leaves_one_end(bench: &Bench) {
    for n in 0..12 {
        let (window, number) = past_the_dot(bench, n).await;
        tokio::join!(bench.ended(&window, number, sent()), bench.drop_digest(&window));
        let attempt = attempt(bench, &window, number).await;
        let expected = match attempt.class {
            Some(AttemptClass::Sent) => (Some(DigestOutcome::Sent), MessageState::Sent),
            // The drop came first, and the attempt's end is late.
            Some(AttemptClass::Ambiguous) => {
                assert_eq!(attempt.late.unwrap().class, AttemptClass::Sent);
                (Some(DigestOutcome::Ambiguous), MessageState::Ambiguous)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(ended_as(bench, &window).await, expected);
        assert!(bench.store.digest(window.digest_id).await.unwrap().unwrap().sent_at.is_some());
    }
}

pub async fn a_stale_attempt_that_ends_as_the_next_begins_ends_nothing_but_by_a_success(bench: &Bench) {
    for n in 0..12 {
        let (window, first) = past_the_dot(bench, n).await;
        let end = if n % 2 == 0 { sent() } else { failed() };
        let begin = bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(202));
        let ((), next) = tokio::join!(bench.ended(&window, first, end.clone()), begin);
        let outcome = end.closed.as_ref().map(|closed| closed.outcome);
        match next.unwrap() {
            AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
            AttemptStart::Closed(closed) => assert_eq!(Some(closed.outcome), outcome),
            AttemptStart::Proceed { number, .. } => {
                assert_eq!((number, attempt(bench, &window, first).await.class), (2, Some(AttemptClass::Ambiguous)));
                let outcome = outcome.filter(|outcome| *outcome == DigestOutcome::Sent);
                assert_eq!(bench.outcome(&window).await, outcome);
                assert_eq!(bench.dot(&window, number).await, outcome.is_none());
            }
        }
    }
}

pub async fn a_late_success_at_once_with_the_end_of_the_next_attempt_is_in_the_ledger(bench: &Bench) {
    for n in 0..12 {
        let (window, first) = past_the_dot(bench, n).await;
        let (second, _) = bench.begin(&window).await;
        assert!(bench.dot(&window, second).await);
        tokio::join!(bench.ended(&window, first, sent()), bench.ended(&window, second, failed()));
        // The success of the first, if it is recorded first, fences the second.
        let second = attempt(bench, &window, second).await;
        let failed = Some(AttemptClass::Failed);
        assert!(second.class == failed || second.late.as_ref().map(|late| late.class) == failed, "{second:?}");
        let ends =
            [(Some(DigestOutcome::Sent), MessageState::Sent), (Some(DigestOutcome::Failed), MessageState::Failed)];
        let ended = ended_as(bench, &window).await;
        assert!(ends.contains(&ended), "{ended:?}");
        assert!(bench.store.digest(window.digest_id).await.unwrap().unwrap().sent_at.is_some());
    }
}

pub async fn an_end_that_waits_for_another_writer_sees_what_that_one_wrote(bench: &Bench) {
    let ends_it = [
        "UPDATE digests SET state = 'closed', outcome = 'dropped', closed_at = 1 WHERE digest_id = $1",
        "UPDATE messages SET state = 'cancelled', closed_at = 1 WHERE id = $1",
    ];
    let fences = ["UPDATE attempts SET class = 'ambiguous', fenced_at = 1 WHERE message = $1 AND class IS NULL"];
    let defers = ["UPDATE messages SET state = 'deferred' WHERE id = $1"];

    let (window, number) = past_the_dot(bench, 0).await;
    bench.while_it_waits(&ends_it, &window, bench.ended(&window, number, failed())).await;
    assert_eq!(ended_as(bench, &window).await, (Some(DigestOutcome::Dropped), MessageState::Cancelled));
    assert_eq!(attempt(bench, &window, number).await.class, Some(AttemptClass::Failed));

    let (window, number) = past_the_dot(bench, 1).await;
    bench.while_it_waits(&fences, &window, bench.ended(&window, number, failed())).await;
    assert_eq!(ended_as(bench, &window).await, (None, MessageState::Sending));
    assert_eq!(attempt(bench, &window, number).await.late.unwrap().class, AttemptClass::Failed);

    let (window, number) = past_the_dot(bench, 2).await;
    bench.while_it_waits(&defers, &window, bench.ended(&window, number, sent())).await;
    assert_eq!(ended_as(bench, &window).await, (Some(DigestOutcome::Sent), MessageState::Sent));
}
