//! Ranges of weekdays, for cadences and quiet hours.

use std::{fmt, str::FromStr};

use jiff::civil::Weekday;

use super::words::{day_name, parse_day};

/// E.g. `sun-thu`, or just `fri`. May wrap around the end of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRange {
    pub first: Weekday,
    pub last: Weekday,
}

impl DayRange {
    pub const MONDAY_TO_FRIDAY: Self = Self { first: Weekday::Monday, last: Weekday::Friday };

    /// `None` if the days are not consecutive.
    #[must_use]
    pub fn covering(days: &[Weekday]) -> Option<Self> {
        let more = i8::try_from(days.len()).unwrap_or(7) - 1;
        let mut ranges = days.iter().map(|first| Self { first: *first, last: first.wrapping_add(more) });
        ranges.find(|range| days.iter().all(|day| range.has(*day)))
    }

    #[must_use]
    pub fn has(self, day: Weekday) -> bool {
        day.since(self.first) <= self.last.since(self.first)
    }

    pub fn days(self) -> impl Iterator<Item = Weekday> {
        self.first.cycle_forward().take(usize::from(self.last.since(self.first).unsigned_abs()) + 1)
    }

    #[must_use]
    pub fn explain(self) -> String {
        if self.first == self.last {
            format!("{:?}", self.first)
        } else {
            format!("{:?} to {:?}", self.first, self.last)
        }
    }
}

impl FromStr for DayRange {
    type Err = String;

    /// # Errors
    /// Quotes the word and shows a correct one.
    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Ok(Self { first: parse_day(first)?, last: parse_day(last)? })
    }
}

impl fmt::Display for DayRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(day_name(self.first))?;
        if self.first == self.last { Ok(()) } else { write!(f, "-{}", day_name(self.last)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::DAYS;

    #[test]
    fn a_range_passes_the_end_of_the_week() {
        for (text, days) in [
            ("mon-fri", &["mon", "tue", "wed", "thu", "fri"][..]),
            ("sun-thu", &["sun", "mon", "tue", "wed", "thu"]),
            ("sat-wed", &["sat", "sun", "mon", "tue", "wed"]),
            ("fri", &["fri"]),
        ] {
            let range: DayRange = text.parse().unwrap();
            assert_eq!(range.days().map(day_name).collect::<Vec<_>>(), days);
            assert!(DAYS.iter().all(|(name, day)| range.has(*day) == days.contains(name)), "{text}");
            assert_eq!(range.to_string(), text);
        }
        for wrong in ["", "sun-", "sunday-thu", "mon-wed-fri"] {
            assert!(wrong.parse::<DayRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn days_in_a_row_are_a_range_in_whatever_order_they_stand() {
        for (days, range) in [
            (&["mon", "tue", "wed", "thu", "sun"][..], Some("sun-thu")),
            (&["sat"], Some("sat")),
            (&["mon", "wed"], None),
            (&[], None),
        ] {
            let all: Vec<_> = days.iter().map(|name| parse_day(name).unwrap()).collect();
            assert_eq!(DayRange::covering(&all).map(|range| range.to_string()).as_deref(), range, "{days:?}");
        }
    }
}
