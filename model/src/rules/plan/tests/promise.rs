//! Promised deadlines after the recipient changes zone or time.

use std::slice::from_ref;

use super::*;
use crate::records::SentSchedule;

fn utc(cadence: &str) -> DigestSettings {
    DigestSettings { zone: Some("Etc/UTC".into()), ..settings(cadence) }
}

fn moved(zone: &str) -> Preferences {
    Preferences { zone: Some(zone.into()), ..Preferences::default() }
}

/// The plan of a window opened on a Saturday at 18:00 UTC, after these changes.
fn after_changes(settings: &DigestSettings, changes: &[(&str, Preferences)]) -> Plan {
    let mut latest = planned(settings, &facts());
    for (revision, (changed_at, preferences)) in (1..).zip(changes) {
        let (now, preferences) = (at(changed_at), preferences.clone());
        let facts = KeyFacts { preferences, revision, changed_at: Some(now), ..facts() };
        let asked = PlanInput { before: Some(latest), ..input() };
        latest = plan(settings, &facts, &asked, Vec::new(), now);
    }
    latest
}

#[test]
fn a_deadline_stands_where_the_new_slot_is_more_than_a_day_later() {
    let at_six = Preferences { at: Some("06:00".into()), ..Preferences::default() };
    let one_hour_east = "Etc/GMT-1";
    for (cadence, changed_at, chosen, due_at, then) in [
        // Half an hour before the slot, whose time of day is over in the new zone.
        (
            "weekly mon 08:00",
            "2026-10-26T07:30:00Z",
            moved(one_hour_east),
            "2026-10-26T08:00:00Z",
            Some("every Monday at 08:00 (Etc/GMT-1)"),
        ),
        (
            "monthly 26 08:00",
            "2026-10-26T07:30:00Z",
            moved(one_hour_east),
            "2026-10-26T08:00:00Z",
            Some("on day 26 of every month at 08:00 (Etc/GMT-1)"),
        ),
        ("daily 08:00", "2026-10-25T07:30:00Z", moved(one_hour_east), "2026-10-26T07:00:00Z", None),
        // The other way the slot comes later on the same day.
        ("weekly mon 08:00", "2026-10-26T07:30:00Z", moved("Etc/GMT+9"), "2026-10-26T17:00:00Z", None),
        // A time of day that has passed.
        (
            "weekly mon 08:00",
            "2026-10-26T07:30:00Z",
            at_six,
            "2026-10-26T08:00:00Z",
            Some("every Monday at 06:00 (Etc/UTC)"),
        ),
        // Another day, up to a day later and further.
        ("weekly mon 08:00", "2026-10-25T12:00:00Z", chose("weekly tue 08:00"), "2026-10-27T08:00:00Z", None),
        (
            "weekly mon 08:00",
            "2026-10-25T12:00:00Z",
            chose("weekly tue 08:01"),
            "2026-10-26T08:00:00Z",
            Some("every Tuesday at 08:01 (Etc/UTC)"),
        ),
        // More often, and less often: the recipient asks for the later time.
        ("weekly mon 08:00", "2026-10-24T20:00:00Z", chose("daily 09:00"), "2026-10-25T09:00:00Z", None),
        ("daily 08:00", "2026-10-24T20:00:00Z", chose("weekly fri 08:00"), "2026-10-30T08:00:00Z", None),
        ("daily 08:00", "2026-10-24T20:00:00Z", chose("weekdays 09:00"), "2026-10-26T09:00:00Z", None),
        ("weekdays 09:00", "2026-10-24T20:00:00Z", chose("weekly fri 08:00"), "2026-10-30T08:00:00Z", None),
        (
            "daily 08:00",
            "2026-10-24T20:00:00Z",
            chose("cron 30 8 * * 1-5"),
            "2026-10-25T08:00:00Z",
            Some("At 08:30, on Monday, Tuesday, Wednesday, Thursday, and Friday. (Etc/UTC)"),
        ),
        ("weekly mon 08:00", "2026-10-24T20:00:00Z", chose("monthly 20 08:00"), "2026-11-20T08:00:00Z", None),
        ("after 1h", "2026-10-24T18:20:00Z", chose("weekly mon 08:00"), "2026-10-26T08:00:00Z", None),
        ("cron 0 8 * * *", "2026-10-24T20:00:00Z", chose("weekly fri 08:00"), "2026-10-30T08:00:00Z", None),
        (
            "after 8d",
            "2026-11-01T17:00:00Z",
            chose("weekly sun 12:00"),
            "2026-11-01T18:00:00Z",
            Some("every Sunday at 12:00 (Etc/UTC)"),
        ),
        (
            "cron 0 8 * * mon",
            "2026-10-26T07:30:00Z",
            moved(one_hour_east),
            "2026-10-26T08:00:00Z",
            Some("by the schedule"),
        ),
    ] {
        let plan = after_changes(&utc(cadence), &[(changed_at, chosen)]);
        assert_eq!(plan.due_at, at(due_at), "{cadence} {changed_at}: {}", plan.why);
        match then {
            Some("by the schedule") => assert!(plan.then.is_some_and(|then| then.ends_with("(Etc/GMT-1)"))),
            then => assert_eq!(plan.then.as_deref(), then, "{cadence} {changed_at}"),
        }
    }
}

#[test]
fn a_deadline_that_stands_is_not_quiet() {
    let weekly = utc("weekly mon 08:00");
    let night = Preferences { quiet: Some(vec!["08:30-10:00".into()]), ..moved("Etc/GMT-1") };
    let plan = after_changes(&weekly, &[("2026-10-26T07:30:00Z", night)]);
    assert_eq!(plan.due_at, at("2026-10-26T09:00:00Z"), "{}", plan.why);

    // Without the quiet hours that put the slot off, this week's slot is over.
    let quiet = QuietHours::new(vec!["21:00-07:00".parse().unwrap()]).unwrap();
    let late = DigestSettings { quiet, ..utc("weekly mon 22:00") };
    assert_eq!(after_changes(&late, &[]).due_at, at("2026-10-27T07:00:00Z"));
    let none = Preferences { quiet: Some(Vec::new()), ..Preferences::default() };
    let plan = after_changes(&late, &[("2026-10-27T06:00:00Z", none)]);
    assert_eq!((plan.due_at, plan.then), (at("2026-10-27T07:00:00Z"), None));
}

#[test]
fn small_moves_do_not_add_up_and_can_be_undone() {
    let daily = utc("daily 08:00");
    let east = |hours| moved(&format!("Etc/GMT-{hours}"));
    let first = ("2026-10-25T07:30:00Z", east(1));
    assert_eq!(after_changes(&daily, from_ref(&first)).due_at, at("2026-10-26T07:00:00Z"));
    let plan = after_changes(&daily, &[first, ("2026-10-26T06:30:00Z", east(2))]);
    assert_eq!(plan.due_at, at("2026-10-26T07:00:00Z"), "and not another day later: {}", plan.why);

    let weekly = utc("weekly fri 08:00");
    let wednesday = ("2026-10-25T12:00:00Z", chose("weekly wed 08:00"));
    assert_eq!(after_changes(&weekly, from_ref(&wednesday)).due_at, at("2026-10-28T08:00:00Z"));
    let undone = after_changes(&weekly, &[wednesday, ("2026-10-25T12:01:00Z", Preferences::default())]);
    assert_eq!((undone.due_at, undone.then), (at("2026-10-30T08:00:00Z"), None));

    // What stands goes on standing, with the same words.
    let monday = utc("weekly mon 08:00");
    let friday = ("2026-10-25T12:00:00Z", chose("weekly fri 08:00"));
    let once = after_changes(&monday, from_ref(&friday));
    let twice = after_changes(&monday, &[friday, ("2026-10-25T13:00:00Z", chose("weekly thu 08:00"))]);
    assert_eq!((twice.due_at, &twice.why), (once.due_at, &once.why));
    assert_eq!(twice.then.as_deref(), Some("every Thursday at 08:00 (Etc/UTC)"));
}

#[test]
fn a_choice_within_grace_says_what_comes_then() {
    let plan = after_changes(&utc("daily 08:00"), &[("2026-10-25T07:50:00Z", chose("weekly fri 08:00"))]);
    assert_eq!(plan.due_at, at("2026-10-25T08:00:00Z"));
    assert_eq!(plan.then.as_deref(), Some("every Friday at 08:00 (Etc/UTC)"));
}

#[test]
fn a_day_a_week_or_a_month_has_one_digest_whatever_the_schedule_before() {
    let (utc_zone, berlin, angeles) = ("Etc/UTC", "Europe/Berlin", "America/Los_Angeles");
    let (honolulu, auckland) = ("Pacific/Honolulu", "Pacific/Auckland");
    for ((last, last_zone, sent), (cadence, zone), opened_at, due_at) in [
        // The schedule stays.
        (
            ("weekly mon 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("weekly mon 08:00", utc_zone),
            "2026-10-27T12:00:00Z",
            "2026-11-02T08:00:00Z",
        ),
        // Another day of the same week.
        (
            ("weekly mon 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("weekly fri 08:00", utc_zone),
            "2026-10-27T12:00:00Z",
            "2026-11-06T08:00:00Z",
        ),
        // Nine hours west, where it is this Monday still.
        (
            ("weekly mon 08:00", berlin, "2026-10-26T07:00:00Z"),
            ("weekly mon 08:00", angeles),
            "2026-10-26T08:00:00Z",
            "2026-11-02T16:00:00Z",
        ),
        (
            ("daily 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("daily 18:00", utc_zone),
            "2026-10-26T12:00:00Z",
            "2026-10-27T18:00:00Z",
        ),
        (
            ("monthly 26 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("monthly 31 08:00", utc_zone),
            "2026-10-27T12:00:00Z",
            "2026-11-30T08:00:00Z",
        ),
        // East over the date line, where an hour after Monday at eight it is Tuesday at eight.
        (
            ("daily 08:00", honolulu, "2026-10-26T18:00:00Z"),
            ("daily 08:00", auckland),
            "2026-10-26T18:30:00Z",
            "2026-10-27T19:00:00Z",
        ),
        // A week's digest is one of its day, and a day's none of its week.
        (
            ("weekly mon 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("daily 18:00", utc_zone),
            "2026-10-26T12:00:00Z",
            "2026-10-27T18:00:00Z",
        ),
        (
            ("daily 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("weekly fri 08:00", utc_zone),
            "2026-10-26T12:00:00Z",
            "2026-10-30T08:00:00Z",
        ),
        // One that a throttle put off to Wednesday is still that of its week.
        (
            ("weekly mon 08:00", utc_zone, "2026-10-28T12:00:00Z"),
            ("weekly thu 08:00", utc_zone),
            "2026-10-28T13:00:00Z",
            "2026-11-05T08:00:00Z",
        ),
        // One before the slot, as an urgent one.
        (
            ("weekly fri 08:00", utc_zone, "2026-10-27T10:00:00Z"),
            ("weekly fri 08:00", "Etc/GMT-1"),
            "2026-10-28T10:00:00Z",
            "2026-10-30T07:00:00Z",
        ),
        // A digest that was due yesterday and came today.
        (
            ("daily 08:00", utc_zone, "2026-10-26T08:00:00Z"),
            ("daily 09:00", utc_zone),
            "2026-10-27T08:30:00Z",
            "2026-10-27T09:00:00Z",
        ),
        (
            ("instant", utc_zone, "2026-10-26T08:00:00Z"),
            ("daily 18:00", utc_zone),
            "2026-10-26T12:00:00Z",
            "2026-10-26T18:00:00Z",
        ),
    ] {
        let last_schedule = Some(SentSchedule { at: at(sent), cadence: last.to_owned(), zone: last_zone.to_owned() });
        let facts = KeyFacts { last_schedule, ..facts() };
        let settings = DigestSettings { zone: Some(zone.into()), ..settings(cadence) };
        let mut opened = input();
        (opened.signs.opened_at, opened.signs.last_at) = (at(opened_at), at(opened_at));
        let plan = plan(&settings, &facts, &opened, Vec::new(), at(opened_at));
        assert_eq!(plan.due_at, at(due_at), "{last} {last_zone}, then {cadence} {zone}: {}", plan.why);
    }
}

#[test]
fn a_kept_deadline_is_the_digest_of_its_week() {
    // On Wednesday, after Monday's digest, the recipient chooses Fridays.
    let last =
        SentSchedule { at: at("2026-10-19T08:00:00Z"), cadence: "weekly mon 08:00".into(), zone: "Etc/UTC".into() };
    let weekly = utc("weekly mon 08:00");
    let mut opened = input();
    (opened.signs.opened_at, opened.signs.last_at) = (at("2026-10-20T12:00:00Z"), at("2026-10-20T12:00:00Z"));
    let before = KeyFacts { last_schedule: Some(last), ..facts() };
    let first = plan(&weekly, &before, &opened, Vec::new(), at("2026-10-20T12:00:00Z"));
    let changed_at = Some(at("2026-10-21T12:00:00Z"));
    let chosen = KeyFacts { preferences: chose("weekly fri 08:00"), revision: 1, changed_at, ..before };
    let asked = PlanInput { before: Some(first), ..opened.clone() };
    let kept = plan(&weekly, &chosen, &asked, Vec::new(), at("2026-10-21T12:00:00Z"));
    assert_eq!(kept.due_at, at("2026-10-26T08:00:00Z"));

    // It goes out on Monday. The next one is that of the Friday of the next week.
    let DeadlineBasis { cadence, zone, .. } = kept.basis.unwrap();
    let sent = KeyFacts { last_schedule: Some(SentSchedule { at: kept.due_at, cadence, zone }), ..chosen };
    (opened.signs.opened_at, opened.signs.last_at) = (at("2026-10-27T12:00:00Z"), at("2026-10-27T12:00:00Z"));
    let next = plan(&weekly, &sent, &opened, Vec::new(), at("2026-10-27T12:00:00Z"));
    assert_eq!(next.due_at, at("2026-11-06T08:00:00Z"));
}
