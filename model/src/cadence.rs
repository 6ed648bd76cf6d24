//! Cadences: the words of `tidings.toml`, and the calendar arithmetic behind them.
//!
//! Pure, but never called from replayed code: `plan` runs as an activity, and its answer is what history keeps.

use std::time::Duration;

use jiff::{
    SignedDuration, Timestamp,
    civil::{Time, Weekday},
    tz::TimeZone,
};
use serde::{Deserialize, Serialize};

mod cron;
mod days;
mod read;
pub(crate) mod slots;
#[cfg(test)]
mod tests;
pub mod words;
#[cfg(test)]
mod zones;

pub use cron::{Cron, WeekTimes};
pub use days::DayRange;
pub use read::{CadenceField, CadenceKind, ParseError};

/// The time of day of a weekly cadence in place of one without a time.
const WEEKLY_AT: Time = Time::constant(8, 0, 0, 0);
/// The slots of which the rarest is the longest window: five years of months.
const SLOTS: usize = 60;
const WEEK: Duration = Duration::from_hours(7 * 24);

/// A cadence, written for example `after 60s`, `sliding 5m max 1h`, `hourly at :30`, `weekly mon 08:00`, `monthly 1 08:00` or
/// `cron 0 9,17 * * mon-fri`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Cadence {
    /// One mail per event, at once.
    Instant,
    /// A fixed time after the first event, which alone sets the deadline.
    After(Duration),
    /// A time after the latest event, bounded by a longest time after the first.
    Sliding(Duration, Duration),
    /// Whenever the clock in the recipient's zone shows this minute, 0 to 59.
    Hourly(i8),
    /// At this time of every day, in the recipient's zone.
    Daily(Time),
    /// At this time of these days, in the recipient's zone. `None`: the recipient's working days.
    Weekdays(Option<DayRange>, Time),
    /// At this time of this day of the week, in the recipient's zone.
    Weekly(Weekday, Time),
    /// At this time of this day of the month, 1 to 31, in the recipient's zone; on the last day of a month that is shorter.
    Monthly(i8, Time),
    /// At the times of a crontab(5) schedule, in the recipient's zone.
    Cron(Cron),
    /// Nothing is sent. The window closes at once, so that the ledger says why.
    Never,
}

/// The rule by which events move the deadline of their window (rule 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slide {
    /// Time from the latest event to the deadline.
    pub by: Duration,
    /// Never later than this.
    pub until: Timestamp,
}

impl Slide {
    /// The deadline of a window whose latest event arrived then.
    #[must_use]
    pub fn due_at(&self, last_at: Timestamp) -> Timestamp {
        later(last_at, self.by).min(self.until)
    }
}

fn later(at: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| at.saturating_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

impl Cadence {
    /// Returns the deadline of a window that opens at `opened_at`, if nothing moves it. Calendar slots are strictly later than `opened_at`: an event
    /// at exactly 08:00 opens a window for the next slot.
    #[must_use]
    pub fn due_at(&self, opened_at: Timestamp, zone: &TimeZone) -> Timestamp {
        match self {
            Self::Instant | Self::Never => opened_at,
            Self::After(wait) | Self::Sliding(wait, _) => later(opened_at, *wait),
            Self::Hourly(minute) => slots::hourly(opened_at, zone, *minute),
            Self::Daily(time) => slots::daily(opened_at, zone, *time, |_| true),
            Self::Weekdays(days, time) => {
                let days = days.unwrap_or(DayRange::MONDAY_TO_FRIDAY);
                slots::daily(opened_at, zone, *time, |date| days.has(date.weekday()))
            }
            Self::Weekly(day, time) => slots::daily(opened_at, zone, *time, |date| date.weekday() == *day),
            Self::Monthly(day, time) => {
                slots::daily(opened_at, zone, *time, |date| date.day() == date.days_in_month().min(*day))
            }
            Self::Cron(cron) => slots::first_after(opened_at, zone, cron.after(zone.to_datetime(opened_at))),
        }
    }

    /// Returns the longest time for which a window collects, if nothing else holds it back. Looks at slots one after the other, which for a
    /// schedule of operators may miss a rare gap.
    #[must_use]
    pub fn longest_window(&self) -> SignedDuration {
        let (mut opened_at, mut longest) = (Timestamp::UNIX_EPOCH, SignedDuration::ZERO);
        for _ in 0..SLOTS {
            let due_at =
                self.slide(opened_at).map_or_else(|| self.due_at(opened_at, &TimeZone::UTC), |slide| slide.until);
            longest = longest.max(due_at.duration_since(opened_at));
            opened_at = due_at;
        }
        longest
    }

    /// Returns the number of events that one window takes; `None`: any number.
    #[must_use]
    pub const fn max_events(&self) -> Option<u32> {
        match self {
            Self::Instant => Some(1),
            _ => None,
        }
    }

    /// Returns how each event of a window that opens at `opened_at` moves its deadline; `None`: not at all.
    #[must_use]
    pub fn slide(&self, opened_at: Timestamp) -> Option<Slide> {
        match self {
            Self::Sliding(by, max) => Some(Slide { by: *by, until: later(opened_at, *max) }),
            _ => None,
        }
    }

    /// The time of day before which nothing goes out on a day; of several the first. `None`: the cadence has none.
    #[must_use]
    pub fn time_of_day(&self) -> Option<Time> {
        match self {
            Self::Cron(cron) => Some(cron.first_of_day()),
            cadence => cadence.time(),
        }
    }

    /// The time of day in the words.
    const fn time(&self) -> Option<Time> {
        match self {
            Self::Daily(time) | Self::Weekdays(_, time) | Self::Weekly(_, time) | Self::Monthly(_, time) => Some(*time),
            _ => None,
        }
    }

    /// The same for a recipient with these working days. `weekdays` stays as it is where they are from Monday to Friday, so that
    /// versions that know no other days read it.
    #[must_use]
    pub fn on_working_days(self, days: impl FnOnce() -> DayRange) -> Self {
        match self {
            Self::Weekdays(None, time) => {
                Self::Weekdays(Some(days()).filter(|days| *days != DayRange::MONDAY_TO_FRIDAY), time)
            }
            cadence => cadence,
        }
    }

    /// The same at another time of day; `None`: it has none.
    #[must_use]
    pub const fn at(&self, time: Time) -> Option<Self> {
        match self {
            Self::Daily(_) => Some(Self::Daily(time)),
            Self::Weekdays(days, _) => Some(Self::Weekdays(*days, time)),
            Self::Weekly(day, _) => Some(Self::Weekly(*day, time)),
            Self::Monthly(day, _) => Some(Self::Monthly(*day, time)),
            _ => None,
        }
    }

    /// The weekly cadence in place of one that is more frequent: on Monday, at the same time of day, or else at eight. `None`: the
    /// cadence is not more frequent, or it is a schedule that an operator wrote.
    #[must_use]
    pub fn weekly(&self) -> Option<Self> {
        let time = match self {
            Self::Daily(time) | Self::Weekdays(_, time) => *time,
            Self::Instant | Self::Hourly(_) => WEEKLY_AT,
            Self::After(wait) | Self::Sliding(_, wait) if *wait < WEEK => WEEKLY_AT,
            _ => return None,
        };
        Some(Self::Weekly(Weekday::Monday, time))
    }

    /// Tells if the cadence depends on the recipient's time zone.
    #[must_use]
    pub const fn follows_the_calendar(&self) -> bool {
        !matches!(self, Self::Instant | Self::After(_) | Self::Sliding(..) | Self::Never)
    }

    /// In a sentence, for people.
    #[must_use]
    pub fn explain(&self) -> String {
        let at = |time: &Time| time.strftime("%H:%M").to_string();
        match self {
            Self::Instant => "a mail for each event, at once".to_owned(),
            Self::After(wait) => format!("{} after the first event", words::written(*wait)),
            Self::Sliding(by, max) => format!(
                "{} after the latest event, and at most {} after the first",
                words::written(*by),
                words::written(*max)
            ),
            Self::Hourly(0) => "every hour".to_owned(),
            Self::Hourly(minute) => format!("every hour at :{minute:02}"),
            Self::Daily(time) => format!("every day at {}", at(time)),
            Self::Weekdays(None, time) => {
                format!("on the recipient's working days, here Monday to Friday, at {}", at(time))
            }
            Self::Weekdays(Some(days), time) => format!("{} at {}", days.explain(), at(time)),
            Self::Weekly(day, time) => format!("every {day:?} at {}", at(time)),
            Self::Monthly(31, time) => format!("on the last day of every month at {}", at(time)),
            Self::Monthly(day @ 29.., time) => {
                format!("on day {day} of every month, or the last day of a shorter one, at {}", at(time))
            }
            Self::Monthly(day, time) => format!("on day {day} of every month at {}", at(time)),
            Self::Cron(cron) => cron.explain(),
            Self::Never => "nothing is sent; the ledger says why".to_owned(),
        }
    }
}
