//! Cadences: their syntax in `tidings.toml`, and calendar arithmetic.
//!
//! The code is pure, but replayed code should never call it: `plan` runs as an activity, and history keeps
//! its result.

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

pub use cron::{CronSchedule, WeekTimes};
pub use days::DayRange;
pub use read::{CadenceField, CadenceKind, ParseError};

/// The time of a weekly cadence replacing one without a time.
const WEEKLY_AT: Time = Time::constant(8, 0, 0, 0);
/// Slots to search for the longest window: five years, if monthly.
const SLOTS: usize = 60;
const WEEK: Duration = Duration::from_hours(7 * 24);

/// When a digest is sent, e.g. `after 60s`, `sliding 5m max 1h`, `hourly at :30`, `weekly mon 08:00`,
/// `monthly 1 08:00` or `cron 0 9,17 * * mon-fri`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Cadence {
    /// One email per event, immediately.
    Instant,
    /// This long after the first event.
    After(Duration),
    /// This long after the latest event, but at most the second value after the first.
    Sliding(Duration, Duration),
    /// At this minute (0 to 59) of every hour on the recipient's clock.
    Hourly(i8),
    /// Every day at this time in the recipient's zone, like the kinds below.
    Daily(Time),
    /// `None` means the recipient's working days.
    Weekdays(Option<DayRange>, Time),
    Weekly(Weekday, Time),
    /// On day 1 to 31; a shorter month uses its last day.
    Monthly(i8, Time),
    /// A crontab(5) schedule.
    Cron(CronSchedule),
    /// Sends nothing. The window still closes, so the ledger records why.
    Never,
}

/// How events move the deadline of their window (rule 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlidingDeadline {
    pub by: Duration,
    pub until: Timestamp,
}

impl SlidingDeadline {
    #[must_use]
    pub fn due_at(&self, last_at: Timestamp) -> Timestamp {
        add_wait(last_at, self.by).min(self.until)
    }
}

fn add_wait(at: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| at.saturating_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

impl Cadence {
    /// Returns the deadline if nothing moves it. Calendar slots are strictly later than `opened_at`: an event
    /// at exactly 08:00 opens a window for the next slot.
    #[must_use]
    pub fn due_at(&self, opened_at: Timestamp, zone: &TimeZone) -> Timestamp {
        match self {
            Self::Instant | Self::Never => opened_at,
            Self::After(wait) | Self::Sliding(wait, _) => add_wait(opened_at, *wait),
            Self::Hourly(minute) => slots::next_hourly(opened_at, zone, *minute),
            Self::Daily(time) => slots::next_daily(opened_at, zone, *time, |_| true),
            Self::Weekdays(days, time) => {
                let days = days.unwrap_or(DayRange::MONDAY_TO_FRIDAY);
                slots::next_daily(opened_at, zone, *time, |date| days.has(date.weekday()))
            }
            Self::Weekly(day, time) => slots::next_daily(opened_at, zone, *time, |date| date.weekday() == *day),
            Self::Monthly(day, time) => {
                slots::next_daily(opened_at, zone, *time, |date| date.day() == date.days_in_month().min(*day))
            }
            Self::Cron(cron) => slots::first_after(opened_at, zone, cron.times_after(zone.to_datetime(opened_at))),
        }
    }

    /// The longest time a window may collect, if nothing else holds it back. Samples consecutive slots, so it
    /// may miss a rare gap in a cron schedule.
    #[must_use]
    pub fn longest_window(&self) -> SignedDuration {
        let (mut opened_at, mut longest) = (Timestamp::UNIX_EPOCH, SignedDuration::ZERO);
        for _ in 0..SLOTS {
            let due_at = self
                .sliding_deadline(opened_at)
                .map_or_else(|| self.due_at(opened_at, &TimeZone::UTC), |slide| slide.until);
            longest = longest.max(due_at.duration_since(opened_at));
            opened_at = due_at;
        }
        longest
    }

    #[must_use]
    pub const fn max_events(&self) -> Option<u32> {
        match self {
            Self::Instant => Some(1),
            _ => None,
        }
    }

    #[must_use]
    pub fn sliding_deadline(&self, opened_at: Timestamp) -> Option<SlidingDeadline> {
        match self {
            Self::Sliding(by, max) => Some(SlidingDeadline { by: *by, until: add_wait(opened_at, *max) }),
            _ => None,
        }
    }

    /// The earliest of several; `None` if it has none.
    #[must_use]
    pub fn time_of_day(&self) -> Option<Time> {
        match self {
            Self::Cron(cron) => Some(cron.first_of_day()),
            cadence => cadence.configured_time(),
        }
    }

    const fn configured_time(&self) -> Option<Time> {
        match self {
            Self::Daily(time) | Self::Weekdays(_, time) | Self::Weekly(_, time) | Self::Monthly(_, time) => Some(*time),
            _ => None,
        }
    }

    /// Fills in the recipient's working days. Monday to Friday stays a plain `weekdays`, because older
    /// versions cannot read other days.
    #[must_use]
    pub fn on_working_days(self, days: impl FnOnce() -> DayRange) -> Self {
        match self {
            Self::Weekdays(None, time) => {
                Self::Weekdays(Some(days()).filter(|days| *days != DayRange::MONDAY_TO_FRIDAY), time)
            }
            cadence => cadence,
        }
    }

    #[must_use]
    pub const fn with_time(&self, time: Time) -> Option<Self> {
        match self {
            Self::Daily(_) => Some(Self::Daily(time)),
            Self::Weekdays(days, _) => Some(Self::Weekdays(*days, time)),
            Self::Weekly(day, _) => Some(Self::Weekly(*day, time)),
            Self::Monthly(day, _) => Some(Self::Monthly(*day, time)),
            _ => None,
        }
    }

    /// The weekly replacement for a more frequent cadence: Monday at the same time, or at 08:00. `None` for
    /// other cadences and cron schedules.
    #[must_use]
    pub fn weekly_replacement(&self) -> Option<Self> {
        let time = match self {
            Self::Daily(time) | Self::Weekdays(_, time) => *time,
            Self::Instant | Self::Hourly(_) => WEEKLY_AT,
            Self::After(wait) | Self::Sliding(_, wait) if *wait < WEEK => WEEKLY_AT,
            _ => return None,
        };
        Some(Self::Weekly(Weekday::Monday, time))
    }

    #[must_use]
    pub const fn follows_the_calendar(&self) -> bool {
        !matches!(self, Self::Instant | Self::After(_) | Self::Sliding(..) | Self::Never)
    }

    #[must_use]
    pub fn explain(&self) -> String {
        let at = |time: &Time| time.strftime("%H:%M").to_string();
        match self {
            Self::Instant => "a mail for each event, at once".to_owned(),
            Self::After(wait) => format!("{} after the first event", words::format_duration(*wait)),
            Self::Sliding(by, max) => format!(
                "{} after the latest event, and at most {} after the first",
                words::format_duration(*by),
                words::format_duration(*max)
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
