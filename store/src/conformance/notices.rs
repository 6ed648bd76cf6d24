//! Each notice is written with its fact, waits in its lane's order, and ends once.

use std::collections::BTreeSet;

use tidings_model::{
    PersonId,
    attempt::AttemptClass,
    delivery_events::ReportKind,
    retention::{PurgeAnswer, RetentionCutoff, RetentionKind as Retained},
    subscription::{
        DeliveryOutcomes, DeliveryResult, NoticeType, PendingNotice, ReplayScope, SubscriptionState,
        WebhookSubscription,
    },
    window::DigestOutcome,
};

use super::{
    Bench, at,
    bench::Behind,
    delivery_events::{HARD, key_of, reported, single},
    ends, entry, key, window,
};
use crate::notices::STATES;

const HOUR: i64 = 3_600;

fn subscription(
    name: &str,
    events: &[NoticeType],
    tenant: Option<&str>,
    digest_type: Option<&str>,
) -> WebhookSubscription {
    WebhookSubscription {
        name: name.to_owned(),
        url: "https://app.acme.example/notices".parse().unwrap(),
        events: events.iter().copied().collect(),
        tenant: tenant.map(str::to_owned),
        digest_type: digest_type.map(str::to_owned),
        secrets: Vec::new(),
        secret_env: "A_NOTICES".to_owned(),
        was: Vec::new(),
    }
}

async fn subscribe(bench: &Bench, subscriptions: &[WebhookSubscription]) {
    bench.store.subscribe(subscriptions, true).await.unwrap();
}

async fn subscribe_to_all(bench: &Bench) {
    subscribe(bench, &[subscription("crm", &NoticeType::ALL, None, None)]).await;
}

async fn ready(bench: &Bench, name: &str, seconds: i64) -> Vec<PendingNotice> {
    bench.store.ready_notices(name, 100, at(seconds)).await.unwrap()
}

/// The ready notices: type, user, outcome and reason.
async fn words(bench: &Bench, name: &str) -> Vec<String> {
    let words = |notice: PendingNotice| {
        let parts = [&Some(notice.about.user), &notice.about.outcome, &notice.about.reason];
        let parts = parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
        format!("{} {parts}", notice.event)
    };
    ready(bench, name, 99_999).await.into_iter().map(words).collect()
}

async fn settle(bench: &Bench, settled: DeliveryOutcomes, seconds: i64) -> u64 {
    bench.store.settle_notices("crm", &settled, at(seconds)).await.unwrap()
}

/// Withdraws these users' consent.
async fn unsubscribe(bench: &Bench, users: &[&str], seconds: i64) {
    for user in users {
        bench.store.put_consent(&key(user), false, &entry(seconds, "recipient", "withdraw")).await.unwrap();
    }
}

async fn resubscribe(bench: &Bench, user: &str, seconds: i64) {
    bench.store.put_consent(&key(user), true, &entry(seconds, "recipient", "grant")).await.unwrap();
}

async fn users(bench: &Bench, seconds: i64) -> Vec<String> {
    ready(bench, "crm", seconds).await.into_iter().map(|notice| notice.about.user).collect()
}

async fn seqs(bench: &Bench) -> Vec<i64> {
    ready(bench, "crm", 99_999).await.into_iter().map(|notice| notice.seq).collect()
}

async fn state(bench: &Bench) -> SubscriptionState {
    bench.store.subscriptions(100).await.unwrap().into_iter().find(|state| state.name == "crm").unwrap()
}

pub async fn each_fact_is_a_notice_in_the_order_of_the_facts(bench: &Bench) {
    subscribe_to_all(bench).await;
    let message = bench.sent_digest("ann", 1).await;
    let dropped = bench.rendered(2).await;
    bench.drop_digest(&dropped).await;
    bench.store.put_message(&single("acme", "welcome", "bo@example.com"), None).await.unwrap();
    let welcome = single("acme", "welcome", "bo@example.com").id;
    bench.sent(welcome).await;
    for (n, kind) in [(1, ReportKind::Delivered), (2, HARD), (2, HARD), (3, ReportKind::Unsubscribed)] {
        bench.store.put_delivery_event(&reported(message, kind, n), 9, at(5_000)).await.unwrap();
    }
    resubscribe(bench, "ann", 9_000).await;
    assert_eq!(
        words(bench, "crm").await,
        [
            "digest.sent ann sent",
            "digest.skipped ann dropped",
            "message.sent  sent",
            "message.delivered ann",
            "message.bounced ann hard",
            "message.unsubscribed ann",
            "recipient.unsubscribed ann",
            "recipient.resubscribed ann",
        ]
    );
    let notices = ready(bench, "crm", 99_999).await;
    let ids: BTreeSet<_> = notices.iter().map(|notice| notice.id).collect();
    assert_eq!(ids.len(), notices.len());
    let [sent, _, single, delivered, ..] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(
        (sent.about.digest_id, sent.about.message_id, sent.lane.as_str()),
        (Some(message), None, "acme/activity/ann")
    );
    assert_eq!((single.about.digest_id, single.about.message_id), (None, Some(welcome)));
    assert_eq!((delivered.about.digest_id, delivered.about.message_id), (Some(message), Some(message)));
    assert_eq!((delivered.about.occurred_at, sent.about.occurred_at), (at(1), at(202)));
}

pub async fn a_failed_digest_has_the_class_of_its_last_attempt(bench: &Bench) {
    subscribe_to_all(bench).await;
    let window = bench.rendered(1).await;
    let (number, _) = bench.begin(&window).await;
    bench.ended(&window, number, ends(AttemptClass::HardBounce, DigestOutcome::Failed)).await;
    assert_eq!(words(bench, "crm").await, ["digest.failed ann failed hard_bounce"]);
}

pub async fn a_subscription_gets_what_it_asked_for_and_nothing_else(bench: &Bench) {
    unsubscribe(bench, &["ann"], 1).await;
    let types = [NoticeType::RecipientUnsubscribed];
    let subscriptions = [
        subscription("all", &types, None, None),
        subscription("acme", &types, Some("acme"), Some("activity")),
        subscription("other-type", &types, Some("acme"), Some("alerts")),
        subscription("other-event", &[NoticeType::DigestSent], None, None),
    ];
    subscribe(bench, &subscriptions).await;
    unsubscribe(bench, &["bo", "bo"], 2).await;
    let zoe = key_of("zeta", "zoe");
    bench.store.put_consent(&zoe, false, &entry(3, "recipient", "withdraw")).await.unwrap();
    for (name, expected) in [("all", &["bo", "zoe"][..]), ("acme", &["bo"]), ("other-type", &[]), ("other-event", &[])]
    {
        let users: Vec<_> = ready(bench, name, 9).await.into_iter().map(|notice| notice.about.user).collect();
        assert_eq!(users, expected, "{name}");
    }
    let newest = bench.store.newest_notices().await.unwrap();
    let newest: BTreeSet<_> = newest.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(newest, BTreeSet::from(["acme", "all"]));
}

pub async fn what_waits_for_a_subscription_that_was_removed_waits_for_a_day(bench: &Bench) {
    let (crm, other) = (subscription("crm", &NoticeType::ALL, None, None), subscription("other", &[], None, None));
    subscribe(bench, &[crm.clone(), other.clone()]).await;
    unsubscribe(bench, &["ann", "bo"], 1).await;
    let retired = async |seconds| {
        let retired = bench.store.retire_notices(at(seconds)).await.unwrap();
        retired.into_iter().map(|of| (of.subscription, of.waiting, of.ended)).collect::<Vec<_>>()
    };
    let crm_has = |waiting, ended| vec![("crm".to_owned(), waiting, ended)];
    assert_eq!(retired(2).await, []);
    let others = std::slice::from_ref(&other);
    subscribe(bench, others).await;
    assert_eq!((retired(100).await, retired(100 + 24 * HOUR - 1).await), (crm_has(2, 0), crm_has(2, 0)));
    assert_eq!((state(bench).await.waiting, state(bench).await.dead_letters), (2, 0));
    // It is back: nothing was tried so far.
    subscribe(bench, std::slice::from_ref(&crm)).await;
    assert_eq!(retired(101 + 24 * HOUR).await, []);
    assert!(ready(bench, "crm", 9).await.iter().all(|notice| notice.first_tried_at.is_none()));
    assert_eq!(users(bench, 9).await, ["ann", "bo"]);
    subscribe(bench, others).await;
    assert_eq!(retired(200 + 24 * HOUR).await, crm_has(2, 0));
    assert_eq!(retired(200 + 48 * HOUR).await, crm_has(0, 2));
    assert_eq!(retired(201 + 48 * HOUR).await, []);
    let dead = bench.store.dead_notices("crm", 9).await.unwrap();
    assert_eq!(dead.iter().map(|notice| notice.result.as_str()).collect::<Vec<_>>(), ["removed", "removed"]);
}

pub async fn a_file_that_not_all_workers_have_takes_no_receiver_away(bench: &Bench) {
    let named = |name: &str| subscription(name, &NoticeType::ALL, None, None);
    let (crm, other) = (named("crm"), named("other"));
    subscribe(bench, std::slice::from_ref(&crm)).await;
    for newer in [std::slice::from_ref(&other), std::slice::from_ref(&crm)] {
        bench.store.subscribe(newer, false).await.unwrap();
    }
    unsubscribe(bench, &["ann"], 1).await;
    assert_eq!((ready(bench, "crm", 9).await.len(), ready(bench, "other", 9).await.len()), (1, 1));
    // A worker with the former name writes that once more, and the receiver of today gets each notice once.
    let customers = WebhookSubscription { was: vec!["crm".to_owned()], ..named("customers") };
    for file in [&customers, &crm, &customers] {
        bench.store.subscribe(std::slice::from_ref(file), false).await.unwrap();
    }
    unsubscribe(bench, &["bo"], 2).await;
    assert_eq!((ready(bench, "crm", 9).await.len(), ready(bench, "customers", 9).await.len()), (0, 2));
    // All have the same file now.
    subscribe(bench, std::slice::from_ref(&customers)).await;
    unsubscribe(bench, &["cy"], 3).await;
    assert_eq!((ready(bench, "other", 9).await.len(), ready(bench, "customers", 9).await.len()), (2, 3));
}

pub async fn a_subscription_with_another_name_keeps_its_notices_and_whether_its_receiver_is_gone(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann", "bo"], 1).await;
    let [ann, _] = seqs(bench).await[..] else { panic!("two") };
    settle(
        bench,
        DeliveryOutcomes { failed: vec![(ann, DeliveryResult::Refused, None)], ..DeliveryOutcomes::default() },
        5,
    )
    .await;
    let customers =
        WebhookSubscription { was: vec!["crm".to_owned()], ..subscription("customers", &NoticeType::ALL, None, None) };
    for _ in 0..2 {
        subscribe(bench, std::slice::from_ref(&customers)).await;
        let users: Vec<_> = ready(bench, "customers", 9).await.into_iter().map(|notice| notice.about.user).collect();
        assert_eq!((users, bench.store.dead_notices("customers", 9).await.unwrap().len()), (vec!["bo".to_owned()], 1));
    }
    // A worker with the former file starts once more, and its receiver is gone.
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["cy"], 20).await;
    settle(bench, DeliveryOutcomes { gone: true, ..DeliveryOutcomes::default() }, 30).await;
    subscribe(bench, std::slice::from_ref(&customers)).await;
    let states = bench.store.subscriptions(100).await.unwrap();
    let [state] = &states[..] else { panic!("{states:?}") };
    assert_eq!(
        (state.name.as_str(), state.waiting, state.dead_letters, state.gone_at),
        ("customers", 1, 2, Some(at(30)))
    );
}

pub async fn notices_of_a_lane_wait_for_the_one_that_failed(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann", "bo"], 1).await;
    resubscribe(bench, "ann", 2).await;
    unsubscribe(bench, &["cy"], 3).await;
    let [ann, bo, ..] = seqs(bench).await[..] else { panic!("too few") };
    let failed = vec![(ann, DeliveryResult::Refused, Some(at(60)))];
    assert_eq!(
        settle(bench, DeliveryOutcomes { delivered: vec![bo], failed, ..DeliveryOutcomes::default() }, 10).await,
        0
    );
    assert_eq!(users(bench, 59).await, ["cy"]);
    assert_eq!(bench.store.next_notice("crm", at(59)).await.unwrap(), Some(at(60)));
    assert_eq!(users(bench, 60).await, ["ann", "ann", "cy"]);
    assert_eq!(bench.store.next_notice("crm", at(60)).await.unwrap(), None);
    let first = ready(bench, "crm", 60).await.remove(0);
    assert_eq!((first.tries, first.first_tried_at), (1, Some(at(10))));
    // A dead letter holds nothing back.
    let failed = vec![(ann, DeliveryResult::Refused, None)];
    assert_eq!(settle(bench, DeliveryOutcomes { failed, ..DeliveryOutcomes::default() }, 61).await, 1);
    assert_eq!(users(bench, 61).await, ["ann", "cy"]);
    assert_eq!((state(bench).await.waiting, state(bench).await.dead_letters), (2, 1));
    let dead = bench.store.dead_notices("crm", 9).await.unwrap();
    let [one] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((one.id, one.result.as_str(), one.tries, one.ended_at), (first.id, "refused", 2, at(61)));
    // Of all that ended, only the dead letter comes again, and before the later notices of its lane.
    let replay = entry(70, "carol", "subscription_replay");
    assert_eq!(bench.store.replay_notices("crm", at(0), ReplayScope::DeadLetters, &replay).await.unwrap(), Some(1));
    assert_eq!(users(bench, 71).await, ["ann", "ann", "cy"]);
}

pub async fn a_receiver_that_is_away_for_24_hours_leaves_dead_letters(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann", "bo"], 1).await;
    let away = || DeliveryOutcomes { away: Some(DeliveryResult::Unreachable), ..DeliveryOutcomes::default() };
    assert_eq!(settle(bench, away(), 100).await, 0);
    unsubscribe(bench, &["cy"], 200).await;
    assert_eq!(users(bench, 200).await, ["ann", "bo", "cy"], "all may be tried at once");
    assert_eq!(settle(bench, away(), 300).await, 0);
    assert_eq!(settle(bench, away(), 100 + 24 * HOUR - 1).await, 0);
    assert_eq!(settle(bench, away(), 100 + 24 * HOUR).await, 2);
    assert_eq!(users(bench, 99_999).await, ["cy"], "its 24 hours began later");
    assert_eq!(settle(bench, away(), 300 + 24 * HOUR).await, 1);
}

pub async fn a_receiver_that_is_gone_gets_nothing_until_a_replay(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann", "bo"], 1).await;
    assert_eq!(settle(bench, DeliveryOutcomes { gone: true, ..DeliveryOutcomes::default() }, 10).await, 2);
    unsubscribe(bench, &["cy"], 20).await;
    subscribe_to_all(bench).await;
    assert!(ready(bench, "crm", 30).await.is_empty());
    assert_eq!(state(bench).await.gone_at, Some(at(10)));
    let replay = async |name: &str, since: i64, now: i64| {
        bench
            .store
            .replay_notices(name, at(since), ReplayScope::All, &entry(now, "carol", "subscription_replay"))
            .await
            .unwrap()
    };
    assert_eq!(replay("unknown", 0, 40).await, None);
    assert_eq!(replay("crm", 0, 40).await, Some(3));
    assert_eq!(users(bench, 41).await, ["ann", "bo", "cy"]);
    unsubscribe(bench, &["di"], 50).await;
    assert_eq!((users(bench, 51).await.len(), state(bench).await.gone_at), (4, None));
    assert_eq!(bench.value("SELECT action FROM audit WHERE actor = 'carol'").await, "subscription_replay");
}

pub async fn what_was_delivered_is_replayed_by_time_and_purged_by_age(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann"], 10).await;
    unsubscribe(bench, &["bo"], 20).await;
    let first: Vec<_> = ready(bench, "crm", 30).await.into_iter().map(|notice| notice.id).collect();
    let delivered = seqs(bench).await;
    settle(bench, DeliveryOutcomes { delivered: delivered.clone(), ..DeliveryOutcomes::default() }, 30).await;
    // The same end again, as of an activity whose answer was lost.
    settle(bench, DeliveryOutcomes { delivered, ..DeliveryOutcomes::default() }, 31).await;
    assert_eq!((state(bench).await.waiting, state(bench).await.dead_letters), (0, 0));
    let replay = entry(40, "carol", "subscription_replay");
    assert_eq!(bench.store.replay_notices("crm", at(20), ReplayScope::All, &replay).await.unwrap(), Some(1));
    let again = ready(bench, "crm", 41).await;
    assert_eq!(again.iter().map(|notice| notice.id).collect::<Vec<_>>(), first[1..]);
    let cutoff = |seconds| RetentionCutoff { kind: Retained::Notices, before: at(seconds) };
    assert_eq!(bench.store.count_expired(cutoff(30)).await.unwrap(), 0);
    assert_eq!(bench.store.count_expired(cutoff(31)).await.unwrap(), 1);
    let purged = bench.store.purge(cutoff(99_999), 10, None, &[], at(50)).await.unwrap();
    assert_eq!(purged, PurgeAnswer { purged: 1, archived: 0, more: false });
    assert_eq!(users(bench, 60).await, ["bo"], "what waits is not purged");
}

pub async fn counts_of_notices_read_an_index_and_stop_at_their_number_of_rows(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann", "bo", "cy"], 1).await;
    let [ann, bo, cy] = seqs(bench).await[..] else { panic!("three") };
    let dead = |seqs: &[i64]| DeliveryOutcomes {
        failed: seqs.iter().map(|seq| (*seq, DeliveryResult::Refused, None)).collect(),
        ..DeliveryOutcomes::default()
    };
    settle(bench, dead(&[ann, bo, cy]), 5).await;
    unsubscribe(bench, &["di", "eve", "fay"], 7).await;
    for (most, counted) in [(9, 3), (2, 2)] {
        let states = bench.store.subscriptions(most).await.unwrap();
        let [state] = &states[..] else { panic!("{states:?}") };
        assert_eq!((state.waiting, state.dead_letters, state.oldest_at), (counted, counted, Some(at(7))), "{most}");
    }
    let plan = bench.plan(STATES).await;
    let reads = |index: &str| plan.contains(index);
    let whole = plan
        .lines()
        .any(|line| line.contains("Seq Scan") || line.ends_with("SCAN n") || line.ends_with("SCAN notices"));
    assert!(reads("notices_waiting") && reads("notices_dead") && !reads("notices_ended") && !whole, "{plan}");
}

pub async fn notices_go_with_the_person_whom_they_are_about(bench: &Bench) {
    subscribe_to_all(bench).await;
    unsubscribe(bench, &["ann", "bo"], 1).await;
    let person = PersonId { tenant: "acme".into(), user: "ann".into() };
    bench.store.erase_choices(&person, &BTreeSet::new()).await.unwrap();
    assert_eq!(users(bench, 9).await, ["bo"]);
}

/// Only PostgreSQL has two concurrent writers.
pub async fn a_fact_that_is_committed_after_a_later_one_is_not_passed_over(bench: &Bench) {
    subscribe_to_all(bench).await;
    let Behind::Postgres { pool, .. } = &bench.behind else { return };
    let mut slow = pool.begin().await.unwrap();
    let late = "INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at) VALUES ('acme', 'activity', 'ann', FALSE, 1)";
    sqlx::query(late).execute(&mut *slow).await.unwrap();
    unsubscribe(bench, &["bo"], 2).await;
    assert_eq!(users(bench, 9).await, ["bo"]);
    let delivered = seqs(bench).await;
    settle(bench, DeliveryOutcomes { delivered, ..DeliveryOutcomes::default() }, 10).await;
    slow.commit().await.unwrap();
    assert_eq!(users(bench, 11).await, ["ann"]);
    assert_eq!(bench.store.newest_notices().await.unwrap().len(), 1);
}

pub async fn without_a_subscription_nothing_is_written(bench: &Bench) {
    bench.sent_digest("ann", 1).await;
    bench.drop_digest(&window(2)).await;
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM notices").await, "0");
    assert!(
        bench.store.newest_notices().await.unwrap().is_empty()
            && bench.store.subscriptions(9).await.unwrap().is_empty()
    );
}
