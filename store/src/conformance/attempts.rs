use std::time::Duration;

use futures::future::join_all;
use tidings_model::{
    attempt::AttemptClass,
    records::{AttemptEnd, AttemptStart, AuditActor, CloseRequest, OutboxMessage, Suppression, SuppressionReason},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, closed, end, ends, events, key, message, recipient, window};
use crate::StoreError;

pub async fn the_first_message_wins(bench: &Bench) {
    let window = bench.rendered(0).await;
    bench.store.put_message(&message(&window, "second"), None).await.unwrap();
    match bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(200)).await.unwrap() {
        AttemptStart::Proceed { message: stored, .. } => assert!(*stored == message(&window, "first")),
        AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
        AttemptStart::Closed(closed) => panic!("{closed:?}"),
    }
}

pub async fn a_message_that_is_too_large_shrinks_once_and_only_by_the_attempt_under_way(bench: &Bench) {
    let shrink = async |window: &Window, number, bytes: &str| {
        bench.store.shrink_message(&message(window, bytes), number).await.unwrap()
    };
    let large = bench.rendered(0).await;
    let (stale, _) = bench.begin(&large).await;
    let (number, _) = bench.begin(&large).await;
    assert!(!shrink(&large, stale, "old").await);
    assert!(!shrink(&large, number, "not any smaller").await);
    // A lost answer is asked for again, and the recipient's name may have changed.
    assert!(shrink(&large, number, "few").await && shrink(&large, number, "few").await);
    assert!(shrink(&large, number, "f").await);
    match bench.store.begin_attempt(large.digest_id, "relay", Duration::ZERO, at(200)).await.unwrap() {
        AttemptStart::Proceed { message: stored, number, .. } => {
            assert!(*stored == message(&large, "few"));
            assert!(!shrink(&large, number, "f").await, "once");
        }
        AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
        AttemptStart::Closed(closed) => panic!("{closed:?}"),
    }

    let perhaps_there = bench.rendered(1).await;
    let (first, _) = bench.begin(&perhaps_there).await;
    assert!(bench.dot(&perhaps_there, first).await);
    let (second, ambiguous) = bench.begin(&perhaps_there).await;
    assert_eq!(ambiguous, 1);
    assert!(!shrink(&perhaps_there, second, "few").await, "the recipient may have the large one");
}

pub async fn a_message_shrinks_after_an_attempt_that_found_it_too_large(bench: &Bench) {
    let shrink =
        async |window: &Window, number| bench.store.shrink_message(&message(window, "few"), number).await.unwrap();
    let large = bench.rendered(0).await;
    let (first, _) = bench.begin(&large).await;
    bench.store.end_attempt(large.digest_id, first, &end(AttemptClass::Deferred), at(150)).await.unwrap();
    assert!(!shrink(&large, first).await, "it was not too large");
    let (second, _) = bench.begin(&large).await;
    bench.store.end_attempt(large.digest_id, second, &end(AttemptClass::TooLarge), at(160)).await.unwrap();
    assert!(!shrink(&large, first).await);
    let (third, _) = bench.begin(&large).await;
    assert!(!shrink(&large, second).await, "the third attempt may be sending the bytes");
    bench.store.end_attempt(large.digest_id, third, &end(AttemptClass::TooLarge), at(170)).await.unwrap();
    assert!(shrink(&large, third).await && shrink(&large, third).await);
    let (fourth, _) = bench.begin(&large).await;
    assert!(shrink(&large, third).await, "a late call finds what an earlier one did");
    bench.store.end_attempt(large.digest_id, fourth, &end(AttemptClass::TooLarge), at(180)).await.unwrap();
    assert!(!shrink(&large, fourth).await, "once");
}

pub async fn an_attempt_needs_a_message(bench: &Bench) {
    let window = window(0);
    assert!(matches!(bench.store.put_message(&message(&window, "x"), None).await, Err(StoreError::Broken(_))));
    assert!(matches!(
        bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(1)).await,
        Err(StoreError::Broken(_))
    ));
    bench.claim(&window, &events(&["a"]), at(1)).await;
    assert!(matches!(
        bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(1)).await,
        Err(StoreError::Broken(_))
    ));
    assert!(!bench.dot(&window, 1).await);
}

pub async fn a_new_attempt_fences_the_earlier_ones(bench: &Bench) {
    let window = bench.rendered(0).await;
    assert_eq!(bench.begin(&window).await, (1, 0));
    assert_eq!(bench.begin(&window).await, (2, 0));
    assert!(!bench.dot(&window, 1).await && !bench.dot(&window, 3).await);
    // A lost answer is asked for again.
    assert!(bench.dot(&window, 2).await && bench.dot(&window, 2).await);
    assert_eq!(bench.value("SELECT class FROM attempts WHERE number = 1").await, "fenced");
}

pub async fn no_attempt_begins_while_the_reply_to_another_may_still_come(bench: &Bench) {
    let reply_time = Duration::from_secs(100);
    let begin = async |window: &Window, seconds| {
        let begun = bench.store.begin_attempt(window.digest_id, "relay", reply_time, at(seconds)).await.unwrap();
        match begun {
            AttemptStart::Proceed { number, ambiguous, .. } => Ok((number, ambiguous)),
            AttemptStart::AwaitsReply { number, until } => Err((number, until)),
            AttemptStart::Closed(closed) => panic!("{closed:?}"),
        }
    };
    let [silent, answered, before] = [0, 1, 2].map(async |n| bench.rendered(n).await);
    let silent = silent.await;
    // The record of the dot is of second 201.
    assert_eq!(begin(&silent, 200).await, Ok((1, 0)));
    assert!(bench.dot(&silent, 1).await);
    assert_eq!(begin(&silent, 202).await, Err((1, at(301))));
    assert_eq!(begin(&silent, 300).await, Err((1, at(301))));
    // From a clock that is a little ahead, the record waits no longer than one of now.
    assert_eq!(begin(&silent, 150).await, Err((1, at(250))));
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM attempts WHERE class IS NOT NULL").await, "0");
    assert_eq!(begin(&silent, 301).await, Ok((2, 1)));

    let answered = answered.await;
    assert_eq!(begin(&answered, 200).await, Ok((1, 0)));
    assert!(bench.dot(&answered, 1).await);
    bench.store.end_attempt(answered.digest_id, 1, &end(AttemptClass::Deferred), at(202)).await.unwrap();
    assert_eq!(begin(&answered, 203).await, Ok((2, 0)), "the attempt has ended");

    let before = before.await;
    assert_eq!(begin(&before, 200).await, Ok((1, 0)));
    assert_eq!(begin(&before, 201).await, Ok((2, 0)), "no dot was sent");
}

pub async fn of_many_attempts_at_once_each_hears_whether_it_may_send_the_dot(bench: &Bench) {
    let mut attempts = Vec::new();
    for n in 0..24 {
        let window = bench.rendered(n).await;
        let (stale, _) = bench.begin(&window).await;
        let (number, _) = if n % 3 == 0 { (stale, 0) } else { bench.begin(&window).await };
        attempts.extend([(window.clone(), stale, stale == number), (window, number, true)]);
    }
    let recording = attempts.iter().map(async |(window, number, may_send)| {
        assert_eq!(bench.dot(window, *number).await, *may_send, "attempt {number} of {window:?}");
    });
    join_all(recording).await;
    // A caller that gives up while it waits spoils no other caller's answer.
    let recording = attempts.iter().enumerate().map(async |(n, (window, number, may_send))| {
        let record = bench.dot(window, *number);
        if n % 2 == 0 {
            tokio::time::timeout(Duration::from_micros(50 * n as u64), record).await.ok();
        } else {
            assert_eq!(record.await, *may_send);
        }
    });
    join_all(recording).await;
}

pub async fn an_attempt_past_the_dot_without_an_end_is_ambiguous(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (first, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, first).await);
    assert_eq!(bench.begin(&window).await, (2, 1));
    // Ended by itself, with the same verdict.
    bench.ended(&window, 2, end(AttemptClass::Ambiguous)).await;
    assert_eq!(bench.begin(&window).await, (3, 2));
    bench.ended(&window, 3, end(AttemptClass::Deferred)).await;
    assert_eq!(bench.begin(&window).await, (4, 2));
}

pub async fn the_dot_is_refused_after_an_end(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (first, _) = bench.begin(&window).await;
    bench.ended(&window, first, end(AttemptClass::Deferred)).await;
    assert!(!bench.dot(&window, first).await);
    let (second, _) = bench.begin(&window).await;
    let closed = closed(DigestOutcome::Dropped);
    let closing = CloseRequest {
        window: &window,
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(5),
    };
    bench.store.close_digest(closing).await.unwrap();
    assert!(!bench.dot(&window, second).await);
    assert!(
        bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(6)).await.unwrap()
            == AttemptStart::Closed(closed)
    );
}

fn bounce(tenant: &str) -> AttemptEnd {
    let suppress = Suppression {
        tenant: tenant.into(),
        address: "Ann@Example.com".into(),
        reason: SuppressionReason::HardBounce,
        detail: "550 5.1.1".into(),
        at: at(202),
    };
    AttemptEnd { suppress: Some(suppress), ..ends(AttemptClass::HardBounce, DigestOutcome::Failed) }
}

pub async fn an_address_that_refuses_so_many_messages_in_a_row_is_suppressed(bench: &Bench) {
    let soft = |class| AttemptEnd {
        suppress: bounce("acme")
            .suppress
            .map(|suppression| Suppression { reason: SuppressionReason::SoftBounces, ..suppression }),
        consecutive: 3,
        ..ends(class, DigestOutcome::Failed)
    };
    let [full, refused, unknown] = [AttemptClass::MailboxFull, AttemptClass::Refused, AttemptClass::UnknownMailbox]
        .map(|class| move || soft(class));
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    // A success in between restarts the count, and so does a failure that is not about the address.
    for (n, end, suppressed) in [
        (0, full(), None),
        (1, full(), None),
        (2, ends(AttemptClass::Sent, DigestOutcome::Sent), None),
        (3, full(), None),
        (4, ends(AttemptClass::Failed, DigestOutcome::Failed), None),
        (5, refused(), None),
        (6, full(), None),
        (7, unknown(), Some(SuppressionReason::SoftBounces)),
    ] {
        let message = OutboxMessage { made_at: at(n), ..message(&window(n), "mail") };
        bench.claim(&window(n), &events(&[&n.to_string()]), at(1)).await;
        bench.store.put_message(&message, None).await.unwrap();
        let (number, _) = bench.begin(&window(n)).await;
        bench.ended(&window(n), number, end).await;
        assert_eq!(bench.store.facts(&key("ann")).await.unwrap().suppressed, suppressed, "{n}");
    }
}

pub async fn the_end_of_an_attempt_ends_the_digest_and_suppresses(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    let window = bench.rendered(0).await;
    let (number, _) = bench.begin(&window).await;
    bench.ended(&window, number, bounce("acme")).await;
    assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Failed));
    let facts = bench.store.facts(&key("ann")).await.unwrap();
    assert_eq!((facts.suppressed, facts.last_sent_at), (Some(SuppressionReason::HardBounce), None));
    let sent = bench.rendered(1).await;
    let (number, _) = bench.begin(&sent).await;
    assert!(bench.dot(&sent, number).await);
    bench.ended(&sent, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    let facts = bench.store.facts(&key("ann")).await.unwrap();
    assert_eq!((facts.last_sent_at, facts.last_slot_at), (Some(at(202)), Some(at(202))));
    assert_eq!(bench.store.facts(&key("bo")).await.unwrap().last_sent_at, None);
    assert_eq!(bench.items(&window).await, 2);
    assert_eq!(bench.joins(&super::window(2), at(9)).await, 0);
}

pub async fn the_end_of_an_attempt_counts_once(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (number, _) = bench.begin(&window).await;
    bench.ended(&window, number, end(AttemptClass::Deferred)).await;
    bench.ended(&window, number, bounce("acme")).await;
    assert_eq!(bench.outcome(&window).await, None);
    bench.begin(&window).await;
    bench.ended(&window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(bench.outcome(&window).await, None);
    let row = "SELECT class || reply || COALESCE(late_class, '-') FROM attempts WHERE number = 1";
    assert_eq!(bench.value(row).await, "deferreddeferred-");
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM suppressions").await, "0");
}

pub async fn a_late_answer_is_kept_and_changes_nothing(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (first, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, first).await);
    let (second, _) = bench.begin(&window).await;
    bench.ended(&window, first, AttemptEnd { return_events: true, ..bounce("acme") }).await;
    bench.ended(&window, first, end(AttemptClass::Deferred)).await;
    let row = "SELECT class || '/' || late_class || '/' || late_reply FROM attempts WHERE number = 1";
    assert_eq!(bench.value(row).await, "ambiguous/hard_bounce/hard_bounce");
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM suppressions").await, "0");
    assert_eq!((bench.outcome(&window).await, bench.items(&window).await), (None, 2));
    assert!(bench.dot(&window, second).await);
}

pub async fn a_late_success_ends_the_digest(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (first, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, first).await);
    let (second, ambiguous) = bench.begin(&window).await;
    assert_eq!(ambiguous, 1);
    bench.ended(&window, first, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Sent));
    assert!(!bench.dot(&window, second).await);
    bench.ended(&window, second, ends(AttemptClass::Fenced, DigestOutcome::Failed)).await;
    assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Sent));
    assert_eq!(bench.value("SELECT class || late_class FROM attempts WHERE number = 1").await, "ambiguoussent");
}

pub async fn an_end_past_the_dot_is_ambiguous_and_a_later_success_is_in_the_ledger(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    let closed = closed(DigestOutcome::Dropped);
    let closing = CloseRequest {
        window: &window,
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(5),
    };
    assert_eq!(bench.store.close_digest(closing).await.unwrap().closed.outcome, DigestOutcome::Ambiguous);
    bench.ended(&window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Ambiguous));
    assert_eq!(bench.value("SELECT class FROM attempts").await, "ambiguous");
    assert_eq!(bench.value("SELECT late_class FROM attempts").await, "sent");
    assert_eq!(bench.store.facts(&key("ann")).await.unwrap().last_sent_at, Some(at(202)));
}

pub async fn of_many_attempts_at_once_one_passes_the_dot(bench: &Bench) {
    let window = bench.rendered(0).await;
    let mut numbers: Vec<_> = join_all((0..12).map(|_| bench.begin(&window))).await.iter().map(|go| go.0).collect();
    let dots = join_all(numbers.iter().map(|&number| bench.dot(&window, number))).await;
    let passed: Vec<_> = numbers.iter().zip(dots).filter(|(_, dot)| *dot).map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    assert_eq!((numbers, passed), ((1..=12).collect(), vec![12]));
}
