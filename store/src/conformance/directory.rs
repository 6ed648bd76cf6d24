use futures::future::join_all;
use tidings_model::{
    Key, PersonId,
    records::{
        AuditEntry, PageRequest, Preferences, PreferencesChange, Recipient, RecipientChange, Suppression,
        SuppressionFilter, SuppressionReason,
    },
    step::{AuditInput, AuditNote},
};

use super::{Bench, at, entry, key, recipient};

pub async fn an_unknown_user_wants_mail_and_chose_nothing(bench: &Bench) {
    let facts = bench.store.facts(&key("nobody")).await.unwrap();
    assert!(facts.recipient.is_none() && facts.consent && facts.suppressed.is_none() && facts.last_sent_at.is_none());
    assert_eq!((facts.preferences, facts.revision), (Preferences::default(), 0));
}

pub async fn of_one_persons_entries_the_last_counts(bench: &Bench) {
    let entries =
        [recipient("ann", "old@example.com"), recipient("bo", "bo@example.com"), recipient("ann", "Ann@x.org")];
    bench.store.put_recipients(&entries, at(0)).await.unwrap();
    bench.store.put_recipients(&[], at(0)).await.unwrap();
    assert!(bench.store.facts(&key("ann")).await.unwrap().recipient == Some(entries[2].clone()));
    let moved = recipient("ann", "ann@example.net");
    bench.store.put_recipients(&[moved.clone(), moved.clone()], at(0)).await.unwrap();
    assert!(bench.store.facts(&key("ann")).await.unwrap().recipient == Some(moved));
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM recipients").await, "2");
}

pub async fn preferences_come_back_and_their_revision_counts_changes(bench: &Bench) {
    let (cadence, zone) = (Some("daily 08:00".into()), Some("Asia/Kolkata".into()));
    let daily = Preferences { cadence, zone, ..Preferences::default() };
    let paused = Preferences { paused_until: Some(at(5)), ..daily.clone() };
    for (seconds, preferences, revision, changed) in
        [(1, &daily, 1, 1), (2, &daily, 1, 1), (3, &paused, 2, 3), (4, &paused, 2, 3), (5, &daily, 3, 5)]
    {
        let entry = entry(seconds, "recipient", "preferences");
        assert_eq!(bench.chosen(preferences, None, &entry).await, Ok(revision));
        let facts = bench.store.facts(&key("ann")).await.unwrap();
        assert_eq!((&facts.preferences, facts.revision, facts.changed_at), (preferences, revision, Some(at(changed))));
    }
    let nobodys = bench.store.facts(&key("bo")).await.unwrap();
    assert_eq!((nobodys.revision, nobodys.changed_at), (0, None));
    let audited = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE user_id = 'ann' AND action = 'preferences'";
    assert_eq!(bench.value(audited).await, "3");
}

pub async fn what_a_change_does_not_say_stays(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(0)).await.unwrap();
    let change = |user: &str, locale: Option<&str>| RecipientChange {
        tenant: "acme".into(),
        user: user.into(),
        address: format!("new-{user}@example.com"),
        name: None,
        zone: None,
        locale: locale.map(str::to_owned),
    };
    let moved = bench.store.change_recipients(&[change("ann", Some("")), change("bo", None)], at(5)).await.unwrap();
    assert!(moved.is_empty(), "{moved:?}");
    for (user, name, zone, revision) in [("ann", "Ann", "Europe/Berlin", 1), ("bo", "", "", 0)] {
        let facts = bench.store.facts(&key(user)).await.unwrap();
        let person = facts.recipient.unwrap();
        assert_eq!(person.address, format!("new-{user}@example.com"));
        let parts = (person.name.as_str(), person.zone.as_str(), person.locale.as_str());
        assert_eq!((parts, facts.revision), ((name, zone, ""), revision));
    }
    let counted = async |tenant| bench.store.count_recipients(tenant).await.unwrap();
    assert_eq!((counted("acme").await, counted("zeta").await), (2, 0));
}

pub async fn another_zone_counts_as_a_change_of_what_was_chosen(bench: &Bench) {
    let living = |zone: &str| Recipient { zone: zone.into(), ..recipient("ann", "ann@example.com") };
    for (seconds, zone, revision, changed) in
        // A window may have been planned in another zone for a user who becomes known without a change of preferences.
        [
            (1, "Asia/Kolkata", 1, None),
            (2, "Asia/Tokyo", 2, Some(2)),
            (3, "Asia/Tokyo", 2, Some(2)),
            (4, "", 3, Some(4)),
        ]
    {
        let moved = bench.store.put_recipients(&[living(zone)], at(seconds)).await.unwrap();
        assert_eq!(moved.len(), usize::from(changed == Some(seconds)), "{zone:?}: {moved:?}");
        let facts = bench.store.facts(&key("ann")).await.unwrap();
        assert_eq!((facts.revision, facts.changed_at), (revision, changed.map(at)), "{zone:?}");
    }
    // Both count, and the later of the two is when.
    for (seconds, cadence, revision, changed) in [(3, "hourly", 4, 4), (9, "daily 08:00", 5, 9)] {
        let preferences = Preferences { cadence: Some(cadence.into()), ..Preferences::default() };
        let entry = entry(seconds, "recipient", "preferences");
        bench.chosen(&preferences, None, &entry).await.unwrap();
        let facts = bench.store.facts(&key("ann")).await.unwrap();
        assert_eq!((facts.revision, facts.changed_at), (revision, Some(at(changed))));
    }
}

/// Preferences with one category off.
fn off(category: &str) -> Preferences {
    Preferences { off: [category.to_owned()].into(), ..Preferences::default() }
}

pub async fn a_directorys_answer_is_kept_until_there_is_none(bench: &Bench) {
    let (ann, bo) = (recipient("ann", "ann@example.com"), recipient("bo", "bo@example.com"));
    let person = |user: &str| PersonId { tenant: ann.tenant.clone(), user: user.into() };
    let keep = async |recipient: &Recipient, given: bool, seconds| {
        let given = given.then_some(recipient);
        bench.store.keep_answer(&person(&recipient.user), given, at(seconds)).await.unwrap();
        bench.store.facts(&key(&recipient.user)).await.unwrap()
    };
    let first = keep(&ann, true, 10).await;
    assert!(first.recipient.as_ref() == Some(&ann) && first.answered_at == Some(at(10)));
    let again = keep(&ann, true, 20).await;
    assert_eq!((again.revision, again.answered_at), (first.revision, Some(at(20))));
    // An address that is suppressed stays so, whoever has it.
    let suppression = Suppression {
        tenant: ann.tenant.clone(),
        address: "moved@example.com".into(),
        reason: SuppressionReason::HardBounce,
        detail: "550 5.1.1".into(),
        at: at(1),
    };
    bench.store.suppress(&suppression).await.unwrap();
    let moved = Recipient { address: "Moved@example.com".into(), zone: "Asia/Tokyo".into(), ..ann.clone() };
    let elsewhere = keep(&moved, true, 30).await;
    assert!(elsewhere.revision > again.revision && elsewhere.suppressed == Some(SuppressionReason::HardBounce));
    assert!(keep(&ann, false, 40).await.recipient.is_none());
    assert!(keep(&ann, true, 50).await.revision > elsewhere.revision, "another zone would go unnoticed");
    // A row of an import is not the directory's to delete.
    bench.store.put_recipients(std::slice::from_ref(&bo), at(0)).await.unwrap();
    assert!(keep(&bo, false, 60).await.recipient.as_ref() == Some(&bo));
    assert_eq!(keep(&bo, true, 70).await.answered_at, Some(at(70)));
}

pub async fn of_two_editors_the_second_hears_of_the_first(bench: &Bench) {
    let (first, second) = (off("share"), off("like"));
    for revision in [1, 7] {
        assert_eq!(bench.chosen(&first, Some(revision), &entry(1, "ann", "preferences")).await, Err(0), "no row yet");
    }
    assert_eq!(bench.chosen(&first, Some(0), &entry(1, "ann", "preferences")).await, Ok(1));
    assert_eq!(bench.chosen(&second, Some(0), &entry(2, "bo", "preferences")).await, Err(1));
    assert_eq!(bench.chosen(&first, Some(0), &entry(3, "ann", "preferences")).await, Ok(1), "told again");
    assert_eq!(bench.chosen(&second, Some(1), &entry(4, "bo", "preferences")).await, Ok(2));
    // Another zone in the directory is a change of what an editor saw.
    bench.store.put_recipients(&[recipient("ann", "ann@example.com")], at(5)).await.unwrap();
    assert_eq!(bench.chosen(&first, Some(2), &entry(6, "ann", "preferences")).await, Err(3));
    assert_eq!(bench.chosen(&first, Some(0), &entry(6, "ann", "preferences")).await, Err(3));
    assert_eq!(bench.chosen(&first, Some(3), &entry(7, "ann", "preferences")).await, Ok(4));
    assert_eq!(bench.value("SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE action = 'preferences'").await, "3");
}

pub async fn of_many_changes_of_preferences_at_once_each_has_a_revision_of_its_own(bench: &Bench) {
    let entry = entry(1, "ann", "preferences");
    for expected in 0..3 {
        let categories: Vec<_> = (0..8).map(|n| off(&format!("{expected} {n}"))).collect();
        let puts = categories.iter().map(|preferences| bench.chosen(preferences, Some(expected), &entry));
        let answers = join_all(puts).await;
        let stored = answers.iter().filter(|answer| **answer == Ok(expected + 1)).count();
        let heard = answers.iter().filter(|answer| **answer == Err(expected + 1)).count();
        assert_eq!((stored, heard), (1, 7), "{answers:?}");
    }
}

pub async fn consent_is_per_key_and_audited_when_it_changes(bench: &Bench) {
    let entry = entry(1, "recipient", "unsubscribe");
    for consent in [false, false, true, true, false] {
        bench.store.put_consent(&key("ann"), consent, &entry).await.unwrap();
        assert_eq!(bench.store.facts(&key("ann")).await.unwrap().consent, consent);
        assert!(bench.store.facts(&key("bo")).await.unwrap().consent);
    }
    let rows = "SELECT CAST(COUNT(*) AS TEXT) FROM audit
                WHERE user_id = 'ann' AND actor = 'recipient' AND action = 'unsubscribe' AND why = 'one click'";
    assert_eq!(bench.value(rows).await, "3");
}

fn wish(digest_type: &str, seen_revision: u64, category: &str, consent: bool) -> PreferencesChange {
    let key = Key { digest_type: digest_type.into(), ..key("ann") };
    PreferencesChange { key, seen_revision, seen_consent: true, preferences: off(category), consent }
}

pub async fn wishes_of_a_recipient_come_true_together_or_not_at_all(bench: &Bench) {
    let put = async |wishes: &[PreferencesChange], seconds| {
        bench.store.put_wishes(wishes, at(seconds), "from a page").await.unwrap()
    };
    let first = [wish("activity", 0, "share", true), wish("alerts", 0, "low", false)];
    let keys: Vec<_> = first.iter().map(|wish| wish.key.clone()).collect();
    for changed in [keys.clone(), Vec::new()] {
        assert_eq!(put(&first, 1).await, Some(changed), "again nothing changes");
    }
    let facts = async |key| bench.store.facts(key).await.unwrap();
    let (activity, alerts) = (facts(&keys[0]).await, facts(&keys[1]).await);
    assert!(activity.preferences == off("share") && activity.consent && activity.revision == 1);
    assert!(alerts.preferences == off("low") && !alerts.consent && alerts.revision == 1);
    // The second tab saw neither change.
    let stale = [
        [wish("activity", 1, "like", true), wish("alerts", 0, "high", false)],
        [wish("activity", 1, "like", true), wish("alerts", 1, "high", true)],
    ];
    for wishes in stale {
        assert_eq!(put(&wishes, 2).await, None);
        assert!(facts(&keys[0]).await == activity && facts(&keys[1]).await == alerts);
    }
    let again = PreferencesChange { seen_consent: false, ..wish("alerts", 1, "low", true) };
    assert_eq!(put(&[again], 3).await, Some(vec![keys[1].clone()]));
    assert!(facts(&keys[1]).await.consent);
    let rows = "SELECT CAST(COUNT(*) AS TEXT) FROM audit
                WHERE user_id = 'ann' AND actor = 'recipient' AND why = 'from a page'";
    assert_eq!(bench.value(rows).await, "4", "two of preferences and two of consent");
}

pub async fn of_two_wishes_at_once_one_comes_true(bench: &Bench) {
    for revision in 0..5 {
        let wishes =
            ["one", "two"].map(|category| [wish("activity", revision, &format!("{category} {revision}"), true)]);
        let puts = wishes.iter().map(|wishes| bench.store.put_wishes(wishes, at(1), "from a page"));
        let answers: Vec<_> = join_all(puts).await.into_iter().map(|answer| answer.unwrap().is_some()).collect();
        assert!(answers == [true, false] || answers == [false, true], "{answers:?}");
    }
}

pub async fn a_command_is_audited_once_however_often_it_is_told(bench: &Bench) {
    let note =
        |at, action: &str| AuditNote { at, by: "ann".into(), action: action.into(), why: "ticket 812 \0".into() };
    let input =
        AuditInput { key: key("ann"), notes: vec![note(at(1), "hold"), note(at(2), "release"), note(at(3), "hold")] };
    for _ in 0..2 {
        bench.store.record_audit(&input).await.unwrap();
    }
    let rows = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE user_id = 'ann' AND actor = 'ann' AND digest_id IS NULL";
    assert_eq!(bench.value(rows).await, "3");
}

pub async fn a_suppression_ignores_spelling_and_stays_within_its_tenant(bench: &Bench) {
    let elsewhere = Recipient { tenant: "other".into(), ..recipient("ann", "ÄNN@BÜCHER.example") };
    bench.store.put_recipients(&[recipient("ann", "Änn@Bücher.example"), elsewhere], at(0)).await.unwrap();
    for (reason, seconds) in
        [(SuppressionReason::Complaint, 2), (SuppressionReason::HardBounce, 1), (SuppressionReason::HardBounce, 3)]
    {
        let suppression = Suppression {
            tenant: "acme".into(),
            address: "änn@XN--BCHER-KVA.example".into(),
            reason,
            detail: "550 5.1.1 \0".into(),
            at: at(seconds),
        };
        bench.store.suppress(&suppression).await.unwrap();
    }
    assert_eq!(bench.store.facts(&key("ann")).await.unwrap().suppressed, Some(SuppressionReason::HardBounce));
    let times = "SELECT CAST(SUM(suppressed_at) AS TEXT) FROM suppressions WHERE tenant = 'acme'";
    let earliest = at(1).as_millisecond() + at(2).as_millisecond();
    assert_eq!(bench.value(times).await, earliest.to_string(), "of each reason the earliest");
    let mut other = key("ann");
    other.tenant = "other".into();
    assert_eq!(bench.store.facts(&other).await.unwrap().suppressed, None);
}

pub async fn an_operators_suppression_is_audited_once_without_the_address(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "Ann@example.com")], at(0)).await.unwrap();
    let suppression = |address: &str, seconds| Suppression {
        tenant: "acme".into(),
        address: address.into(),
        reason: SuppressionReason::HardBounce,
        detail: "imported".into(),
        at: at(seconds),
    };
    let list = [suppression("ANN@example.com", 1), suppression("bo@example.com", 2)];
    let entry = entry(9, "carol", "suppression_add");
    for added in [2, 0] {
        assert_eq!(bench.store.put_suppressions(&list, &entry).await.unwrap(), added);
    }
    for (user, rows) in [("ann", "1"), ("", "1")] {
        let audited = if user.is_empty() {
            "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE user_id = '' AND action = 'suppression_add hard_bounce'"
        } else {
            "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE user_id = 'ann' AND action = 'suppression_add hard_bounce'"
        };
        assert_eq!(bench.value(audited).await, rows);
    }
    assert_eq!(
        bench.store.suppression_reasons("acme", "bo@EXAMPLE.com").await.unwrap(),
        [SuppressionReason::HardBounce]
    );
}

pub async fn a_suppression_is_listed_and_lifted_with_an_audit_entry_that_has_no_address(bench: &Bench) {
    bench.store.put_recipients(&[recipient("ann", "Ann@example.com")], at(0)).await.unwrap();
    for (tenant, reason, seconds) in [
        ("acme", SuppressionReason::Complaint, 1),
        ("acme", SuppressionReason::SoftBounces, 2),
        ("other", SuppressionReason::HardBounce, 3),
    ] {
        let (tenant, address) = (tenant.to_owned(), "ann@example.com".to_owned());
        let suppression = Suppression { tenant, address, reason, detail: "said so".into(), at: at(seconds) };
        bench.store.suppress(&suppression).await.unwrap();
    }
    let listed = async |tenant: Option<&str>, address: Option<&str>, limit| {
        let (tenant, address) = (tenant.map(str::to_owned), address.map(str::to_owned));
        let filter = SuppressionFilter { tenant, address, page: PageRequest { limit, after: None } };
        let found = bench.store.suppressions(&filter).await.unwrap().rows;
        found.into_iter().map(|suppression| suppression.reason).collect::<Vec<_>>()
    };
    assert_eq!(
        listed(None, None, 9).await,
        [SuppressionReason::HardBounce, SuppressionReason::SoftBounces, SuppressionReason::Complaint]
    );
    assert_eq!(listed(Some("acme"), Some("ANN@example.com"), 1).await, [SuppressionReason::SoftBounces]);
    assert_eq!(listed(None, Some("bo@example.com"), 9).await, []);
    let mut filter = SuppressionFilter { tenant: None, address: None, page: PageRequest { limit: 1, after: None } };
    for (reason, more) in [
        (SuppressionReason::HardBounce, true),
        (SuppressionReason::SoftBounces, true),
        (SuppressionReason::Complaint, false),
    ] {
        let page = bench.store.suppressions(&filter).await.unwrap();
        assert_eq!((page.rows[0].reason, page.next.is_some()), (reason, more));
        filter.page.after = page.next;
    }

    let entry = AuditEntry {
        at: at(9),
        actor: "carol".into(),
        action: "suppression_lift".into(),
        why: "the mailbox is empty again".into(),
    };
    let lift = async |reason| bench.store.lift("acme", "Ann@Example.com", reason, &entry).await.unwrap();
    assert_eq!(lift(Some(SuppressionReason::HardBounce)).await, []);
    assert_eq!(lift(Some(SuppressionReason::SoftBounces)).await, [SuppressionReason::SoftBounces]);
    assert_eq!(listed(Some("acme"), None, 9).await, [SuppressionReason::Complaint]);
    assert_eq!(lift(None).await, [SuppressionReason::Complaint]);
    assert_eq!((lift(None).await, listed(None, None, 9).await), (vec![], vec![SuppressionReason::HardBounce]));
    let audited =
        "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE tenant = 'acme' AND user_id = 'ann' AND actor = 'carol'
                   AND action IN ('suppression_lift soft_bounces', 'suppression_lift complaint')";
    assert_eq!(bench.value(audited).await, "2");
}
