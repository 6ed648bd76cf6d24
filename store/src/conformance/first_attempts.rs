//! A message's first attempt, recorded together with its dot.

use futures::future::join_all;
use tidings_model::{
    attempt::AttemptClass,
    command::{CommandContext, ReopenCommand},
    records::{FirstAttempt, WaitingMessage},
    step::{ReopenAnswer, ReopenInput},
    window::{DigestOutcome, Window},
};
use uuid::Uuid;

use super::{Bench, at, end, ends, key, window};

async fn first(bench: &Bench, window: &Window) -> FirstAttempt {
    let epoch = unattempted(bench, window).await.expect("no attempt is recorded").epoch;
    FirstAttempt { message: window.digest_id, relay: "relay".into(), begun_at: at(200), epoch, nonce: Uuid::new_v4() }
}

async fn unattempted(bench: &Bench, window: &Window) -> Option<WaitingMessage> {
    let (_, waiting) = bench.store.facts_for_attempt(&window.key, window.digest_id).await.unwrap();
    waiting.filter(|waiting| !waiting.attempted)
}

async fn dot(bench: &Bench, first: &FirstAttempt) -> bool {
    bench.store.mark_first_in_doubt(first, at(201)).await.unwrap()
}

async fn reopen(bench: &Bench, window: &Window) {
    let order = CommandContext { by: "ops".into(), why: "again".into() };
    let reopen = ReopenCommand { digest_id: window.digest_id, may_duplicate: false, order };
    let input = ReopenInput { asked_at: at(301), key: key("ann"), reopen };
    assert!(matches!(bench.store.reopen_digest(&input, at(301)).await.unwrap(), ReopenAnswer::Claimed { .. }));
}

pub async fn a_first_attempt_is_recorded_with_its_dot_and_ends(bench: &Bench) {
    let window = bench.rendered(1).await;
    let message = unattempted(bench, &window).await.unwrap().message;
    assert_eq!((message.bytes.as_slice(), message.envelope_to.as_str()), (b"first".as_slice(), "ann@example.com"));
    let first = first(bench, &window).await;
    assert!(bench.store.attempts(window.digest_id).await.unwrap().is_empty());
    assert!(dot(bench, &first).await);
    assert!(dot(bench, &first).await, "the answer was lost");
    let attempts = bench.store.attempts(window.digest_id).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].number, attempts[0].begun_at), (1, 1, at(200)));
    assert_eq!((attempts[0].past_the_dot_at, attempts[0].class), (Some(at(201)), None));
    assert!(unattempted(bench, &window).await.is_none());
    bench.ended(&window, 1, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Sent));
    assert!(!dot(bench, &first).await, "the attempt has ended");
}

pub async fn of_two_first_attempts_one_sends(bench: &Bench) {
    let window = bench.rendered(1).await;
    let (one, other) = (first(bench, &window).await, first(bench, &window).await);
    assert!(dot(bench, &other).await);
    assert!(!dot(bench, &one).await);
    bench.store.end_first_attempt(&one, &end(AttemptClass::Fenced), at(202)).await.unwrap();
    assert_eq!(bench.store.attempts(window.digest_id).await.unwrap()[0].class, None, "the other one goes on");
    assert_eq!(bench.begin(&window).await, (2, 1));
    assert!(!dot(bench, &other).await, "a later attempt fences it");
}

pub async fn of_many_first_attempts_at_once_each_hears_whether_it_may_send_the_dot(bench: &Bench) {
    let mut attempts = Vec::new();
    for n in 0..24 {
        let window = bench.rendered(n).await;
        match n % 4 {
            // Recorded before; its answer was lost.
            0 => {
                let first = first(bench, &window).await;
                assert!(dot(bench, &first).await);
                attempts.push((first, true));
            }
            // A reopen fences the stale one.
            1 => {
                let stale = first(bench, &window).await;
                bench.drop_digest(&window).await;
                reopen(bench, &window).await;
                attempts.extend([(stale, false), (first(bench, &window).await, true)]);
            }
            2 => {
                let first = first(bench, &window).await;
                bench.drop_digest(&window).await;
                attempts.push((first, false));
            }
            _ => attempts.push((first(bench, &window).await, true)),
        }
    }
    let recording = attempts.iter().map(async |(first, may_send)| {
        assert_eq!(dot(bench, first).await, *may_send, "{first:?}");
    });
    join_all(recording).await;
    for (first, may_send) in &attempts {
        let recorded = bench.store.attempts(first.message).await.unwrap();
        let is_recorded = recorded.iter().any(|attempt| attempt.past_the_dot_at == Some(at(201)));
        assert!(is_recorded || !may_send, "{first:?}");
    }
}

pub async fn of_rival_first_attempts_of_many_messages_at_once_one_each_sends(bench: &Bench) {
    let mut rivals = Vec::new();
    for n in 0..12 {
        let window = bench.rendered(n).await;
        for _ in 0..3 {
            rivals.push(first(bench, &window).await);
        }
    }
    let passed = join_all(rivals.iter().map(|rival| dot(bench, rival))).await;
    for rivals in passed.chunks(3) {
        assert_eq!(rivals.iter().filter(|passed| **passed).count(), 1, "{rivals:?}");
    }
}

pub async fn a_begun_attempt_fences_the_first_one(bench: &Bench) {
    let window = bench.rendered(1).await;
    let first = first(bench, &window).await;
    assert_eq!(bench.begin(&window).await, (1, 0));
    assert!(!dot(bench, &first).await);
    bench
        .store
        .end_first_attempt(&first, &ends(AttemptClass::HardBounce, DigestOutcome::Failed), at(202))
        .await
        .unwrap();
    assert_eq!(bench.outcome(&window).await, None);
    assert!(bench.dot(&window, 1).await);
}

pub async fn a_drop_fences_a_first_attempt_also_after_a_reopen(bench: &Bench) {
    let window = bench.rendered(1).await;
    let stale = first(bench, &window).await;
    bench.drop_digest(&window).await;
    assert!(unattempted(bench, &window).await.is_none());
    assert!(!dot(bench, &stale).await);
    bench
        .store
        .end_first_attempt(&stale, &ends(AttemptClass::HardBounce, DigestOutcome::Failed), at(302))
        .await
        .unwrap();
    reopen(bench, &window).await;
    assert!(!dot(bench, &stale).await);
    bench
        .store
        .end_first_attempt(&stale, &ends(AttemptClass::HardBounce, DigestOutcome::Failed), at(302))
        .await
        .unwrap();
    assert_eq!(bench.outcome(&window).await, None);
    let again = first(bench, &window).await;
    assert!(dot(bench, &again).await);
}

pub async fn a_first_attempt_that_ends_early_is_recorded_once(bench: &Bench) {
    let window = bench.rendered(1).await;
    let first = first(bench, &window).await;
    for reply in ["451 later", "another answer"] {
        let end = tidings_model::records::AttemptEnd { reply: reply.into(), ..end(AttemptClass::Deferred) };
        bench.store.end_first_attempt(&first, &end, at(202)).await.unwrap();
    }
    let attempts = bench.store.attempts(window.digest_id).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].reply.as_deref()), (1, Some("451 later")));
    assert_eq!((attempts[0].class, attempts[0].past_the_dot_at), (Some(AttemptClass::Deferred), None));
    assert_eq!(bench.begin(&window).await, (2, 0));
}

pub async fn a_first_attempt_withdrawn_after_its_record_ends(bench: &Bench) {
    let window = bench.rendered(1).await;
    let first = first(bench, &window).await;
    assert!(dot(bench, &first).await);
    // The answer was lost, and the attempt withdrew.
    bench.store.end_first_attempt(&first, &end(AttemptClass::Deferred), at(202)).await.unwrap();
    assert_eq!(bench.begin(&window).await, (2, 0));
}

pub async fn an_unknown_message_has_no_first_attempt(bench: &Bench) {
    let window = window(1);
    assert!(unattempted(bench, &window).await.is_none());
    let first = FirstAttempt {
        message: window.digest_id,
        relay: "relay".into(),
        begun_at: at(1),
        epoch: 0,
        nonce: Uuid::nil(),
    };
    assert!(!dot(bench, &first).await);
}
