use jiff::ToSpan;
use proptest::prelude::*;

use super::*;
use crate::{
    Cadence,
    records::{EngagementTimes, Preferences},
    rules::{effective::EffectiveSettings, samples},
};

fn now() -> Timestamp {
    "2026-11-25T12:00:00Z".parse().unwrap()
}

fn ago(days: i64) -> Timestamp {
    now() - (days * 24).hours()
}

fn settings(cadence: &str) -> DigestSettings {
    DigestSettings { adapt: true, ..DigestSettings::new("activity", cadence.parse().unwrap()) }
}

/// A recipient seen reading 40 days ago, with five unopened digests since.
fn away() -> KeyFacts {
    let reading =
        EngagementTimes { read_at: Some(ago(40)), unread_since: Some(ago(30)), fifth_unread_at: Some(ago(1)) };
    KeyFacts { reading, ..samples::facts() }
}

fn cadence(settings: &DigestSettings, facts: &KeyFacts) -> String {
    EffectiveSettings::new(settings, facts, now()).cadence.to_string()
}

#[test]
fn a_cadence_that_is_more_frequent_than_weekly_becomes_weekly() {
    for (configured, adapted) in [
        ("instant", "weekly mon 08:00"),
        ("after 10m", "weekly mon 08:00"),
        ("after 7d", "after 7d"),
        ("sliding 5m max 1h", "weekly mon 08:00"),
        ("sliding 5m max 8d", "sliding 5m max 8d"),
        ("hourly at :30", "weekly mon 08:00"),
        ("daily 18:30", "weekly mon 18:30"),
        ("weekdays 07:00", "weekly mon 07:00"),
        ("weekly fri 09:00", "weekly fri 09:00"),
        ("monthly 1 08:00", "monthly 1 08:00"),
        ("cron 0 9,17 * * *", "cron 0 9,17 * * *"),
        ("never", "never"),
    ] {
        assert_eq!(cadence(&settings(configured), &away()), adapted);
    }
}

#[test]
fn a_cadence_of_the_recipients_own_stays() {
    let daily = settings("daily 08:00");
    let chose = |preferences: Preferences| KeyFacts { preferences, ..away() };
    let own = Preferences { cadence: Some("daily 08:00".into()), ..Preferences::default() };
    assert_eq!(cadence(&daily, &chose(own)), "daily 08:00");
    let at = Preferences { at: Some("18:30".into()), ..Preferences::default() };
    assert_eq!(cadence(&daily, &chose(at)), "weekly mon 18:30", "the time of day is the recipient's");
    for (days, expected) in [(29, "daily 08:00"), (30, "weekly mon 08:00")] {
        let facts = KeyFacts { changed_at: Some(ago(days)), ..away() };
        assert_eq!(cadence(&daily, &facts), expected, "a choice {days} days ago");
    }
}

#[test]
fn without_evidence_nothing_changes() {
    let of = |reading: EngagementTimes| KeyFacts { reading, ..samples::facts() };
    let reading = away().reading;
    for (why, settings, facts) in [
        ("adapt is off", DigestSettings { adapt: false, ..settings("daily 08:00") }, away()),
        ("nobody was ever seen to read", settings("daily 08:00"), of(EngagementTimes { read_at: None, ..reading })),
        ("four digests are too few", settings("daily 08:00"), of(EngagementTimes { fifth_unread_at: None, ..reading })),
        (
            "29 days are too short",
            settings("daily 08:00"),
            of(EngagementTimes { unread_since: Some(ago(30) + 1.seconds()), ..reading }),
        ),
        ("nothing is known", settings("daily 08:00"), samples::facts()),
    ] {
        assert_eq!(cadence(&settings, &facts), "daily 08:00", "{why}");
    }
}

#[test]
fn the_words_say_why_the_cadence_is_weekly() {
    let facts = away();
    let effective = EffectiveSettings::new(&settings("daily 08:00"), &facts, now());
    assert_eq!(
        effective.adapted_words().as_deref(),
        Some("weekly mon 08:00 UTC, as nothing was opened since 2026-10-26 (adapt)")
    );
    assert_eq!(EffectiveSettings::new(&settings("weekly fri 09:00"), &facts, now()).adapted_words(), None);
}

/// The relevant parts. Facts contain an address, so we do not print them.
fn parts() -> impl Strategy<Value = (EngagementTimes, Preferences, Option<Timestamp>)> {
    let cadence = prop_oneof![Just("daily 08:00"), Just("weekly fri 09:00"), Just("instant")];
    (prop::array::uniform4(prop::option::of(0..60_i64)), prop::option::of(cadence)).prop_map(|(days, cadence)| {
        let [read_at, unread_since, fifth_unread_at, changed_at] = days.map(|days| days.map(ago));
        let preferences = Preferences { cadence: cadence.map(str::to_owned), ..Preferences::default() };
        (EngagementTimes { read_at, unread_since, fifth_unread_at }, preferences, changed_at)
    })
}

fn facts((reading, preferences, changed_at): (EngagementTimes, Preferences, Option<Timestamp>)) -> KeyFacts {
    KeyFacts { preferences, changed_at, reading, ..samples::facts() }
}

proptest! {
    #[test]
    fn nobody_is_adapted_who_chose_or_cannot_be_counted(parts in parts(), adapt in any::<bool>()) {
        let facts = facts(parts);
        let settings = DigestSettings { adapt, ..settings("daily 08:00") };
        if unread_since(&settings, &facts, now()).is_some() {
            prop_assert!(adapt && facts.preferences.cadence.is_none());
            prop_assert!(facts.reading.read_at.is_some() && facts.reading.fifth_unread_at.is_some());
            prop_assert!(facts.reading.unread_since <= Some(ago(30)));
        }
    }

    #[test]
    fn an_adapted_cadence_stays_while_nothing_is_opened(parts in parts(), days in 0..400_i64) {
        let facts = facts(parts);
        let (settings, later) = (settings("daily 08:00"), now() + (days * 24).hours());
        if unread_since(&settings, &facts, now()).is_some() {
            prop_assert!(unread_since(&settings, &facts, later).is_some());
        }
    }

    #[test]
    fn an_opening_ends_it_whatever_was_before(parts in parts(), digests in 0..5_usize) {
        let facts = facts(parts);
        // Fewer than five digests came since the opening.
        let reading = EngagementTimes {
            read_at: Some(now()),
            unread_since: (digests > 0).then(now),
            fifth_unread_at: None,
        };
        let facts = KeyFacts { reading, ..facts };
        prop_assert_eq!(unread_since(&settings("daily 08:00"), &facts, now()), None);
    }

    #[test]
    fn an_adapted_cadence_has_no_more_slots_than_the_configured_one(
        words in prop_oneof![
            Just("hourly"), Just("daily 00:00"), Just("daily 23:59"), Just("weekdays 12:30"), Just("after 6d"),
        ],
        from in 0..20_000_000_i64,
    ) {
        let zone = jiff::tz::TimeZone::UTC;
        let slots = |cadence: &Cadence| {
            let start = now() + from.seconds();
            let next = |at: &Timestamp| Some(cadence.due_at(*at, &zone));
            std::iter::successors(Some(start), next).take_while(|at| *at <= start + (28 * 24).hours()).count()
        };
        let configured: Cadence = words.parse().unwrap();
        prop_assert!(slots(&configured.weekly_replacement().unwrap()) <= slots(&configured));
    }
}
