//! Durations, times of day and weekdays, for cadences and quiet hours.

use std::time::Duration;

use jiff::civil::{Time, Weekday};

/// The longest a window may collect, and the maximum for `after`.
const LONGEST: Duration = Duration::from_hours(31 * 24);

const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 24 * 3600)];

pub const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// Parses a duration from 1 s to 31 days: `90s`, `15m`, `2h` or `7d`.
///
/// # Errors
/// Quotes the word and shows a correct one.
pub fn parse_duration(word: &str) -> Result<Duration, String> {
    let wrong = || format!("{word:?} is not a duration; write for example \"60s\", \"15m\", \"2h\" or \"7d\"");
    let unit = word.chars().last().and_then(|last| UNITS.iter().find(|(unit, _)| *unit == last)).ok_or_else(wrong)?;
    let count: u64 = parse_number(&word[..word.len() - 1]).ok_or_else(wrong)?;
    let wait = Duration::from_secs(count.checked_mul(unit.1).ok_or_else(wrong)?);
    if wait.is_zero() || wait > LONGEST {
        return Err(format!("{word:?} is outside 1s to 31d"));
    }
    Ok(wait)
}

/// In the largest whole unit, e.g. `15m`.
#[must_use]
pub fn format_duration(wait: Duration) -> String {
    let seconds = wait.as_secs();
    let unit = UNITS.iter().rev().find(|(_, size)| seconds > 0 && seconds.is_multiple_of(*size)).unwrap_or(&UNITS[0]);
    format!("{}{}", seconds / unit.1, unit.0)
}

/// Parses a time of day, e.g. `08:00`.
///
/// # Errors
/// Quotes the word and shows a correct one.
pub fn parse_time(word: &str) -> Result<Time, String> {
    let wrong = || format!("{word:?} is not a time of day; write for example \"08:00\"");
    let (hour, minute) = word.split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2).ok_or_else(wrong)?;
    let (hour, minute) = parse_number(hour).zip(parse_number(minute)).ok_or_else(wrong)?;
    Time::new(hour, minute, 0, 0).map_err(|_| wrong())
}

pub(crate) fn parse_day(word: &str) -> Result<Weekday, String> {
    let wanted = word.to_ascii_lowercase();
    DAYS.iter()
        .find(|(name, _)| *name == wanted)
        .map(|(_, day)| *day)
        .ok_or_else(|| format!("{word:?} is not a day; write mon, tue, wed, thu, fri, sat or sun"))
}

#[must_use]
pub fn day_name(day: Weekday) -> &'static str {
    DAYS.iter().find(|(_, named)| *named == day).map_or("", |(name, _)| name)
}

/// Rust would also accept a plus sign.
pub(crate) fn parse_number<N: std::str::FromStr>(word: &str) -> Option<N> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}
