//! Single messages: the same outbox and attempts as digests, but their own end.

use std::time::Duration;

use tidings_model::{
    MessageKey,
    attempt::{AttemptClass, AttemptPhase},
    command::{CommandContext, ReopenCommand},
    message::{
        command::RetryCommand,
        contract::{RetryInput, RetryResult},
    },
    records::{
        AttemptEnd, AttemptStart, AuditActor, CloseRequest, MessageFilter, MessageOrigin, MessageRecord, MessageState,
        OutboxMessage, PageRequest, Suppression, SuppressionReason,
    },
    settings::StreamName,
    step::ReopenInput,
    window::{DigestOutcome, WindowEnd},
};

use super::{Bench, at, closed, end, ends, key, message, recipient, window};

fn single(tenant: &str, idempotency_key: &str, body: &str) -> OutboxMessage {
    let key = MessageKey::new(tenant.into(), idempotency_key.into()).unwrap();
    OutboxMessage {
        id: key.message_id(),
        origin: MessageOrigin::Single { key, user: None, content_sha256: body.into() },
        stream: StreamName::Transactional,
        ..message(&window(0), body)
    }
}

impl Bench {
    async fn put(&self, idempotency_key: &str) -> MessageKey {
        self.store.put_message(&single("acme", idempotency_key, "body"), None).await.unwrap();
        MessageKey::new("acme".into(), idempotency_key.into()).unwrap()
    }

    async fn record(&self, key: &MessageKey) -> MessageRecord {
        self.store.message(key.message_id()).await.unwrap().unwrap()
    }

    async fn state(&self, key: &MessageKey) -> MessageState {
        self.record(key).await.state
    }

    /// Begins an attempt that must be allowed. Returns (number, ambiguous).
    async fn go(&self, key: &MessageKey) -> (u32, u32) {
        match self.store.begin_attempt(key.message_id(), "relay", Duration::ZERO, at(200)).await.unwrap() {
            AttemptStart::Proceed { number, ambiguous, .. } => (number, ambiguous),
            AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
            AttemptStart::Closed(closed) => panic!("closed: {closed:?}"),
        }
    }

    async fn passes(&self, key: &MessageKey, number: u32) -> bool {
        self.store.mark_in_doubt(key.message_id(), number, at(201)).await.unwrap()
    }

    async fn ends(&self, key: &MessageKey, number: u32, end: AttemptEnd) {
        self.store.end_attempt(key.message_id(), number, &end, at(202)).await.unwrap();
    }

    async fn cancelled(&self, key: &MessageKey) -> Option<WindowEnd> {
        let closed = WindowEnd { outcome: DigestOutcome::Dropped, why: "ticket 812".into() };
        self.store.close_message(key, &closed, "carol".into(), at(300)).await.unwrap()
    }

    async fn retried(&self, key: &MessageKey, may_duplicate: bool) -> RetryResult {
        let order = CommandContext { by: "carol".into(), why: "ticket 813".into() };
        let input = RetryInput { asked_at: at(400), key: key.clone(), retry: RetryCommand { order, may_duplicate } };
        let answer = self.store.retry_message(&input, at(401)).await.unwrap();
        // A lost answer is asked for again.
        assert_eq!(self.store.retry_message(&input, at(402)).await.unwrap(), answer);
        answer
    }
}

fn refusal(retried: RetryResult) -> String {
    match retried {
        RetryResult::Refused { why } => why,
        RetryResult::Queued => panic!("queued"),
    }
}

pub async fn a_single_message_goes_through_its_states(bench: &Bench) {
    let key = bench.put("k").await;
    assert_eq!(bench.state(&key).await, MessageState::Queued);
    assert_eq!(bench.go(&key).await, (1, 0));
    assert_eq!(bench.state(&key).await, MessageState::Sending);
    bench.ends(&key, 1, AttemptEnd { phase: AttemptPhase::Rcpt, ..end(AttemptClass::Deferred) }).await;
    assert_eq!(bench.state(&key).await, MessageState::Deferred);
    assert_eq!(bench.go(&key).await, (2, 0));
    assert!(!bench.passes(&key, 1).await && bench.passes(&key, 2).await);
    bench.ends(&key, 2, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    let record = bench.record(&key).await;
    assert_eq!((record.state, record.attempts, record.sent_at), (MessageState::Sent, 2, Some(at(202))));
    assert_eq!((record.closed_at, record.closed()), (Some(at(202)), Some(closed(DigestOutcome::Sent))));
    let begun = bench.store.begin_attempt(key.message_id(), "relay", Duration::ZERO, at(300)).await.unwrap();
    assert!(begun == AttemptStart::Closed(closed(DigestOutcome::Sent)) && !bench.passes(&key, 2).await);
    let attempts = bench.store.attempts(key.message_id()).await.unwrap();
    let told: Vec<_> =
        attempts.iter().map(|a| (a.number, a.phase.map(AttemptPhase::name), a.class.map(AttemptClass::name))).collect();
    assert_eq!(told, [(1, Some("rcpt"), Some("deferred")), (2, Some("done"), Some("sent"))]);
    assert_eq!((attempts[1].past_the_dot_at, attempts[1].late.clone()), (Some(at(201)), None));
}

pub async fn the_first_message_of_a_key_wins_within_its_tenant(bench: &Bench) {
    for (tenant, body) in [("acme", "first"), ("acme", "second"), ("other", "second")] {
        bench.store.put_message(&single(tenant, "k", body), None).await.unwrap();
    }
    for (tenant, body) in [("acme", "first"), ("other", "second")] {
        let expected = single(tenant, "k", body);
        let record = bench.store.message(expected.id).await.unwrap().unwrap();
        assert_eq!(record.origin, expected.origin);
        let bytes = async |tenant| bench.store.message_bytes(tenant, expected.id).await.unwrap();
        assert_eq!((bytes(tenant).await, bytes("nobody").await), (Some(expected.bytes.clone()), None));
        match bench.store.begin_attempt(expected.id, "relay", Duration::ZERO, at(200)).await.unwrap() {
            AttemptStart::Proceed { message, .. } => assert!(*message == expected),
            AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
            AttemptStart::Closed(closed) => panic!("{closed:?}"),
        }
    }
}

pub async fn a_stale_attempt_of_a_single_message_is_fenced(bench: &Bench) {
    let key = bench.put("k").await;
    bench.go(&key).await;
    assert!(bench.passes(&key, 1).await);
    assert_eq!(bench.go(&key).await, (2, 1));
    assert!(!bench.passes(&key, 1).await);
    bench.ends(&key, 1, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(bench.state(&key).await, MessageState::Sent);
    assert!(!bench.passes(&key, 2).await);
    let attempts = bench.store.attempts(key.message_id()).await.unwrap();
    assert_eq!(attempts[0].late.as_ref().map(|late| late.class.name()), Some("sent"));
}

pub async fn nothing_starts_after_a_single_message_was_cancelled(bench: &Bench) {
    let key = bench.put("k").await;
    bench.go(&key).await;
    let dropped = WindowEnd { outcome: DigestOutcome::Dropped, why: "ticket 812".into() };
    for _ in 0..2 {
        assert_eq!(bench.cancelled(&key).await, Some(dropped.clone()));
    }
    assert!(!bench.passes(&key, 1).await);
    assert!(
        bench.store.begin_attempt(key.message_id(), "relay", Duration::ZERO, at(301)).await.unwrap()
            == AttemptStart::Closed(dropped)
    );
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit
                   WHERE action = 'close' AND actor = 'carol' AND why = 'cancelled: ticket 812' AND message IS NOT NULL";
    assert_eq!((bench.state(&key).await, bench.value(audited).await.as_str()), (MessageState::Cancelled, "1"));

    let past = bench.put("past").await;
    bench.go(&past).await;
    assert!(bench.passes(&past, 1).await);
    assert_eq!(bench.cancelled(&past).await.unwrap().outcome, DigestOutcome::Ambiguous);
    bench.ends(&past, 1, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    let record = bench.record(&past).await;
    assert_eq!((record.state, record.sent_at), (MessageState::Ambiguous, Some(at(202))));
    assert!(refusal(bench.retried(&past, true).await).contains("took it"));
    assert_eq!(bench.cancelled(&MessageKey::new("acme".into(), "none".into()).unwrap()).await, None);
}

pub async fn a_retry_takes_up_what_came_to_nothing(bench: &Bench) {
    let key = bench.put("k").await;
    bench.go(&key).await;
    bench.ends(&key, 1, ends(AttemptClass::Failed, DigestOutcome::Failed)).await;
    assert_eq!(bench.retried(&key, false).await, RetryResult::Queued);
    assert_eq!((bench.state(&key).await, bench.record(&key).await.why), (MessageState::Queued, String::new()));
    assert_eq!(bench.go(&key).await, (2, 0));
    assert!(bench.passes(&key, 2).await);
    // What went past the dot is repeated only where that does no harm, and then it is forgiven.
    assert!(refusal(bench.retried(&key, false).await).contains("--may-duplicate"));
    assert_eq!(bench.retried(&key, true).await, RetryResult::Queued);
    assert_eq!(bench.go(&key).await, (3, 0));
    bench.ends(&key, 3, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert!(refusal(bench.retried(&key, true).await).contains("took it"));
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'retry' AND why = 'ticket 813'";
    assert_eq!(bench.value(audited).await, "1", "one command at one time");
    let none = MessageKey::new("acme".into(), "none".into()).unwrap();
    assert!(refusal(bench.retried(&none, false).await).contains("no message acme/none"));
}

pub async fn a_digests_message_has_its_digests_end(bench: &Bench) {
    for (n, past, outcome) in [(0, false, MessageState::Cancelled), (1, true, MessageState::Ambiguous)] {
        let window = bench.rendered(n).await;
        bench.begin(&window).await;
        assert!(!past || bench.dot(&window, 1).await);
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
        let record = async || bench.store.message(window.digest_id).await.unwrap().unwrap();
        assert_eq!((record().await.state, record().await.closed_at), (outcome, Some(at(5))));
        let order = CommandContext { by: "carol".into(), why: "ticket 812".into() };
        let reopen = ReopenCommand { order, digest_id: window.digest_id, may_duplicate: past };
        let input = ReopenInput { asked_at: at(400), key: key("ann"), reopen };
        bench.store.reopen_digest(&input, at(401)).await.unwrap();
        assert_eq!((record().await.state, record().await.closed_at), (MessageState::Queued, None));
        assert_eq!(bench.begin(&window).await, (2, 0));
        bench.ended(&window, 2, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
        assert_eq!(record().await.state, MessageState::Sent);
    }
}

pub async fn messages_are_listed_latest_first_by_tenant_and_state(bench: &Bench) {
    for (n, name) in [(1, "a"), (3, "b"), (2, "c")] {
        let message = single("acme", name, "body");
        bench.store.put_message(&OutboxMessage { made_at: at(n), ..message }, None).await.unwrap();
    }
    bench.store.put_message(&single("other", "d", "body"), None).await.unwrap();
    bench.rendered(0).await;
    let names = |rows: &[MessageRecord]| {
        let names = rows.iter().map(|record| match &record.origin {
            MessageOrigin::Digest(key) => key.user.clone(),
            MessageOrigin::Single { key, .. } => key.key.clone(),
        });
        names.collect::<Vec<_>>().join(" ")
    };
    bench.go(&MessageKey::new("acme".into(), "c".into()).unwrap()).await;
    let listed = async |tenant: Option<&str>, state: Option<MessageState>, limit: u32| {
        let filter =
            MessageFilter { tenant: tenant.map(str::to_owned), state, page: PageRequest { limit, after: None } };
        names(&bench.store.messages(&filter).await.unwrap().rows)
    };
    assert_eq!(listed(Some("acme"), None, 9).await, "ann b c a");
    assert_eq!(listed(Some("acme"), None, 2).await, "ann b");
    assert_eq!(listed(Some("other"), Some(MessageState::Queued), 9).await, "d");
    assert_eq!(listed(None, Some(MessageState::Sending), 9).await, "c");
    assert_eq!(listed(None, Some(MessageState::Failed), 9).await, "");
    // A message that comes between two pages neither repeats nor hides another one.
    let mut filter =
        MessageFilter { tenant: Some("acme".into()), state: None, page: PageRequest { limit: 2, after: None } };
    let first = bench.store.messages(&filter).await.unwrap();
    bench.store.put_message(&OutboxMessage { made_at: at(999), ..single("acme", "e", "body") }, None).await.unwrap();
    filter.page.after = first.next;
    let second = bench.store.messages(&filter).await.unwrap();
    assert_eq!((names(&first.rows), names(&second.rows), second.next), ("ann b".into(), "c a".into(), None));
}

pub async fn whether_an_address_is_suppressed_is_asked_by_tenant_and_without_case(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    let suppression = Suppression {
        tenant: "acme".into(),
        address: "Ann@Example.com".into(),
        reason: SuppressionReason::Complaint,
        detail: String::new(),
        at: at(1),
    };
    bench.store.suppress(&suppression).await.unwrap();
    let asked = async |tenant, address| bench.store.suppression_reasons(tenant, address).await.unwrap();
    assert_eq!(asked("acme", "aNN@example.com").await, [SuppressionReason::Complaint]);
    let bounce = Suppression { reason: SuppressionReason::HardBounce, at: at(2), ..suppression };
    bench.store.suppress(&bounce).await.unwrap();
    assert_eq!(asked("acme", "ann@example.com").await, [SuppressionReason::Complaint, SuppressionReason::HardBounce]);
    assert_eq!(asked("other", "ann@example.com").await, []);
    assert_eq!(asked("acme", "bo@example.com").await, []);
}
