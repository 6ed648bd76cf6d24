//! Changes by the form of the page.

use super::*;

#[tokio::test]
async fn choices_are_stored_together_audited_and_undone() {
    let bench = bench("").await;
    let changed = [
        ("activity:often", "weekly"),
        ("activity:day", "fri"),
        ("activity:time", "18:30"),
        ("activity:shown", "comment"),
        ("activity:shown", "share"),
        ("activity:category", "comment"),
        ("activity:pause", "2999-12-01"),
        ("alerts:on", "-"),
        ("zone", "Asia/Tokyo"),
    ];
    let (status, page) = bench.post(&fields(&changed)).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert!(page.contains("Your choices are saved.") && page.contains("You do not get this digest."), "{page}");
    assert!(page.contains("Paused: nothing is sent before Sun, Dec 1, 2999, 12:00 AM (Asia/Tokyo)."), "{page}");
    let activity = bench.facts("activity").await;
    let expected = Preferences {
        cadence: Some("weekly fri 18:30".into()),
        zone: Some("Asia/Tokyo".into()),
        off: ["share".to_owned()].into(),
        // The day begins in the zone that was chosen with it.
        paused_until: Some("2999-11-30T15:00:00Z".parse().unwrap()),
        ..Preferences::default()
    };
    assert_eq!((activity.preferences, activity.consent, activity.revision), (expected, true, 1));
    let alerts = bench.facts("alerts").await;
    assert!(!alerts.consent && alerts.preferences.zone.as_deref() == Some("Asia/Tokyo"));
    let why = format!("chosen on the page of message {}", Uuid::from_u128(7));
    let mut audit = bench.audit().await;
    audit.sort();
    let preferences = format!("recipient: preferences: {why}");
    assert_eq!(audit, [preferences.clone(), preferences, format!("recipient: withdraw consent: {why}")]);

    let undo = undo_of(&page).unwrap();
    let (status, page) = bench.post(&[("undo", &undo)]).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert!(page.contains("The change is undone.") && undo_of(&page).is_none(), "{page}");
    for digest_type in ["activity", "alerts"] {
        let facts = bench.facts(digest_type).await;
        assert!(facts.consent && facts.preferences == Preferences::default(), "{digest_type}");
    }
}

#[tokio::test]
async fn a_page_of_thirty_types_with_forty_categories_each_can_be_saved_and_undone() {
    let long = |n: usize| format!("category-{n:02}-{}", "ü".repeat(40));
    let types: Vec<_> = (0..30).map(|n| format!("type-{n:02}")).collect();
    let categories: BTreeSet<_> = (0..40).map(long).collect();
    let digest = DigestSettings {
        categories: categories.iter().map(|category| (category.clone(), category.clone())).collect(),
        ..DigestSettings::new("activity", "daily 08:00".parse().unwrap())
    };
    let digests = types.iter().map(|digest_type| (digest_type.clone(), digest.clone())).collect();
    let bench = bench_with("", Settings { digests, ..configured() }).await;
    let mut sent = Vec::new();
    for digest_type in &types {
        sent.push((format!("{digest_type}:seen"), "0 on".to_owned()));
        sent.push((format!("{digest_type}:on"), "-".to_owned()));
        sent.extend(categories.iter().map(|category| (format!("{digest_type}:shown"), category.clone())));
    }
    let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (status, page) = bench.post(&sent).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    for digest_type in &types {
        assert_eq!(bench.facts(digest_type).await.preferences.off, categories, "{digest_type}");
    }
    let undo = undo_of(&page).unwrap();
    assert_eq!(bench.post(&[("undo", &undo)]).await.0, StatusCode::OK);
    assert!(bench.facts("type-29").await.preferences.off.is_empty());
}

#[tokio::test]
async fn a_day_of_the_month_is_a_field_of_its_own() {
    let bench = bench("").await;
    let page = bench.page().await;
    assert!(
        page.contains("name=\"activity:date\"") && page.contains("<option value=\"31\">Last day</option>"),
        "{page}"
    );
    let last = [("activity:often", "monthly"), ("activity:date", "31"), ("activity:time", "18:30")];
    let (status, page) = bench.post(&fields(&last)).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert_eq!(bench.facts("activity").await.preferences.cadence.as_deref(), Some("monthly 31 18:30"));
    assert!(page.contains("<option value=\"31\" selected>Last day</option>"), "{page}");
    let wrong = [("activity:seen", "1 on"), ("activity:often", "monthly"), ("activity:date", "32")];
    let (status, page) = bench.post(&fields(&wrong)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.contains("Nothing was saved: How often is not possible."), "{page}");
}

#[tokio::test]
async fn the_same_request_again_changes_nothing_more() {
    let bench = bench("").await;
    let request = fields(&[("activity:often", "daily"), ("activity:time", "09:00"), ("alerts:on", "-")]);
    for said in ["Your choices are saved.", "Nothing was changed."] {
        let (status, page) = bench.post(&request).await;
        assert_eq!(status, StatusCode::OK);
        assert!(page.contains(said), "{page}");
    }
    assert_eq!((bench.facts("activity").await.revision, bench.audit().await.len()), (1, 2));
}

#[tokio::test]
async fn of_two_windows_the_second_hears_of_the_first() {
    let bench = bench("").await;
    bench.post(&fields(&[("activity:often", "instant")])).await;
    let (status, page) = bench.post(&fields(&[("activity:often", "daily"), ("alerts:on", "-")])).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(page.contains("changed meanwhile") && page.contains("role=\"alert\""), "{page}");
    assert!(page.contains("value=\"1 on\"") && undo_of(&page).is_none(), "{page}");
    assert_eq!(bench.facts("activity").await.preferences.cadence.as_deref(), Some("instant"));
    assert!(bench.facts("alerts").await.consent, "nothing of the second");
    // A click on unsubscribe meanwhile is not taken back by a page that is older.
    bench.store.put_consent(&ann("alerts"), false, &entry("withdraw consent")).await.unwrap();
    let stale = fields(&[("activity:seen", "1 on"), ("activity:often", "daily")]);
    assert_eq!(bench.post(&stale).await.0, StatusCode::CONFLICT);
    assert!(!bench.facts("alerts").await.consent);
}

#[tokio::test]
async fn one_button_turns_everything_off_and_keeps_the_other_choices() {
    let bench = bench("").await;
    let none = fields(&[("activity:often", "instant"), ("action", "none")]);
    let (status, page) = bench.post(&none).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("You get no more digests."), "{page}");
    for digest_type in ["activity", "alerts"] {
        let facts = bench.facts(digest_type).await;
        assert!(!facts.consent && facts.preferences == Preferences::default());
    }
    let undo = undo_of(&page).unwrap();
    bench.post(&[("undo", &undo)]).await;
    assert!(bench.facts("activity").await.consent && bench.facts("alerts").await.consent);
    // The undo of an old page takes nothing back that came later.
    bench.store.put_consent(&ann("activity"), false, &entry("withdraw consent")).await.unwrap();
    let (status, _) = bench.post(&fields(&[("alerts:on", "-")])).await;
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_wrong_value_is_named_and_nothing_is_stored() {
    let bench = bench("").await;
    for (field, value, named) in [
        ("activity:time", "25:00", "How often"),
        ("activity:often", "sometimes", "How often"),
        ("zone", "Mars/Olympus", "Time zone"),
        ("activity:pause", "2001-01-01", "Pause until"),
        ("activity:pause", "soon", "Pause until"),
    ] {
        let (status, page) =
            bench.post(&fields(&[(field, value), ("activity:often", "daily"), ("alerts:on", "-")])).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{field}");
        assert!(page.contains(&format!("Nothing was saved: {named} is not possible.")), "{page}");
    }
    assert!(bench.audit().await.is_empty() && bench.facts("alerts").await.consent);
    let (status, _, _) = bench.send(Method::POST, &token(), &[("x", &"x".repeat(1_100_000))]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_pause_that_is_over_stops_no_choice_and_comes_never_back() {
    let bench = bench("").await;
    let over = Preferences { paused_until: Some("2001-01-01T00:00:00Z".parse().unwrap()), ..Preferences::default() };
    bench.store.put_preferences(&ann("activity"), &over, None, &entry("preferences")).await.unwrap();
    let (status, page) = bench.post(&fields(&[("activity:seen", "1 on"), ("activity:often", "instant")])).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert_eq!(bench.facts("activity").await.preferences.cadence.as_deref(), Some("instant"));
    let (status, page) = bench.post(&[("undo", &undo_of(&page).unwrap())]).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert_eq!(bench.facts("activity").await.preferences, Preferences::default());
}
