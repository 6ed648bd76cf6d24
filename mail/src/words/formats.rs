//! Dates, times, numbers and lists with CLDR data.

use std::fmt::Display;

use icu_calendar::{Date, Gregorian};
use icu_datetime::{
    FixedCalendarDateTimeFormatter, NoCalendarFormatter,
    fieldsets::{E, MDE, MDET, MDT, T, YMDE, YMDET, YMDT, zone::ExemplarCity},
    input::{DateTime, Time},
    options::TimePrecision,
};
use icu_decimal::{DecimalFormatter, input::Decimal, options::DecimalFormatterOptions};
use icu_list::{
    ListFormatter,
    options::{ListFormatterOptions, ListLength},
};
use icu_locale_core::Locale;
use intl_memoizer::Memoizable;
use jiff::civil;
use unic_langid::LanguageIdentifier;

type DateFormatter<Fields> = FixedCalendarDateTimeFormatter<Gregorian, Fields>;

#[derive(Debug, thiserror::Error)]
#[error("cannot read CLDR data: {0}")]
pub struct CldrError(String);

/// Formatters with a year are for any year but the current one.
pub(super) struct LocaleFormats {
    pub day: DateFormatter<MDE>,
    pub day_of_year: DateFormatter<YMDE>,
    pub day_time: DateFormatter<MDET>,
    pub day_time_of_year: DateFormatter<YMDET>,
    pub short: DateFormatter<MDT>,
    pub short_of_year: DateFormatter<YMDT>,
    pub weekday: DateFormatter<E>,
    pub time: NoCalendarFormatter<T>,
    pub city: NoCalendarFormatter<ExemplarCity>,
    pub list: ListFormatter,
    pub short_list: ListFormatter,
    pub numbers: NumberFormat,
}

pub(super) struct NumberFormat(DecimalFormatter);

impl LocaleFormats {
    pub fn new(tag: &str) -> Result<Self, CldrError> {
        let locale = locale(tag);
        let date = || (&locale).into();
        let minutes = TimePrecision::Minute;
        let list = |length| {
            let options = ListFormatterOptions::default().with_length(length);
            ListFormatter::try_new_and((&locale).into(), options).map_err(unreadable)
        };
        Ok(Self {
            day: DateFormatter::try_new(date(), MDE::medium()).map_err(unreadable)?,
            day_of_year: DateFormatter::try_new(date(), YMDE::medium()).map_err(unreadable)?,
            day_time: DateFormatter::try_new(date(), MDET::medium().with_time_precision(minutes))
                .map_err(unreadable)?,
            day_time_of_year: DateFormatter::try_new(date(), YMDET::medium().with_time_precision(minutes))
                .map_err(unreadable)?,
            short: DateFormatter::try_new(date(), MDT::medium().with_time_precision(minutes)).map_err(unreadable)?,
            short_of_year: DateFormatter::try_new(date(), YMDT::medium().with_time_precision(minutes))
                .map_err(unreadable)?,
            weekday: DateFormatter::try_new(date(), E::long()).map_err(unreadable)?,
            time: NoCalendarFormatter::try_new(date(), T::medium().with_time_precision(minutes)).map_err(unreadable)?,
            city: NoCalendarFormatter::try_new(date(), ExemplarCity).map_err(unreadable)?,
            list: list(ListLength::Wide)?,
            short_list: list(ListLength::Narrow)?,
            numbers: NumberFormat::new(&locale)?,
        })
    }
}

impl NumberFormat {
    fn new(locale: &Locale) -> Result<Self, CldrError> {
        DecimalFormatter::try_new(locale.into(), DecimalFormatterOptions::default()).map(Self).map_err(unreadable)
    }

    pub fn written(&self, digits: &str) -> Option<String> {
        Some(plain_spaces(self.0.format(&digits.parse::<Decimal>().ok()?)))
    }
}

impl Memoizable for NumberFormat {
    type Args = ();
    type Error = CldrError;

    fn construct(tag: LanguageIdentifier, (): ()) -> Result<Self, CldrError> {
        Self::new(&locale(&tag.to_string()))
    }
}

/// Falls back to CLDR's root locale if ICU4X cannot parse the tag.
fn locale(tag: &str) -> Locale {
    tag.parse().unwrap_or(Locale::UNKNOWN)
}

fn unreadable(error: impl Display) -> CldrError {
    CldrError(error.to_string())
}

/// Replaces no-break spaces with the one width in every email client's fonts.
pub(super) fn plain_spaces(written: impl Display) -> String {
    let written = written.to_string();
    if written.is_ascii() { written } else { written.replace('\u{202f}', "\u{a0}") }
}

pub(super) fn date(at: civil::Date) -> Option<Date<Gregorian>> {
    Date::try_new_gregorian(at.year().into(), at.month().unsigned_abs(), at.day().unsigned_abs()).ok()
}

pub(super) fn time(at: civil::Time) -> Option<Time> {
    Time::try_new(at.hour().unsigned_abs(), at.minute().unsigned_abs(), 0, 0).ok()
}

pub(super) fn date_time(at: civil::DateTime) -> Option<DateTime<Gregorian>> {
    Some(DateTime { date: date(at.date())?, time: time(at.time())? })
}
