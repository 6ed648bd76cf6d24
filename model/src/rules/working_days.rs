//! Working days of a recipient, for `weekdays` without explicit days.

use std::iter;

use icu_calendar::{
    types::Weekday as IcuWeekday,
    week::{WeekInformation, WeekPreferences},
};
use icu_locale_core::Locale;
use jiff::civil::Weekday;

use crate::{cadence::DayRange, records::KeyFacts, settings::DigestSettings, words::DAYS};

/// The first of: `tidings.toml`, the region in the recipient's locale, the likely region of their language
/// (CLDR), Monday to Friday.
#[must_use]
pub fn working_days(settings: &DigestSettings, facts: &KeyFacts) -> DayRange {
    let locale = facts.recipient.as_ref().map_or("", |recipient| &recipient.locale);
    of_locale(locale, settings.weekdays)
}

/// Like [`working_days`], for a BCP 47 tag, which may be empty.
#[must_use]
pub fn of_locale(locale: &str, configured: Option<DayRange>) -> DayRange {
    let of_locale = || of_region(&parse_locale(locale)?);
    configured.or_else(of_locale).unwrap_or(DayRange::MONDAY_TO_FRIDAY)
}

fn parse_locale(tag: &str) -> Option<Locale> {
    let tag = tag.trim().replace('_', "-");
    let mut ranges = iter::successors(Some(&*tag), |range| Some(range.rsplit_once('-')?.0));
    ranges.find_map(|range| range.parse().ok())
}

/// `None` if CLDR has no weekend or the days are not contiguous.
fn of_region(locale: &Locale) -> Option<DayRange> {
    let weekend = WeekInformation::try_new(WeekPreferences::from(locale)).ok()?.weekend;
    let days = DAYS.into_iter().map(|(_, day)| day).filter(|day| !weekend.contains(icu_weekday(*day)));
    DayRange::covering(&days.collect::<Vec<_>>())
}

const fn icu_weekday(day: Weekday) -> IcuWeekday {
    match day {
        Weekday::Monday => IcuWeekday::Monday,
        Weekday::Tuesday => IcuWeekday::Tuesday,
        Weekday::Wednesday => IcuWeekday::Wednesday,
        Weekday::Thursday => IcuWeekday::Thursday,
        Weekday::Friday => IcuWeekday::Friday,
        Weekday::Saturday => IcuWeekday::Saturday,
        Weekday::Sunday => IcuWeekday::Sunday,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        records::{Preferences, Recipient},
        rules::{effective::EffectiveSettings, samples},
    };

    #[test]
    fn the_configuration_has_the_working_days_or_else_the_region_of_the_locale() {
        for (locale, configured, days) in [
            ("he-IL", None, "sun-thu"),
            ("he-IL", Some("mon-fri"), "mon-fri"),
            ("he_IL", None, "sun-thu"),
            ("he-IL-nonsense-nonsense", None, "sun-thu"),
            ("en-IL", None, "sun-thu"),
            ("ar-SA", None, "sun-thu"),
            ("ar-AE", None, "mon-fri"),
            ("fa-IR", None, "sat-thu"),
            ("hi-IN", None, "mon-sat"),
            ("de-DE", Some("sun-thu"), "sun-thu"),
            ("he", None, "sun-thu"),
            ("he", Some("mon-fri"), "mon-fri"),
            ("en", Some("sun-thu"), "sun-thu"),
            ("ar", None, "sun-thu"),
            ("de", None, "mon-fri"),
            ("", Some("sun-thu"), "sun-thu"),
            ("", None, "mon-fri"),
            ("not a locale", None, "mon-fri"),
            ("not a locale", Some("sun-thu"), "sun-thu"),
        ] {
            let configured = configured.map(|days| days.parse().unwrap());
            assert_eq!(of_locale(locale, configured).to_string(), days, "{locale} {configured:?}");
        }
    }

    #[test]
    fn a_plan_follows_the_working_days_of_the_recipient() {
        let settings = DigestSettings::new("activity", "weekdays 08:00".parse().unwrap());
        let (tenant, user, address, name) = ("acme".into(), "ann".into(), "ann@acme.example".into(), String::new());
        let recipient = Recipient { tenant, user, address, name, zone: String::new(), locale: "he-IL".into() };
        let facts = |cadence: Option<&str>, at: Option<&str>| KeyFacts {
            recipient: Some(recipient.clone()),
            preferences: Preferences {
                cadence: cadence.map(str::to_owned),
                at: at.map(str::to_owned),
                ..Preferences::default()
            },
            ..samples::facts()
        };
        for (cadence, at, planned) in [
            (None, None, "weekdays sun-thu 08:00"),
            (None, Some("18:30"), "weekdays sun-thu 18:30"),
            (Some("weekdays 09:00"), None, "weekdays sun-thu 09:00"),
            (Some("weekdays mon-fri 09:00"), None, "weekdays mon-fri 09:00"),
            (Some("daily 09:00"), None, "daily 09:00"),
        ] {
            let effective = EffectiveSettings::without_adapting(&settings, &facts(cadence, at));
            assert_eq!(effective.basis().cadence, planned);
            assert!(effective.has_basis(&effective.basis()), "{planned}");
        }
        let elsewhere = EffectiveSettings::without_adapting(&settings, &samples::facts());
        assert_eq!(elsewhere.basis().cadence, "weekdays 08:00", "which an earlier version reads");
    }
}
