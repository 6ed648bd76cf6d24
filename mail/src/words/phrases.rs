//! Messages, numbers and dates in one language.

use std::{borrow::Cow, time::Duration};

use fluent_bundle::{FluentArgs, FluentValue};
use icu_time::zone::IanaParser;
use jiff::civil::{self, Time, Weekday};
use tidings_model::{
    Cadence,
    cadence::{DayRange, WeekTimes},
    words,
};

use super::{
    formats::{self, LocaleFormats, date_time, plain_spaces},
    language::{ENGLISH, LanguageBundle},
};

/// Missing messages fall back to English.
#[derive(Clone, Copy)]
pub struct Phrases<'a> {
    pub(super) language: &'a LanguageBundle,
    pub(super) english: &'a LanguageBundle,
}

impl<'a> Phrases<'a> {
    /// With the reader's region.
    #[must_use]
    pub fn tag(&self) -> &'a str {
        &self.language.tag
    }

    #[must_use]
    pub const fn direction(&self) -> &'static str {
        if self.language.right_to_left { "rtl" } else { "ltr" }
    }

    /// Returns `true` for English in any region.
    #[must_use]
    pub(crate) fn is_english(&self) -> bool {
        self.tag().split('-').next() == Some(ENGLISH)
    }

    #[must_use]
    pub fn message_text(&self, id: &str) -> String {
        self.message_with(id, [])
    }

    #[must_use]
    pub fn message_with<'v, const N: usize>(&self, id: &str, variables: [(&'v str, FluentValue<'v>); N]) -> String {
        self.find(id, variables).unwrap_or_else(|| id.to_owned())
    }

    /// `None` if the message does not exist or needs other variables.
    pub(crate) fn find<'v>(
        &self,
        id: &str,
        variables: impl IntoIterator<Item = (&'v str, FluentValue<'v>)>,
    ) -> Option<String> {
        let variables = variables.into_iter().map(|(name, value)| (name, self.language.isolate_value(value)));
        let arguments: FluentArgs<'_> = variables.collect();
        self.language.format_message(id, &arguments).or_else(|| self.english.format_message(id, &arguments))
    }

    /// E.g. from the message `category_change`.
    #[must_use]
    pub fn team_name(&self, kind: &str, name: &str) -> Option<String> {
        self.find(&format!("{kind}_{}", name.replace(' ', "_")), [])
    }

    /// The message `digest_NAME`, otherwise the type's title, otherwise the type itself.
    #[must_use]
    pub fn digest_name(&self, digest_type: &str, title: Option<&str>) -> String {
        let own = self.team_name("digest", digest_type);
        own.unwrap_or_else(|| title.map_or_else(|| digest_type.replace('_', " "), str::to_owned))
    }

    /// `None` if this language lacks the message, without falling back to English.
    pub(crate) fn own_counted(&self, id: &str, count: i128) -> Option<String> {
        self.language.format_counted(id, count).map(Cow::into_owned)
    }

    /// Falls back to English.
    pub(crate) fn counted_message(&self, id: &str, count: i128) -> Option<String> {
        self.own_counted(id, count).or_else(|| self.english.format_counted(id, count).map(Cow::into_owned))
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.language.has(id) || self.english.has(id)
    }

    fn formats(&self) -> &'a LocaleFormats {
        &self.language.formats
    }

    /// E.g. `1,204`.
    #[must_use]
    pub fn number(&self, number: i128) -> String {
        self.decimal(&number.to_string())
    }

    /// `digits` is ASCII, possibly with a fraction.
    #[must_use]
    pub fn decimal(&self, digits: &str) -> String {
        self.formats().numbers.written(digits).unwrap_or_else(|| digits.to_owned())
    }

    /// Joins items without "and" where the language allows it, e.g. `2 critical, 1 warning`.
    #[must_use]
    pub fn short_list(&self, items: &[&str]) -> String {
        self.formats().short_list.format(items.iter().copied()).to_string()
    }

    /// E.g. `Ann and Ben`.
    #[must_use]
    pub fn list(&self, items: &[&str]) -> String {
        self.formats().list.format(items.iter().copied()).to_string()
    }

    /// E.g. `8:00 AM`.
    #[must_use]
    pub fn time(&self, at: civil::Time) -> String {
        formats::time(at).map_or_else(|| at.to_string(), |time| plain_spaces(self.formats().time.format(&time)))
    }

    /// E.g. `Mon, Feb 3`. Adds the year unless it is `this_year`.
    #[must_use]
    pub fn day(&self, at: civil::Date, this_year: i16) -> String {
        let (Some(date), formats) = (formats::date(at), self.formats()) else { return at.to_string() };
        plain_spaces(if at.year() == this_year { formats.day.format(&date) } else { formats.day_of_year.format(&date) })
    }

    /// E.g. `Mon, Feb 3, 8:00 AM`. Adds the year unless it is `this_year`.
    #[must_use]
    pub fn day_time(&self, at: civil::DateTime, this_year: i16) -> String {
        let (Some(time), formats) = (date_time(at), self.formats()) else { return at.to_string() };
        plain_spaces(if at.year() == this_year {
            formats.day_time.format(&time)
        } else {
            formats.day_time_of_year.format(&time)
        })
    }

    /// E.g. `Feb 3, 8:00 AM`. Adds the year unless it is `this_year`.
    #[must_use]
    pub fn short_time(&self, at: civil::DateTime, this_year: i16) -> String {
        let (Some(time), formats) = (date_time(at), self.formats()) else { return at.to_string() };
        plain_spaces(if at.year() == this_year {
            formats.short.format(&time)
        } else {
            formats.short_of_year.format(&time)
        })
    }

    /// E.g. `Berlin` for `Europe/Berlin`; the IANA name if it has no city.
    #[must_use]
    pub fn zone(&self, name: &str) -> String {
        let known = IanaParser::new().parse(name);
        let has_city = name.contains('/') && !name.starts_with("Etc/") && !known.is_unknown();
        if has_city { plain_spaces(self.formats().city.format(&known.without_offset())) } else { name.to_owned() }
    }

    /// E.g. `Monday`.
    #[must_use]
    pub fn weekday(&self, day: civil::Weekday) -> String {
        // January 5, 1970 was a Monday.
        let of_week = civil::date(1970, 1, 5 + day.to_monday_zero_offset());
        formats::date(of_week).map(|date| plain_spaces(self.formats().weekday.format(&date))).unwrap_or_default()
    }
}

#[must_use]
pub fn describe_cadence(phrases: Phrases<'_>, cadence: &Cadence) -> String {
    let clock = |time: &Time| phrases.time(*time).into();
    match cadence {
        Cadence::Instant => phrases.message_text("cadence_instant"),
        Cadence::After(wait) => phrases.message_with("cadence_after", [("wait", duration(phrases, *wait).into())]),
        Cadence::Sliding(wait, most) => {
            let (wait, most) = (duration(phrases, *wait).into(), duration(phrases, *most).into());
            phrases.message_with("cadence_sliding", [("wait", wait), ("most", most)])
        }
        Cadence::Hourly(0) => phrases.message_text("cadence_every_hour"),
        Cadence::Hourly(minute) => phrases.message_with("cadence_hourly", [("minute", (*minute).into())]),
        Cadence::Daily(time) => phrases.message_with("cadence_daily", [("time", clock(time))]),
        Cadence::Weekdays(days, time) => {
            let days: Vec<_> = days.unwrap_or(DayRange::MONDAY_TO_FRIDAY).days().collect();
            on_days(phrases, &days, &[*time])
        }
        Cadence::Weekly(day, time) => on_days(phrases, &[*day], &[*time]),
        Cadence::Monthly(day, time) => {
            phrases.message_with("cadence_monthly", [("day", (*day).into()), ("time", clock(time))])
        }
        Cadence::Cron(cron) => match cron.week_times() {
            Some(WeekTimes { days, times }) => on_days(phrases, &days, &times),
            None => phrases.message_text("cadence_cron"),
        },
        Cadence::Never => phrases.message_text("cadence_never"),
    }
}

fn on_days(phrases: Phrases<'_>, on: &[Weekday], at: &[Time]) -> String {
    let times: Vec<_> = at.iter().map(|time| phrases.time(*time)).collect();
    let times = phrases.list(&times.iter().map(String::as_str).collect::<Vec<_>>());
    let time = ("time", times.into());
    match (on, DayRange::covering(on)) {
        ([_, _, _, _, _, _, _], _) => phrases.message_with("cadence_daily", [time]),
        ([day], _) => phrases.message_with("cadence_weekly", [("day", words::day_name(*day).into()), time]),
        (_, Some(DayRange::MONDAY_TO_FRIDAY)) => phrases.message_with("cadence_weekdays", [time]),
        _ => phrases.message_with("cadence_days", [("days", describe_days(phrases, on).into()), time]),
    }
}

/// E.g. `Sunday to Thursday` or `Monday and Wednesday`.
#[must_use]
pub fn describe_days(phrases: Phrases<'_>, days: &[Weekday]) -> String {
    let range = DayRange::covering(days);
    if let Some(DayRange { first, last }) = range.filter(|_| days.len() > 2) {
        let named = |day| phrases.weekday(day).into();
        return phrases.message_with("days_range", [("first", named(first)), ("last", named(last))]);
    }
    let in_order = range.map_or_else(|| days.to_vec(), |range| range.days().collect());
    let names: Vec<_> = in_order.into_iter().map(|day| phrases.weekday(day)).collect();
    phrases.list(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn duration(phrases: Phrases<'_>, wait: Duration) -> String {
    let seconds = wait.as_secs();
    let units = [("days", 24 * 3_600), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
    let unit = units.into_iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (id, unit) = unit.unwrap_or(("seconds", 1));
    phrases.message_with(id, [("count", (seconds / unit).into())])
}
