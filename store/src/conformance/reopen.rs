//! Reopens a digest that ended without an email, or was left by a terminated run (rule 30).

use std::time::Duration;

use tidings_model::{
    Retract,
    attempt::AttemptClass,
    command::{CommandContext, ReopenCommand},
    records::{AttemptEnd, AttemptStart, AuditActor, CloseRequest},
    step::{ReopenAnswer, ReopenInput},
    window::{DigestOutcome, Window},
};

use super::{Bench, at, closed, end, ends, events, key, message, window};

async fn reopen(bench: &Bench, window: &Window, may_duplicate: bool) -> ReopenAnswer {
    let order = CommandContext { by: "carol".into(), why: "ticket 812".into() };
    let reopen = ReopenCommand { order, digest_id: window.digest_id, may_duplicate };
    let input = ReopenInput { asked_at: at(400), key: key("ann"), reopen };
    bench.store.reopen_digest(&input, at(401)).await.unwrap()
}

async fn refused(bench: &Bench, window: &Window, may_duplicate: bool) -> String {
    let before = bench.store.digest(window.digest_id).await.unwrap();
    match reopen(bench, window, may_duplicate).await {
        ReopenAnswer::Refused { why } => {
            assert_eq!(bench.store.digest(window.digest_id).await.unwrap(), before, "it stays as it is");
            why
        }
        ReopenAnswer::Claimed { .. } => panic!("reopened"),
    }
}

async fn resumed(bench: &Bench, window: &Window, may_duplicate: bool, state: &str) {
    // A lost answer is asked for again.
    for _ in 0..2 {
        let expected = ReopenAnswer::Claimed { window: window.clone(), items: 2, groups: 1 };
        assert_eq!(reopen(bench, window, may_duplicate).await, expected);
    }
    let digest = bench.store.digest(window.digest_id).await.unwrap().unwrap();
    assert_eq!((digest.state.name(), digest.closed, digest.closed_at), (state, None, None));
}

async fn close(bench: &Bench, window: &Window, outcome: DigestOutcome, return_events: bool) {
    let closed = closed(outcome);
    let closing = CloseRequest {
        window,
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events,
        planned: None,
        now: at(300),
    };
    bench.store.close_digest(closing).await.unwrap();
}

pub async fn a_window_that_was_never_claimed_is_sent_without_what_was_taken_back(bench: &Bench) {
    bench.store.stash_events(&window(0), &events(&["a", "b", "c"]), None, at(1)).await.unwrap();
    bench.store.stash_events(&window(1), &events(&["d"]), None, at(1)).await.unwrap();
    let retracts = ["a", "d"].map(|id| Retract::Event(id.to_owned()));
    bench.store.put_retracts(&key("ann"), &retracts, at(2)).await.unwrap();
    resumed(bench, &window(0), false, "claimed").await;
    let ReopenAnswer::Refused { why } = reopen(bench, &window(1), false).await else { panic!("reopened") };
    assert!(why.ends_with("its events were taken back"), "{why}");
    assert_eq!(bench.outcome(&window(1)).await, Some(DigestOutcome::Skipped));
}

pub async fn what_came_to_nothing_is_sent_under_its_own_id_after_all(bench: &Bench) {
    for (n, outcome) in [(0, DigestOutcome::Dropped), (1, DigestOutcome::Failed), (2, DigestOutcome::Unknown)] {
        let ids = [format!("{n}a"), format!("{n}b")];
        bench.claim(&window(n), &events(&[&ids[0], &ids[1]]), at(1)).await;
        close(bench, &window(n), outcome, false).await;
        resumed(bench, &window(n), false, "claimed").await;
        bench.store.put_message(&message(&window(n), "mail"), None).await.unwrap();
        let (number, _) = bench.begin(&window(n)).await;
        assert!(bench.dot(&window(n), number).await);
        bench.ended(&window(n), number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
        assert_eq!(bench.outcome(&window(n)).await, Some(DigestOutcome::Sent));
    }
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit
                   WHERE action = 'reopen' AND actor = 'carol' AND why = 'ticket 812' AND digest_id IS NOT NULL";
    assert_eq!(bench.value(audited).await, "3", "each once, however often it was told");
}

pub async fn a_message_that_was_made_is_the_one_that_is_sent(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (number, _) = bench.begin(&window).await;
    bench.ended(&window, number, ends(AttemptClass::Failed, DigestOutcome::Failed)).await;
    resumed(bench, &window, false, "rendered").await;
    match bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(500)).await.unwrap() {
        AttemptStart::Proceed { number, message, .. } => {
            assert_eq!((number, message.bytes.as_slice()), (2, &b"first"[..]));
        }
        AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
        AttemptStart::Closed(closed) => panic!("{closed:?}"),
    }
}

pub async fn what_a_terminated_run_left_behind_is_taken_up_and_its_attempt_fenced(bench: &Bench) {
    let rendered = bench.rendered(0).await;
    let (number, _) = bench.begin(&rendered).await;
    resumed(bench, &rendered, false, "rendered").await;
    assert!(!bench.dot(&rendered, number).await);
    bench.store.stash_events(&window(1), &events(&["c", "d"]), None, at(1)).await.unwrap();
    resumed(bench, &window(1), false, "claimed").await;
}

pub async fn an_end_that_is_not_to_be_undone_stays(bench: &Bench) {
    for (n, outcome) in [
        (0, DigestOutcome::Sent),
        (1, DigestOutcome::Skipped),
        (2, DigestOutcome::Suppressed),
        (3, DigestOutcome::Throttled),
    ] {
        let window = bench.rendered(n).await;
        close(bench, &window, outcome, false).await;
        let why = refused(bench, &window, true).await;
        assert!(why.contains(&format!("was {} (because {0})", outcome.name())), "{why}");
    }
    assert!(refused(bench, &window(9), false).await.contains("no such digest of this key"));
    let elsewhere = super::window_of(&key("bo"), 0);
    bench.claim(&elsewhere, &events(&["a"]), at(1)).await;
    assert!(refused(bench, &elsewhere, false).await.contains("no such digest of this key"));
    close(bench, &window(4), DigestOutcome::Dropped, false).await;
    assert!(refused(bench, &window(4), false).await.ends_with("it has no events"));
}

pub async fn what_the_recipient_may_have_is_sent_again_only_where_that_does_no_harm(bench: &Bench) {
    for (n, closes) in [(0, true), (1, false)] {
        let window = bench.rendered(n).await;
        let (number, _) = bench.begin(&window).await;
        assert!(bench.dot(&window, number).await);
        if closes {
            close(bench, &window, DigestOutcome::Dropped, false).await;
            assert_eq!(bench.outcome(&window).await, Some(DigestOutcome::Ambiguous));
        }
        let why = refused(bench, &window, false).await;
        assert!(why.contains("past the dot") && why.contains("--may-duplicate"), "{why}");
        resumed(bench, &window, true, "rendered").await;
    }
    // The relay said no after the dot: the recipient has nothing.
    let window = bench.rendered(2).await;
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    bench.ended(&window, number, ends(AttemptClass::Failed, DigestOutcome::Failed)).await;
    resumed(bench, &window, false, "rendered").await;
    // The relay said yes after the end: they have it.
    let window = bench.rendered(3).await;
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    close(bench, &window, DigestOutcome::Dropped, false).await;
    bench.ended(&window, number, end(AttemptClass::Sent)).await;
    assert!(refused(bench, &window, true).await.contains("was sent"));
}

pub async fn events_that_were_returned_come_back_unless_another_digest_has_them(bench: &Bench) {
    for (n, taken) in [(0, false), (1, true)] {
        let window = bench.rendered(n).await;
        let (number, _) = bench.begin(&window).await;
        let failure = AttemptEnd { return_events: true, ..ends(AttemptClass::Deferred, DigestOutcome::Failed) };
        bench.ended(&window, number, failure).await;
        if taken {
            assert_eq!(bench.joins(&super::window(5), at(350)).await, 2);
            assert!(refused(bench, &window, true).await.contains("went on to a later digest"));
        } else {
            resumed(bench, &window, false, "rendered").await;
            assert_eq!(bench.joins(&super::window(4), at(450)).await, 0, "they wait for nobody");
        }
    }
}

pub async fn what_was_taken_back_since_is_in_no_mail_of_a_reopened_digest(bench: &Bench) {
    for n in [0, 1] {
        let ids = [format!("{n}a"), format!("{n}b")];
        bench.claim(&window(n), &events(&[&ids[0], &ids[1]]), at(1)).await;
        close(bench, &window(n), DigestOutcome::Dropped, false).await;
    }
    let retracts = ["0a", "1a", "1b"].map(|id| Retract::Event(id.to_owned()));
    bench.store.put_retracts(&key("ann"), &retracts, at(310)).await.unwrap();
    let left = ReopenAnswer::Claimed { window: window(0), items: 1, groups: 1 };
    assert_eq!(reopen(bench, &window(0), false).await, left);
    let why = refused(bench, &window(1), false).await;
    assert!(why.ends_with("its events were taken back"), "{why}");
}
