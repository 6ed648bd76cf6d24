use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

#[test]
fn whole_days_are_days_of_the_calendar_and_other_spans_elapse() {
    for (from, hours, ends) in [
        ("2026-03-28T07:00:00Z", 24, "2026-03-28T23:00:00Z"),
        // 23 hours long.
        ("2026-03-28T23:00:00Z", 24, "2026-03-29T22:00:00Z"),
        ("2026-03-28T22:59:59Z", 48, "2026-03-29T22:00:00Z"),
        // 25 hours long.
        ("2026-10-25T22:59:59Z", 24, "2026-10-25T23:00:00Z"),
        ("2026-03-28T07:00:00Z", 7 * 24, "2026-04-03T22:00:00Z"),
        ("2026-03-28T07:00:00Z", 36, "2026-03-29T19:00:00Z"),
        ("2026-03-28T07:00:00Z", 1, "2026-03-28T08:00:00Z"),
    ] {
        assert_eq!(limit_ends(at(from), Duration::from_hours(hours), &berlin()), at(ends), "{from} {hours} h");
    }
}

#[test]
fn a_digest_holds_others_back_exactly_while_its_limit_lasts() {
    for hours in [1, 23, 24, 36, 48, 7 * 24] {
        let length = Duration::from_hours(hours);
        // Over both changes of clocks.
        for start in ["2026-03-27T00:00:00Z", "2026-10-23T00:00:00Z"] {
            for minutes in (0..4 * 24 * 60).step_by(7) {
                let now = at(start) + Duration::from_mins(minutes);
                let since = limit_since(now, length, &berlin());
                assert!(limit_ends(since, length, &berlin()) <= now, "{hours} h at {now}");
                assert!(limit_ends(since + Duration::from_millis(1), length, &berlin()) > now, "{hours} h at {now}");
                assert!(limit_since_anywhere(now, length) < since, "{hours} h at {now}");
            }
        }
    }
}

#[test]
fn a_digest_counts_from_its_slot_where_the_cadence_has_one() {
    let (due, late) = (at("2026-03-02T08:00:00Z"), at("2026-03-02T11:00:00Z"));
    let ended = at("2026-03-02T09:30:00Z");
    for (cadence, limit_ended_at, now, expected) in [
        ("daily 08:00", None, late, Some(due)),
        ("hourly", None, late, Some(due)),
        ("hourly", Some(ended), late, Some(ended)),
        // Flushed.
        ("daily 08:00", None, at("2026-03-01T20:00:00Z"), Some(at("2026-03-01T20:00:00Z"))),
        ("after 1h", None, late, None),
        ("instant", None, late, None),
    ] {
        assert_eq!(counts_from(&cadence.parse().unwrap(), due, limit_ended_at, now), expected, "{cadence}");
    }
}

#[test]
fn a_limit_outlasts_a_slot_if_another_slot_comes_before_its_end() {
    let due = at("2026-03-02T08:00:00Z");
    for (cadence, minutes, outlasts) in [
        ("hourly", 60, false),
        ("hourly", 61, true),
        ("cron * * * * *", 1, false),
        ("daily 08:00", 24 * 60, false),
        ("daily 08:00", 25 * 60, true),
        ("daily 08:00", 48 * 60, true),
        ("after 1h", 90, false),
    ] {
        let length = Duration::from_mins(minutes);
        assert_eq!(
            outlasts_slot(&cadence.parse().unwrap(), due, length, &TimeZone::UTC),
            outlasts,
            "{cadence} {minutes}"
        );
    }
}
