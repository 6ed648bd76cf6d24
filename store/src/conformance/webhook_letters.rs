//! Webhook dead letters: listed, read, emitted once, and erased with their person.

use futures::future::join_all;
use tidings_model::{
    PersonId,
    delivery_events::{CheckedDeliveryEvent, LetterEmitted, ReportKind, UnusablePart, WebhookRequest},
    records::{
        EmissionRecord, KeptWebhookLetter, MessageState, PageCursor, PageRequest, SuppressionReason,
        WebhookLetterFilter, WebhookLetterId, WebhookLetterRecord,
    },
};
use uuid::Uuid;

use super::{
    Bench, at,
    delivery_events::{HARD, MOST, reported, single},
    entry,
};

fn sha256(n: u8) -> String {
    format!("{n:02x}").repeat(32)
}

fn id(relay: &str, n: u8) -> WebhookLetterId {
    WebhookLetterId::new(relay, &sha256(n))
}

const ENTRIES: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'dead_letter_emit'";
const REPORTS: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM delivery_events";

impl Bench {
    /// Buries a letter naming this message.
    async fn bury_part(&self, relay: &str, n: u8, of: Uuid, seconds: i64) {
        let letter = UnusablePart {
            reason: "is no event".into(),
            size: 9,
            sha256: sha256(n),
            head: format!("{{\"of\":\"{of}\"}}"),
            whole: true,
            ids: [of, Uuid::from_u128(9)].into(),
        };
        let request = WebhookRequest { relay: relay.into(), unusable: vec![letter], ..WebhookRequest::default() };
        self.store.put_webhook_request(&request, MOST, at(seconds)).await.unwrap();
    }

    async fn emit_part(&self, n: u8, events: &[CheckedDeliveryEvent], by: &str) -> LetterEmitted {
        let entry = entry(5, by, "dead_letter_emit");
        self.store.emit_webhook_letter(&id("relay", n), events, MOST, &entry).await.unwrap()
    }
}

pub async fn letters_are_listed_latest_first_in_pages_and_read_by_their_id(bench: &Bench) {
    for (relay, n, seconds) in [("a", 1, 0), ("b", 2, 0), ("b", 3, 0), ("a", 4, 1), ("a", 5, 2)] {
        bench.bury_part(relay, n, Uuid::nil(), seconds).await;
    }
    let listed = async |since: Option<i64>, until: Option<i64>, limit: u32| {
        let page = PageRequest { limit, after: None };
        let mut filter = WebhookLetterFilter { since: since.map(at), until: until.map(at), page };
        let mut ids = Vec::new();
        loop {
            let page = bench.store.webhook_letters(&filter).await.unwrap();
            assert!(page.rows.len() <= limit as usize);
            ids.extend(page.rows.into_iter().map(|letter| letter.id));
            match page.next {
                Some(PageCursor(place)) => filter.page.after = Some(PageCursor(place)),
                None => return ids,
            }
        }
    };
    let all = [id("a", 5), id("a", 4), id("b", 3), id("b", 2), id("a", 1)];
    for limit in [1, 2, 5, 9] {
        assert_eq!(listed(None, None, limit).await, all, "{limit}");
    }
    assert_eq!(listed(Some(1), Some(2), 9).await, [id("a", 4)]);

    let record = WebhookLetterRecord {
        id: id("b", 3),
        relay: "b".into(),
        buried_at: at(0),
        reason: "is no event".into(),
        size: 9,
        sha256: sha256(3),
        whole: true,
        emitted: None,
    };
    let kept = KeptWebhookLetter { record, head: format!("{{\"of\":\"{}\"}}", Uuid::nil()) };
    assert_eq!(bench.store.webhook_letter(&id("b", 3)).await.unwrap(), Some(kept));
    for unknown in [id("a", 3), id("b", 9)] {
        assert_eq!(bench.store.webhook_letter(&unknown).await.unwrap(), None, "{unknown}");
    }
}

pub async fn a_letter_is_emitted_once_with_its_effects_and_an_entry_for_each_message(bench: &Bench) {
    let ann = bench.sent_digest("ann", 0).await;
    let bo = single("acme", "welcome", "bo@example.com");
    bench.store.put_message(&bo, None).await.unwrap();
    bench.sent(bo.id).await;
    bench.bury_part("relay", 1, ann, 1).await;
    let events =
        [reported(ann, HARD, 300), reported(bo.id, ReportKind::Delivered, 300), reported(Uuid::nil(), HARD, 300)];
    let LetterEmitted::Now(recorded) = bench.emit_part(1, &events, "carol").await else { panic!("it is the first") };
    let messages: Vec<_> =
        recorded.iter().map(|recorded| recorded.as_ref().ok().map(|recorded| recorded.message)).collect();
    assert_eq!(messages, [Some(ann), Some(bo.id), None]);
    assert_eq!(bench.state_of(ann).await.0, MessageState::Failed);
    assert_eq!(bench.reasons("acme", "ann@example.com").await, [SuppressionReason::HardBounce]);
    let emitted = EmissionRecord { at: at(5), by: "carol".into() };
    let letter = bench.store.webhook_letter(&id("relay", 1)).await.unwrap().unwrap();
    assert_eq!(letter.record.emitted.as_ref(), Some(&emitted));
    assert_eq!(bench.emit_part(1, &events, "dan").await, LetterEmitted::Before(emitted));
    assert_eq!((bench.value(ENTRIES).await, bench.value(REPORTS).await), ("2".into(), "2".into()));

    // Without a message the entry belongs to no tenant.
    bench.bury_part("relay", 2, ann, 1).await;
    assert_eq!(bench.emit_part(2, &[], "carol").await, LetterEmitted::Now(vec![]));
    let of_no_tenant = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'dead_letter_emit' AND tenant = ''";
    assert_eq!(bench.value(of_no_tenant).await, "1");
}

pub async fn an_emission_that_was_made_before_records_nothing(bench: &Bench) {
    let ann = bench.sent_digest("ann", 0).await;
    bench.bury_part("relay", 1, ann, 1).await;
    assert_eq!(bench.emit_part(1, &[], "carol").await, LetterEmitted::Now(vec![]));
    let events = [reported(ann, HARD, 300)];
    assert!(matches!(bench.emit_part(1, &events, "dan").await, LetterEmitted::Before(_)));
    assert_eq!(bench.emit_part(7, &events, "dan").await, LetterEmitted::Unknown);
    assert_eq!(bench.value(REPORTS).await, "0");
    assert_eq!(bench.reasons("acme", "ann@example.com").await, []);
    // The same part in another request stays emitted.
    bench.bury_part("relay", 1, ann, 9).await;
    assert!(matches!(bench.emit_part(1, &events, "dan").await, LetterEmitted::Before(_)));
}

pub async fn of_many_emissions_of_a_letter_at_once_one_counts(bench: &Bench) {
    let ann = bench.sent_digest("ann", 0).await;
    bench.bury_part("relay", 1, ann, 1).await;
    let events = [reported(ann, HARD, 300)];
    let names: Vec<_> = (0..5).map(|n| format!("operator {n}")).collect();
    let answers = join_all(names.iter().map(|by| bench.emit_part(1, &events, by))).await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, LetterEmitted::Now(_))).count(), 1, "{answers:?}");
    assert_eq!((bench.value(ENTRIES).await, bench.value(REPORTS).await), ("1".into(), "1".into()));
}

pub async fn a_letter_goes_with_the_person_whose_message_it_names(bench: &Bench) {
    let (ann, bo) = (bench.sent_digest("ann", 0).await, bench.sent_digest("bo", 0).await);
    bench.bury_part("relay", 1, ann, 1).await;
    bench.bury_part("relay", 2, bo, 1).await;
    bench.bury_part("relay", 3, Uuid::from_u128(3), 1).await;
    let person = PersonId { tenant: "acme".into(), user: "ann".into() };
    let (types, addresses) = ([].into(), [].into());
    assert_eq!(bench.store.preview_erasure(&person, &types, &addresses).await.unwrap().dead_letters, 1);
    assert_eq!(bench.store.erase_choices(&person, &types).await.unwrap().dead_letters, 1);
    assert_eq!(bench.store.preview_erasure(&person, &types, &addresses).await.unwrap().dead_letters, 0);
    assert_eq!(bench.store.webhook_letter(&id("relay", 1)).await.unwrap(), None);
    let left = bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM webhook_letter_ids").await;
    assert_eq!(left, "4", "the ids of two letters");
}
