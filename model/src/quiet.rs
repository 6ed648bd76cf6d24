//! Quiet hours: no email is sent then (rule 12).

use std::{cmp::Ordering, fmt, str::FromStr};

use jiff::{
    Timestamp, ToSpan as _,
    civil::{DateTime, Time},
    tz::TimeZone,
};

use crate::cadence::{
    DayRange, slots,
    words::{DAYS, parse_time},
};

const DAY: u32 = 24 * 60;
const WEEK: u32 = 7 * DAY;

/// E.g. `22:00-07:00`, `sat-sun 00:00-24:00` or `fri 18:00-24:00`. Past midnight, it belongs to the day on
/// which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietTime {
    /// Monday is 0. The range wraps around the end of the week.
    first_day: u32,
    days: u32,
    /// Minutes of the day; `to` may be on the next day.
    from: u32,
    to: u32,
}

/// In the recipient's zone; never the whole week.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuietHours(Vec<QuietTime>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("covers the whole week, so no email could ever be sent; leave some time, or write cadence = \"never\"")]
pub struct WholeWeek;

impl QuietHours {
    /// # Errors
    /// If they cover the whole week.
    pub fn new(times: Vec<QuietTime>) -> Result<Self, WholeWeek> {
        let quiet = Self(times);
        if quiet.minutes_ahead(0) < WEEK { Ok(quiet) } else { Err(WholeWeek) }
    }

    #[must_use]
    pub fn times(&self) -> &[QuietTime] {
        &self.0
    }

    /// When emails may be sent again; `None` if `at` is not quiet.
    #[must_use]
    pub fn quiet_end(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut end = self.next_end(at, zone)?;
        // A clock change at the end of one quiet time may lead into another.
        while let Some(later) = self.next_end(end, zone) {
            end = later;
        }
        Some(end)
    }

    /// When the quiet time around `at` may be over; `None` if `at` is not quiet.
    fn next_end(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let local = zone.to_datetime(at);
        let minutes = Some(self.minutes_ahead(minute_of_week(local))).filter(|minutes| *minutes > 0)?;
        let this_minute = local.date().at(local.hour(), local.minute(), 0, 0);
        let end = this_minute.checked_add(i64::from(minutes).minutes()).ok()?;
        let shown = slots::slot_instant(end, zone);
        // In a repeated hour, the first occurrence of the end may already be in the past.
        let again = zone.to_ambiguous_timestamp(end).later().unwrap_or(Timestamp::MAX);
        let end = if shown > at { shown } else { again };
        let change = zone.following(at).next().map(|change| change.timestamp());
        Some(change.map_or(end, |change| end.min(change)))
    }

    /// Minutes until the first one that is not quiet.
    fn minutes_ahead(&self, minute: u32) -> u32 {
        let mut ahead = 0;
        while ahead < WEEK {
            let rest = self.0.iter().map(|time| time.minutes_left(minute + ahead)).max().unwrap_or(0);
            if rest == 0 {
                break;
            }
            ahead += rest;
        }
        ahead
    }
}

fn minute_of_week(local: DateTime) -> u32 {
    let part = |number: i8| u32::try_from(number).unwrap_or_default();
    part(local.weekday().to_monday_zero_offset()) * DAY + part(local.hour()) * 60 + part(local.minute())
}

impl QuietTime {
    /// Minutes left; 0 outside. `minute` may be in a later week.
    fn minutes_left(self, minute: u32) -> u32 {
        let length = self.to - self.from;
        let begins = (0..self.days).map(|day| ((self.first_day + day) * DAY + self.from) % WEEK);
        begins.map(|begin| length.saturating_sub((minute + WEEK - begin) % WEEK)).max().unwrap_or(0)
    }
}

impl FromStr for QuietTime {
    type Err = String;

    /// # Errors
    /// Quotes the word and shows a correct one.
    fn from_str(text: &str) -> Result<Self, String> {
        let (days, hours) = match text.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            [hours] => ((0, 7), *hours),
            [days, hours] => (read_days(days)?, *hours),
            _ => return Err(RIGHT.to_owned()),
        };
        let (from, to) = hours.split_once('-').ok_or_else(|| format!("{hours:?}: {RIGHT}"))?;
        let (from, to) = (minute_of_day(parse_time(from)?), parse_end(to)?);
        let to = match to.cmp(&from) {
            Ordering::Equal => return Err(format!("{hours:?} is empty; write \"00:00-24:00\" for a whole day")),
            Ordering::Less => to + DAY,
            Ordering::Greater => to,
        };
        Ok(Self { first_day: days.0, days: days.1, from, to })
    }
}

const RIGHT: &str = "write for example \"22:00-07:00\" or \"sat-sun 00:00-24:00\"";

fn read_days(word: &str) -> Result<(u32, u32), String> {
    let range: DayRange = word.parse()?;
    let first = u32::try_from(range.first.to_monday_zero_offset()).unwrap_or_default();
    Ok((first, u32::try_from(range.days().count()).unwrap_or_default()))
}

fn parse_end(word: &str) -> Result<u32, String> {
    if word == "24:00" { Ok(DAY) } else { parse_time(word).map(minute_of_day) }
}

fn minute_of_day(time: Time) -> u32 {
    u32::try_from(time.hour()).unwrap_or_default() * 60 + u32::try_from(time.minute()).unwrap_or_default()
}

impl fmt::Display for QuietTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = |index: u32| DAYS.get(usize::try_from(index % 7).unwrap_or_default()).map_or("", |(name, _)| name);
        match self.days {
            7 if self.first_day == 0 => {}
            1 => write!(f, "{} ", day(self.first_day))?,
            days => write!(f, "{}-{} ", day(self.first_day), day(self.first_day + days - 1))?,
        }
        let to = if self.to > DAY { self.to - DAY } else { self.to };
        write!(f, "{:02}:{:02}-{:02}:{:02}", self.from / 60, self.from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests;
