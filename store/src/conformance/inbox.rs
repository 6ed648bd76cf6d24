//! The inbox forwards each item once, in order, by one forwarder at a time.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::join_all;
use jiff::SignedDuration;
use tidings_model::{
    Key, PersonId,
    inbox::{ForwarderStep, InboxDepth, InboxItem, InboxItemKind, KeyLease, LEASE, next},
    retention::{PurgeAnswer, RetentionCutoff, RetentionKind as Retained},
};
use uuid::Uuid;

use super::{Bench, at, key};
use crate::archive::Archive;

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);

fn item(user: &str, json: &str) -> InboxItem {
    InboxItem { key: key(user), kind: InboxItemKind::Event, json: json.to_owned() }
}

async fn receive(bench: &Bench, items: impl IntoIterator<Item = InboxItem>, seconds: i64) {
    bench.store.receive_items(items.into_iter().collect(), at(seconds)).await.unwrap();
}

async fn waiting(bench: &Bench, user: &str) -> Vec<String> {
    bench.store.pending_items(&key(user), 500).await.unwrap().into_iter().map(|item| item.json).collect()
}

async fn lease(bench: &Bench, holder: Uuid, users: &[&str], seconds: i64) -> Vec<Key> {
    let keys: Vec<_> = users.iter().map(|user| key(user)).collect();
    bench.store.lease_keys(holder, &keys, at(seconds)).await.unwrap().into_iter().map(|(key, _)| key).collect()
}

async fn forward(bench: &Bench, holder: Uuid, user: &str, ids: &[i64], seconds: i64) {
    bench
        .store
        .mark_forwarded(holder, &key(user), ids, KeyLease::after_success(at(seconds)), at(seconds))
        .await
        .unwrap();
}

async fn ids(bench: &Bench, user: &str, limit: u32) -> Vec<i64> {
    bench.store.pending_items(&key(user), limit).await.unwrap().into_iter().map(|item| item.id).collect()
}

pub async fn items_wait_in_the_order_of_their_arrival_with_their_kind_and_text(bench: &Bench) {
    let text = r#"{"payload":{"title":"a \u0000 \"b\" ü"}}"#;
    let retract = InboxItem { kind: InboxItemKind::Retract, ..item("ann", "{}") };
    receive(bench, [item("ann", text), item("bo", "1"), retract], 1).await;
    receive(bench, [item("ann", "3")], 2).await;
    assert_eq!(waiting(bench, "ann").await, [text, "{}", "3"]);
    let kinds: Vec<_> =
        bench.store.pending_items(&key("ann"), 2).await.unwrap().into_iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [InboxItemKind::Event, InboxItemKind::Retract]);
    let bytes = (text.len() + 4) as u64;
    assert_eq!(bench.store.inbox_depth().await.unwrap(), InboxDepth { events: 4, bytes, oldest: Some(at(1)) });
}

pub async fn simultaneous_requests_are_all_durable_however_they_share_a_commit(bench: &Bench) {
    let requests = (0..60).map(|n| {
        let items: Arc<[InboxItem]> = (0..20).map(|m| item("ann", &format!("{n}-{m}-{}", "x".repeat(2_000)))).collect();
        bench.store.receive_items(items, at(1))
    });
    assert!(join_all(requests).await.into_iter().all(|received| received.is_ok()));
    assert_eq!(bench.store.inbox_depth().await.unwrap().events, 1_200);
    let mut latest = vec![-1; 60];
    for item in bench.store.pending_items(&key("ann"), 2_000).await.unwrap() {
        let (request, place) = item.json.split_once('-').unwrap();
        let (request, place) =
            (request.parse::<usize>().unwrap(), place[..place.find('-').unwrap()].parse::<i64>().unwrap());
        assert_eq!(place, latest[request] + 1, "a request keeps its order");
        latest[request] = place;
    }
}

pub async fn keys_with_waiting_items_are_found_in_pages(bench: &Bench) {
    let users = ["ann", "bo", "cy", "di"];
    receive(bench, users.iter().flat_map(|user| [item(user, "1"), item(user, "2")]), 1).await;
    assert_eq!(lease(bench, ONE, &["cy"], 1).await, [key("cy")]);
    let first = bench.store.waiting_keys("", 3).await.unwrap();
    assert_eq!(first.iter().map(|found| found.key.user.as_str()).collect::<Vec<_>>(), ["ann", "bo", "cy"]);
    assert_eq!((first[0].lease, first[2].lease), (None, Some(KeyLease::acquire_at(0, at(1)))));
    let rest = bench.store.waiting_keys(&key("cy").workflow_id(), 3).await.unwrap();
    assert_eq!(rest.into_iter().map(|found| found.key).collect::<Vec<_>>(), [key("di")]);
    let all = ids(bench, "ann", 9).await;
    lease(bench, ONE, &["ann"], 2).await;
    forward(bench, ONE, "ann", &all, 2).await;
    assert_eq!(bench.store.waiting_keys("", 1).await.unwrap()[0].key, key("bo"));
}

pub async fn a_key_has_one_holder_until_its_lease_ends(bench: &Bench) {
    receive(bench, [item("ann", "1"), item("bo", "1")], 1).await;
    assert_eq!(lease(bench, ONE, &["ann"], 1).await, [key("ann")]);
    assert_eq!(lease(bench, TWO, &["ann", "bo"], 2).await, [key("bo")]);
    let end = 1 + i64::try_from(LEASE.as_secs()).unwrap();
    assert!(lease(bench, TWO, &["ann"], end - 1).await.is_empty());
    assert_eq!(lease(bench, TWO, &["ann"], end).await, [key("ann")]);
    // The first holder is back: it must not shorten the lease of the second one.
    forward(bench, ONE, "ann", &[], end).await;
    assert!(lease(bench, ONE, &["ann"], end + 1).await.is_empty());
    forward(bench, TWO, "ann", &[], end).await;
    assert_eq!(lease(bench, ONE, &["ann"], end + 1).await, [key("ann")]);
}

pub async fn the_store_leases_exactly_the_keys_that_a_forwarder_would(bench: &Bench) {
    receive(bench, [item("ann", "1"), item("bo", "1"), item("cy", "1")], 1).await;
    lease(bench, ONE, &["ann", "bo"], 1).await;
    forward(bench, ONE, "bo", &[], 1).await;
    for milliseconds in [0, 199, 200, 29_999, 30_000] {
        let now = at(1) + SignedDuration::from_millis(milliseconds);
        let found = bench.store.waiting_keys("", 9).await.unwrap();
        let wanted = match next(found.clone(), 9, now) {
            ForwarderStep::Lease(free) => free.into_iter().map(|found| found.key).collect(),
            ForwarderStep::Wait(_) => Vec::new(),
        };
        let is_free = |user: &str| wanted.contains(&key(user));
        assert!(is_free("cy"));
        assert_eq!((is_free("ann"), is_free("bo")), (milliseconds >= 30_000, milliseconds >= 200), "{milliseconds}");
    }
    let keys = ["ann", "bo", "cy"].map(key);
    let now = at(1) + SignedDuration::from_millis(200);
    let mut leased: Vec<_> =
        bench.store.lease_keys(TWO, &keys, now).await.unwrap().into_iter().map(|(key, _)| key).collect();
    leased.sort();
    assert_eq!(leased, ["bo", "cy"].map(key));
}

pub async fn of_many_forwarders_at_once_one_has_the_key(bench: &Bench) {
    receive(bench, [item("ann", "1"), item("bo", "1")], 1).await;
    let keys = ["ann", "bo"].map(key);
    let leases = (0..12).map(|n| bench.store.lease_keys(Uuid::from_u128(n), &keys, at(1)));
    let leased: usize = join_all(leases).await.into_iter().map(|leased| leased.unwrap().len()).sum();
    assert_eq!(leased, 2);
}

pub async fn only_the_items_of_a_signal_are_forwarded_and_failures_count(bench: &Bench) {
    receive(bench, ["1", "2", "3"].map(|json| item("ann", json)), 1).await;
    lease(bench, ONE, &["ann"], 1).await;
    let first = ids(bench, "ann", 2).await;
    receive(bench, [item("ann", "4")], 2).await;
    forward(bench, ONE, "ann", &first, 2).await;
    assert_eq!(waiting(bench, "ann").await, ["3", "4"]);
    let (_, taken) = bench.store.lease_keys(ONE, &[key("ann")], at(3)).await.unwrap()[0].clone();
    let failed = taken.after_failure(at(3));
    bench.store.mark_forwarded(ONE, &key("ann"), &[], failed, at(3)).await.unwrap();
    assert_eq!(bench.store.waiting_keys("", 1).await.unwrap()[0].lease, Some(failed));
    let (_, again) = bench.store.lease_keys(TWO, &[key("ann")], at(9)).await.unwrap()[0].clone();
    assert_eq!((again.failures, again.free_at), (1, KeyLease::acquire_at(0, at(9)).free_at));
}

pub async fn what_was_forwarded_is_replayed_by_time_and_tenant_and_purged_by_age(bench: &Bench) {
    let other = Key { tenant: "zeta".into(), ..key("zoe") };
    receive(bench, [item("ann", "old")], 1).await;
    receive(bench, [item("ann", "new"), InboxItem { key: other.clone(), ..item("zoe", "z") }], 100).await;
    let all = ids(bench, "ann", 9).await;
    lease(bench, ONE, &["ann"], 200).await;
    forward(bench, ONE, "ann", &all, 200).await;
    let zoe: Vec<_> = bench.store.pending_items(&other, 9).await.unwrap().into_iter().map(|item| item.id).collect();
    bench.store.lease_keys(ONE, std::slice::from_ref(&other), at(200)).await.unwrap();
    bench.store.mark_forwarded(ONE, &other, &zoe, KeyLease::after_success(at(200)), at(200)).await.unwrap();
    assert_eq!(bench.store.inbox_depth().await.unwrap(), InboxDepth::default());

    assert_eq!(bench.store.replay_inbox(Some("acme"), at(100), at(201)).await.unwrap(), 1);
    assert_eq!(waiting(bench, "ann").await, ["new"]);
    assert_eq!(bench.store.replay_inbox(None, at(0), at(201)).await.unwrap(), 2);
    assert_eq!(bench.store.replay_inbox(None, at(0), at(201)).await.unwrap(), 0);

    let old = ids(bench, "ann", 1).await;
    lease(bench, ONE, &["ann"], 300).await;
    forward(bench, ONE, "ann", &old, 300).await;
    let cutoff = |seconds| RetentionCutoff { kind: Retained::Inbox, before: at(seconds) };
    assert_eq!(bench.store.count_expired(cutoff(300)).await.unwrap(), 0);
    assert_eq!(bench.store.count_expired(cutoff(301)).await.unwrap(), 1);
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::new(folder.path().to_owned());
    let purged = bench.store.purge(cutoff(301), 10, Some(&archive), &[], at(400)).await.unwrap();
    assert_eq!(purged, PurgeAnswer { purged: 1, archived: 0, more: false });
    assert_eq!(bench.store.inbox_depth().await.unwrap().events, 2, "what waits is not purged");
}

pub async fn a_signal_from_before_a_replay_marks_nothing(bench: &Bench) {
    receive(bench, [item("ann", "1")], 1).await;
    let sent = ids(bench, "ann", 9).await;
    lease(bench, ONE, &["ann"], 1).await;
    bench.store.replay_inbox(None, at(0), at(2)).await.unwrap();
    assert_eq!(lease(bench, TWO, &["ann"], 2).await, [key("ann")], "the replay ends the lease");
    forward(bench, ONE, "ann", &sent, 3).await;
    assert_eq!(waiting(bench, "ann").await, ["1"]);
    forward(bench, TWO, "ann", &sent, 3).await;
    assert!(waiting(bench, "ann").await.is_empty());
}

pub async fn an_erasure_takes_what_is_in_the_inbox_of_the_person_only(bench: &Bench) {
    let namesake = Key { tenant: "zeta".into(), ..key("ann") };
    receive(bench, [item("ann", "1"), item("ann", "2"), item("bo", "3")], 1).await;
    receive(bench, [InboxItem { key: namesake.clone(), ..item("ann", "4") }], 1).await;
    let first = ids(bench, "ann", 1).await;
    lease(bench, ONE, &["ann"], 2).await;
    forward(bench, ONE, "ann", &first, 2).await;
    let person = PersonId { tenant: "acme".into(), user: "ann".into() };
    bench.store.erase_choices(&person, &BTreeSet::new()).await.unwrap();
    assert!(waiting(bench, "ann").await.is_empty());
    assert_eq!(bench.store.replay_inbox(None, at(0), at(9)).await.unwrap(), 0, "what was forwarded is gone, too");
    assert_eq!(waiting(bench, "bo").await, ["3"]);
    assert_eq!(bench.store.pending_items(&namesake, 9).await.unwrap().len(), 1);
}

pub async fn an_old_lease_is_forgotten_and_a_fresh_one_is_not(bench: &Bench) {
    lease(bench, ONE, &["ann", "bo"], 1).await;
    forward(bench, ONE, "ann", &[], 1).await;
    bench.store.forget_leases(at(90)).await.unwrap();
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM inbox_leases").await, "1");
}
