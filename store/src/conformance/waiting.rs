//! A waiting message is rendered again until an attempt has passed the dot (rule 60).

use std::collections::BTreeSet;

use serde_json::json;
use tidings_model::{
    Event, EventRepetition, Retract,
    attempt::AttemptClass,
    records::{
        FirstAttempt, OutboxMessage, PersonRowKind, RemovedEvents, RetractEffect, RetractReach, SuppressionReason,
        WaitingMessage,
    },
    window::{DigestOutcome, Window},
};
use uuid::Uuid;

use super::{Bench, at, delivery_events::single, end, ends, event, key, message, people::ann, shown, titled, window};

const NONE: BTreeSet<String> = BTreeSet::new();

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

impl Bench {
    async fn waiting(&self, window: &Window) -> Option<WaitingMessage> {
        self.store.facts_for_attempt(&window.key, window.digest_id).await.unwrap().1
    }

    async fn retract(&self, event_id: &str) {
        self.store.put_retracts(&key("ann"), &[Retract::Event(event_id.to_owned())], at(150)).await.unwrap();
    }

    async fn reached(&self, event_id: &str) -> RetractReach {
        let retracts = [(key("ann"), Retract::Event(event_id.to_owned()))];
        self.store.retract_reach(&retracts, at(160)).await.unwrap()[0].reach
    }

    /// Removes retracted events, and those in categories that are `off`.
    async fn withdrawn(&self, window: &Window, off: &[&str]) -> RemovedEvents {
        self.store.withdraw_events(window, &ids(off), &NONE, at(160)).await.unwrap().unwrap()
    }

    /// Renders this epoch's message again. Returns the next epoch.
    async fn remade(&self, window: &Window, body: &str, epoch: u64) -> Option<u64> {
        let message = OutboxMessage { made_at: at(170), made_from: "again".into(), ..message(window, body) };
        self.store.remake_message(&message, epoch, "because", at(170)).await.unwrap()
    }

    /// The number of audit entries about messages rendered again, and their reason.
    async fn remakes(&self) -> String {
        let entries = "SELECT CAST(COUNT(*) AS TEXT) || COALESCE(MIN(why), '') FROM audit WHERE action = 'remake'";
        self.value(entries).await
    }

    async fn first_attempt(&self, window: &Window) -> FirstAttempt {
        let epoch = self.waiting(window).await.unwrap().epoch;
        let (message, nonce) = (window.digest_id, Uuid::new_v4());
        FirstAttempt { message, relay: "relay".into(), begun_at: at(200), epoch, nonce }
    }
}

pub async fn a_message_that_waits_loses_what_was_withdrawn_and_is_made_again(bench: &Bench) {
    let window = window(0);
    let comment = |id: &str| event(id);
    let share = Event { category: "share".into(), ..event("c") };
    bench.claim(&window, &[comment("a"), comment("b"), share, comment("d")], at(1)).await;
    bench.store.put_message(&message(&window, "first"), None).await.unwrap();
    assert!(!bench.waiting(&window).await.unwrap().outdated);
    bench.retract("a").await;
    let waiting = bench.waiting(&window).await.unwrap();
    assert!(waiting.outdated && !waiting.attempted && !waiting.shortened);
    let withdrawn =
        bench.store.withdraw_events(&window, &ids(&["share"]), &ids(&["d", "of another"]), at(160)).await.unwrap();
    let epoch = waiting.epoch + 1;
    assert_eq!(withdrawn, Some(RemovedEvents { retracted: 1, opted_out: 1, seen: 1, left: 1, epoch }));
    assert!(bench.waiting(&window).await.unwrap().outdated, "it must be made again");
    assert_eq!(bench.remade(&window, "of more events", waiting.epoch).await, None, "one event is left");
    let epoch = bench.remade(&window, "second", epoch).await.unwrap();
    let made = bench.waiting(&window).await.unwrap();
    assert_eq!((made.epoch, made.outdated), (epoch, false));
    let WaitingMessage { message, .. } = made;
    assert_eq!((message.bytes.as_slice(), message.made_at), (b"second".as_slice(), at(170)));
    assert_eq!((message.made_from.as_str(), message.message_id.as_str()), ("again", "m@example.com"));
    assert_eq!(bench.remakes().await, "1because");
    assert!(bench.remade(&window, "second", epoch).await.is_some());
    assert_eq!(bench.remakes().await, "1because", "the same bytes are no other message");
    // The ledger has each event once, with the reason.
    let row = "SELECT CAST(COUNT(*) AS TEXT) FROM events e JOIN digests d ON d.digest_id = e.digest_id AND d.state = 'closed'";
    assert_eq!(bench.value(row).await, "3");
    assert_eq!(bench.items(&window).await, 1);
}

pub async fn a_single_message_is_made_again_until_a_dot(bench: &Bench) {
    let first = single("acme", "welcome", "bo@example.com");
    bench.store.put_message(&first, None).await.unwrap();
    let (waiting, epoch) = bench.store.waiting_message(first.id).await.unwrap().unwrap();
    assert!(waiting == first);
    let again = OutboxMessage { bytes: b"again".to_vec(), made_from: "today".into(), ..waiting };
    let remade = async |epoch| bench.store.remake_message(&again, epoch, "because", at(170)).await.unwrap();
    assert_eq!((remade(epoch + 1).await, remade(epoch).await), (None, Some(epoch + 1)));
    assert_eq!(bench.remakes().await, "1because");
    assert_eq!(bench.said_of(first.id).await.made_from, "today");
    assert_eq!(bench.store.message_bytes("acme", first.id).await.unwrap().unwrap(), b"again");
    bench.past_the_dot(first.id).await;
    assert!(bench.store.waiting_message(first.id).await.unwrap().is_none());
    assert_eq!(remade(epoch + 1).await, None);
}

pub async fn after_a_dot_the_bytes_stand(bench: &Bench) {
    let window = bench.rendered(0).await;
    let (number, _) = bench.begin(&window).await;
    assert!(bench.waiting(&window).await.unwrap().attempted);
    assert!(bench.dot(&window, number).await);
    bench.ended(&window, number, end(AttemptClass::Deferred)).await;
    bench.retract("0a").await;
    assert!(bench.waiting(&window).await.is_none());
    assert_eq!(bench.store.withdraw_events(&window, &NONE, &NONE, at(160)).await.unwrap(), None);
    assert_eq!(bench.remade(&window, "second", 0).await, None);
    assert_eq!(bench.store.message_bytes("acme", window.digest_id).await.unwrap().unwrap(), b"first");
    assert_eq!((bench.items(&window).await, bench.remakes().await.as_str()), (2, "0"));
}

pub async fn no_attempt_passes_the_dot_with_a_retracted_event(bench: &Bench) {
    // A first attempt, which the ledger does not have before its dot.
    let window = bench.rendered(0).await;
    let stale = bench.first_attempt(&window).await;
    bench.retract("of another").await;
    let same = bench.first_attempt(&window).await;
    assert_eq!(same.epoch, stale.epoch, "the digest has no such event");
    bench.retract("0a").await;
    assert!(!bench.store.mark_first_in_doubt(&stale, at(201)).await.unwrap());
    // One that the ledger has.
    let window = bench.rendered(1).await;
    let (number, _) = bench.begin(&window).await;
    bench.retract("1a").await;
    assert!(!bench.dot(&window, number).await);
    // The next one finds what to make again, and may pass.
    assert!(bench.waiting(&window).await.unwrap().outdated);
    let RemovedEvents { left, epoch, .. } = bench.withdrawn(&window, &[]).await;
    assert!(left == 1 && bench.remade(&window, "second", epoch).await.is_some());
    let (number, ambiguous) = bench.begin(&window).await;
    assert!(ambiguous == 0 && bench.dot(&window, number).await);
}

pub async fn a_retract_while_a_message_is_made_again_is_not_overtaken(bench: &Bench) {
    let window = bench.rendered(0).await;
    let RemovedEvents { epoch, .. } = bench.withdrawn(&window, &[]).await;
    bench.retract("0a").await;
    assert_eq!(bench.remade(&window, "with both events", epoch).await, None);
    let RemovedEvents { epoch, retracted, .. } = bench.withdrawn(&window, &[]).await;
    assert_eq!(retracted, 1);
    let made = bench.remade(&window, "second", epoch).await.unwrap();
    // Nor before the attempt.
    bench.retract("0b").await;
    let first = FirstAttempt { epoch: made, ..bench.first_attempt(&window).await };
    assert!(!bench.store.mark_first_in_doubt(&first, at(201)).await.unwrap());
}

pub async fn a_message_that_waits_shows_an_event_under_a_category_that_is_on(bench: &Bench) {
    let window = window(0);
    let of = |category: &str, seconds| Event { category: category.into(), occurred_at: at(seconds), ..event("a") };
    bench.claim(&window, &[of("mention", 0), of("like", 1), event("b")], at(2)).await;
    bench.store.put_message(&message(&window, "first"), None).await.unwrap();
    assert_eq!(bench.withdrawn(&window, &["like"]).await.left, 2);
    let shown = "SELECT category || ' ' || other_categories FROM events WHERE event_id = 'a'";
    assert_eq!(bench.value(shown).await, r#"mention ["like"]"#);
    let exported = &bench.held(PersonRowKind::Events, 9).await[0];
    assert_eq!((&exported["category"], &exported["other_categories"]), (&json!("mention"), &json!(["like"])));
    assert_eq!(bench.withdrawn(&window, &["like", "mention"]).await.left, 1);
}

pub async fn other_content_is_taken_into_a_message_that_waits(bench: &Bench) {
    let window = bench.rendered(0).await;
    let other = |seconds| Event { occurred_at: at(seconds), payload: titled("corrected".into()), ..event("0a") };
    let named = async |event: &Event| {
        bench.store.find_repetitions(&[(key("ann"), "0a".into(), event.content())]).await.unwrap()[0]
    };
    let take = async |event: &Event| bench.store.take_content(&key("ann"), event, at(160)).await.unwrap();
    let stale = bench.first_attempt(&window).await;
    assert_eq!(
        (named(&event("0a")).await, named(&other(5)).await),
        (Some(EventRepetition::Same), Some(EventRepetition::Replaces))
    );
    assert!(
        !take(&event("0a")).await && !take(&event("unknown")).await && !bench.waiting(&window).await.unwrap().outdated
    );
    assert!(take(&other(5)).await && bench.waiting(&window).await.unwrap().outdated);
    assert!(!bench.store.mark_first_in_doubt(&stale, at(201)).await.unwrap());
    let lines = bench.store.contents(&window, shown(50)).await.unwrap().lines;
    let mut items = lines.into_iter().flat_map(|line| line.latest);
    assert!(items.any(|item| item.payload["title"].as_str() == Some("corrected")));
    assert_eq!(named(&other(5)).await, Some(EventRepetition::Same));
    // A window that comes later takes it in, too.
    let RemovedEvents { epoch, .. } = bench.withdrawn(&window, &[]).await;
    assert!(bench.remade(&window, "second", epoch).await.is_some());
    let taken =
        bench.store.stash_events(&super::window(1), &[other(6)], Some(window.digest_id), at(161)).await.unwrap();
    assert!(taken == 1 && bench.waiting(&window).await.unwrap().outdated);
    // After a dot it is too late.
    let RemovedEvents { epoch, .. } = bench.withdrawn(&window, &[]).await;
    assert!(bench.remade(&window, "third", epoch).await.is_some());
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    assert_eq!((named(&other(7)).await, take(&other(7)).await), (Some(EventRepetition::Refused), false));
}

pub async fn a_message_that_is_made_again_keeps_its_place_and_its_former_address(bench: &Bench) {
    let window = bench.rendered(0).await;
    let record = async || bench.store.message(window.digest_id).await.unwrap().unwrap();
    let before = record().await;
    let RemovedEvents { epoch, .. } = bench.withdrawn(&window, &[]).await;
    let moved = OutboxMessage { envelope_to: "New@example.com".into(), made_at: at(900), ..message(&window, "second") };
    assert!(bench.store.remake_message(&moved, epoch, "because", at(900)).await.unwrap().is_some());
    let after = record().await;
    assert_eq!((after.created_at, after.made_at), (before.created_at, at(900)));
    bench.suppress(&before.envelope_to, SuppressionReason::HardBounce, 901).await;
    let person = bench.store.person(&ann()).await.unwrap();
    assert_eq!(person.addresses, ids(&["new@example.com", &before.envelope_to]));
    assert_eq!(person.suppressions.len(), 1);
    assert_eq!(bench.held(PersonRowKind::Messages, 9).await[0]["former_envelopes"], json!([before.envelope_to]));
    let addresses = async || bench.store.person(&ann()).await.unwrap().addresses;
    let stays = bench.withdrawn(&window, &[]).await.epoch;
    assert!(bench.store.remake_message(&moved, stays, "because", at(901)).await.unwrap().is_some());
    assert_eq!(addresses().await.len(), 2, "the former address stays");
    bench.store.erase_addresses(&ann(), &addresses().await).await.unwrap();
    bench.store.erase_digests(&key("ann"), at(902)).await.unwrap();
    assert!(addresses().await.iter().all(|address| address.starts_with("erased:")));
    assert!(!bench.dump().await.contains(&before.envelope_to));
}

pub async fn a_message_that_waits_for_its_recipient_says_since_when(bench: &Bench) {
    let window = bench.rendered(0).await;
    let since = async || bench.waiting(&window).await.unwrap().missing_since;
    for noted in [Some(at(150)), None, Some(at(160))] {
        bench.store.note_missing(window.digest_id, noted).await.unwrap();
        assert_eq!(since().await, noted);
    }
    let RemovedEvents { epoch, .. } = bench.withdrawn(&window, &[]).await;
    assert!(bench.remade(&window, "second", epoch).await.is_some());
    assert_eq!(since().await, None);
}

pub async fn a_retract_hears_what_it_reaches(bench: &Bench) {
    assert_eq!(bench.reached("0a").await, RetractReach::Pending, "no digest has it");
    let window = bench.rendered(0).await;
    assert_eq!(bench.reached("0a").await, RetractReach::Waiting);
    let entity = Retract::Entity {
        category: "comment".into(),
        entity_type: event("0a").entity_type,
        entity_id: event("0a").entity_id,
        until: at(1_000_000),
    };
    let both = [(key("ann"), entity), (key("bo"), Retract::Event("0a".into()))];
    let claimed = bench.store.digest(window.digest_id).await.unwrap().unwrap().claimed_at;
    let waiting = RetractEffect { reach: RetractReach::Waiting, digest: Some((window.digest_id, claimed)) };
    assert_eq!(bench.store.retract_reach(&both, at(160)).await.unwrap(), [waiting, RetractEffect::PENDING]);
    let (number, _) = bench.begin(&window).await;
    assert_eq!(bench.reached("0a").await, RetractReach::Waiting, "no dot was passed");
    assert!(bench.dot(&window, number).await);
    assert_eq!(bench.reached("0a").await, RetractReach::Sent);
    bench.ended(&window, number, ends(AttemptClass::Sent, DigestOutcome::Sent)).await;
    assert_eq!(bench.reached("0a").await, RetractReach::Sent);
    let dropped = bench.rendered(1).await;
    bench.drop_digest(&dropped).await;
    assert_eq!(bench.reached("1a").await, RetractReach::Pending, "no message has it");
    assert!(bench.store.retract_reach(&[], at(160)).await.unwrap().is_empty());
}
