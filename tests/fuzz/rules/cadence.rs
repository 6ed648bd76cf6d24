//! The words of cadences: what they mean survives writing, and the next slot is later and one of theirs.

use std::time::{Duration, Instant};

use jiff::{
    SignedDuration, Timestamp, ToSpan as _,
    civil::{DateTime, Weekday},
    tz::TimeZone,
};
use tidings_model::{Cadence, time_zone, words};

use super::{lines::lines, presentable::assert_presentable};

/// 1975 to 2200: since then clocks differ from UTC by whole minutes, and service clocks show nothing else.
const FROM: i64 = 157_766_400;
const SECONDS: i64 = 7_100_000_000;
/// Far more than reading any words and finding their next slot takes.
const LONGEST: Duration = Duration::from_secs(2);
const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// Lines: a cadence's words, a zone's name, the second at which a window opens.
///
/// # Panics
/// Where a rule is broken.
pub fn cadence(bytes: &[u8]) {
    let input = lines(bytes);
    let line = |index: usize| input.get(index).map_or("", String::as_str);
    let started = Instant::now();
    let cadence = match line(0).parse::<Cadence>() {
        Ok(cadence) => cadence,
        Err(error) => {
            assert!(!error.problem().is_empty());
            assert_presentable("a problem", error.problem(), 10 * line(0).len() + 300);
            return;
        }
    };
    let again: Cadence = cadence.to_string().parse().expect("the words that it writes");
    assert_eq!((&again, again.to_string()), (&cadence, cadence.to_string()));
    assert!(!cadence.explain().is_empty());
    let zone = time_zone(line(1)).unwrap_or(TimeZone::UTC);
    let opened = instant(line(2));
    let due = cadence.due_at(opened, &zone);
    assert_eq!(again.due_at(opened, &zone), due, "{cadence} from {opened}");
    is_a_slot(&cadence, &zone, opened, due);
    none_is_left_out(&cadence, opened);
    assert!(started.elapsed() < LONGEST, "{cadence} took {:?}", started.elapsed());
}

fn instant(text: &str) -> Timestamp {
    let nanoseconds = i32::try_from(text.len()).unwrap_or_default();
    let seconds = text.trim().parse::<i64>().unwrap_or_default().rem_euclid(SECONDS);
    Timestamp::new(FROM + seconds, nanoseconds).unwrap_or_default()
}

fn is_a_slot(cadence: &Cadence, zone: &TimeZone, opened: Timestamp, due: Timestamp) {
    let wait = due.duration_since(opened);
    let waited = |wanted: &Duration| assert_eq!(wait.unsigned_abs(), *wanted, "{cadence} from {opened}");
    match cadence {
        Cadence::Instant | Cadence::Never => assert_eq!(due, opened),
        Cadence::After(wanted) => waited(wanted),
        Cadence::Sliding(by, max) => {
            waited(by);
            let slide = cadence.sliding_deadline(opened).expect("a sliding cadence slides");
            assert_eq!(slide.until.duration_since(opened).unsigned_abs(), *max);
            assert_eq!(slide.due_at(slide.until), slide.until);
        }
        Cadence::Hourly(minute) => {
            assert!(wait.is_positive() && wait <= SignedDuration::from_hours(1), "{cadence} from {opened}: {due}");
            let change = zone.following(due - NANOSECOND).next().map(|change| change.timestamp());
            let shown = zone.to_datetime(due);
            let on_time = (shown.minute(), shown.second(), shown.subsec_nanosecond()) == (*minute, 0, 0);
            assert!(on_time || change == Some(due), "{cadence} from {opened}: {due}");
        }
        _ => {
            assert!(wait.is_positive(), "{cadence} from {opened}: {due}");
            assert!(reaches(cadence, zone, due), "{cadence} in {zone:?} from {opened}: {due}");
        }
    }
}

/// That the clock reaches one of the cadence's times at this instant, also by a jump.
fn reaches(cadence: &Cadence, zone: &TimeZone, due: Timestamp) -> bool {
    let (before, now) = (zone.to_datetime(due - NANOSECOND), zone.to_datetime(due));
    let first = before.date().at(before.hour(), before.minute(), 0, 0);
    let skipped = first.series(1.minute()).take_while(|time| *time <= now);
    skipped.filter(|time| before < *time).any(|time| wants(&cadence.to_string(), time))
}

/// In UTC, where nothing jumps: no time of the cadence is between the opening and its slot.
fn none_is_left_out(cadence: &Cadence, opened: Timestamp) {
    if !cadence.follows_the_calendar() || matches!(cadence, Cadence::Hourly(_)) {
        return;
    }
    let due = TimeZone::UTC.to_datetime(cadence.due_at(opened, &TimeZone::UTC));
    let opened = TimeZone::UTC.to_datetime(opened);
    let words = cadence.to_string();
    let minutes = opened.date().at(opened.hour(), opened.minute(), 0, 0).series(1.minute());
    let between = minutes.take(2_000).filter(|time| opened < *time).take_while(|time| *time < due);
    for time in between {
        assert!(!wants(&words, time), "{words} from {opened} leaves {time} out, and comes at {due}");
    }
}

/// Answers `true` if these valid words include this local minute.
fn wants(written: &str, time: DateTime) -> bool {
    let is_time = |at: &str| words::parse_time(at).is_ok_and(|at| time.time() == at);
    match written.split(' ').collect::<Vec<_>>()[..] {
        ["daily", at] => is_time(at),
        ["weekdays", at] => !matches!(time.weekday(), Weekday::Saturday | Weekday::Sunday) && is_time(at),
        ["weekdays", days, at] => {
            let (first, last) = days.split_once('-').unwrap_or((days, days));
            let number = |name: &str| words::DAYS.iter().position(|(day, _)| *day == name);
            let (first, last, day) = (number(first), number(last), number(words::day_name(time.weekday())));
            let is_in = if first <= last { first <= day && day <= last } else { first <= day || day <= last };
            is_in && is_time(at)
        }
        ["weekly", day, at] => is_time(at) && format!("{:?}", time.weekday()).to_ascii_lowercase().starts_with(day),
        ["monthly", day, at] => is_time(at) && time.day() == value(day).min(time.date().days_in_month()),
        ["cron", minute, hour, day, month, weekday] => {
            let date = contains(day, 1, time.day());
            let is = |number| contains(weekday, 0, number);
            let on = is(time.weekday().to_sunday_zero_offset()) || time.weekday() == Weekday::Sunday && is(7);
            let day = if day.contains('*') || weekday.contains('*') { date && on } else { date || on };
            day && contains(month, 1, time.month())
                && contains(hour, 0, time.hour())
                && contains(minute, 0, time.minute())
        }
        _ => panic!("{written:?} are not the words of a calendar"),
    }
}

/// Answers `true` if a field of crontab(5) includes this number. The field's numbers begin with `lowest`.
fn contains(field: &str, lowest: i8, number: i8) -> bool {
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (i8::MIN, i8::MAX),
            Some((first, last)) => (value(first), value(last)),
            None => (value(range), value(range)),
        };
        // The week may end on Sunday.
        let last = if last < first { 7 } else { last };
        let from = if range == "*" { lowest } else { first };
        let step: i16 = step.parse().unwrap_or(1);
        (first..=last).contains(&number) && (i16::from(number) - i16::from(from)) % step == 0
    })
}

fn value(word: &str) -> i8 {
    const NAMES: [&str; 19] = [
        "sun", "mon", "tue", "wed", "thu", "fri", "sat", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep",
        "oct", "nov", "dec",
    ];
    let named = NAMES.iter().position(|name| *name == word).map(|place| if place < 7 { place } else { place - 6 });
    named.and_then(|place| i8::try_from(place).ok()).or_else(|| word.parse().ok()).unwrap_or(-1)
}
