//! The five fields of crontab(5), in local time.
//!
//! croner computes the times. We check every field first, because croner accepts more than crontab(5), e.g. a
//! month name as a weekday, and its errors do not name the wrong field.

use std::{fmt, sync::Arc};

use croner::parser::{CronParser, Seconds, Year};
use jiff::{
    ToSpan as _,
    civil::{DateTime, Time, Weekday, datetime},
};

use super::words::{self, parse_number};

/// `names` are for values from `first_name` on.
struct CronField {
    name: &'static str,
    lowest: u8,
    highest: u8,
    names: &'static [&'static str],
    first_name: u8,
    right: &'static str,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [CronField; 5] = [
    CronField { name: "minute", lowest: 0, highest: 59, names: &[], first_name: 0, right: "0 to 59" },
    CronField { name: "hour", lowest: 0, highest: 23, names: &[], first_name: 0, right: "0 to 23" },
    CronField { name: "day of the month", lowest: 1, highest: 31, names: &[], first_name: 0, right: "1 to 31" },
    CronField { name: "month", lowest: 1, highest: 12, names: &MONTHS, first_name: 1, right: "1 to 12 or jan to dec" },
    CronField {
        name: "day of the week",
        lowest: 0,
        highest: 7,
        names: &DAYS,
        first_name: 0,
        right: "0 to 7 or sun to sat",
    },
];

/// Any date will do, since the calendar repeats.
const SOME_DAY: DateTime = datetime(2024, 1, 1, 0, 0, 0, 0);

const JUST_BEFORE: DateTime = datetime(2023, 12, 31, 23, 59, 0, 0);

/// With more times per day, [`CronSchedule::week_times`] gives up.
const SAID_TIMES: usize = 4;

#[derive(Clone, Debug)]
pub struct CronSchedule {
    words: String,
    schedule: Arc<croner::Cron>,
}

impl CronSchedule {
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let [_, _, days, _, weekdays] = words else {
            return Err(format!(
                "\"cron\" takes five fields, not {}: minute, hour, day of the month, month, day of the week; \
                 write for example \"cron 0 9,17 * * mon-fri\"",
                words.len()
            ));
        };
        let checked: Result<Vec<_>, String> =
            FIELDS.iter().zip(words).map(|(field, word)| field.parse_field(word)).collect();
        // crontab(5): if both day fields are restricted (contain no `*`), matching either one is enough.
        let both = days.contains('*') || weekdays.contains('*');
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).dom_and_dow(both);
        let schedule = parser.build().parse(&checked?.join(" ")).map_err(|error| error.to_string())?;
        let cron = Self { words: words.join(" ").to_ascii_lowercase(), schedule: Arc::new(schedule) };
        if cron.times_after(SOME_DAY).next().is_none() {
            return Err(format!("{:?} never comes: no such day is in the calendar", words.join(" ")));
        }
        Ok(cron)
    }

    /// All later local times, in order.
    pub(super) fn times_after(&self, time: DateTime) -> impl Iterator<Item = DateTime> {
        let next = |time: &DateTime| self.schedule.find_next_occurrence(time, false).ok();
        std::iter::successors(next(&time), move |time| next(time))
    }

    pub(super) fn first_of_day(&self) -> Time {
        self.times_after(JUST_BEFORE).next().map_or_else(Time::midnight, DateTime::time)
    }

    /// `None` if the schedule restricts dates or months, times differ between days, or there are more than
    /// four per day.
    #[must_use]
    pub fn week_times(&self) -> Option<WeekTimes> {
        let mut fields = self.words.split(' ').skip(2);
        if (fields.next(), fields.next()) != (Some("*"), Some("*")) {
            return None;
        }
        let (before, after) = (SOME_DAY - 1.minute(), SOME_DAY + 1.week());
        // One more, to notice if there are too many.
        let all: Vec<_> = self.times_after(before).take_while(|at| *at < after).take(7 * SAID_TIMES + 1).collect();
        let times_of =
            |day: Weekday| -> Vec<Time> { all.iter().filter(|at| at.weekday() == day).map(|at| at.time()).collect() };
        let days: Vec<_> =
            words::DAYS.into_iter().map(|(_, day)| day).filter(|day| !times_of(*day).is_empty()).collect();
        let times = times_of(*days.first()?);
        let same = times.len() <= SAID_TIMES && days.iter().all(|day| times_of(*day) == times);
        same.then_some(WeekTimes { days, times })
    }

    pub(super) fn explain(&self) -> String {
        self.schedule.describe()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeekTimes {
    pub days: Vec<Weekday>,
    pub times: Vec<Time>,
}

impl CronField {
    fn parse_field(&self, word: &str) -> Result<String, String> {
        let parts: Vec<_> = word.split(',').map(|part| self.parse_part(part)).collect::<Result<_, _>>()?;
        // A list that includes `*` means everything.
        Ok(if parts.iter().any(|part| part == "*") { "*".to_owned() } else { parts.join(",") })
    }

    /// Parses `*`, `5`, `1-5`, `*/2` or `1-5/2`.
    fn parse_part(&self, part: &str) -> Result<String, String> {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let range = match range.split_once('-') {
            None if range == "*" => range.to_owned(),
            None if step.is_some() => {
                return Err(format!("{part:?} steps from nothing; write for example \"*/2\" or \"1-5/2\""));
            }
            None => self.parse_value(range)?.to_string(),
            Some((first, last)) => self.parse_range(part, first, last)?,
        };
        let Some(step) = step else { return Ok(range) };
        match parse_number::<u8>(step) {
            Some(count) if count > 0 && count <= self.highest => Ok(format!("{range}/{count}")),
            _ => Err(format!("{part:?} has no step for the {}; write 1 to {} after the /", self.name, self.highest)),
        }
    }

    fn parse_range(&self, part: &str, first: &str, last: &str) -> Result<String, String> {
        let (first, mut last) = (self.parse_value(first)?, self.parse_value(last)?);
        // A week may end on Sunday.
        if self.highest == 7 && last == 0 && first > 0 {
            last = 7;
        }
        if first > last {
            return Err(format!("{part:?} runs backwards; write the earlier {} first", self.name));
        }
        Ok(format!("{first}-{last}"))
    }

    fn parse_value(&self, word: &str) -> Result<u8, String> {
        let named = self.names.iter().zip(self.first_name..).find(|(name, _)| word.eq_ignore_ascii_case(name));
        let value = named.map(|(_, value)| value).or_else(|| parse_number(word));
        let wrong = || {
            format!(
                "{word:?} is no {}; write {}, *, a list \"1,2\", a range \"1-5\" or a step \"*/2\"",
                self.name, self.right
            )
        };
        value.filter(|value| (self.lowest..=self.highest).contains(value)).ok_or_else(wrong)
    }
}

impl PartialEq for CronSchedule {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for CronSchedule {}

impl fmt::Display for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
