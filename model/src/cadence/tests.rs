use super::*;

fn due(words: &str, zone: &str, opened_at: &str) -> String {
    let zone = TimeZone::get(zone).unwrap();
    words.parse::<Cadence>().unwrap().due_at(opened_at.parse().unwrap(), &zone).to_string()
}

#[test]
fn every_cadence_reads_back_the_words_that_it_writes() {
    for words in [
        "instant",
        "after 90s",
        "after 15m",
        "after 7d",
        "after 31d",
        "sliding 5m max 1h",
        "sliding 1h max 1h",
        "hourly",
        "hourly at :05",
        "daily 08:00",
        "weekdays 17:30",
        "weekdays sun-thu 17:30",
        "weekdays mon-fri 17:30",
        "weekly sun 23:59",
        "monthly 1 08:00",
        "monthly 31 23:59",
        "cron 0 9,17 * * mon-fri",
        "cron */20 8-18/2 1,15 jan-jun sun",
        "cron */59 * * * *",
        "never",
    ] {
        let cadence: Cadence = words.parse().unwrap();
        assert_eq!(cadence.to_string(), words);
        assert_eq!(serde_json::to_value(&cadence).unwrap(), words);
        assert_eq!(serde_json::from_value::<Cadence>(words.into()).unwrap(), cadence);
    }
}

#[test]
fn an_error_points_at_the_word_and_says_what_would_be_right() {
    for (words, named) in [
        ("", "empty"),
        ("dayly 08:00", "\"dayly\""),
        ("daily", "\"daily\" is not all; write \"daily 08:00\""),
        ("daily 08:00 09:00", "\"daily\" cannot be followed by \"08:00 09:00\"; write \"daily 08:00\""),
        ("daily 8:00", "\"8:00\""),
        ("daily 24:00", "\"24:00\""),
        ("weekly moon 08:00", "\"moon\""),
        ("monthly 08:00", "\"monthly 1 08:00\""),
        ("monthly 0 08:00", "\"0\" is not a day of the month; write 1 to 31"),
        ("monthly 32 08:00", "\"32\" is not a day of the month; write 1 to 31"),
        ("monthly last 08:00", "\"last\" is not a day of the month"),
        ("monthly 1 8:00", "\"8:00\""),
        ("after 60", "\"60\""),
        ("after 0s", "1s to 31d"),
        ("after 99d", "1s to 31d"),
        ("after 1µ", "\"1µ\""),
        ("sliding 2h max 1h", "\"1h\" is shorter than \"2h\""),
        ("after +60s", "\"+60s\""),
        ("daily +8:00", "\"+8:00\""),
        ("hourly :30", "\"hourly at :30\""),
        ("hourly at :60", "\":60\""),
        ("hourly at 30", "\"30\""),
        ("weekdays", "\"weekdays 08:00\""),
        ("weekdays 8", "\"8\""),
        ("weekdays sun-thu", "\"sun-thu\" is not a time of day"),
        ("weekdays sun-thurs 08:00", "\"thurs\" is not a day"),
        ("weekdays sun-thu 08:00 09:00", "write \"weekdays 08:00\" or \"weekdays sun-thu 08:00\""),
        ("never 08:00", "\"never\" alone"),
        ("cron", "five fields, not 0"),
        ("cron 0 9 * * * *", "five fields, not 6"),
        ("cron 60 9 * * *", "\"60\" is no minute; write 0 to 59"),
        ("cron 0 9,24 * * *", "\"24\" is no hour; write 0 to 23"),
        ("cron 0 9 0 * *", "\"0\" is no day of the month; write 1 to 31"),
        ("cron 0 9 * mon *", "\"mon\" is no month; write 1 to 12 or jan to dec"),
        ("cron 0 9 * * jan", "\"jan\" is no day of the week; write 0 to 7 or sun to sat"),
        ("cron 0 9 * * monday", "\"monday\""),
        ("cron 0 9 L * *", "\"L\""),
        ("cron 0 9,,10 * * *", "\"\" is no hour"),
        ("cron +5 9 * * *", "\"+5\""),
        ("cron 0 17-9 * * *", "\"17-9\" runs backwards"),
        ("cron 5/15 9 * * *", "\"5/15\" steps from nothing"),
        ("cron */0 9 * * *", "\"*/0\""),
        ("cron */60 9 * * *", "write 1 to 59"),
        ("cron */90 9 * * *", "write 1 to 59"),
        ("cron 0 9 30 2 *", "\"0 9 30 2 *\" never comes"),
    ] {
        let error = words.parse::<Cadence>().unwrap_err().to_string();
        assert!(error.contains(named), "{words:?}: {error}");
    }
}

#[test]
fn an_event_at_exactly_eight_belongs_to_the_next_window() {
    assert_eq!(due("daily 08:00", "UTC", "2026-03-01T08:00:00Z"), "2026-03-02T08:00:00Z");
    assert_eq!(due("daily 08:00", "UTC", "2026-03-01T07:59:59.999Z"), "2026-03-01T08:00:00Z");
    assert_eq!(due("weekly mon 08:00", "UTC", "2026-03-02T08:00:00Z"), "2026-03-09T08:00:00Z");
}

#[test]
fn eight_stays_eight_over_a_change_to_summer_time() {
    assert_eq!(due("daily 08:00", "Europe/Berlin", "2026-03-28T07:00:00Z"), "2026-03-29T06:00:00Z");
    assert_eq!(due("daily 08:00", "Europe/Berlin", "2026-10-24T06:00:00Z"), "2026-10-25T07:00:00Z");
}

#[test]
fn a_skipped_time_goes_out_at_the_first_instant_after_the_gap() {
    assert_eq!(due("daily 02:30", "Europe/Berlin", "2026-03-29T00:00:00Z"), "2026-03-29T01:00:00Z");
    // Lord Howe's clocks move by half an hour.
    assert_eq!(due("daily 02:15", "Australia/Lord_Howe", "2026-10-03T12:00:00Z"), "2026-10-03T15:30:00Z");
}

#[test]
fn a_repeated_time_goes_out_once_at_its_first_occurrence() {
    assert_eq!(due("daily 02:30", "Europe/Berlin", "2026-10-24T12:00:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(due("daily 02:30", "Europe/Berlin", "2026-10-25T00:30:00Z"), "2026-10-26T01:30:00Z");
}

#[test]
fn a_day_that_a_zone_skipped_goes_out_as_the_next_begins() {
    assert_eq!(due("daily 08:00", "Pacific/Apia", "2011-12-29T18:00:00Z"), "2011-12-30T10:00:00Z");
    assert_eq!(due("daily 08:00", "Pacific/Apia", "2011-12-30T10:00:00Z"), "2011-12-30T18:00:00Z");
}

#[test]
fn weekdays_leave_the_weekend_out() {
    // Friday, by the zone's calendar.
    assert_eq!(due("weekdays 08:00", "UTC", "2026-03-06T08:00:00Z"), "2026-03-09T08:00:00Z");
    assert_eq!(due("weekdays 08:00", "Asia/Tokyo", "2026-03-05T23:00:00Z"), "2026-03-08T23:00:00Z");
    assert_eq!(due("weekdays 08:00", "UTC", "2026-03-05T08:00:00Z"), "2026-03-06T08:00:00Z");
}

#[test]
fn weekdays_can_be_other_days_in_a_row() {
    // Thursday, by the zone's calendar, and then Sunday.
    assert_eq!(due("weekdays sun-thu 08:00", "Asia/Jerusalem", "2026-01-08T06:00:00Z"), "2026-01-11T06:00:00Z");
    assert_eq!(due("weekdays sat-wed 08:00", "UTC", "2026-03-04T08:00:00Z"), "2026-03-07T08:00:00Z");
    assert_eq!(due("weekdays sun-thu 08:00", "UTC", "2026-03-05T08:00:00Z"), "2026-03-08T08:00:00Z");
}

#[test]
fn only_weekdays_without_days_follow_the_working_days_of_the_recipient() {
    for (words, working_days, said) in [
        ("weekdays 08:00", "sun-thu", "weekdays sun-thu 08:00"),
        ("weekdays 08:00", "mon-fri", "weekdays 08:00"),
        ("weekdays mon-fri 08:00", "sun-thu", "weekdays mon-fri 08:00"),
        ("daily 08:00", "sun-thu", "daily 08:00"),
    ] {
        let cadence: Cadence = words.parse().unwrap();
        assert_eq!(cadence.on_working_days(|| working_days.parse().unwrap()).to_string(), said);
    }
}

#[test]
fn a_schedule_of_equal_days_has_days_and_times() {
    let said = |fields: &str| {
        let Cadence::Cron(cron) = format!("cron {fields}").parse().unwrap() else { unreachable!() };
        cron.week_times().map(|WeekTimes { days, times }| {
            let days: Vec<_> = days.into_iter().map(words::day_name).collect();
            let times: Vec<_> = times.into_iter().map(|time| time.strftime("%H:%M").to_string()).collect();
            format!("{} {}", days.join(","), times.join(","))
        })
    };
    for (fields, expected) in [
        ("0 8 * * sun-thu", Some("mon,tue,wed,thu,sun 08:00")),
        ("30 17,9 * * 1-5", Some("mon,tue,wed,thu,fri 09:30,17:30")),
        ("0 0 * * 7", Some("sun 00:00")),
        ("59 23 * * *", Some("mon,tue,wed,thu,fri,sat,sun 23:59")),
        ("*/30 8-9 * * sat", Some("sat 08:00,08:30,09:00,09:30")),
        ("*/15 8-9 * * *", None),
        ("0 8 1 * *", None),
        ("0 8 1 * mon", None),
        ("0 8 * jan mon", None),
        ("0 8 */2 * mon", None),
    ] {
        assert_eq!(said(fields).as_deref(), expected, "{fields}");
    }
}

#[test]
fn a_day_that_a_month_lacks_is_its_last_day() {
    assert_eq!(
        slots("monthly 30 08:00", "UTC", "2027-12-30T08:00:00Z", 4),
        ["2028-01-30T08:00:00Z", "2028-02-29T08:00:00Z", "2028-03-30T08:00:00Z", "2028-04-30T08:00:00Z"]
    );
    assert_eq!(
        slots("monthly 31 08:00", "UTC", "2026-01-31T07:59:59Z", 4),
        ["2026-01-31T08:00:00Z", "2026-02-28T08:00:00Z", "2026-03-31T08:00:00Z", "2026-04-30T08:00:00Z"]
    );
}

#[test]
fn a_month_begins_by_the_calendar_of_the_zone() {
    assert_eq!(due("monthly 1 08:00", "Asia/Tokyo", "2026-02-28T22:59:59Z"), "2026-02-28T23:00:00Z");
    assert_eq!(due("monthly 1 08:00", "Asia/Tokyo", "2026-02-28T23:00:00Z"), "2026-03-31T23:00:00Z");
    // Clocks jump from 02:00 to 03:00 on the last day of March 2024.
    assert_eq!(due("monthly 31 02:30", "Europe/Berlin", "2024-03-30T12:00:00Z"), "2024-03-31T01:00:00Z");
}

#[test]
fn hourly_follows_the_minutes_of_the_local_clock() {
    assert_eq!(due("hourly", "Asia/Kathmandu", "2026-03-01T08:00:00Z"), "2026-03-01T08:15:00Z");
    assert_eq!(due("hourly at :30", "Asia/Kolkata", "2026-03-01T08:00:00Z"), "2026-03-01T09:00:00Z");
    assert_eq!(due("hourly", "UTC", "2026-03-01T08:59:59.5Z"), "2026-03-01T09:00:00Z");
}

fn slots(words: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let mut at = from.to_owned();
    std::iter::repeat_with(|| {
        at = due(words, zone, &at);
        at.clone()
    })
    .take(count)
    .collect()
}

#[test]
fn hourly_misses_no_hour_that_passes_while_the_clocks_change() {
    // Back by an hour: both hours from 02:00 to 03:00.
    assert_eq!(
        slots("hourly at :30", "Europe/Berlin", "2026-10-25T00:00:00Z", 3),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z",]
    );
    // Forward by an hour: that from 02:00 to 03:00 never was.
    assert_eq!(
        slots("hourly at :30", "Europe/Berlin", "2026-03-29T00:00:00Z", 2),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z",]
    );
    // Forward by half an hour: 02:15 never was, and 03:15 is an hour and a half after 01:15.
    assert_eq!(
        slots("hourly at :15", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", 3),
        ["2026-10-03T14:45:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:15:00Z",]
    );
    // Back by half an hour: 01:45 comes twice.
    assert_eq!(
        slots("hourly at :45", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 3),
        ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z",]
    );
}

#[test]
fn cron_is_what_crontab_5_says() {
    for (fields, from, expected) in [
        ("0 9,17 * * mon-fri", "2026-03-06T09:00:00Z", "2026-03-06T17:00:00Z"),
        ("0 9,17 * * mon-fri", "2026-03-06T17:00:00Z", "2026-03-09T09:00:00Z"),
        ("*/20 * * * *", "2026-03-06T17:20:00Z", "2026-03-06T17:40:00Z"),
        ("10-30/10 * * * *", "2026-03-06T17:30:00Z", "2026-03-06T18:10:00Z"),
        ("0 0 29 2 *", "2026-03-06T17:30:00Z", "2028-02-29T00:00:00Z"),
        ("0 9 *,5 * mon", "2026-03-02T09:00:00Z", "2026-03-09T09:00:00Z"),
        ("0 9 * * 0", "2026-03-06T17:00:00Z", "2026-03-08T09:00:00Z"),
        ("0 9 * * 7", "2026-03-06T17:00:00Z", "2026-03-08T09:00:00Z"),
        ("0 9 * * sat-sun", "2026-03-07T09:00:00Z", "2026-03-08T09:00:00Z"),
        ("0 9 * * sun-sun", "2026-03-06T17:00:00Z", "2026-03-08T09:00:00Z"),
        ("0 9-9 * * *", "2026-03-06T17:00:00Z", "2026-03-07T09:00:00Z"),
        ("0 9 * DEC *", "2026-03-07T09:00:00Z", "2026-12-01T09:00:00Z"),
        // Restricted both, so either day will do: Friday the 6th, the 10th.
        ("0 9 10 * fri", "2026-03-06T08:00:00Z", "2026-03-06T09:00:00Z"),
        ("0 9 10 * fri", "2026-03-06T09:00:00Z", "2026-03-10T09:00:00Z"),
        // `*/2` does not restrict: Monday must fall on an odd day.
        ("0 9 */2 * mon", "2026-03-02T09:00:00Z", "2026-03-09T09:00:00Z"),
        ("0 9 */2 * mon", "2026-03-09T09:00:00Z", "2026-03-23T09:00:00Z"),
    ] {
        assert_eq!(due(&format!("cron {fields}"), "UTC", from), expected, "{fields} from {from}");
    }
}

#[test]
fn skipped_cron_times_that_fall_together_are_one_slot() {
    assert_eq!(
        slots("cron */15 2-3 * * *", "Europe/Berlin", "2026-03-29T00:50:00Z", 3),
        ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z",]
    );
}

#[test]
fn a_repeated_cron_time_is_one_slot() {
    assert_eq!(
        slots("cron 30 2,3 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z",]
    );
}

#[test]
fn a_cadence_explains_itself() {
    for (words, said) in [
        ("after 15m", "15m after the first event"),
        ("hourly at :05", "every hour at :05"),
        ("weekdays 08:00", "on the recipient's working days, here Monday to Friday, at 08:00"),
        ("weekdays sun-thu 08:00", "Sunday to Thursday at 08:00"),
        ("weekly sun 08:00", "every Sunday at 08:00"),
        ("monthly 1 08:00", "on day 1 of every month at 08:00"),
        ("monthly 30 08:00", "on day 30 of every month, or the last day of a shorter one, at 08:00"),
        ("monthly 31 08:00", "on the last day of every month at 08:00"),
        (
            "cron 0 9,17 * * mon-fri",
            "At minute 0, of hour 9 and 17, on Monday, Tuesday, Wednesday, Thursday, and Friday.",
        ),
    ] {
        assert_eq!(words.parse::<Cadence>().unwrap().explain(), said);
    }
}

#[test]
fn schedules_are_equal_if_their_words_are() {
    let cron = |words: &str| words.parse::<Cadence>().unwrap();
    assert_eq!(cron("cron 0 9 * * MON"), cron("cron 0 9 * * mon"));
    assert_ne!(cron("cron 0 9 * * mon"), cron("cron 0 9 * * tue"));
}

#[test]
fn only_a_time_of_day_moves_to_another() {
    let at = Time::constant(18, 30, 0, 0);
    for (words, moved) in [
        ("daily 08:00", Some("daily 18:30")),
        ("weekdays 08:00", Some("weekdays 18:30")),
        ("weekdays sun-thu 08:00", Some("weekdays sun-thu 18:30")),
        ("weekly fri 08:00", Some("weekly fri 18:30")),
        ("monthly 31 08:00", Some("monthly 31 18:30")),
        ("hourly", None),
        ("cron 0 9 * * *", None),
    ] {
        let cadence: Cadence = words.parse().unwrap();
        assert_eq!(cadence.with_time(at).map(|cadence| cadence.to_string()).as_deref(), moved, "{words}");
    }
}

#[test]
fn a_duration_is_written_in_its_largest_whole_unit() {
    for (seconds, text) in [(0, "0s"), (1, "1s"), (90, "90s"), (120, "2m"), (7200, "2h"), (172_800, "2d")] {
        assert_eq!(words::format_duration(Duration::from_secs(seconds)), text);
    }
}
