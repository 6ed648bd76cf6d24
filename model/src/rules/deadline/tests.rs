use std::time::Duration;

use super::*;

fn settings(spread: Option<u64>, quiet: &[&str]) -> DigestSettings {
    DigestSettings {
        spread: spread.map(Duration::from_secs),
        quiet: QuietHours::new(quiet.iter().map(|text| text.parse().unwrap()).collect()).unwrap(),
        ..DigestSettings::new("activity", Cadence::Never)
    }
}

fn key(user: &str) -> Key {
    Key::new("acme".into(), "activity".into(), user.into()).unwrap()
}

fn berlin(settings: &DigestSettings) -> EffectiveSettings {
    EffectiveSettings {
        cadence: settings.cadence.clone(),
        chosen: false,
        adapted: None,
        quiet: settings.quiet.clone(),
        zone: TimeZone::get("Europe/Berlin").unwrap(),
        zone_name: "Europe/Berlin".to_owned(),
        unknown_zone: None,
    }
}

fn why(cadence: &str, opened_at: &str, spread: Option<u64>, quiet: &[&str]) -> String {
    let settings = settings(spread, quiet);
    let zone = berlin(&settings);
    let timing = DeadlineTiming::new(&settings, &key("ann"), &zone);
    let deadline = timing.cadence_deadline(&cadence.parse().unwrap(), None, opened_at.parse().unwrap());
    assert!(deadline.why.ends_with(&format!("-> {}", deadline.at)), "{}", deadline.why);
    deadline.why
}

const EVENING: &str = "2026-10-24T18:00:00Z";

#[test]
fn every_step_is_in_the_words() {
    let daily = "daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z";
    assert_eq!(why("daily 08:00", EVENING, None, &[]), daily);
    assert_eq!(
        why("daily 08:00", EVENING, Some(3600), &[]),
        format!("{daily}; spread +35m42s -> 2026-10-25T07:35:42Z")
    );
    assert_eq!(
        why("daily 08:00", EVENING, None, &["22:00-09:00"]),
        format!("{daily}; quiet until 09:00 -> 2026-10-25T08:00:00Z")
    );
    assert_eq!(
        why("daily 08:00", EVENING, Some(3600), &["22:00-09:00"]),
        format!("{daily}; spread +35m42s; quiet until 09:00 -> 2026-10-25T08:35:42Z")
    );
}

#[test]
fn only_calendar_slots_are_spread_but_every_end_of_quiet_hours_is() {
    assert_eq!(why("after 1h", EVENING, Some(3600), &[]), "after 1h -> 2026-10-24T19:00:00Z");
    assert_eq!(why("instant", EVENING, Some(3600), &[]), format!("instant -> {EVENING}"));
    assert_eq!(
        why("after 3h", EVENING, Some(3600), &["22:00-07:00"]),
        "after 3h -> 2026-10-24T21:00:00Z; quiet until Sun 07:00 -> 2026-10-25T06:35:42Z"
    );
}

#[test]
fn a_spread_into_the_next_quiet_time_waits_for_its_end_too() {
    let quiet = ["07:00-09:00", "09:20-10:00"];
    assert_eq!(
        why("daily 08:00", EVENING, Some(3600), &quiet),
        "daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z; spread +35m42s; quiet until 10:00 -> 2026-10-25T09:35:42Z"
    );
}

#[test]
fn quiet_hours_end_even_if_each_spread_leads_into_the_next() {
    let all_but_ten_minutes = ["00:00-12:00", "12:10-24:00"];
    let words = why("daily 08:00", EVENING, Some(3600), &all_but_ten_minutes);
    assert!(words.ends_with("; quiet until Sat 12:00 -> 2026-11-07T11:00:00Z"), "{words}");
}

#[test]
fn a_spread_is_constant_for_a_key_and_even_over_keys() {
    let settings = settings(Some(600), &[]);
    let zone = berlin(&settings);
    let offset = |user: &str| DeadlineTiming::new(&settings, &key(user), &zone).offset.unwrap();
    assert_eq!(offset("ann"), offset("ann"));
    let mut minutes = [0; 10];
    for user in 0..10_000 {
        minutes[usize::try_from(offset(&user.to_string()).as_mins()).unwrap()] += 1;
    }
    assert!(minutes.iter().all(|keys| (850..1150).contains(keys)), "{minutes:?}");
}
