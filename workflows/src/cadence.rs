//! When a window is due: the words of `tidings.toml`, and the calendar arithmetic behind them.
//!
//! Pure, but never called from replayed code: `plan` runs as an activity, and its answer is what history keeps.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time, Weekday},
    tz::{AmbiguousOffset, TimeZone},
};
use serde::{Deserialize, Serialize};

/// How long a window may collect; the longest that `after` takes.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// A cadence, written `instant`, `after 60s`, `daily 08:00` or `weekly mon 08:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Cadence {
    /// One mail per event, at once.
    Instant,
    /// So long after the first event, which alone fixes the deadline.
    After(Duration),
    /// At this time of every day, in the recipient's zone.
    Daily(Time),
    /// At this time of this day of the week, in the recipient's zone.
    Weekly(Weekday, Time),
}

/// Why some words are no cadence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cadence {text:?}: {problem}")]
pub struct ParseError {
    text: String,
    problem: String,
}

impl Cadence {
    /// When a window that opens at `opened_at` is due. Calendar slots are strictly later than `opened_at`: an event
    /// at exactly 08:00 opens a window for the next slot.
    #[must_use]
    pub fn due_at(self, opened_at: Timestamp, zone: &TimeZone) -> Timestamp {
        match self {
            Self::Instant => opened_at,
            Self::After(wait) => SignedDuration::try_from(wait)
                .map_or(Timestamp::MAX, |wait| opened_at.saturating_add(wait).unwrap_or(Timestamp::MAX)),
            Self::Daily(time) => next_slot(opened_at, zone, time, |_| true),
            Self::Weekly(day, time) => next_slot(opened_at, zone, time, |date| date.weekday() == day),
        }
    }

    /// How many events one window takes; `None`: any number.
    #[must_use]
    pub const fn max_events(self) -> Option<u32> {
        match self {
            Self::Instant => Some(1),
            Self::After(_) | Self::Daily(_) | Self::Weekly(..) => None,
        }
    }

    /// Whether the recipient's time zone matters.
    #[must_use]
    pub const fn follows_the_calendar(self) -> bool {
        matches!(self, Self::Daily(_) | Self::Weekly(..))
    }
}

/// The first slot after `from` on a day that `wanted` accepts.
fn next_slot(from: Timestamp, zone: &TimeZone, time: Time, wanted: impl Fn(Date) -> bool) -> Timestamp {
    // Yesterday's slot may lie ahead: a DST gap, or a day that a zone skipped, moves it past midnight.
    let first = from.to_zoned(zone.clone()).date().yesterday().unwrap_or(Date::MIN);
    first
        .series(jiff::Span::new().days(1))
        .filter(|date| wanted(*date))
        .map(|date| slot(date, time, zone))
        .find(|slot| *slot > from)
        .unwrap_or(Timestamp::MAX)
}

/// The instant of a local time: the first occurrence of a repeated time, the first instant after a skipped one.
fn slot(date: Date, time: Time, zone: &TimeZone) -> Timestamp {
    let local = zone.to_ambiguous_timestamp(date.to_datetime(time));
    match local.offset() {
        AmbiguousOffset::Gap { .. } => {
            local.earlier().ok().and_then(|before| zone.following(before).next()).map(|gap| gap.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => local.earlier().ok(),
    }
    .unwrap_or(Timestamp::MAX)
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant => f.write_str("instant"),
            Self::After(wait) => write!(f, "after {}", words(*wait)),
            Self::Daily(time) => write!(f, "daily {}", time.strftime("%H:%M")),
            Self::Weekly(day, time) => write!(f, "weekly {} {}", DAYS[day_index(*day)].0, time.strftime("%H:%M")),
        }
    }
}

/// A duration in its largest whole unit: `90s`, `15m`, `2h`, `7d`.
fn words(wait: Duration) -> String {
    let seconds = wait.as_secs();
    let unit = UNITS.iter().rev().find(|(_, size)| seconds > 0 && seconds.is_multiple_of(*size)).unwrap_or(&UNITS[0]);
    format!("{}{}", seconds / unit.1, unit.0)
}

const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 24 * 3600)];

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

fn day_index(day: Weekday) -> usize {
    usize::try_from(day.to_monday_zero_offset()).unwrap_or_default()
}

impl FromStr for Cadence {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let cadence = match text.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            ["instant"] => Ok(Self::Instant),
            ["after", wait] => duration(wait).map(Self::After),
            ["daily", at] => time(at).map(Self::Daily),
            ["weekly", on, at] => day(on).and_then(|day| Ok(Self::Weekly(day, time(at)?))),
            [] => Err("is empty; write for example \"daily 08:00\"".to_owned()),
            [word @ ("instant" | "after" | "daily" | "weekly"), rest @ ..] => {
                Err(format!("{word:?} cannot be followed by {:?}; write {}", rest.join(" "), example(word)))
            }
            [word, ..] => Err(format!(
                "{word:?} is not a cadence; write \"instant\", \"after 60s\", \"daily 08:00\" or \"weekly mon 08:00\""
            )),
        };
        cadence.map_err(|problem| ParseError { text: text.to_owned(), problem })
    }
}

fn example(word: &str) -> &'static str {
    match word {
        "after" => "\"after 60s\", with s, m, h or d",
        "daily" => "\"daily 08:00\"",
        "weekly" => "\"weekly mon 08:00\"",
        _ => "\"instant\" alone",
    }
}

fn duration(word: &str) -> Result<Duration, String> {
    let wrong = || format!("{word:?} is not a duration; write for example \"60s\", \"15m\", \"2h\" or \"7d\"");
    let unit = word.chars().last().and_then(|last| UNITS.iter().find(|(unit, _)| *unit == last)).ok_or_else(wrong)?;
    let count: u64 = word[..word.len() - 1].parse().map_err(|_| wrong())?;
    let wait = Duration::from_secs(count.checked_mul(unit.1).ok_or_else(wrong)?);
    if wait.is_zero() || wait > LONGEST {
        return Err(format!("{word:?} is outside 1s to 31d"));
    }
    Ok(wait)
}

fn time(word: &str) -> Result<Time, String> {
    let wrong = || format!("{word:?} is not a time of day; write for example \"08:00\"");
    let (hour, minute) = word.split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2).ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<i8>().map_err(|_| wrong());
    Time::new(number(hour)?, number(minute)?, 0, 0).map_err(|_| wrong())
}

fn day(word: &str) -> Result<Weekday, String> {
    let wanted = word.to_ascii_lowercase();
    DAYS.iter()
        .find(|(name, _)| *name == wanted)
        .map(|(_, day)| *day)
        .ok_or_else(|| format!("{word:?} is not a day; write mon, tue, wed, thu, fri, sat or sun"))
}

impl TryFrom<String> for Cadence {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl From<Cadence> for String {
    fn from(cadence: Cadence) -> Self {
        cadence.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(words: &str, zone: &str, opened_at: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        words.parse::<Cadence>().unwrap().due_at(opened_at.parse().unwrap(), &zone).to_string()
    }

    #[test]
    fn every_cadence_reads_back_the_words_that_it_writes() {
        for words in ["instant", "after 90s", "after 15m", "after 7d", "daily 08:00", "weekly sun 23:59"] {
            assert_eq!(words.parse::<Cadence>().unwrap().to_string(), words);
        }
    }

    #[test]
    fn an_error_points_at_the_word_and_says_what_would_be_right() {
        for (words, named) in [
            ("", "empty"),
            ("dayly 08:00", "\"dayly\""),
            ("daily", "\"daily 08:00\""),
            ("daily 8:00", "\"8:00\""),
            ("daily 24:00", "\"24:00\""),
            ("weekly moon 08:00", "\"moon\""),
            ("after 60", "\"60\""),
            ("after 0s", "1s to 31d"),
            ("after 99d", "1s to 31d"),
            ("after 1µ", "\"1µ\""),
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
}
