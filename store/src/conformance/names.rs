//! Renamed digest types and tenants: each refusal holds under every name, until it is ended.

use std::collections::{BTreeMap, BTreeSet};

use tidings_model::{
    Event, EventRepetition, Key, PersonId, Retract,
    pause::{PauseDetails, PauseScope},
    records::{
        DependentKind, DigestState, NameKind, Preferences, PreferencesPut, Recipient, RecipientChange, StoredName,
        Suppression, SuppressionReason,
    },
    settings::FormerNames,
    window::DigestOutcome,
};

use super::{
    Bench, at,
    bench::Behind,
    entry, event, events,
    everyone::{of_people, put},
    key, message, recipient, window, window_of,
};
use crate::{
    attempts::FACTS_FOR_ATTEMPT,
    claims::{COUNTED_SINCE, FACTS_FOR_CLAIM},
    directory::{FACTS, FORGET_ANSWER, GRANTED_AGAIN, PUT_CONSENT, PUT_PREFERENCES, PUT_RECIPIENTS, ZONE_REVISIONS},
    events::{INSERT_EVENTS, RECORDED_EVENTS, REFUSE_CONTENT},
    ledger::PUT_RETRACTS,
    names::NAMES_IN_USE,
    pauses::PAUSE_OF_MESSAGES,
    sql::dialect::StatementVariants,
    suppressions::{LIFT, SUPPRESSED},
    waiting::WAITING_RETRACTED,
};

/// Renames the digest type `activity` to `news`, and the tenant `acme` to `initech`.
async fn rename(bench: &Bench) {
    let was = |was: &str, today: &str| BTreeMap::from([(was.to_owned(), today.to_owned())]);
    let names = FormerNames { digests: was("activity", "news"), tenants: was("acme", "initech") };
    let tables = |name: &str| BTreeSet::from([name.to_owned()]);
    let tables = BTreeMap::from([(NameKind::Digest, tables("news")), (NameKind::Tenant, tables("initech"))]);
    bench.store.put_names(&names, &tables).await.unwrap();
    bench.store.put_names(&names, &tables).await.unwrap();
}

/// A file with tables for both names.
async fn part(bench: &Bench) {
    let two = |a: &str, b: &str| BTreeSet::from([a.to_owned(), b.to_owned()]);
    let tables =
        BTreeMap::from([(NameKind::Digest, two("news", "activity")), (NameKind::Tenant, two("initech", "acme"))]);
    for _ in 0..2 {
        bench.store.put_names(&FormerNames::default(), &tables).await.unwrap();
    }
}

/// Ann's key under the current names.
fn today() -> Key {
    Key { tenant: "initech".into(), digest_type: "news".into(), ..key("ann") }
}

async fn wants(bench: &Bench, key: &Key) -> bool {
    bench.store.facts(key).await.unwrap().consent
}

pub async fn an_unsubscription_counts_under_each_name_until_a_later_wish(bench: &Bench) {
    let (before, now) = (key("ann"), today());
    bench.store.put_consent(&before, false, &entry(100, "recipient", "withdraw")).await.unwrap();
    assert!(wants(bench, &now).await, "two names that nobody said to be one");
    rename(bench).await;
    assert!(!wants(bench, &now).await);
    // The clock of another process is behind.
    bench.store.put_consent(&now, true, &entry(50, "recipient", "grant")).await.unwrap();
    assert!(wants(bench, &now).await && wants(bench, &before).await);
    // A gateway with an older file still writes the former name.
    bench.store.put_consent(&before, false, &entry(60, "recipient", "withdraw")).await.unwrap();
    bench.store.put_consent(&now, false, &entry(70, "recipient", "withdraw")).await.unwrap();
    assert!(!wants(bench, &now).await && !wants(bench, &before).await);
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE user_id = 'ann'";
    assert_eq!(bench.value(audited).await, "3", "what holds already is no change");
    let others = [Key { user: "bo".into(), ..now.clone() }, Key { digest_type: "alerts".into(), ..now }];
    for other in others {
        assert!(wants(bench, &other).await, "{other}");
    }
}

pub async fn of_choices_under_several_names_the_latest_counts_and_their_revision_grows(bench: &Bench) {
    let off = |category: &str| Preferences { off: [category.to_owned()].into(), ..Preferences::default() };
    rename(bench).await;
    let mut revision = 0;
    for (seconds, key, category) in [(10, key("ann"), "like"), (5, today(), "share"), (5, key("ann"), "like")] {
        let stale =
            bench.store.put_preferences(&key, &off("x"), Some(revision + 1), &entry(9, "ann", "p")).await.unwrap();
        assert_eq!(stored(stale), None, "{category}");
        let entry = entry(seconds, "ann", "preferences");
        let put = bench.store.put_preferences(&key, &off(category), Some(revision), &entry).await.unwrap();
        revision += 1;
        assert_eq!(stored(put), Some((revision, true)));
        for key in [super::key("ann"), today()] {
            let facts = bench.store.facts(&key).await.unwrap();
            assert_eq!((facts.preferences, facts.revision), (off(category), revision), "{key}");
        }
    }
    let again = bench.store.put_preferences(&today(), &off("like"), None, &entry(20, "ann", "preferences")).await;
    assert_eq!(stored(again.unwrap()), Some((revision, false)));
}

/// The revision, and whether something changed; `None` on a conflict.
fn stored(put: PreferencesPut) -> Option<(u64, bool)> {
    match put {
        PreferencesPut::Stored { revision, changed } => Some((revision, changed)),
        PreferencesPut::Conflict { .. } => None,
    }
}

pub async fn a_pause_counts_under_each_name_and_ends_under_each(bench: &Bench) {
    let scope = |tenant: &str, digest_type: &str| PauseScope {
        tenant: Some(tenant.to_owned()),
        digest_type: Some(digest_type.to_owned()),
    };
    let terms = |why: &str, until: Option<i64>| PauseDetails {
        by: "carol".into(),
        why: why.into(),
        since: at(1),
        until: until.map(at),
    };
    let of = async |key: &Key| bench.store.facts(key).await.unwrap().pause.map(|pause| pause.why);
    bench.store.pause(&scope("acme", "activity"), true, &terms("wrong prices", None)).await.unwrap();
    rename(bench).await;
    assert_eq!(of(&today()).await.as_deref(), Some("wrong prices"));
    assert!(bench.store.pause_of_messages("initech").await.unwrap().is_some());
    // Another command replaces the terms, whatever the name.
    bench.store.pause(&scope("initech", "news"), false, &terms("until noon", Some(50))).await.unwrap();
    assert_eq!(of(&key("ann")).await.as_deref(), Some("until noon"));
    assert_eq!(bench.store.pauses(false, at(2)).await.unwrap().len(), 1);
    let ended = bench.store.resume(&scope("acme", "activity"), &entry(3, "carol", "resume")).await.unwrap();
    assert!(ended.is_some());
    assert_eq!((of(&key("ann")).await, of(&today()).await), (None, None));
}

pub async fn a_suppression_counts_under_each_name_of_the_tenant_until_it_is_lifted(bench: &Bench) {
    let address = "ann@example.com";
    let suppression = Suppression {
        tenant: "acme".into(),
        address: address.into(),
        reason: SuppressionReason::HardBounce,
        detail: "550 5.1.1".into(),
        at: at(1),
    };
    bench.store.suppress(&suppression).await.unwrap();
    rename(bench).await;
    let person = Recipient { tenant: "initech".into(), ..recipient("ann", address) };
    bench.store.put_recipients(std::slice::from_ref(&person), at(2)).await.unwrap();
    assert_eq!(bench.store.facts(&today()).await.unwrap().suppressed, Some(SuppressionReason::HardBounce));
    assert_eq!(bench.store.suppression_reasons("initech", address).await.unwrap(), [SuppressionReason::HardBounce]);
    bench.store.lift("initech", address, None, &entry(3, "carol", "lift")).await.unwrap();
    assert_eq!(bench.store.suppression_reasons("acme", address).await.unwrap(), []);
    assert_eq!(bench.store.facts(&today()).await.unwrap().suppressed, None);
}

pub async fn a_suppression_outlives_an_erasure_and_another_name(bench: &Bench) {
    let address = "ann@example.com";
    let ann = PersonId { tenant: "acme".into(), user: "ann".into() };
    let suppression = Suppression {
        tenant: "acme".into(),
        address: address.into(),
        reason: SuppressionReason::Complaint,
        detail: "abuse".into(),
        at: at(1),
    };
    bench.store.suppress(&suppression).await.unwrap();
    bench.store.erase_addresses(&ann, &[address.to_owned()].into()).await.unwrap();
    rename(bench).await;
    assert_eq!(bench.store.suppression_reasons("initech", address).await.unwrap(), [SuppressionReason::Complaint]);
    let person = Recipient { tenant: "initech".into(), ..recipient("ann", address) };
    bench.store.put_recipients(std::slice::from_ref(&person), at(2)).await.unwrap();
    assert_eq!(bench.store.facts(&today()).await.unwrap().suppressed, Some(SuppressionReason::Complaint));
}

pub async fn todays_row_of_the_directory_counts_and_else_a_former_one(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "old@example.com")], at(1)).await.unwrap();
    rename(bench).await;
    let of = async |key: &Key| bench.store.facts(key).await.unwrap().recipient.map(|found| found.address);
    assert_eq!(of(&today()).await.as_deref(), Some("old@example.com"));
    let moved = Recipient { tenant: "initech".into(), ..recipient("ann", "new@example.com") };
    bench.store.put_recipients(&[moved], at(2)).await.unwrap();
    for key in [key("ann"), today()] {
        assert_eq!(of(&key).await.as_deref(), Some("new@example.com"), "{key}");
    }
}

pub async fn a_retract_and_a_known_id_count_under_each_name(bench: &Bench) {
    let sent = window(1);
    bench.claim(&sent, &events(&["sent"]), at(1)).await;
    bench.drop_digest(&sent).await;
    assert_eq!(bench.outcome(&sent).await, Some(DigestOutcome::Dropped));
    rename(bench).await;
    let ids = ["sent".to_owned(), "new".to_owned()];
    let known = bench.store.known_events(&today(), &ids, &[], None).await.unwrap();
    assert_eq!(known.event_ids, ["sent"]);
    let asked = ids.map(|id| (today(), id.clone(), event(&id).content()));
    assert_eq!(bench.store.find_repetitions(&asked).await.unwrap(), [Some(EventRepetition::Same), None]);
    bench.store.put_retracts(&today(), &[Retract::Event("withdrawn".into())], at(2)).await.unwrap();
    let open = window_of(&key("ann"), 2);
    let claim = bench.claim(&open, &events(&["withdrawn", "stays"]), at(3)).await;
    assert_eq!((claim.items, claim.aside), (1, 1), "the window of the former name has the event");
}

pub async fn an_event_of_two_names_is_in_the_digest_that_was_first(bench: &Bench) {
    let (former, now) = (window_of(&key("ann"), 1), window_of(&today(), 2));
    assert!(bench.store.facts_for_claim(&now).await.unwrap().1);
    rename(bench).await;
    assert!(!bench.store.facts_for_claim(&now).await.unwrap().1, "only the ledger knows what the other name has");
    bench.claim(&former, &events(&["twice"]), at(1)).await;
    let corrected = Event { actor: "Bo".into(), ..event("twice") };
    let claim = bench.claim(&now, &[corrected, event("once")], at(3)).await;
    assert_eq!((claim.items, claim.taken), (1, 2));
    let digest = bench.store.digest(former.digest_id).await.unwrap().unwrap();
    assert_eq!((digest.state, digest.items), (DigestState::Claimed, 1), "it lives, however early it opened");
    let actor = bench.value("SELECT actor FROM events WHERE event_id = 'twice'").await;
    assert_eq!(actor, "Bo", "what came last counts, where the event is");
    assert_eq!(bench.store.stash_events(&window_of(&today(), 3), &events(&["twice"]), None, at(4)).await.unwrap(), 1);
    assert_eq!(bench.items(&window_of(&today(), 3)).await, 0);
}

pub async fn of_claims_of_the_same_event_under_two_names_at_once_one_has_it(bench: &Bench) {
    rename(bench).await;
    for n in 0..12 {
        let (former, now) = (window_of(&key("ann"), 2 * n), window_of(&today(), 2 * n + 1));
        let same = events(&[&n.to_string()]);
        let (of_former, of_now) = tokio::join!(bench.claim(&former, &same, at(1)), bench.claim(&now, &same, at(1)));
        assert_eq!((of_former.items + of_now.items, of_former.taken, of_now.taken), (1, 1, 1));
    }
}

pub async fn each_name_is_listed_with_what_hangs_on_it(bench: &Bench) {
    bench.store.put_consent(&key("ann"), false, &entry(1, "recipient", "withdraw")).await.unwrap();
    bench.store.put_consent(&key("bo"), true, &entry(1, "recipient", "grant")).await.unwrap();
    bench
        .chosen(&Preferences { zone: Some("Asia/Tokyo".into()), ..Preferences::default() }, None, &entry(2, "ann", "p"))
        .await
        .unwrap();
    bench.claim(&window(1), &events(&["a"]), at(1)).await;
    let scope = PauseScope { tenant: Some("acme".into()), digest_type: None };
    let terms = PauseDetails { by: "carol".into(), why: "moving".into(), since: at(1), until: None };
    bench.store.pause(&scope, false, &terms).await.unwrap();
    let off = Preferences { off: ["like".to_owned()].into(), ..Preferences::default() };
    bench.store.put_preferences(&key("cy"), &off, None, &entry(2, "cy", "p")).await.unwrap();
    bench
        .execute(
            "INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, occurred_at, recorded_at)
                   VALUES ('crm', 'digest.sent', 'l', 'acme', 'activity', 'ann', 1, 1)",
        )
        .await;
    let named = |kind, name: &str, has: &[(DependentKind, u64)]| StoredName {
        kind,
        name: name.into(),
        has: has.iter().copied().collect(),
    };
    let [withdrawn, chosen, undelivered] =
        [(DependentKind::Withdrawn, 1), (DependentKind::Chosen, 2), (DependentKind::Undelivered, 1)];
    let stored = bench.store.stored_names().await.unwrap();
    let expected = [
        named(NameKind::Digest, "activity", &[withdrawn, chosen, undelivered]),
        named(NameKind::Tenant, "acme", &[withdrawn, chosen, (DependentKind::Paused, 1), undelivered]),
        named(NameKind::Category, "like", &[(DependentKind::Off, 1)]),
        named(NameKind::Subscription, "crm", &[(DependentKind::Waiting, 1)]),
    ];
    assert_eq!(stored, expected);
    let mut in_use = bench.store.names_in_use().await.unwrap();
    in_use.sort();
    let counted = expected.into_iter().filter(|name| name.kind != NameKind::Category);
    assert_eq!(in_use, counted.map(|name| (name.kind, name.name)).collect::<Vec<_>>());
}

pub async fn names_in_use_are_found_between_many_people(bench: &Bench) {
    for (tenant, digest_type) in [("acme", "activity"), ("acme", "news"), ("bolt", "activity"), ("zeta", "alerts")] {
        for user in ["ann", "bo", "cy"] {
            let key = Key { tenant: tenant.into(), digest_type: digest_type.into(), user: user.into() };
            bench.store.put_consent(&key, false, &entry(1, "recipient", "withdraw")).await.unwrap();
        }
    }
    let of = |kind, names: &[&str]| names.iter().map(|name| (kind, (*name).to_owned())).collect::<Vec<_>>();
    let expected =
        [of(NameKind::Digest, &["activity", "alerts", "news"]), of(NameKind::Tenant, &["acme", "bolt", "zeta"])];
    assert_eq!(bench.store.names_in_use().await.unwrap(), expected.concat());
    let plan = bench.plan(NAMES_IN_USE).await;
    for table in ["consents", "preferences", "suppressions"] {
        assert!(!plan.contains(&format!("SCAN {table}")) && !plan.contains(&format!("Seq Scan on {table}")), "{plan}");
    }
}

pub async fn upkeep_keeps_a_retract_that_a_digest_under_another_name_needs(bench: &Bench) {
    let open = window(1);
    bench.claim(&open, &events(&["e1"]), at(1)).await;
    bench.store.put_retracts(&today(), &[Retract::Event("late".into())], at(5_000)).await.unwrap();
    let old = async || bench.store.keys_of_old_retracts(at(9_000), 9, at(9_001)).await.unwrap();
    assert_eq!(old().await, [today()], "two names that nobody said to be one");
    rename(bench).await;
    assert_eq!(old().await, []);
}

pub async fn people_of_a_tenant_are_counted_once_under_all_its_names(bench: &Bench) {
    rename(bench).await;
    bench
        .store
        .put_recipients(&[recipient("ann", "a@example.com"), recipient("bo", "b@example.com")], at(1))
        .await
        .unwrap();
    let again = Recipient { tenant: "initech".into(), ..recipient("ann", "new@example.com") };
    bench.store.put_recipients(&[again], at(2)).await.unwrap();
    for tenant in ["acme", "initech"] {
        assert_eq!(bench.store.count_recipients(tenant).await.unwrap(), 2, "{tenant}");
    }
}

pub async fn all_that_is_known_of_a_person_counts_under_the_tenants_name_of_today(bench: &Bench) {
    // The row of `digests` comes with one of `events`.
    for (table, _) in of_people().filter(|(table, _)| *table != "events") {
        put(bench, table, &key("ann")).await;
    }
    let ann = |tenant: &str| PersonId { tenant: tenant.into(), user: "ann".into() };
    bench.store.raise_generation(&ann("acme")).await.unwrap();
    rename(bench).await;
    let facts = bench.store.facts(&today()).await.unwrap();
    assert_eq!(facts.recipient.map(|known| known.address).as_deref(), Some("mark@example.com"));
    assert_eq!((facts.consent, facts.suppressed, facts.generation), (false, Some(SuppressionReason::Complaint), 1));
    assert_eq!(facts.preferences.off, ["MARK".to_owned()].into());
    let open = Some(window_of(&key("ann"), 1).digest_id);
    let known = bench.store.known_events(&today(), &["e1".to_owned()], &[], open).await.unwrap();
    assert_eq!(known.event_ids, ["e1"]);
    let owner = async |generation| bench.store.link_owner(&ann("initech"), generation).await.unwrap();
    assert_eq!((owner(0).await, owner(1).await), (None, Some(ann("initech"))), "links of the erased person");
    bench.store.put_retracts(&today(), &[Retract::Event("late".into())], at(5_000)).await.unwrap();
    let old = bench.store.keys_of_old_retracts(at(9_000), 9, at(9_001)).await.unwrap();
    assert!(!old.contains(&today()), "the window of the former name has no end: {old:?}");
}

pub async fn an_erased_address_stays_out_of_the_clear_under_each_name(bench: &Bench) {
    let address = "ann.mark@example.com";
    let [before, now] = [key("ann"), today()].map(|key| PersonId::from_key(&key));
    bench.store.put_recipients(&[recipient("ann", address)], at(0)).await.unwrap();
    rename(bench).await;
    assert_eq!(bench.store.same_person(&now).await.unwrap(), [now.clone(), before.clone()]);
    let addresses = BTreeSet::from([address.to_owned()]);
    let own = bench.store.own_addresses(&now, &addresses).await.unwrap();
    assert_eq!(own, addresses, "the row under the former name is hers");
    bench.store.erase_addresses(&before, &addresses).await.unwrap();
    bench.store.erase_recipient(&before).await.unwrap();
    for (tenant, seconds) in [("initech", 10), ("acme", 11)] {
        let (detail, reason) = (format!("typed: {address}"), SuppressionReason::Unsubscribed);
        let suppression =
            Suppression { tenant: tenant.into(), address: address.into(), reason, detail, at: at(seconds) };
        bench.store.suppress(&suppression).await.unwrap();
        let dump = bench.dump().await.to_lowercase();
        assert!(!dump.contains("mark"), "{tenant}: {dump}");
        assert_eq!(bench.store.suppression_reasons(tenant, address).await.unwrap(), [SuppressionReason::Unsubscribed]);
    }
}

pub async fn a_move_takes_the_rows_of_each_name(bench: &Bench) {
    let (before, now) = (key("ann"), today());
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    bench.store.put_consent(&before, false, &entry(1, "ann", "withdraw")).await.unwrap();
    rename(bench).await;
    bench.claim(&window_of(&now, 1), &events(&["e1"]), at(2)).await;
    let [from, to] = ["ann", "anna"].map(|user| PersonId { tenant: now.tenant.clone(), user: user.to_owned() });
    assert!(bench.store.begin_move(&from, &to, &entry(3, "carol", "rename")).await.unwrap());
    let elsewhere = PersonId { tenant: before.tenant.clone(), user: "bo".to_owned() };
    let another = bench.store.begin_move(&PersonId::from_key(&before), &elsewhere, &entry(3, "carol", "rename")).await;
    assert!(!another.unwrap(), "one move at a time, under whichever name");
    let moved = bench.store.move_person(&from, &to, &BTreeSet::new(), at(4)).await.unwrap();
    assert_eq!((moved.recipients, moved.consents, moved.events), (1, 1, 1), "{moved:?}");
    for person in bench.store.same_person(&from).await.unwrap() {
        assert!(bench.store.person(&person).await.unwrap().is_empty(), "{person}");
    }
    let annas = bench.store.facts(&Key { user: "anna".into(), ..now.clone() }).await.unwrap();
    assert!(annas.recipient.is_some() && !annas.consent);
    for tenant in [now.tenant, before.tenant] {
        let of = PersonId { tenant, user: "ann".into() };
        let owner = bench.store.link_owner(&of, 0).await.unwrap().map(|owner| owner.user);
        assert_eq!(owner.as_deref(), Some("anna"), "{of}");
    }
}

pub async fn what_counted_stays_when_a_former_name_is_a_name_of_its_own(bench: &Bench) {
    let address = "ann@example.com";
    let off = Preferences { off: ["like".to_owned()].into(), ..Preferences::default() };
    bench.store.put_consent(&key("ann"), false, &entry(1, "recipient", "withdraw")).await.unwrap();
    bench.store.put_consent(&key("bo"), false, &entry(1, "recipient", "withdraw")).await.unwrap();
    bench.chosen(&off, None, &entry(1, "ann", "preferences")).await.unwrap();
    let complaint = Suppression {
        tenant: "acme".into(),
        address: address.into(),
        reason: SuppressionReason::Complaint,
        detail: "abuse".into(),
        at: at(1),
    };
    bench.store.suppress(&complaint).await.unwrap();
    let scope = PauseScope { tenant: Some("acme".into()), digest_type: Some("activity".into()) };
    let terms = PauseDetails { by: "carol".into(), why: "wrong prices".into(), since: at(1), until: None };
    bench.store.pause(&scope, false, &terms).await.unwrap();
    rename(bench).await;
    let bo = Key { user: "bo".into(), ..today() };
    bench.store.put_consent(&bo, true, &entry(2, "recipient", "grant")).await.unwrap();
    let person = Recipient { tenant: "initech".into(), ..recipient("ann", address) };
    bench.store.put_recipients(&[person], at(2)).await.unwrap();
    let before = bench.store.facts(&today()).await.unwrap();
    assert!(!before.consent && before.preferences == off);
    part(bench).await;
    let after = bench.store.facts(&today()).await.unwrap();
    assert_eq!(after.pause.map(|pause| pause.why).as_deref(), Some("wrong prices"));
    assert_eq!((after.consent, after.preferences, after.revision), (false, off, before.revision));
    assert_eq!(after.suppressed, Some(SuppressionReason::Complaint));
    assert!(wants(bench, &bo).await, "the later wish counts");
    // What is said from now on is about one of the two.
    bench.store.put_consent(&key("ann"), true, &entry(3, "recipient", "grant")).await.unwrap();
    assert!(wants(bench, &key("ann")).await && !wants(bench, &today()).await);
}

pub async fn a_column_that_a_file_lacks_is_that_of_the_row_under_another_name(bench: &Bench) {
    let ann = Recipient { zone: "Asia/Tokyo".into(), ..recipient("ann", "ann@example.com") };
    bench.store.put_recipients(&[ann], at(1)).await.unwrap();
    rename(bench).await;
    let of = async || bench.store.facts(&today()).await.unwrap().recipient.map(|found| found.zone);
    let change = |zone: Option<&str>| RecipientChange {
        tenant: "initech".into(),
        user: "ann".into(),
        address: "new@example.com".into(),
        name: None,
        zone: zone.map(Into::into),
        locale: None,
    };
    bench.store.change_recipients(&[change(None)], at(2)).await.unwrap();
    assert_eq!(of().await.as_deref(), Some("Asia/Tokyo"));
    bench.store.change_recipients(&[change(Some("Europe/Paris"))], at(3)).await.unwrap();
    bench.store.change_recipients(&[change(None)], at(4)).await.unwrap();
    assert_eq!(of().await.as_deref(), Some("Europe/Paris"), "the person's own row comes first");
}

pub async fn the_fifth_unread_digest_is_that_of_all_names(bench: &Bench) {
    for n in 1..=6 {
        let key = if n % 2 == 0 { key("ann") } else { today() };
        let window = window_of(&key, n);
        bench.claim(&window, &events(&[&n.to_string()]), at(1)).await;
        bench.store.put_message(&message(&window, "digest"), None).await.unwrap();
    }
    for sql in [
        "UPDATE digests SET sent_at = 400 + (SELECT COUNT(*) FROM digests d WHERE d.digest_id < digests.digest_id)",
        "UPDATE messages SET counted = TRUE",
        "INSERT INTO readings (tenant, digest_type, user_id, sign_at) VALUES ('acme', 'activity', 'ann', 300)",
    ] {
        bench.execute(sql).await;
    }
    rename(bench).await;
    let reading = bench.store.facts(&today()).await.unwrap().reading;
    let millis = |at: Option<jiff::Timestamp>| at.map(jiff::Timestamp::as_millisecond);
    assert_eq!((millis(reading.unread_since), millis(reading.fifth_unread_at)), (Some(400), Some(404)));
}

pub async fn statements_about_a_key_look_up_each_of_its_names(bench: &Bench) {
    let same = |statement: &'static str| StatementVariants { sqlite: statement, postgres: statement };
    for statement in [
        same(FACTS),
        same(FACTS_FOR_CLAIM),
        same(FACTS_FOR_ATTEMPT),
        same(PUT_CONSENT),
        same(GRANTED_AGAIN),
        PUT_PREFERENCES,
        PUT_RECIPIENTS,
        ZONE_REVISIONS,
        INSERT_EVENTS,
        RECORDED_EVENTS,
        same(REFUSE_CONTENT),
        PUT_RETRACTS,
        same(WAITING_RETRACTED),
        same(COUNTED_SINCE),
        same(PAUSE_OF_MESSAGES),
        SUPPRESSED,
        LIFT,
        same(FORGET_ANSWER),
    ] {
        let statement = match &bench.behind {
            Behind::Sqlite { .. } => statement.sqlite,
            Behind::Postgres { .. } => statement.postgres,
        };
        let plan = bench.plan(statement).await;
        let reads_a_tenant =
            |line: &str| line.contains("AUTOMATIC") || line.ends_with("(tenant=?)") || line.contains("Seq Scan");
        assert!(!plan.lines().any(reads_a_tenant), "{statement}\n{plan}");
    }
}
