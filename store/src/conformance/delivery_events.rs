//! Reports about messages: each counts once, in any order, and never across tenants.

use std::time::Duration;

use futures::future::join_all;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tidings_model::{
    Key, MessageKey,
    attempt::AttemptClass,
    delivery_events::{BounceKind, CheckedDeliveryEvent, DeliveryReport, EventEffect, MessageReference, ReportKind},
    records::{AttemptStart, MessageOrigin, MessageRecord, MessageState, OutboxMessage, SuppressionReason},
    window::{DigestOutcome, Window},
};
use uuid::Uuid;

use super::{Bench, at, end, ends, entry, events, message, window_of};

pub(super) const HARD: ReportKind = ReportKind::Bounced(BounceKind::Hard);
pub(super) const SOFT: ReportKind = ReportKind::Bounced(BounceKind::Soft);
/// Consecutive soft bounces that suppress an address here.
pub(super) const MOST: u32 = 2;

pub(super) fn reported(message: Uuid, kind: ReportKind, seconds: i64) -> CheckedDeliveryEvent {
    let (of, report) = (vec![MessageReference::Id(message)], DeliveryReport::new(kind, at(seconds)));
    CheckedDeliveryEvent {
        relay: Some("relay".into()),
        reports_for: Vec::new(),
        tenant: None,
        of,
        report,
        event_id: None,
    }
}

/// The message of a digest, for any tenant's key.
pub(super) fn of_digest(window: &Window, address: &str) -> OutboxMessage {
    let message_id = format!("{}@example.com", window.digest_id);
    OutboxMessage { envelope_to: address.into(), message_id, ..message(window, "body") }
}

pub(super) fn single(tenant: &str, name: &str, address: &str) -> OutboxMessage {
    let key = MessageKey::new(tenant.into(), name.into()).unwrap();
    let (id, message_id) = (key.message_id(), format!("{}@example.com", key.message_id()));
    let origin = MessageOrigin::Single { key, user: None, content_sha256: "body".into() };
    let window = window_of(&Key::new(tenant.into(), "none".into(), "none".into()).unwrap(), 0);
    OutboxMessage { id, origin, message_id, ..of_digest(&window, address) }
}

pub(super) fn key_of(tenant: &str, user: &str) -> Key {
    Key::new(tenant.into(), "activity".into(), user.into()).unwrap()
}

impl Bench {
    async fn tell(&self, event: &CheckedDeliveryEvent) -> Option<EventEffect> {
        self.store.put_delivery_event(event, MOST, at(5_000)).await.unwrap()
    }

    async fn told(&self, message: Uuid, kind: ReportKind, seconds: i64) -> EventEffect {
        self.tell(&reported(message, kind, seconds)).await.unwrap()
    }

    pub(super) async fn said_of(&self, message: Uuid) -> MessageRecord {
        self.store.message(message).await.unwrap().unwrap()
    }

    pub(super) async fn state_of(&self, message: Uuid) -> (MessageState, String) {
        let record = self.said_of(message).await;
        (record.state, record.why)
    }

    pub(super) async fn reasons(&self, tenant: &str, address: &str) -> Vec<SuppressionReason> {
        self.store.suppression_reasons(tenant, address).await.unwrap()
    }

    /// Marks the message as past the dot, and stops there.
    pub(super) async fn past_the_dot(&self, message: Uuid) -> u32 {
        match self.store.begin_attempt(message, "relay", Duration::ZERO, at(200)).await.unwrap() {
            AttemptStart::Proceed { number, .. } => {
                assert!(self.store.mark_in_doubt(message, number, at(201)).await.unwrap());
                number
            }
            AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
            AttemptStart::Closed(closed) => panic!("closed: {closed:?}"),
        }
    }

    pub(super) async fn sent(&self, message: Uuid) {
        let number = self.past_the_dot(message).await;
        self.store.end_attempt(message, number, &ends(AttemptClass::Sent, DigestOutcome::Sent), at(202)).await.unwrap();
    }

    /// The message of a user's `n`th digest, in the outbox.
    pub(super) async fn digest_of(&self, key: &Key, n: i64, address: &str) -> Window {
        let window = window_of(key, n);
        self.claim(&window, &events(&[&format!("{n}")]), at(1)).await;
        self.store.put_message(&of_digest(&window, address), None).await.unwrap();
        window
    }

    pub(super) async fn sent_digest(&self, user: &str, n: i64) -> Uuid {
        let id = self.digest_of(&key_of("acme", user), n, &format!("{user}@example.com")).await.digest_id;
        self.sent(id).await;
        id
    }
}

pub async fn an_event_is_recorded_once_however_often_it_is_told(bench: &Bench) {
    let id = bench.sent_digest("ann", 0).await;
    let bounce = reported(id, HARD, 300);
    let first = bench.tell(&bounce).await.unwrap();
    assert_eq!((first.again, first.against.as_ref().map(|against| against.relay.as_str())), (false, Some("relay")));
    for event_id in [None, Some("another".to_owned())] {
        let again = bench.tell(&CheckedDeliveryEvent { event_id, ..bounce.clone() }).await.unwrap();
        assert_eq!(again, EventEffect { again: true, against: None, ..first.clone() });
    }
    let records = bench.store.delivery_events(id).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0].report, records[0].received_at), (&bounce.report, at(5_000)));
    assert_eq!(bench.state_of(id).await, (MessageState::Failed, "bounced".into()));
    assert_eq!(bench.reasons("acme", "ANN@example.com").await, [SuppressionReason::HardBounce]);
    let digest = bench.store.digest(id).await.unwrap().unwrap();
    assert_eq!(
        digest.closed.map(|closed| closed.outcome),
        Some(DigestOutcome::Sent),
        "what we did stays in the ledger"
    );
}

pub async fn of_the_same_event_told_by_many_at_once_one_is_new(bench: &Bench) {
    let id = bench.sent_digest("ann", 0).await;
    let told = join_all((0..8).map(|_| bench.told(id, ReportKind::Unsubscribed, 300))).await;
    assert_eq!(told.iter().filter(|recorded| !recorded.again).count(), 1);
    assert!(told.iter().all(|recorded| recorded.withdrawn == Some(key_of("acme", "ann"))));
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'withdraw consent' AND actor = 'recipient'
                   AND why LIKE 'unsubscribed by the relay relay from message %'";
    assert_eq!(bench.value(audited).await, "1");
}

pub async fn many_messages_that_bounce_at_once_are_counted_together(bench: &Bench) {
    for round in 0..4 {
        let address = format!("ann{round}@example.com");
        let mut events = Vec::new();
        for n in 0..12 {
            let message = single("acme", &format!("{round}/{n}"), &address);
            bench.store.put_message(&message, None).await.unwrap();
            bench.sent(message.id).await;
            events.push(reported(message.id, SOFT, 300 + n));
        }
        let told = join_all(events.iter().map(|event| bench.store.put_delivery_event(event, 12, at(400)))).await;
        assert!(told.into_iter().all(|recorded| recorded.unwrap().is_some()));
        assert_eq!(bench.reasons("acme", &address).await, [SuppressionReason::SoftBounces]);
    }
}

pub async fn what_no_relay_was_given_is_unknown(bench: &Bench) {
    let window = bench.digest_of(&key_of("acme", "ann"), 0, "ann@example.com").await;
    for id in [Uuid::from_u128(7), window.digest_id] {
        assert_eq!(bench.tell(&reported(id, HARD, 300)).await, None);
    }
    let number = match bench.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(200)).await.unwrap() {
        AttemptStart::Proceed { number, .. } => number,
        AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
        AttemptStart::Closed(closed) => panic!("{closed:?}"),
    };
    bench.store.end_attempt(window.digest_id, number, &end(AttemptClass::Deferred), at(201)).await.unwrap();
    assert_eq!(bench.tell(&reported(window.digest_id, HARD, 300)).await, None);
    assert_eq!(bench.reasons("acme", "ann@example.com").await, []);
    assert!(bench.store.delivery_events(window.digest_id).await.unwrap().is_empty());
}

pub async fn one_tenants_webhook_reaches_no_message_of_another(bench: &Bench) {
    let messages = ["acme", "other"].map(|tenant| single(tenant, "k", "ann@example.com"));
    for message in &messages {
        bench.store.put_message(message, None).await.unwrap();
        bench.sent(message.id).await;
    }
    let [ours, theirs] = &messages;
    for of in [MessageReference::Id(theirs.id), MessageReference::MessageId(theirs.message_id.clone())] {
        let event =
            CheckedDeliveryEvent { tenant: Some("acme".into()), of: vec![of], ..reported(theirs.id, HARD, 300) };
        assert_eq!(bench.tell(&event).await, None);
    }
    assert_eq!(bench.state_of(theirs.id).await.0, MessageState::Sent);

    // One provider's id of an event does not stand for another tenant's event.
    for (message, tenant) in [(ours, "acme"), (theirs, "other")] {
        let of = vec![MessageReference::MessageId(message.message_id.clone())];
        let event_id = Some("e1".to_owned());
        let event = CheckedDeliveryEvent {
            tenant: Some(tenant.into()),
            of,
            event_id,
            ..reported(message.id, ReportKind::Complained, 300)
        };
        assert!(!bench.tell(&event).await.unwrap().again);
        assert_eq!(bench.reasons(tenant, "ann@example.com").await, [SuppressionReason::Complaint]);
        bench.told(ours.id, HARD, 301).await;
        assert!(!bench.reasons("other", "ann@example.com").await.contains(&SuppressionReason::HardBounce));
    }
}

pub async fn a_delivery_resolves_what_nobody_knew(bench: &Bench) {
    // Past the dot, and to be tried again: it must not be.
    let retried = bench.digest_of(&key_of("acme", "ann"), 0, "ann@example.com").await.digest_id;
    let number = bench.past_the_dot(retried).await;
    bench.store.end_attempt(retried, number, &end(AttemptClass::Ambiguous), at(202)).await.unwrap();
    bench.told(retried, ReportKind::Opened, 300).await;
    assert_eq!(bench.state_of(retried).await.0, MessageState::Deferred, "a machine may have opened it");
    bench.told(retried, ReportKind::Delivered, 301).await;
    assert_eq!(bench.state_of(retried).await.0, MessageState::Delivered);
    assert_eq!(bench.said_of(retried).await.sent_at, Some(at(201)));
    match bench.store.begin_attempt(retried, "relay", Duration::ZERO, at(400)).await.unwrap() {
        AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
        AttemptStart::Closed(closed) => assert_eq!(closed.outcome, DigestOutcome::Sent),
        AttemptStart::Proceed { .. } => panic!("a second mail"),
    }
    assert_eq!(bench.store.facts(&key_of("acme", "ann")).await.unwrap().last_sent_at, Some(at(201)));

    // The next attempt is under way already: its dot is refused.
    let overtaken = bench.digest_of(&key_of("acme", "cy"), 0, "cy@example.com").await.digest_id;
    bench.past_the_dot(overtaken).await;
    let started = bench.store.begin_attempt(overtaken, "relay", Duration::ZERO, at(203)).await.unwrap();
    let AttemptStart::Proceed { number: second, ambiguous: 1, .. } = started else {
        panic!("the first attempt is ambiguous");
    };
    bench.told(overtaken, ReportKind::Delivered, 301).await;
    assert!(!bench.store.mark_in_doubt(overtaken, second, at(302)).await.unwrap());
    bench.store.end_attempt(overtaken, second, &end(AttemptClass::Fenced), at(303)).await.unwrap();
    assert_eq!(bench.state_of(overtaken).await.0, MessageState::Delivered);

    // Ended as ambiguous: the digest says what we know of what we did, the message what became of it.
    let ended = bench.digest_of(&key_of("acme", "bo"), 0, "bo@example.com").await.digest_id;
    let number = bench.past_the_dot(ended).await;
    bench
        .store
        .end_attempt(ended, number, &ends(AttemptClass::Ambiguous, DigestOutcome::Ambiguous), at(202))
        .await
        .unwrap();
    bench.told(ended, ReportKind::Delivered, 301).await;
    assert_eq!(bench.state_of(ended).await, (MessageState::Delivered, String::new()));
    let outcome = bench.store.digest(ended).await.unwrap().unwrap().closed.map(|closed| closed.outcome);
    assert_eq!(outcome, Some(DigestOutcome::Ambiguous));
}

pub async fn an_event_that_is_faster_than_the_relays_reply_ends_the_same(bench: &Bench) {
    for (user, kind, state) in
        [("ann", ReportKind::Delivered, MessageState::Delivered), ("bo", HARD, MessageState::Failed)]
    {
        let id = bench.digest_of(&key_of("acme", user), 0, &format!("{user}@example.com")).await.digest_id;
        let number = bench.past_the_dot(id).await;
        bench.told(id, kind, 201).await;
        // Its worker may be dead, and the reply lost.
        let attempt = bench.store.attempts(id).await.unwrap().remove(0);
        assert_eq!((attempt.class, attempt.late), (Some(AttemptClass::Ambiguous), None));
        bench.store.end_attempt(id, number, &ends(AttemptClass::Sent, DigestOutcome::Sent), at(202)).await.unwrap();
        let late = bench.store.attempts(id).await.unwrap().remove(0).late;
        assert_eq!(late.map(|late| late.class), Some(AttemptClass::Sent));
        assert_eq!(bench.state_of(id).await.0, state);
        let outcome = bench.store.digest(id).await.unwrap().unwrap().closed.map(|closed| closed.outcome);
        assert_eq!(outcome, Some(DigestOutcome::Sent));
    }
}

pub async fn soft_bounces_count_until_the_address_takes_a_message(bench: &Bench) {
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(bench.sent_digest("ann", n).await);
    }
    let reasons = async || bench.reasons("acme", "ann@example.com").await;
    bench.told(ids[0], SOFT, 300).await;
    bench.told(ids[0], SOFT, 310).await;
    assert_eq!(reasons().await, [], "one message");
    bench.told(ids[1], ReportKind::Delivered, 320).await;
    bench.told(ids[2], SOFT, 330).await;
    assert_eq!(reasons().await, [], "a delivery between");
    bench.told(ids[3], SOFT, 340).await;
    assert_eq!(reasons().await, [SuppressionReason::SoftBounces]);
    bench.told(ids[2], ReportKind::Delivered, 335).await;
    assert_eq!(reasons().await, [], "it was delivered after all, between them");
}

pub async fn a_late_unsubscription_is_not_over_a_newer_choice(bench: &Bench) {
    let id = bench.sent_digest("ann", 0).await;
    let key = key_of("acme", "ann");
    let wanted = async || bench.store.facts(&key).await.unwrap().consent;
    bench.told(id, ReportKind::Unsubscribed, 300).await;
    assert!(!wanted().await);
    bench.store.put_consent(&key, true, &entry(4_000, "ann", "grant consent")).await.unwrap();
    for seconds in [300, 400] {
        bench.told(id, ReportKind::Unsubscribed, seconds).await;
        assert!(wanted().await, "it happened before");
    }
    bench.told(id, ReportKind::Unsubscribed, 4_001).await;
    assert!(!wanted().await);

    // What they wanted already they may want once more.
    for seconds in [4_500, 4_900] {
        bench.store.put_consent(&key, true, &entry(seconds, "ann", "grant consent")).await.unwrap();
    }
    bench.told(id, ReportKind::Unsubscribed, 4_700).await;
    assert!(wanted().await, "it happened before they said so last");

    bench.store.put_consent(&key, true, &entry(90_000, "ann", "grant consent")).await.unwrap();
    bench.told(id, ReportKind::Unsubscribed, 4_950).await;
    assert!(!wanted().await, "a clock that was ahead does not outvote a no");
}

/// Three messages to one address with their reports. No report accepts the second.
pub(super) struct Story {
    tenant: String,
    pub(super) messages: [Uuid; 3],
}

impl Story {
    pub(super) async fn begin(bench: &Bench, tenant: String) -> Self {
        let address = "ann@example.com";
        let key = key_of(&tenant, "ann");
        let sent = bench.digest_of(&key, 0, address).await.digest_id;
        let ambiguous = bench.digest_of(&key, 1, address).await.digest_id;
        let single = single(&tenant, "k", address);
        bench.store.put_message(&single, None).await.unwrap();
        bench.sent(sent).await;
        bench.sent(single.id).await;
        let number = bench.past_the_dot(ambiguous).await;
        bench.store.end_attempt(ambiguous, number, &end(AttemptClass::Ambiguous), at(202)).await.unwrap();
        Self { tenant, messages: [sent, ambiguous, single.id] }
    }

    async fn end(&self, bench: &Bench, told: &[(usize, usize, i64)]) -> String {
        for (message, kind, seconds) in told {
            bench.told(self.messages[*message], ReportKind::ALL[*kind], 300 + seconds).await;
        }
        self.left(bench).await
    }

    /// What remains, whatever the tenant's name.
    pub(super) async fn left(&self, bench: &Bench) -> String {
        let mut states = Vec::new();
        for message in self.messages {
            let MessageRecord { state, why, sent_at, closed_at, .. } = bench.said_of(message).await;
            states.push((state, why, sent_at, closed_at.is_some()));
        }
        let reasons = bench.reasons(&self.tenant, "ann@example.com").await;
        let consent = bench.store.facts(&key_of(&self.tenant, "ann")).await.unwrap().consent;
        format!("{states:?} {reasons:?} {consent}")
    }
}

pub async fn events_lead_to_the_same_in_any_order_and_however_often_they_come(bench: &Bench) {
    let mut runner = TestRunner::deterministic();
    let some = proptest::collection::vec((0..3_usize, 0..ReportKind::ALL.len(), 0..5_i64), 1..9);
    let stories = some.prop_flat_map(|told| {
        let again = proptest::sample::subsequence(told.clone(), 0..=told.len());
        (Just(told), again).prop_flat_map(|(told, again)| {
            let all = Just([told.clone(), again].concat()).prop_shuffle();
            (Just(told), all)
        })
    });
    for n in 0..30 {
        let (told, shuffled) = stories.new_tree(&mut runner).unwrap().current();
        let mut canonical = told.clone();
        canonical.sort_unstable();
        let [one, other] = ["a", "b"].map(|which| Story::begin(bench, format!("tenant {n} {which}")));
        let (one, other) = (one.await, other.await);
        assert_eq!(one.end(bench, &canonical).await, other.end(bench, &shuffled).await, "{shuffled:?}");
    }
    let ends = "SELECT CAST(COUNT(DISTINCT state || COALESCE(why, '')) AS TEXT) FROM messages";
    assert!(bench.value(ends).await.parse::<u32>().unwrap() >= 5, "the stories have different ends");
}
