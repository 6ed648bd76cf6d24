//! Waits which end, and when a digest is sent then.

use std::time::Duration;

use jiff::{SignedDuration, tz::TimeZone};

use super::*;
use crate::QuietHours;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn quiet(times: &[&str]) -> QuietHours {
    QuietHours::new(times.iter().map(|text| text.parse().unwrap()).collect()).unwrap()
}

/// A Tuesday at half past one in Berlin, an hour ahead of UTC.
const NIGHT: &str = "2026-03-03T00:30:00Z";

fn berlin(quiet: &QuietHours, share: Option<SignedDuration>, test: impl FnOnce(&DeadlineTiming<'_>)) {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let overdue_offset = share.unwrap_or(SignedDuration::from_secs(42));
    test(&DeadlineTiming { quiet, offset: share, overdue_offset, zone: &zone, zone_name: "Europe/Berlin" });
}

fn next(cadence: &str, times: &[&str], minutes: Option<i64>, from: &str) -> (String, String) {
    let mut found = (String::new(), String::new());
    berlin(&quiet(times), minutes.map(SignedDuration::from_mins), |timing| {
        let Deadline { at, why } = timing.next_good_moment(&cadence.parse().unwrap(), from.parse().unwrap());
        let again = timing.next_good_moment(&cadence.parse().unwrap(), at);
        assert_eq!((again.at, again.why.as_str()), (at, ""), "{cadence} {times:?}: a good moment is one");
        found = (at.to_string(), why);
    });
    found
}

#[test]
fn a_good_moment_is_not_quiet_and_not_before_the_time_of_day() {
    let (daily, night) = ("daily 08:00", ["22:00-07:00"]);
    for (cadence, times, share, from, expected) in [
        // Neither quiet hours nor a time of day.
        ("after 1h", &[][..], None, NIGHT, NIGHT),
        ("instant", &[], Some(12), NIGHT, NIGHT),
        ("hourly at :30", &[], Some(12), NIGHT, NIGHT),
        // Quiet hours alone, and the share after them.
        ("after 1h", &night, None, NIGHT, "2026-03-03T06:00:00Z"),
        ("after 1h", &night, Some(12), NIGHT, "2026-03-03T06:12:00Z"),
        // The time of day on this local day, and its share.
        (daily, &[], None, NIGHT, "2026-03-03T07:00:00Z"),
        (daily, &[], Some(12), NIGHT, "2026-03-03T07:12:00Z"),
        (daily, &[], Some(12), "2026-03-03T07:05:00Z", "2026-03-03T07:12:00Z"),
        (daily, &[], None, "2026-03-03T12:00:00Z", "2026-03-03T12:00:00Z"),
        // Never a period later: a Tuesday is as good as the Monday of the cadence.
        ("weekly mon 08:00", &[], None, NIGHT, "2026-03-03T07:00:00Z"),
        ("monthly 1 08:00", &[], None, NIGHT, "2026-03-03T07:00:00Z"),
        ("weekdays 08:00", &[], None, "2026-03-07T00:30:00Z", "2026-03-07T07:00:00Z"),
        ("cron 0 9,17 * * mon-fri", &[], None, NIGHT, "2026-03-03T08:00:00Z"),
        ("cron 0 9,17 * * mon-fri", &[], None, "2026-03-03T10:00:00Z", "2026-03-03T10:00:00Z"),
        ("cron * * * * *", &[], None, NIGHT, NIGHT),
        // Both.
        (daily, &night, None, "2026-03-03T22:30:00Z", "2026-03-04T07:00:00Z"),
        (daily, &["22:00-09:00"], None, NIGHT, "2026-03-03T08:00:00Z"),
        ("weekly mon 08:00", &["sat-sun 00:00-24:00"], None, "2026-03-07T12:00:00Z", "2026-03-09T07:00:00Z"),
        // Quiet hours or the spread lead a time of day past midnight: it counts for the day that it comes on.
        ("daily 23:00", &night, None, NIGHT, "2026-03-03T06:00:00Z"),
        ("daily 23:00", &night, None, "2026-03-03T06:01:00Z", "2026-03-03T06:01:00Z"),
        ("daily 23:50", &[], Some(30), "2026-03-03T23:10:00Z", "2026-03-03T23:20:00Z"),
        ("daily 23:50", &[], Some(30), "2026-03-03T23:25:00Z", "2026-03-03T23:25:00Z"),
        ("daily 08:00", &["07:00-24:00"], None, "2026-03-03T12:00:00Z", "2026-03-03T23:00:00Z"),
        // Clocks go forward from two to three.
        ("daily 02:30", &[], None, "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"),
    ] {
        let (found, why) = next(cadence, times, share, from);
        assert_eq!(found, expected, "{cadence} {times:?} {share:?} from {from}: {why}");
    }
}

#[test]
fn the_steps_are_in_the_words() {
    let words = |cadence: &str, times: &[&str]| next(cadence, times, None, NIGHT).1;
    assert_eq!(words("after 1h", &["22:00-07:00"]), "quiet until 07:00 -> 2026-03-03T06:00:00Z");
    assert_eq!(words("daily 08:00", &[]), "not before 08:00 -> 2026-03-03T07:00:00Z");
    let both = "quiet until 07:00; not before 08:00 -> 2026-03-03T07:00:00Z";
    assert_eq!(words("daily 08:00", &["22:00-07:00"]), both);
}

#[test]
fn each_wait_ends_as_its_row_of_the_table_says() {
    let daily = "daily 08:00".parse().unwrap();
    berlin(&quiet(&["22:00-07:00"]), None, |timing| {
        let put_off = |wait, due: &str, from: &str| timing.put_off(&daily, wait, at(due), at(from)).map(|goes| goes.at);
        let (due, morning) = ("2026-03-02T07:00:00Z", Some(at("2026-03-03T07:00:00Z")));
        for wait in WaitReason::ALL {
            let expected = if wait.send_moment() == SendMoment::AtOnce { None } else { morning };
            assert_eq!(put_off(wait, due, NIGHT), expected, "{wait}");
            assert_eq!(put_off(wait, due, "2026-03-03T07:00:00Z"), None, "{wait}: a good moment");
            assert_eq!(put_off(wait, due, "2026-03-02T17:00:00Z"), None, "{wait}: the day of the deadline");
        }
    });
}

#[test]
fn a_deadline_that_quiet_hours_cover_stands_until_they_end() {
    let hourly = "hourly".parse().unwrap();
    berlin(&quiet(&["22:00-07:00"]), None, |timing| {
        let due = at("2026-03-02T22:00:00Z");
        for (wait, from, goes) in [
            (WaitReason::FirstDeadline, "2026-03-02T22:00:00Z", None),
            (WaitReason::FirstDeadline, "2026-03-03T05:59:00Z", None),
            (WaitReason::FirstDeadline, "2026-03-03T22:00:00Z", Some("2026-03-04T06:00:00Z")),
            (WaitReason::FirstDeadline, "2026-03-02T21:59:00Z", Some("2026-03-03T06:00:00Z")),
            (WaitReason::Retry, "2026-03-02T22:01:00Z", Some("2026-03-03T06:00:00Z")),
        ] {
            let put_off = timing.put_off(&hourly, wait, due, at(from)).map(|goes| goes.at);
            assert_eq!(put_off, goes.map(at), "{wait} from {from}");
        }
    });
    let daily = "daily 08:00".parse().unwrap();
    berlin(&quiet(&["20:00-07:00"]), None, |timing| {
        let due = at("2026-03-02T20:30:00Z");
        for (from, goes) in [("2026-03-03T05:59:59Z", None), ("2026-03-03T06:00:00Z", Some("2026-03-03T07:00:00Z"))] {
            let put_off = timing.put_off(&daily, WaitReason::FirstDeadline, due, at(from)).map(|goes| goes.at);
            assert_eq!(put_off, goes.map(at), "{from}");
        }
    });
}

#[test]
fn a_digest_that_is_due_shortly_before_midnight_is_not_put_off_for_a_day_by_a_short_wait() {
    let daily = "daily 23:58".parse().unwrap();
    berlin(&QuietHours::default(), None, |timing| {
        let due = at("2026-03-02T22:58:00Z");
        let put_off = |from| timing.put_off(&daily, WaitReason::Retry, due, at(from)).map(|goes| goes.at);
        assert_eq!(put_off("2026-03-02T23:03:00Z"), None);
        let next = Some(at("2026-03-03T22:58:00Z"));
        assert_eq!((put_off("2026-03-03T22:57:00Z"), put_off("2026-03-03T22:58:00Z")), (None, None));
        assert_eq!(put_off("2026-03-04T00:30:00Z"), Some(at("2026-03-04T22:58:00Z")));
        let early = timing.put_off(&daily, WaitReason::Retry, at("2026-03-02T20:58:00Z"), at("2026-03-02T23:03:00Z"));
        assert_eq!(early.map(|goes| goes.at), next, "two hours are over");
    });
}

#[test]
fn no_wait_is_without_an_end_where_the_spread_leads_from_each_quiet_time_into_the_next() {
    let times = quiet(&["00:30-21:43", "22:00-02:30"]);
    berlin(&times, Some(SignedDuration::from_secs(2540)), |timing| {
        for cadence in ["weekly tue 03:30", "daily 08:00", "after 1h"] {
            let cadence = cadence.parse().unwrap();
            let due = timing.cadence_deadline(&cadence, None, at(NIGHT)).at;
            let mut from = due + Duration::from_hours(3 * 24);
            let goes = timing.put_off(&cadence, WaitReason::Retry, due, from).map_or(from, |goes| goes.at);
            assert!(goes < from + Duration::from_hours(8 * 24), "{goes}");
            from = goes;
            assert_eq!(timing.put_off(&cadence, WaitReason::Retry, due, from), None, "{from}");
        }
    });
}

#[test]
fn the_documentation_has_the_table_of_waits() {
    let row = |wait: WaitReason| format!("| {} | {} |\n", wait.wait_phrase(), wait.send_moment().moment_phrase());
    let table: String = WaitReason::ALL.into_iter().map(row).collect();
    let table = format!("| it waits for | and goes |\n|---|---|\n{table}");
    let docs = include_str!("../../../../docs/timing.md");
    assert!(docs.contains(&table), "docs/timing.md needs this table:\n{table}");
}
