//! The people who had an id one after another, and the ids one person had.

use std::collections::BTreeSet;

use tidings_model::{
    PersonId,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind},
    records::{
        AuditActor, CloseRequest, MovedRows, PageRequest, Preferences, Suppression, SuppressionFilter,
        SuppressionReason,
    },
    window::{DigestOutcome, WindowEnd},
};

use super::{
    Bench, at, entry, events, key,
    people::{ann, everything},
    recipient, window, window_of,
};

fn person(user: &str) -> PersonId {
    PersonId { tenant: "acme".into(), user: user.into() }
}

impl Bench {
    /// The user who owns a link to `user` with this generation.
    async fn owner(&self, user: &str, generation: u64) -> Option<String> {
        self.store.link_owner(&person(user), generation).await.unwrap().map(|owner| owner.user)
    }

    async fn moved(&self, from: &str, to: &str) -> MovedRows {
        let entry = entry(600, "carol", "rename");
        assert!(self.store.begin_move(&person(from), &person(to), &entry).await.unwrap());
        self.store.move_person(&person(from), &person(to), &BTreeSet::new(), at(601)).await.unwrap()
    }
}

pub async fn a_link_of_an_erased_person_belongs_to_nobody(bench: &Bench) {
    assert_eq!((bench.owner("ann", 0).await.as_deref(), bench.owner("ann", 1).await), (Some("ann"), None));
    bench.store.raise_generation(&ann()).await.unwrap();
    assert_eq!(bench.store.facts(&key("ann")).await.unwrap().generation, 1);
    assert_eq!((bench.owner("ann", 0).await, bench.owner("ann", 1).await.as_deref()), (None, Some("ann")));
    let elsewhere = PersonId { tenant: "other".into(), ..ann() };
    assert_eq!(bench.store.link_owner(&elsewhere, 0).await.unwrap(), Some(elsewhere));
    assert_eq!(bench.store.facts(&key("bo")).await.unwrap().generation, 0);
}

pub async fn a_link_follows_its_person_and_not_the_next_one_with_the_id(bench: &Bench) {
    bench.moved("ann", "anna").await;
    bench.moved("anna", "annika").await;
    assert_eq!(bench.owner("ann", 0).await.as_deref(), Some("annika"));
    assert_eq!(bench.owner("ann", 1).await.as_deref(), Some("ann"), "another person");
    bench.moved("annika", "ann").await;
    for (user, generation) in [("ann", 0), ("anna", 0), ("annika", 0), ("ann", 1)] {
        assert_eq!(bench.owner(user, generation).await.as_deref(), Some("ann"), "{user} {generation}");
    }
    bench.store.raise_generation(&ann()).await.unwrap();
    for (user, generation) in [("ann", 0), ("anna", 0), ("annika", 0), ("ann", 1)] {
        assert_eq!(bench.owner(user, generation).await, None, "{user} {generation}");
    }
}

pub async fn the_earlier_ids_of_a_person_are_known_until_the_erasure_is_complete(bench: &Bench) {
    let held = async |user: &str| {
        let held = bench.store.held_ids(&person(user)).await.unwrap().into_iter();
        let mut held: Vec<_> = held.map(|held| (held.user, held.since, held.until)).collect();
        held.sort();
        held
    };
    let moved = Some(at(601));
    bench.moved("ann", "anna").await;
    bench.moved("anna", "annika").await;
    let chain = [("ann".into(), None, moved), ("anna".into(), None, moved), ("annika".into(), None, None)];
    assert_eq!(held("annika").await, chain);
    assert_eq!(held("ann").await, [("ann".into(), moved, None)], "another person");
    // Somebody else is anna now, and is erased: annika's ids are none of theirs.
    bench.store.raise_generation(&person("anna")).await.unwrap();
    bench.store.forget_ids(&person("anna")).await.unwrap();
    assert_eq!(held("annika").await, chain);
    // An erasure that was interrupted begins again.
    for _ in 0..2 {
        bench.store.raise_generation(&person("annika")).await.unwrap();
        assert_eq!(held("annika").await, chain);
    }
    bench.store.forget_ids(&person("annika")).await.unwrap();
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM renames").await, "0", "no id leads to an erased person");
    assert_eq!(held("annika").await, [("annika".into(), None, None)]);
}

pub async fn a_repeated_move_leaves_the_next_person_with_the_id_alone(bench: &Bench) {
    let was_moved = async |since: i64| bench.store.was_moved(&ann(), &person("anna"), at(since)).await.unwrap();
    bench.moved("ann", "anna").await;
    assert!(was_moved(601).await, "producers may still use the earlier id");
    assert!(!was_moved(602).await, "long ago");
    bench.store.put_recipients(&[recipient("ann", "next@example.com")], at(700)).await.unwrap();
    assert!(!was_moved(0).await);
    // The next one moves too, and the command is interrupted.
    let entry = entry(800, "carol", "merge");
    assert!(bench.store.begin_move(&ann(), &person("anna"), &entry).await.unwrap());
    assert!(was_moved(1_000).await);
    bench.store.raise_generation(&ann()).await.unwrap();
    assert!(!was_moved(1_000).await, "and was erased meanwhile");
}

pub async fn a_move_ends_before_another_one_begins(bench: &Bench) {
    let entry = entry(600, "carol", "rename");
    for _ in 0..2 {
        assert!(bench.store.begin_move(&ann(), &person("anna"), &entry).await.unwrap());
    }
    assert!(!bench.store.begin_move(&ann(), &person("bo"), &entry).await.unwrap());
    assert_eq!(bench.owner("ann", 0).await.as_deref(), Some("ann"), "nothing has moved yet");
    assert!(bench.store.was_moved(&ann(), &person("anna"), at(600)).await.unwrap());
    assert!(!bench.store.was_moved(&ann(), &person("bo"), at(600)).await.unwrap());
    bench.store.move_person(&ann(), &person("bo"), &BTreeSet::new(), at(601)).await.unwrap_err();
    bench.store.move_person(&ann(), &person("anna"), &BTreeSet::new(), at(601)).await.unwrap();
    bench.moved("ann", "anna").await;
    assert_eq!(bench.owner("ann", 0).await.as_deref(), Some("anna"));
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'rename'";
    assert_eq!(bench.value(audited).await, "2", "once for each id");
}

pub async fn a_rename_takes_all_rows_and_what_was_dropped_for_it_waits(bench: &Bench) {
    everything(bench).await;
    bench.claim(&window(7), &events(&["d1", "d2"]), at(400)).await;
    let why = format!("{}new login", person("anna").move_reason());
    let closed = WindowEnd { outcome: DigestOutcome::Dropped, why };
    let closing = CloseRequest {
        window: &window(7),
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now: at(500),
    };
    bench.store.close_digest(closing).await.unwrap();
    bench.claim(&window(8), &events(&["old"]), at(510)).await;
    bench.drop_digest(&window(8)).await;
    let moved = bench.moved("ann", "anna").await;
    assert_eq!((moved.recipients, moved.preferences, moved.consents, moved.returned), (1, 1, 1, 2), "{moved:?}");
    assert_eq!((moved.retracts, moved.dead_letters), (1, 1), "{moved:?}");
    for table in
        ["recipients", "preferences", "consents", "readings", "digests", "events", "retracts", "messages", "inbox"]
    {
        let left = bench.dump().await;
        let rows: Vec<_> = left.lines().skip_while(|line| *line != format!("-- {table}")).skip(1).collect();
        let rows: Vec<_> = rows.into_iter().take_while(|line| !line.starts_with("-- ")).collect();
        let is_anns = |row: &&str| row.contains("|ann|") || row.contains(",ann,");
        assert_eq!(rows.into_iter().filter(is_anns).collect::<Vec<_>>(), Vec::<&str>::new(), "{table}");
    }
    let returned = bench.store.returned_events(&key("anna")).await.unwrap().unwrap();
    assert_eq!(returned.digests.get(&window(7).digest_id), Some(&2), "dropped for the move");
    assert_eq!(returned.digests.get(&window(8).digest_id), None, "dropped by an operator");
    assert_eq!(bench.store.returned_events(&key("ann")).await.unwrap(), None);
    let next = window_of(&key("anna"), 9);
    assert_eq!(bench.claim(&next, &events(&["own"]), at(700)).await.items, 3);
    assert!(bench.store.facts(&key("anna")).await.unwrap().recipient.is_some());
    assert!(bench.store.person(&ann()).await.unwrap().is_empty());
}

pub async fn a_merge_keeps_each_no_and_the_later_choices(bench: &Bench) {
    for user in ["ann", "anna"] {
        bench.store.put_recipients(&[recipient(user, &format!("{user}@example.com"))], at(0)).await.unwrap();
    }
    let choose = async |user: &str, cadence: &str, off: &str, seconds: i64| {
        let preferences =
            Preferences { cadence: Some(cadence.into()), off: [off.to_owned()].into(), ..Preferences::default() };
        let entry = entry(seconds, user, "preferences");
        bench.store.put_preferences(&key(user), &preferences, None, &entry).await.unwrap();
    };
    choose("anna", "daily 08:00", "share", 10).await;
    choose("ann", "weekly mon 08:00", "like", 20).await;
    bench.store.put_consent(&key("ann"), false, &entry(5, "ann", "withdraw consent")).await.unwrap();
    bench.store.put_consent(&key("anna"), true, &entry(30, "anna", "grant consent")).await.unwrap();
    bench.claim(&window(1), &events(&["e1", "e2"]), at(40)).await;
    bench.claim(&window_of(&key("anna"), 1), &events(&["e1"]), at(41)).await;
    bench.moved("ann", "anna").await;
    let facts = bench.store.facts(&key("anna")).await.unwrap();
    assert!(!facts.consent, "a no of either counts");
    let off = ["like".to_owned(), "share".to_owned()].into();
    assert_eq!((facts.preferences.cadence.as_deref(), facts.preferences.off), (Some("weekly mon 08:00"), off));
    assert_eq!(facts.recipient.unwrap().address, "anna@example.com", "the later id keeps its row");
    let events = "SELECT CAST(COUNT(*) AS TEXT) FROM events WHERE user_id = 'anna'";
    assert_eq!(bench.value(events).await, "2", "an event that both have is one");
    assert!(bench.store.person(&ann()).await.unwrap().is_empty());
}

pub async fn an_erased_address_comes_back_under_its_pseudonym_only(bench: &Bench) {
    let suppress = async |seconds: i64| {
        let address = "Ann.Mark@example.com".to_owned();
        let (detail, reason) = (format!("typed: {address}"), SuppressionReason::Unsubscribed);
        let suppression = Suppression { tenant: "acme".into(), address, reason, detail, at: at(seconds) };
        bench.store.put_suppressions(&[suppression], &entry(seconds, "carol", "suppress")).await.unwrap();
    };
    bench.store.put_recipients(&[recipient("ann", "ann.mark@example.com")], at(0)).await.unwrap();
    let addresses = ["ann.mark@example.com".to_owned()].into();
    bench.store.erase_addresses(&ann(), &addresses).await.unwrap();
    bench.store.erase_recipient(&ann()).await.unwrap();
    suppress(10).await;
    let dump = bench.dump().await.to_lowercase();
    assert!(!dump.contains("mark"), "{dump}");
    assert_eq!(
        bench.store.suppression_reasons("acme", "ann.mark@example.com").await.unwrap(),
        [SuppressionReason::Unsubscribed]
    );
    let everyone = SuppressionFilter { tenant: None, address: None, page: PageRequest { limit: 9, after: None } };
    assert_eq!(bench.store.suppressions(&everyone).await.unwrap().rows.len(), 1);
    // Whoever has the address today is not the erased person.
    bench.store.put_recipients(&[recipient("new", "ann.mark@example.com")], at(20)).await.unwrap();
    suppress(30).await;
    let rows = bench.store.suppressions(&everyone).await.unwrap().rows;
    assert!(rows.iter().any(|row| row.address == "ann.mark@example.com" && row.detail.starts_with("typed")));
}

pub async fn what_is_reported_about_an_erased_person_changes_nothing_of_the_next(bench: &Bench) {
    everything(bench).await;
    let sent = window(1);
    while !bench.store.erase_digests(&key("ann"), at(900)).await.unwrap().is_nothing() {}
    bench.store.erase_choices(&ann(), &["activity".to_owned()].into()).await.unwrap();
    let next = bench.store.facts(&key("ann")).await.unwrap();
    for (seconds, kind) in [(910, ReportKind::Unsubscribed), (911, ReportKind::Opened)] {
        let report = DeliveryReport { machine: Some(false), ..DeliveryReport::new(kind, at(seconds)) };
        let of = vec![MessageReference::Id(sent.digest_id)];
        let event =
            CheckedDeliveryEvent { relay: None, reports_for: Vec::new(), tenant: None, of, report, event_id: None };
        let recorded = bench.store.put_delivery_event(&event, 5, at(950)).await.unwrap().unwrap();
        assert_eq!(recorded.withdrawn, None, "{kind}");
    }
    bench.store.forget_reading("acme", sent.digest_id).await.unwrap();
    assert!(bench.store.facts(&key("ann")).await.unwrap() == next);
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM consents WHERE user_id = 'ann'").await, "0");
}

pub async fn the_users_of_a_tenant_are_listed_in_pages(bench: &Bench) {
    everything(bench).await;
    bench.claim(&window_of(&key("zoe"), 1), &events(&["z"]), at(1)).await;
    assert_eq!(bench.store.users("acme", "", 2).await.unwrap(), ["ann", "bo"]);
    assert_eq!(bench.store.users("acme", "bo", 2).await.unwrap(), ["zoe"]);
    assert_eq!(bench.store.users("other", "", 2).await.unwrap(), Vec::<String>::new());
    let of_letters = BTreeSet::from(["ann".to_owned(), "bo".to_owned()]);
    assert_eq!(bench.store.users_of_workflows("acme").await.unwrap(), of_letters);
    assert_eq!(bench.store.users_of_workflows("acm").await.unwrap(), BTreeSet::new());
}
