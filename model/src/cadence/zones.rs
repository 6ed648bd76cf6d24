//! Checks three years of every zone against the plain rule: a slot is the first instant at which the local
//! clock has reached its time.

use std::collections::BTreeSet;

use jiff::{
    SignedDuration, ToSpan as _,
    civil::{Date, DateTime, date},
};

use super::*;
use crate::{time_zone, zone_names};

const FROM: Date = date(2025, 1, 1);
const TO: Date = date(2028, 1, 1);

/// The number varies the tested values.
fn zones() -> Vec<(usize, String, TimeZone)> {
    let zones = zone_names().into_iter().filter_map(|name| time_zone(&name).ok().map(|zone| (name, zone)));
    let zones: Vec<_> = zones.enumerate().map(|(number, (name, zone))| (number, name, zone)).collect();
    assert!(zones.len() > 400, "only {} zones", zones.len());
    zones
}

fn changes(zone: &TimeZone) -> Vec<Timestamp> {
    let (from, to) = (midnight(FROM), midnight(TO));
    zone.following(from).map(|change| change.timestamp()).take_while(|change| *change < to).collect()
}

fn midnight(date: Date) -> Timestamp {
    date.to_zoned(TimeZone::UTC).unwrap().timestamp()
}

/// Two weeks around each change, and around a day without one.
fn weeks(changes: &[Timestamp]) -> Vec<(Date, Date)> {
    let days = changes.iter().map(|change| change.to_zoned(TimeZone::UTC).date());
    days.chain([date(2026, 8, 1)]).map(|day| (day - 7.days(), day + 7.days())).collect()
}

/// Found without gap and fold lookups.
fn reached(time: DateTime, zone: &TimeZone, changes: &[Timestamp]) -> Timestamp {
    let utc = time.to_zoned(TimeZone::UTC).unwrap().timestamp();
    let day = SignedDuration::from_hours(26);
    let offsets = [zone.to_offset(utc - day), zone.to_offset(utc + day)];
    let shown = offsets.map(|offset| offset.to_timestamp(time).unwrap());
    let near = changes.iter().copied().filter(|change| change.duration_since(utc).abs() <= day);
    let candidates: Vec<_> = near.chain(shown).collect();
    candidates.into_iter().filter(|at| zone.to_datetime(*at) >= time).min().unwrap()
}

fn compare(
    name: &str,
    zone: &TimeZone,
    cadence: &str,
    (from, to): (Date, Date),
    times: impl Fn(Date) -> Vec<DateTime>,
) {
    let cadence: Cadence = cadence.parse().unwrap();
    let (begin, end) = (midnight(from), midnight(to));
    let next = |at: &Timestamp| Some(cadence.due_at(*at, zone)).filter(|at| *at < end);
    let slots: Vec<_> = std::iter::successors(next(&begin), next).collect();
    let changes = changes(zone);
    let days = (from - 2.days()).series(1.day()).take_while(|day| *day <= to + 2.days());
    let wanted: BTreeSet<_> = days.flat_map(&times).map(|time| reached(time, zone, &changes)).collect();
    let wanted: Vec<_> = wanted.into_iter().filter(|slot| begin < *slot && *slot < end).collect();
    assert_eq!(slots, wanted, "{cadence} {name}");
}

#[test]
fn every_day_of_every_zone_has_its_slot_once() {
    let hours = ["02:30", "00:00", "08:00", "23:45", "01:15", "03:00"];
    for (number, name, zone) in zones() {
        let at = hours[number % hours.len()];
        let time: Time = format!("{at}:00").parse().unwrap();
        compare(&name, &zone, &format!("daily {at}"), (FROM, TO), |day| vec![day.to_datetime(time)]);
    }
}

#[test]
fn every_weekday_of_every_zone_has_its_slot_once() {
    for (number, name, zone) in zones() {
        let time = Time::constant(i8::try_from(number % 24).unwrap(), 30, 0, 0);
        for weeks in weeks(&changes(&zone)) {
            compare(&name, &zone, &format!("weekdays {}", time.strftime("%H:%M")), weeks, |day| {
                let weekend = matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday);
                if weekend { Vec::new() } else { vec![day.to_datetime(time)] }
            });
        }
    }
}

const MONTHS: [i8; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

#[test]
fn every_month_of_every_zone_has_its_slot_once() {
    for (number, name, zone) in zones() {
        let on = i8::try_from(number % 31).unwrap() + 1;
        let time = Time::constant(i8::try_from(number % 24).unwrap(), 30, 0, 0);
        compare(&name, &zone, &format!("monthly {on} {}", time.strftime("%H:%M")), (FROM, TO), |day| {
            let last = MONTHS[usize::try_from(day.month()).unwrap() - 1];
            let wanted = day.day() == on || on > last && day.day() == last;
            if wanted { vec![day.to_datetime(time)] } else { Vec::new() }
        });
    }
}

#[test]
fn every_cron_time_of_every_zone_has_its_slot_once() {
    for (number, name, zone) in zones() {
        let hour = i8::try_from(number % 4).unwrap();
        for weeks in weeks(&changes(&zone)) {
            compare(&name, &zone, &format!("cron 10,40 {hour} 1-31/2 * *"), weeks, |day| {
                if day.day() % 2 == 1 { [10, 40].map(|minute| day.at(hour, minute, 0, 0)).to_vec() } else { Vec::new() }
            });
        }
    }
}

#[test]
fn no_hour_of_any_zone_passes_without_a_slot() {
    let two_days = SignedDuration::from_hours(48);
    for (number, name, zone) in zones() {
        let minute = i8::try_from(number * 15 % 60).unwrap();
        let cadence = Cadence::Hourly(minute);
        for change in changes(&zone).into_iter().chain([midnight(FROM) + two_days]) {
            let mut at = change - two_days;
            while at < change + two_days {
                let next = cadence.due_at(at, &zone);
                let passed = next.duration_since(at);
                assert!(passed.is_positive() && passed.as_mins() <= 60, "{cadence} {name}: {at} to {next}");
                let on_time = zone.to_datetime(next).minute() == minute;
                assert!(on_time || next == change, "{cadence} {name}: {next}");
                at = next;
            }
        }
    }
}
