use std::collections::BTreeSet;

use serde_json::Value;
use tidings_model::{
    Key, MessageKey, PersonId, Retract,
    attempt::AttemptClass,
    decode::DeadLetter,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind},
    records::{
        AttemptEnd, AuditActor, ClaimLimits, CloseRequest, ListPage, MessageOrigin, OutboxMessage, PageRequest,
        PersonRowKind, Preferences, Recipient, RecipientFilter, Suppression, SuppressionReason,
    },
    settings::DigestCategories,
    step::DeadLettersInput,
    window::{DigestOutcome, PlanSummary, Window},
};

use super::{Bench, at, closed, ends, entry, events, key, message, recipient, titled, window_of};

pub fn ann() -> PersonId {
    PersonId { tenant: "acme".into(), user: "ann".into() }
}

fn all(limit: u32) -> RecipientFilter {
    let page = PageRequest { limit, after: None };
    RecipientFilter { tenant: None, address: None, zone: None, locale: None, suppressed: false, page }
}

async fn users(bench: &Bench, filter: &RecipientFilter) -> Vec<String> {
    let ListPage { rows, .. } = bench.store.recipients(filter).await.unwrap();
    rows.into_iter().map(|row| format!("{}/{}", row.recipient.tenant, row.recipient.user)).collect()
}

pub async fn recipients_are_listed_by_tenant_and_user_and_filtered(bench: &Bench) {
    let elsewhere = Recipient { tenant: "other".into(), ..recipient("Zoe", "zoe@example.com") };
    let plain = Recipient { zone: String::new(), locale: String::new(), ..recipient("bo", "bo@example.com") };
    bench.store.put_recipients(&[elsewhere, plain, recipient("ann", "Ann@example.com")], at(0)).await.unwrap();
    bench.suppress("ann@example.com", SuppressionReason::Complaint, 1).await;
    let acme = || RecipientFilter { tenant: Some("acme".into()), ..all(9) };
    for (filter, expected) in [
        (all(9), &["acme/ann", "acme/bo", "other/Zoe"][..]),
        (acme(), &["acme/ann", "acme/bo"]),
        (RecipientFilter { address: Some("ANN@EXAMPLE.com".into()), ..all(9) }, &["acme/ann"]),
        (RecipientFilter { zone: Some("Europe/Berlin".into()), ..all(9) }, &["acme/ann", "other/Zoe"]),
        (RecipientFilter { locale: Some("de".into()), ..acme() }, &["acme/ann"]),
        (RecipientFilter { suppressed: true, ..all(9) }, &["acme/ann"]),
        (RecipientFilter { tenant: Some("nobody".into()), ..all(9) }, &[]),
    ] {
        assert_eq!(users(bench, &filter).await, expected, "{filter:?}");
    }
    let listed = bench.store.recipients(&acme()).await.unwrap();
    assert_eq!(listed.rows[0].suppressed, Some(SuppressionReason::Complaint));
    assert!(listed.rows[0].recipient == recipient("ann", "Ann@example.com"));
}

pub async fn people_without_a_row_are_strangers(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    let person = |tenant: &str, user: &str| PersonId { tenant: tenant.into(), user: user.into() };
    let stranger = person("acme", "b\"o");
    let elsewhere = person("other", "ann");
    let asked = BTreeSet::from([ann(), stranger.clone(), elsewhere.clone()]);
    assert_eq!(bench.store.unknown_people(&asked).await.unwrap(), BTreeSet::from([stranger, elsewhere]));
    let many: BTreeSet<_> = (0..1_200).map(|n| person("acme", &format!("u{n}"))).collect();
    assert_eq!(bench.store.unknown_people(&many).await.unwrap(), many);
    assert_eq!(bench.store.unknown_people(&BTreeSet::new()).await.unwrap(), BTreeSet::new());
}

pub async fn the_directory_and_chosen_zones_are_read_in_pages(bench: &Bench) {
    let people = ["a", "b", "c"].map(|user| recipient(user, "hanako.@docomo.ne.jp"));
    bench.store.put_recipients(&people, at(0)).await.unwrap();
    let (mut page, mut rows) = (PageRequest { limit: 2, after: None }, Vec::new());
    loop {
        let listed = bench.store.directory_rows(&page).await.unwrap();
        rows.extend(listed.rows);
        page.after = listed.next;
        if page.after.is_none() {
            break;
        }
    }
    assert!(rows == people);

    let choice = |zone: Option<&str>| Preferences { zone: zone.map(str::to_owned), ..Preferences::default() };
    for (user, zone) in [("a", Some("Asia/Tokyo")), ("b", None), ("c", Some("localtime"))] {
        let entry = entry(1, "carol", "preferences");
        bench.store.put_preferences(&key(user), &choice(zone), None, &entry).await.unwrap();
    }
    let first = bench.store.chosen_zones(&PageRequest { limit: 1, after: None }).await.unwrap();
    let second = bench.store.chosen_zones(&PageRequest { limit: 1, after: first.next }).await.unwrap();
    assert!(second.next.is_none());
    let zones: Vec<_> = first.rows.iter().chain(&second.rows).map(|(key, zone)| (&*key.user, &**zone)).collect();
    assert_eq!(zones, [("a", "Asia/Tokyo"), ("c", "localtime")]);
}

pub async fn zones_of_the_directory_and_of_choices_are_counted(bench: &Bench) {
    let living_in = |user: &str, zone: &str| Recipient { zone: zone.to_owned(), ..recipient(user, "x@example.com") };
    let people = [living_in("a", "Asia/Tokyo"), living_in("b", "localtime"), living_in("c", "")];
    bench.store.put_recipients(&people, at(0)).await.unwrap();
    for (user, zone) in [("a", Some("localtime")), ("b", None)] {
        let choice = Preferences { zone: zone.map(str::to_owned), ..Preferences::default() };
        bench.store.put_preferences(&key(user), &choice, None, &entry(1, "carol", "preferences")).await.unwrap();
    }
    let counted = |zone: &str, rows| (zone.to_owned(), rows);
    let all = [counted("Asia/Tokyo", 1), counted("localtime", 2)];
    for (tenant, expected) in [(None, &all[..]), (Some("acme"), &all), (Some("bolt"), &[])] {
        assert_eq!(bench.store.count_zones(tenant).await.unwrap(), expected, "{tenant:?}");
    }
}

pub async fn pages_of_recipients_neither_repeat_nor_leave_out_a_row(bench: &Bench) {
    let people: Vec<_> = ["a", "b", "d", "e"].map(|user| recipient(user, "x@example.com")).into();
    bench.store.put_recipients(&people, at(0)).await.unwrap();
    let mut filter = all(2);
    let first = bench.store.recipients(&filter).await.unwrap();
    filter.page.after = first.next;
    // What is added between two pages moves no other row.
    bench
        .store
        .put_recipients(&[recipient("c", "x@example.com"), recipient("0", "x@example.com")], at(0))
        .await
        .unwrap();
    assert_eq!(users(bench, &filter).await, ["acme/c", "acme/d"]);
    filter.page.after = bench.store.recipients(&filter).await.unwrap().next;
    let last = bench.store.recipients(&filter).await.unwrap();
    assert_eq!((last.rows.len(), last.next), (1, None));
}

impl Bench {
    pub(super) async fn suppress(&self, address: &str, reason: SuppressionReason, seconds: i64) {
        let (tenant, address) = ("acme".to_owned(), address.to_owned());
        let suppression = Suppression { tenant, address, reason, detail: "said so".into(), at: at(seconds) };
        self.store.suppress(&suppression).await.unwrap();
    }

    async fn report(&self, window: &Window, diagnostic: &str) {
        let (kind, diagnostic) = (ReportKind::Delivered, diagnostic.to_owned());
        let report = DeliveryReport { diagnostic, ..DeliveryReport::new(kind, at(300)) };
        let of = vec![MessageReference::Id(window.digest_id)];
        let event = CheckedDeliveryEvent {
            relay: Some("relay".into()),
            reports_for: Vec::new(),
            tenant: None,
            of,
            report,
            event_id: None,
        };
        assert!(self.store.put_delivery_event(&event, 5, at(301)).await.unwrap().is_some());
    }

    /// All rows of one kind about ann, in pages of this size.
    pub(super) async fn held(&self, part: PersonRowKind, limit: u32) -> Vec<Value> {
        let person = self.store.person(&ann()).await.unwrap();
        let mut rows = Vec::new();
        for digest_type in ["activity", ""] {
            let mut page = PageRequest { limit, after: None };
            loop {
                let key = ann().key(digest_type);
                let listed = self.store.person_rows(&key, &person.addresses, part, &page).await.unwrap();
                rows.extend(listed.rows);
                match listed.next {
                    None => break,
                    after => page.after = after,
                }
            }
        }
        rows
    }
}

/// Something of each kind about ann (with `MARK` in her texts) and about bo.
pub async fn everything(bench: &Bench) {
    for (user, address) in [("ann", "Ann.Mark@example.com"), ("bo", "bo@example.com")] {
        let person = Recipient { name: format!("{user} MARK"), ..recipient(user, address) };
        let person = if user == "ann" { person } else { Recipient { name: "Bo".into(), ..person } };
        bench.store.put_recipients(&[person], at(0)).await.unwrap();
        let (key, mark) = (key(user), if user == "ann" { "MARK" } else { "other" });
        let off = Preferences { off: ["share".to_owned()].into(), ..Preferences::default() };
        bench.store.put_preferences(&key, &off, None, &entry(1, "ann", "preferences")).await.unwrap();
        bench.store.put_consent(&key, true, &entry(2, "ann", "grant consent")).await.unwrap();
        bench.suppress(address, SuppressionReason::Complaint, 3).await;
        about(bench, &key, address, mark).await;
    }
}

/// Digests (sent, open, returned), a single message, a report, a retract and a dead letter.
async fn about(bench: &Bench, key: &Key, address: &str, mark: &str) {
    let told = |ids: &[&str]| {
        let mut events = events(ids);
        for event in &mut events {
            event.actor = format!("actor {mark}");
            event.entity_id = format!("entity {mark}");
            event.payload = titled(format!("payload {mark}").into());
        }
        events
    };
    let addressed = |message: OutboxMessage| OutboxMessage {
        envelope_to: address.into(),
        subject: format!("subject {mark}"),
        bytes: format!("body {mark} {address}").into_bytes(),
        ..message
    };
    let sent = window_of(key, 1);
    let planned = PlanSummary { why: format!("retimed: plan {mark}"), ..PlanSummary::default() };
    let off = BTreeSet::new();
    let limits = ClaimLimits {
        cap: None,
        slot_at: None,
        off: &off,
        seen: &BTreeSet::new(),
        categories: &DigestCategories::NONE,
        planned: Some(&planned),
    };
    bench.store.claim(&sent, &told(&["e1", "e2"]), &limits, at(1)).await.unwrap();
    bench.store.put_message(&addressed(message(&sent, "")), None).await.unwrap();
    let (number, _) = bench.begin(&sent).await;
    assert!(bench.dot(&sent, number).await);
    bench
        .ended(
            &sent,
            number,
            AttemptEnd { reply: format!("250 {mark}"), ..ends(AttemptClass::Sent, DigestOutcome::Sent) },
        )
        .await;
    bench.report(&sent, &format!("diagnostic {mark}")).await;
    bench.store.stash_events(&window_of(key, 2), &told(&["e3"]), None, at(2)).await.unwrap();
    let failed = window_of(key, 3);
    bench.claim(&failed, &told(&["e4"]), at(3)).await;
    let end = closed(DigestOutcome::Failed);
    let closing = CloseRequest {
        window: &failed,
        events: &[],
        closed: &end,
        by: AuditActor::Tidings,
        return_events: true,
        planned: None,
        now: at(4),
    };
    bench.store.close_digest(closing).await.unwrap();
    let single = MessageKey { tenant: key.tenant.clone(), key: format!("welcome {}", key.user) };
    let (id, user) = (single.message_id(), Some(key.user.clone()));
    let origin = MessageOrigin::Single { key: single, user, content_sha256: "00".into() };
    let single = OutboxMessage { id, origin, ..addressed(message(&window_of(key, 4), "")) };
    bench.store.put_message(&single, None).await.unwrap();
    let retract = Retract::Entity {
        category: "comment".into(),
        entity_type: "doc".into(),
        entity_id: format!("entity {mark}"),
        until: at(0),
    };
    bench.store.put_retracts(key, &[retract], at(5)).await.unwrap();
    let letter = DeadLetter {
        seq: 1,
        reason: "no JSON".into(),
        encoding: "json/plain".into(),
        message_type: None,
        size: 9,
        sha256: "00".into(),
        head: format!("head {mark}"),
    };
    let input = DeadLettersInput { workflow_id: key.workflow_id(), run_id: "run".into(), letters: vec![letter] };
    bench.store.put_dead_letters(&input, at(6)).await.unwrap();
}

pub async fn what_is_held_about_a_person_is_complete_in_pages_of_any_size(bench: &Bench) {
    everything(bench).await;
    let person = bench.store.person(&ann()).await.unwrap();
    assert_eq!(person.recipient.as_ref().unwrap().address, "Ann.Mark@example.com");
    assert_eq!(person.addresses, ["ann.mark@example.com".to_owned()].into());
    assert_eq!(person.digest_types, ["activity".to_owned()].into());
    assert_eq!((person.preferences.len(), person.consents.len(), person.suppressions.len()), (1, 1, 1));
    for (part, rows) in [
        (PersonRowKind::Digests, 3),
        (PersonRowKind::Events, 4),
        (PersonRowKind::Retracts, 1),
        (PersonRowKind::Messages, 2),
        (PersonRowKind::DeliveryEvents, 1),
        (PersonRowKind::DeadLetters, 1),
        // Preferences, consent, and the end of the failed digest.
        (PersonRowKind::Audit, 3),
    ] {
        let held = bench.held(part, 500).await;
        assert_eq!(held.len(), rows, "{part:?}: {held:?}");
        assert_eq!(bench.held(part, 1).await, held, "{part:?}");
        let text = Value::from(held).to_string().replace("other_categories", "");
        assert!(!text.contains("other"), "{part:?}: {text}");
        let has_texts = part != PersonRowKind::Audit;
        assert_eq!(text.contains("MARK"), has_texts, "{part:?}: {text}");
    }
    let messages = bench.held(PersonRowKind::Messages, 500).await;
    assert_eq!(messages[0]["bytes"], "body MARK Ann.Mark@example.com");
    assert_eq!(messages[0]["attempts"][0]["reply"], "250 MARK");
    let nobody = bench.store.person(&PersonId { user: "nobody".into(), ..ann() }).await.unwrap();
    assert!(nobody.is_empty());
}

pub async fn a_message_without_a_user_belongs_to_the_person_with_the_address(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "Ann@example.com")], at(0)).await.unwrap();
    for (name, user, to) in [
        ("a", None, "ANN@example.com"),
        ("b", None, "bo@example.com"),
        ("c", Some("bo"), "ann@example.com"),
        ("d", Some("ann"), "old@example.com"),
    ] {
        let key = MessageKey { tenant: "acme".into(), key: name.into() };
        let (id, user) = (key.message_id(), user.map(str::to_owned));
        let origin = MessageOrigin::Single { key, user, content_sha256: "00".into() };
        let message =
            OutboxMessage { id, origin, envelope_to: to.into(), ..message(&window_of(&self::key("ann"), 1), "") };
        bench.store.put_message(&message, None).await.unwrap();
    }
    let to: Vec<_> =
        bench.held(PersonRowKind::Messages, 1).await.iter().map(|row| row["envelope_to"].clone()).collect();
    assert_eq!(to, ["ANN@example.com", "old@example.com"]);
}
