//! Webhook requests are recorded as a whole, once, in any order.

use std::collections::BTreeSet;

use futures::future::join_all;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use tidings_model::{
    attempt::AttemptClass,
    delivery_events::{
        CheckedDeliveryEvent, DeliveryReport, EventEffect, EventRejection, MessageReference, OneTimeToken, ReportKind,
        RequestRecorded, UnusablePart, WebhookRequest,
    },
    records::{AttemptEnd, MessageState, SuppressionReason},
    retention::{RetentionCutoff, RetentionKind as Kept},
    window::DigestOutcome,
};
use uuid::Uuid;

use super::{
    Bench, at,
    delivery_events::{HARD, MOST, SOFT, Story, key_of, reported, single},
    ends,
};

const REPORTS: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM delivery_events";
const LETTERS: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM webhook_dead_letters";
const TOKENS: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM webhook_tokens";

fn request(events: Vec<CheckedDeliveryEvent>) -> WebhookRequest {
    WebhookRequest { relay: "relay".into(), events, ..WebhookRequest::default() }
}

fn unusable(n: u8) -> UnusablePart {
    let (sha256, head) = (format!("{n:064}"), "\u{0}x".into());
    UnusablePart { reason: "no event".into(), size: 1, sha256, head, whole: true, ids: BTreeSet::new() }
}

fn token(body: &str) -> OneTimeToken {
    OneTimeToken { token: "0".repeat(50), body_sha256: body.into() }
}

impl Bench {
    async fn request(&self, request: &WebhookRequest, seconds: i64) -> RequestRecorded {
        self.store.put_webhook_request(request, MOST, at(seconds)).await.unwrap()
    }

    /// The effects of a request without a token, or with a valid one.
    async fn requested(&self, request: &WebhookRequest) -> Vec<Option<EventEffect>> {
        match self.request(request, 5_000).await {
            RequestRecorded::Events(recorded) => recorded.into_iter().map(Result::ok).collect(),
            RequestRecorded::TokenOfAnotherBody => panic!("the token is good"),
        }
    }
}

pub async fn a_request_is_recorded_as_a_whole_and_once(bench: &Bench) {
    let (ann, bo) = (bench.sent_digest("ann", 0).await, bench.sent_digest("bo", 0).await);
    let events = vec![
        reported(bo, ReportKind::Unsubscribed, 300),
        reported(Uuid::from_u128(7), HARD, 300),
        reported(ann, HARD, 301),
        reported(ann, ReportKind::Delivered, 299),
        reported(ann, HARD, 301),
    ];
    let request = WebhookRequest { unusable: vec![unusable(2), unusable(1), unusable(2)], ..request(events) };
    let recorded = bench.requested(&request).await;
    let recorded_as =
        |recorded: &Option<EventEffect>| recorded.as_ref().map(|recorded| (recorded.message, recorded.again));
    let once = [Some((bo, false)), None, Some((ann, false)), Some((ann, false)), Some((ann, true))];
    assert_eq!(recorded.iter().map(recorded_as).collect::<Vec<_>>(), once);
    assert_eq!(recorded[0].as_ref().unwrap().withdrawn, Some(key_of("acme", "bo")));
    assert_eq!(recorded[2].as_ref().unwrap().against.as_ref().map(|against| against.relay.as_str()), Some("relay"));
    assert_eq!(bench.state_of(ann).await, (MessageState::Failed, "bounced".into()));
    assert_eq!(bench.reasons("acme", "ann@example.com").await, [SuppressionReason::HardBounce]);

    let again = bench.requested(&request).await;
    assert!(again.iter().flatten().all(|recorded| recorded.again && recorded.against.is_none()));
    assert_eq!((bench.value(REPORTS).await, bench.value(LETTERS).await), ("3".into(), "2".into()));
}

/// Fast enough for one request: inputs for the effects are read once, not per report.
pub async fn a_thousand_reports_about_one_message_have_the_effects_of_the_first_and_the_last(bench: &Bench) {
    const MANY: i64 = 1_000;
    let ann = bench.sent_digest("ann", 0).await;
    // Each second once, in another order.
    let events: Vec<_> = (0..MANY).map(|n| reported(ann, HARD, 300 + n * 7 % MANY)).collect();
    let recorded = bench.requested(&request(events)).await;
    let counted = recorded.iter().flatten().filter(|recorded| !recorded.again && recorded.against.is_some()).count();
    assert_eq!((counted, bench.value(REPORTS).await), (1_000, MANY.to_string()));
    let suppressed_at = bench.value("SELECT CAST(suppressed_at AS TEXT) FROM suppressions").await;
    assert_eq!(suppressed_at, at(300).as_millisecond().to_string());
    assert_eq!(bench.state_of(ann).await.0, MessageState::Failed);
}

pub async fn a_token_counts_for_one_body_only(bench: &Bench) {
    let ann = bench.sent_digest("ann", 0).await;
    let first =
        WebhookRequest { token: Some(token("one")), ..request(vec![reported(ann, ReportKind::Delivered, 300)]) };
    bench.requested(&first).await;
    let forged = WebhookRequest {
        token: Some(token("two")),
        unusable: vec![unusable(1)],
        ..request(vec![reported(ann, ReportKind::Complained, 300)])
    };
    assert_eq!(bench.request(&forged, 5_000).await, RequestRecorded::TokenOfAnotherBody);
    assert_eq!(bench.reasons("acme", "ann@example.com").await, []);
    assert_eq!(bench.value(LETTERS).await, "0");
    assert!(bench.requested(&first).await[0].as_ref().unwrap().again);

    // Of many bodies with one token at once, one counts.
    let fresh = |n: usize| OneTimeToken { token: "1".repeat(50), body_sha256: n.to_string() };
    let requests: Vec<_> = (0..6).map(|n| WebhookRequest { token: Some(fresh(n)), ..request(vec![]) }).collect();
    let answers = join_all(requests.iter().map(|request| bench.request(request, 5_000))).await;
    let counted = answers.iter().filter(|answer| **answer == RequestRecorded::Events(vec![])).count();
    assert_eq!(counted, 1);
}

pub async fn a_request_of_another_relay_may_have_the_same_token(bench: &Bench) {
    for relay in ["relay", "other"] {
        let request = WebhookRequest { relay: relay.into(), token: Some(token(relay)), ..request(vec![]) };
        assert_eq!(bench.request(&request, 5_000).await, RequestRecorded::Events(vec![]));
    }
}

pub async fn tokens_go_when_no_request_can_bring_them_any_more(bench: &Bench) {
    let of = |n: i64| OneTimeToken { token: format!("{n:050}"), body_sha256: "body".into() };
    for n in 0..5 {
        bench.request(&WebhookRequest { token: Some(of(n)), ..request(vec![]) }, n).await;
    }
    let day = 25 * 3_600;
    bench.request(&WebhookRequest { token: Some(of(10)), ..request(vec![]) }, day + 3).await;
    let left = bench.value("SELECT MIN(token) FROM webhook_tokens").await;
    assert_eq!((left, bench.value(TOKENS).await), (format!("{:050}", 3), "3".into()));
}

pub async fn requests_lead_to_the_same_in_any_order_and_division(bench: &Bench) {
    let mut runner = TestRunner::deterministic();
    let event = (0..3_usize, 0..ReportKind::ALL.len(), 0..5_i64, any::<bool>());
    let stories = proptest::collection::vec(event, 1..9).prop_flat_map(|told| {
        let again = proptest::sample::subsequence(told.clone(), 0..=told.len());
        (Just(told), again, 1..4_usize).prop_flat_map(|(told, again, size)| {
            (Just(told.clone()), Just([told, again].concat()).prop_shuffle(), Just(size))
        })
    });
    let told = |story: &Story, events: &[(usize, usize, i64, bool)]| -> WebhookRequest {
        let event = |(message, kind, seconds, never_sent): &(usize, usize, i64, bool)| {
            let event = reported(story.messages[*message], ReportKind::ALL[*kind], 300 + seconds);
            let never_sent = *never_sent && event.report.kind.fits_never_sent();
            CheckedDeliveryEvent { report: DeliveryReport { never_sent, ..event.report.clone() }, ..event }
        };
        request(events.iter().map(event).collect())
    };
    for n in 0..30 {
        let (mut canonical, shuffled, size) = stories.new_tree(&mut runner).unwrap().current();
        canonical.sort_unstable();
        let one = Story::begin(bench, format!("tenant {n} a")).await;
        let other = Story::begin(bench, format!("tenant {n} b")).await;
        bench.requested(&told(&one, &canonical)).await;
        for part in shuffled.chunks(size) {
            bench.requested(&told(&other, part)).await;
        }
        assert_eq!(one.left(bench).await, other.left(bench).await, "{shuffled:?} by {size}");
    }
    let ends = "SELECT CAST(COUNT(DISTINCT state || COALESCE(why, '')) AS TEXT) FROM messages";
    assert!(bench.value(ends).await.parse::<u32>().unwrap() >= 8, "the stories have different ends");
}

pub async fn requests_about_the_same_messages_at_once_all_succeed(bench: &Bench) {
    let mut ids = Vec::new();
    for n in 0..6 {
        let message = single("acme", &n.to_string(), &format!("ann{}@example.com", n % 3));
        bench.store.put_message(&message, None).await.unwrap();
        bench.sent(message.id).await;
        ids.push(message.id);
    }
    let requests: Vec<_> = (0..8_usize)
        .map(|n| {
            let turned = ids.iter().cycle().skip(n).step_by(if n % 2 == 0 { 1 } else { 5 }).take(6);
            let events = turned.zip(0..).map(|(id, second)| reported(*id, SOFT, 300 + second)).collect();
            WebhookRequest {
                unusable: (0..4).map(|i| unusable((i + u8::try_from(n).unwrap()) % 4)).collect(),
                ..request(events)
            }
        })
        .collect();
    let answers = join_all(requests.iter().map(|request| bench.store.put_webhook_request(request, 2, at(400)))).await;
    for answer in answers {
        answer.unwrap();
    }
    for n in 0..3 {
        assert_eq!(bench.reasons("acme", &format!("ann{n}@example.com")).await, [SuppressionReason::SoftBounces]);
    }
    assert_eq!(bench.value(LETTERS).await, "4");
}

pub async fn a_message_is_found_by_the_id_that_the_relay_gave_it(bench: &Bench) {
    let mut messages = Vec::new();
    for (tenant, name, relay_id) in [("acme", "a", "r1"), ("acme", "b", "r2"), ("other", "a", "r2")] {
        let message = single(tenant, name, "ann@example.com");
        bench.store.put_message(&message, None).await.unwrap();
        let number = bench.past_the_dot(message.id).await;
        let end = AttemptEnd { relay_id: Some(relay_id.into()), ..ends(AttemptClass::Sent, DigestOutcome::Sent) };
        bench.store.end_attempt(message.id, number, &end, at(202)).await.unwrap();
        assert_eq!(bench.store.attempts(message.id).await.unwrap()[0].relay_id.as_deref(), Some(relay_id));
        messages.push(message);
    }
    let found = async |tenant: Option<&str>, of: Vec<MessageReference>| {
        let event = CheckedDeliveryEvent {
            of,
            tenant: tenant.map(str::to_owned),
            ..reported(Uuid::nil(), ReportKind::Opened, 300)
        };
        bench.requested(&request(vec![event])).await.remove(0).map(|recorded| recorded.message)
    };
    let by = |id: &str| MessageReference::RelayId(id.into());
    let by_message_id = |n: usize| MessageReference::MessageId(messages[n].message_id.clone());
    assert_eq!(found(None, vec![by("r1")]).await, Some(messages[0].id));
    assert_eq!(found(None, vec![by("r2")]).await, None, "it could be two");
    assert_eq!(found(Some("other"), vec![by("r2")]).await, Some(messages[2].id));
    assert_eq!(found(None, vec![by("")]).await, None);
    assert_eq!(found(None, vec![by_message_id(1), by("r1")]).await, Some(messages[1].id));
    assert_eq!(
        found(None, vec![MessageReference::MessageId("none@example.com".into()), by("r1")]).await,
        Some(messages[0].id)
    );
}

pub async fn a_relay_reports_about_the_messages_that_it_was_given_and_no_others(bench: &Bench) {
    let (ann, bo) = (bench.sent_digest("ann", 0).await, bench.sent_digest("bo", 0).await);
    let by = |relay: &str, reports_for: &[&str], event: CheckedDeliveryEvent| {
        let reports_for = reports_for.iter().map(|&name| name.to_owned()).collect();
        CheckedDeliveryEvent { relay: Some(relay.into()), reports_for, ..event }
    };
    let by_message_id = MessageReference::MessageId(format!("{ann}@example.com"));
    let of_relay_id =
        CheckedDeliveryEvent { of: vec![MessageReference::RelayId("none".into())], ..reported(ann, HARD, 300) };
    let foreign = vec![
        by("other", &[], reported(ann, HARD, 300)),
        by(
            "other",
            &["another"],
            CheckedDeliveryEvent { of: vec![by_message_id], ..reported(ann, ReportKind::Complained, 300) },
        ),
        by("other", &[], of_relay_id),
        by("relay", &[], reported(bo, ReportKind::Unsubscribed, 300)),
    ];
    let RequestRecorded::Events(recorded) = bench.request(&request(foreign), 5_000).await else { panic!("no token") };
    let unrecorded: Vec<_> = recorded.iter().map(|recorded| recorded.as_ref().err().copied()).collect();
    let (other, unknown) = (Some(EventRejection::OtherRelay), Some(EventRejection::UnknownMessage));
    assert_eq!(unrecorded, [other, other, unknown, None], "the others of the request count");
    assert_eq!(bench.reasons("acme", "ann@example.com").await, []);
    assert_eq!((bench.state_of(ann).await.0, bench.value(REPORTS).await), (MessageState::Sent, "1".into()));

    let renamed = by("today", &["former", "relay"], reported(ann, HARD, 301));
    let recorded = bench.requested(&request(vec![renamed])).await.remove(0).unwrap();
    assert_eq!(recorded.against.unwrap().relay, "relay", "the name at the attempt");
    assert_eq!(bench.reasons("acme", "ann@example.com").await, [SuppressionReason::HardBounce]);
}

pub async fn what_the_provider_kept_back_suppresses_the_address_and_not_the_relay(bench: &Bench) {
    let kept_back = |id: Uuid, kind: ReportKind| {
        let event = reported(id, kind, 300);
        CheckedDeliveryEvent { report: DeliveryReport { never_sent: true, ..event.report.clone() }, ..event }
    };
    let (ann, bo) = (bench.sent_digest("ann", 0).await, bench.sent_digest("bo", 0).await);
    let recorded = bench.requested(&request(vec![kept_back(ann, HARD), kept_back(bo, ReportKind::Complained)])).await;
    assert!(recorded.iter().flatten().all(|recorded| recorded.against.is_none() && !recorded.again));
    assert_eq!(bench.reasons("acme", "ann@example.com").await, [SuppressionReason::HardBounce]);
    assert_eq!(bench.state_of(ann).await, (MessageState::Failed, "bounced, never sent".into()));
    assert_eq!(bench.reasons("acme", "bo@example.com").await, [SuppressionReason::Complaint]);
    assert_eq!(bench.state_of(bo).await, (MessageState::Failed, "complained, never sent".into()));
    assert!(bench.store.delivery_events(ann).await.unwrap()[0].report.never_sent);

    // No server was asked, so that it is no soft bounce of the address.
    for n in 0..2 {
        let id = bench.sent_digest("cy", n).await;
        bench.requested(&request(vec![kept_back(id, SOFT)])).await;
    }
    assert_eq!(bench.reasons("acme", "cy@example.com").await, []);
}

pub async fn a_followed_link_and_a_machine_are_told_apart(bench: &Bench) {
    let ann = bench.sent_digest("ann", 0).await;
    let event = |machine: Option<bool>, url: Option<&str>| {
        let event = reported(ann, ReportKind::Clicked, 300);
        CheckedDeliveryEvent {
            report: DeliveryReport { machine, url: url.map(str::to_owned), ..event.report.clone() },
            ..event
        }
    };
    let (a, b) = (Some("https://app.example.com/a"), Some("https://app.example.com/b"));
    let events = vec![event(None, a), event(None, b), event(Some(true), a), event(Some(false), a), event(None, a)];
    let recorded = bench.requested(&request(events.clone())).await;
    let again: Vec<_> = recorded.iter().flatten().map(|recorded| recorded.again).collect();
    assert_eq!(again, [false, false, false, false, true]);
    let mut kept: Vec<_> = bench.store.delivery_events(ann).await.unwrap();
    kept.sort_by_key(|record| events.iter().position(|event| event.report == record.report));
    assert!(kept.iter().map(|record| &record.report).eq(events[..4].iter().map(|event| &event.report)));
}

pub async fn dead_letters_of_webhooks_go_with_those_of_signals(bench: &Bench) {
    for (n, seconds) in [(1, 100), (2, 200)] {
        bench.request(&WebhookRequest { unusable: vec![unusable(n)], ..request(vec![]) }, seconds).await;
    }
    let cutoff = RetentionCutoff { kind: Kept::DeadLetters, before: at(150) };
    assert_eq!(bench.store.count_expired(cutoff).await.unwrap(), 1);
    let purged = bench.store.purge(cutoff, 10, None, &[], at(300)).await.unwrap();
    assert_eq!((purged.purged, purged.more), (1, false));
    assert_eq!(bench.value("SELECT MIN(sha256) FROM webhook_dead_letters").await, format!("{:064}", 2));
}
