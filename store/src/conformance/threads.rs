//! Message threads about one entity.

use tidings_model::{
    attempt::AttemptClass,
    records::{OutboxMessage, RenderedClaim},
    window::{DigestOutcome, Window},
};
use uuid::Uuid;

use super::{Bench, at, ends, event, key, message, window};

fn threaded(n: i64, thread: Uuid) -> (Window, OutboxMessage) {
    let window = window(n);
    let message =
        OutboxMessage { thread: Some(thread), message_id: format!("{n}@example.com"), ..message(&window, "alert") };
    (window, message)
}

impl Bench {
    /// Claims a thread's `n`th digest, with one event and its message.
    async fn claimed_in_thread(&self, n: i64, thread: Uuid) -> Window {
        let (window, message) = threaded(n, thread);
        let events = [event(&format!("e{n}"))];
        let claim = RenderedClaim {
            window: &window,
            events: &events,
            planned: None,
            message: &message,
            slot_at: None,
            now: at(n),
        };
        assert!(self.store.claim_rendered(claim).await.unwrap());
        window
    }

    async fn ended_in_thread(&self, n: i64, thread: Uuid, class: AttemptClass, outcome: DigestOutcome) {
        let window = self.claimed_in_thread(n, thread).await;
        let (number, _) = self.begin(&window).await;
        self.ended(&window, number, ends(class, outcome)).await;
    }

    /// The first message before the `n`th digest's own.
    async fn first(&self, thread: Uuid, n: i64) -> Option<String> {
        self.store.first_of_thread(thread, &window(n)).await.unwrap()
    }
}

pub async fn a_thread_begins_with_its_first_message_that_was_not_given_up(bench: &Bench) {
    let (thread, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    bench.ended_in_thread(1, thread, AttemptClass::Failed, DigestOutcome::Failed).await;
    assert_eq!(bench.first(thread, 9).await, None);
    bench.ended_in_thread(2, thread, AttemptClass::Sent, DigestOutcome::Sent).await;
    bench.claimed_in_thread(3, thread).await;
    assert_eq!(bench.first(thread, 9).await.as_deref(), Some("2@example.com"));
    assert_eq!(bench.first(other, 9).await, None);
}

pub async fn a_message_that_waits_begins_a_thread_and_answers_no_later_one(bench: &Bench) {
    let thread = Uuid::from_u128(1);
    bench.claimed_in_thread(2, thread).await;
    assert_eq!(bench.first(thread, 3).await.as_deref(), Some("2@example.com"));
    bench.ended_in_thread(3, thread, AttemptClass::Sent, DigestOutcome::Sent).await;
    assert_eq!(bench.first(thread, 2).await, None, "it is made again");
}

pub async fn windows_that_one_task_opened_are_a_thread_in_the_order_of_their_claims(bench: &Bench) {
    let thread = Uuid::from_u128(1);
    let together = |n: i64| Window { opened_at: window(0).opened_at, ..window(n) };
    let first = async |n: i64| bench.store.first_of_thread(thread, &together(n)).await.unwrap();
    for (n, made_at) in [(2, 90), (1, 91), (3, 92)] {
        let message = OutboxMessage { made_at: at(made_at), ..threaded(n, thread).1 };
        bench.claim(&together(n), &[event(&format!("e{n}"))], at(1)).await;
        assert!(bench.store.put_message(&message, Some(1)).await.unwrap());
    }
    assert_eq!(first(2).await, None, "no message answers itself or a later one");
    for n in [1, 3, 4] {
        assert_eq!(first(n).await.as_deref(), Some("2@example.com"), "whatever its id is");
    }
}

pub async fn a_thread_has_messages_of_both_ways_to_claim(bench: &Bench) {
    let thread = Uuid::from_u128(1);
    let (window, message) = threaded(1, thread);
    bench.claim(&window, &[event("e1")], at(1)).await;
    assert!(bench.store.put_message(&message, Some(1)).await.unwrap());
    assert_eq!(bench.first(thread, 9).await.as_deref(), Some("1@example.com"));
    assert_eq!(bench.first(thread, 1).await, None);
}

pub async fn an_erased_message_begins_no_thread(bench: &Bench) {
    let thread = Uuid::from_u128(1);
    bench.ended_in_thread(1, thread, AttemptClass::Sent, DigestOutcome::Sent).await;
    while !bench.store.erase_digests(&key("ann"), at(900)).await.unwrap().is_nothing() {}
    assert_eq!(bench.first(thread, 9).await, None);
    let left = bench.value("SELECT CAST(COUNT(thread) AS TEXT) FROM messages").await;
    assert_eq!(left, "0", "its id is a hash of what can be guessed");
}
