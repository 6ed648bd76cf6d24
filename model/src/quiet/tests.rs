use super::*;

fn quiet(times: &[&str]) -> QuietHours {
    QuietHours::new(times.iter().map(|text| text.parse().unwrap()).collect()).unwrap()
}

fn until(times: &[&str], zone: &str, at: &str) -> Option<String> {
    let zone = TimeZone::get(zone).unwrap();
    quiet(times).quiet_end(at.parse().unwrap(), &zone).map(|end| end.to_string())
}

#[test]
fn every_quiet_time_reads_back_the_words_that_it_writes() {
    for words in [
        "22:00-07:00",
        "12:00-13:30",
        "sat-sun 00:00-24:00",
        "fri 18:00-24:00",
        "sat-mon 20:00-08:00",
        "tue-mon 20:00-21:00",
    ] {
        assert_eq!(words.parse::<QuietTime>().unwrap().to_string(), words);
    }
}

#[test]
fn an_error_points_at_the_word_and_says_what_would_be_right() {
    for (words, named) in [
        ("", "write for example \"22:00-07:00\""),
        ("night", "\"night\": write for example"),
        ("22-07", "\"22\" is not a time of day"),
        ("22:00-25:00", "\"25:00\" is not a time of day"),
        ("24:00-07:00", "\"24:00\" is not a time of day"),
        ("08:00-08:00", "\"08:00-08:00\" is empty"),
        ("caturday 08:00-09:00", "\"caturday\" is not a day"),
        ("sat-sum 08:00-09:00", "\"sum\" is not a day"),
        ("sat sun 08:00-09:00", "write for example"),
    ] {
        let error = words.parse::<QuietTime>().unwrap_err();
        assert!(error.contains(named), "{words:?}: {error}");
    }
}

#[test]
fn a_week_without_a_minute_for_mail_is_refused() {
    let whole_week =
        |times: &[&str]| QuietHours::new(times.iter().map(|text| text.parse().unwrap()).collect()).is_err();
    assert!(whole_week(&["00:00-24:00"]));
    assert!(whole_week(&["07:00-22:00", "22:00-07:00"]));
    assert!(whole_week(&["mon-fri 00:00-24:00", "sat-sun 00:00-24:00"]));
    assert!(!whole_week(&["00:00-23:59"]));
    assert!(!whole_week(&["mon-fri 00:00-24:00", "sat 00:00-24:00"]));
    assert!(!whole_week(&[]));
}

#[test]
fn quiet_hours_last_from_their_first_minute_until_their_last_is_over() {
    let night = ["22:00-07:00"];
    for (at, end) in [
        ("2026-03-02T21:59:59.999Z", None),
        ("2026-03-02T22:00:00Z", Some("2026-03-03T07:00:00Z")),
        ("2026-03-03T00:00:00Z", Some("2026-03-03T07:00:00Z")),
        ("2026-03-03T06:59:59.999Z", Some("2026-03-03T07:00:00Z")),
        ("2026-03-03T07:00:00Z", None),
    ] {
        assert_eq!(until(&night, "UTC", at).as_deref(), end, "{at}");
    }
    assert_eq!(until(&[], "UTC", "2026-03-02T22:00:00Z"), None);
}

#[test]
fn quiet_times_that_meet_are_one() {
    let times = ["22:00-07:00", "sat-sun 00:00-24:00"];
    // Friday night, and through the weekend to Monday morning.
    assert_eq!(until(&times, "UTC", "2026-03-06T23:00:00Z").as_deref(), Some("2026-03-09T07:00:00Z"));
    assert_eq!(until(&times, "UTC", "2026-03-05T23:00:00Z").as_deref(), Some("2026-03-06T07:00:00Z"));
}

#[test]
fn a_night_belongs_to_the_day_on_which_it_begins() {
    let times = ["fri 22:00-07:00"];
    assert_eq!(until(&times, "UTC", "2026-03-07T06:00:00Z").as_deref(), Some("2026-03-07T07:00:00Z"));
    assert_eq!(until(&times, "UTC", "2026-03-06T06:00:00Z"), None);
    // Over the end of the week.
    assert_eq!(until(&["sun 22:00-07:00"], "UTC", "2026-03-09T06:00:00Z").as_deref(), Some("2026-03-09T07:00:00Z"));
}

#[test]
fn quiet_hours_follow_the_local_clock_over_its_changes() {
    let berlin = "Europe/Berlin";
    let night = ["22:00-07:00"];
    assert_eq!(until(&night, berlin, "2026-03-28T21:30:00Z").as_deref(), Some("2026-03-29T05:00:00Z"));
    assert_eq!(until(&night, berlin, "2026-10-24T20:30:00Z").as_deref(), Some("2026-10-25T06:00:00Z"));
    // An end that is skipped: the first instant after the gap.
    assert_eq!(until(&["00:00-02:30"], berlin, "2026-03-29T00:00:00Z").as_deref(), Some("2026-03-29T01:00:00Z"));
    // An end that comes twice ends each quiet time.
    assert_eq!(until(&["00:00-02:30"], berlin, "2026-10-25T00:10:00Z").as_deref(), Some("2026-10-25T00:30:00Z"));
    assert_eq!(until(&["00:00-02:30"], berlin, "2026-10-25T01:10:00Z").as_deref(), Some("2026-10-25T01:30:00Z"));
    // A change that ends it early, and one into another quiet time.
    assert_eq!(until(&["02:30-04:00"], berlin, "2026-10-25T00:40:00Z").as_deref(), Some("2026-10-25T01:00:00Z"));
    let two = ["01:00-02:30", "03:00-04:00"];
    assert_eq!(until(&two, berlin, "2026-03-29T00:30:00Z").as_deref(), Some("2026-03-29T02:00:00Z"));
}

#[test]
fn a_quiet_day_that_a_zone_skips_ends_with_the_next_day() {
    // 29 December 2011 was a Thursday, and the Friday never was.
    let times = ["thu-fri 00:00-24:00"];
    assert_eq!(until(&times, "Pacific/Apia", "2011-12-29T18:00:00Z").as_deref(), Some("2011-12-30T10:00:00Z"));
}

/// A plain test for quiet local times.
type Plainly = fn(DateTime) -> bool;

#[test]
fn quiet_hours_end_at_the_first_minute_that_is_not_quiet() {
    let sets: [(&[&str], Plainly); 4] = [
        (&["22:00-07:00"], |at| at.hour() >= 22 || at.hour() < 7),
        (&["00:00-02:15"], |at| at.time() < Time::constant(2, 15, 0, 0)),
        (&["01:00-02:00", "02:45-03:30"], |at| {
            let minute = i32::from(at.hour()) * 60 + i32::from(at.minute());
            (60..120).contains(&minute) || (165..210).contains(&minute)
        }),
        (&["sat-sun 00:00-24:00"], |at| at.weekday().to_monday_zero_offset() > 4),
    ];
    let changes = [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("America/Santiago", "2026-04-05T03:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ];
    for (times, plainly) in sets {
        for (name, change) in changes {
            let (quiet, zone) = (quiet(times), TimeZone::get(name).unwrap());
            let change: Timestamp = change.parse().unwrap();
            // Back from where it is not quiet, so that each minute knows the end of its quiet time.
            let mut end = None;
            for minute in (-1440..4 * 1440_i64).rev() {
                let at = change + minute.minutes();
                if plainly(zone.to_datetime(at)) {
                    let Some(end) = end else { continue };
                    assert_eq!(quiet.quiet_end(at, &zone), Some(end), "{times:?} {name} {at}");
                } else {
                    assert_eq!(quiet.quiet_end(at, &zone), None, "{times:?} {name} {at}");
                    end = Some(at);
                }
            }
            assert!(end.is_some());
        }
    }
}
