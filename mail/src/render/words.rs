//! Numbers and names in the recipient's language, for lines.

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap};

use jiff::{Timestamp, civil, tz::TimeZone};
use tidings_model::Cadence;

use crate::words::{Phrases, describe_cadence};

/// E.g. `build_failure` becomes `build failure`.
pub(super) fn humanize(name: &str) -> Cow<'_, str> {
    if name.contains('_') { name.replace('_', " ").into() } else { name.into() }
}

/// E.g. `1 dependency`, `3 dependencies`. Uses the message `noun_dependency` if there is one; otherwise the
/// English plural.
pub(super) fn counted_noun(phrases: Phrases<'_>, noun: &str, n: i128) -> String {
    let own = phrases.own_counted(&format!("noun_{}", noun.replace(' ', "_")), n);
    own.unwrap_or_else(|| {
        if phrases.is_english() {
            english_counted(&humanize(noun), n, &phrases.number(n))
        } else {
            count_message(phrases, "noun", noun, n)
        }
    })
}

/// `name` is an adjective or a plural: `2 critical`, `3 warnings`, `1 warning`. Uses the message
/// `count_warnings` if there is one, also for `warning`.
pub(super) fn counted_name(phrases: Phrases<'_>, name: &str, n: i128) -> String {
    let own =
        phrases.own_counted(&format!("count_{name}"), n).or_else(|| phrases.own_counted(&format!("count_{name}s"), n));
    own.unwrap_or_else(|| {
        if phrases.is_english() {
            english_tally(&humanize(name), n, &phrases.number(n))
        } else {
            count_message(phrases, "count", name, n)
        }
    })
}

fn count_message(phrases: Phrases<'_>, id: &str, name: &str, n: i128) -> String {
    phrases.message_with(id, [("count", n.into()), ("name", humanize(name).into())])
}

/// E.g. `Ann and Ben`, `Ann and 3 others`. Empty without actors.
pub(super) fn list_actors(phrases: Phrases<'_>, actors: &[Cow<'_, str>], actor_count: u64) -> String {
    match (actors, actor_count) {
        ([], _) => String::new(),
        ([one, ..], 0 | 1) => one.to_string(),
        ([one, two, ..], 2) => phrases.list(&[one.as_ref(), two.as_ref()]),
        ([one, ..], n) => phrases.message_with("and_others", [("name", (&**one).into()), ("count", (n - 1).into())]),
    }
}

/// Empty if the cadence is too complex for one phrase.
pub(super) fn how_often(phrases: Phrases<'_>, words: &str) -> String {
    match words.parse() {
        Ok(Cadence::Never) | Err(_) => String::new(),
        Ok(Cadence::Cron(cron)) if cron.week_times().is_none() => String::new(),
        Ok(said) => describe_cadence(phrases, &said),
    }
}

fn english_counted(noun: &str, n: i128, number: &str) -> String {
    let (stem, end) = if n == 1 { (noun, "") } else { plural(noun) };
    format!("{number} {stem}{end}")
}

fn english_tally(name: &str, n: i128, number: &str) -> String {
    let is_plural = name.ends_with('s') && !["ss", "us", "is"].iter().any(|end| name.ends_with(end));
    let name = if n == 1 && is_plural { &name[..name.len() - 1] } else { name };
    format!("{number} {name}")
}

fn plural(noun: &str) -> (&str, &'static str) {
    let before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    if let Some(stem) = before_y {
        (stem, "ies")
    } else if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) {
        (noun, "es")
    } else if noun.ends_with(|c: char| c.is_ascii_alphabetic()) {
        (noun, "s")
    } else {
        (noun, "")
    }
}

#[derive(Clone, Copy)]
pub(super) struct TimeContext<'a> {
    pub phrases: Phrases<'a>,
    pub zone: &'a TimeZone,
    /// The time of the claim.
    pub now: Timestamp,
    /// Years are shown unless they match this one.
    pub this_year: i16,
    pub written: &'a FormattedTimes,
}

/// A line often shares its time with its latest item, or with other lines.
pub(super) type FormattedTimes = RefCell<BTreeMap<civil::DateTime, String>>;

impl TimeContext<'_> {
    pub fn short_time(self, at: Timestamp) -> String {
        let at = self.zone.to_datetime(at);
        let minute = at.date().at(at.hour(), at.minute(), 0, 0);
        let mut written = self.written.borrow_mut();
        written.entry(minute).or_insert_with(|| self.phrases.short_time(minute, self.this_year)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::LocalizedWords;

    fn said(tag: &str, say: impl Fn(Phrases<'_>) -> String) -> String {
        say(LocalizedWords::new(None).unwrap().choose([tag])).replace('\u{a0}', " ")
    }

    #[test]
    fn a_noun_agrees_with_its_number() {
        for (tag, noun, n, expected) in [
            ("en", "change", 1, "1 change"),
            ("en", "change", 0, "0 changes"),
            ("en", "dependency", 3, "3 dependencies"),
            ("en", "other key", 2, "2 other keys"),
            ("en", "build_failure", 1_204, "1,204 build failures"),
            ("en-IN", "patch", 1_000_000, "10,00,000 patches"),
            ("en", "変更", 2, "2 変更"),
            ("de", "change", 1, "1 Änderung"),
            ("de-CH", "change", 1_204, "1'204 Änderungen"),
            ("de", "deploy_failure", 3, "3 × deploy failure"),
        ] {
            assert_eq!(said(tag, |phrases| counted_noun(phrases, noun, n)), expected);
        }
    }

    #[test]
    fn a_count_keeps_an_adjective_and_agrees_with_a_plural() {
        for (tag, name, n, expected) in [
            ("en", "critical", 2, "2 critical"),
            ("en", "warnings", 1, "1 warning"),
            ("en", "warning", 4, "4 warnings"),
            ("en", "files", 1, "1 file"),
            ("de", "warning", 1, "1 Warnung"),
            ("de", "files_changed", 4, "4 files changed"),
        ] {
            assert_eq!(said(tag, |phrases| counted_name(phrases, name, n)), expected);
        }
    }

    #[test]
    fn the_others_are_everybody_but_the_one_named() {
        let actors = ["Ann".into(), "Ben".into(), "Cy".into()];
        let who = |tag, actors: &[Cow<'_, str>], n| said(tag, |phrases| super::list_actors(phrases, actors, n));
        assert_eq!(who("en", &[], 0), "");
        assert_eq!(who("en", &actors[..1], 1), "Ann");
        assert_eq!(who("en", &actors[..2], 2), "Ann and Ben");
        assert_eq!(who("en", &actors, 3), "Ann and 2 others");
        assert_eq!(who("en", &actors, 1_200), "Ann and 1,199 others");
        assert_eq!(who("de", &actors[..2], 2), "Ann und Ben");
    }

    #[test]
    fn a_cadence_reads_as_a_recipient_would_say_it() {
        for (tag, cadence, expected) in [
            ("en-GB", "daily 08:00", "every day at 08:00"),
            ("en", "weekly mon 08:00", "every Monday at 8:00 AM"),
            ("en", "monthly 1 08:00", "on day 1 of every month at 8:00 AM"),
            ("en", "monthly 31 08:00", "on the last day of every month at 8:00 AM"),
            ("de", "monthly 15 08:00", "am 15. jedes Monats um 08:00"),
            ("fr", "monthly 1 08:00", "le 1er de chaque mois à 08:00"),
            ("de", "weekdays 08:00", "Montag bis Freitag um 08:00"),
            ("en", "weekdays mon-fri 08:00", "Monday to Friday at 8:00 AM"),
            ("en-GB", "weekdays sun-thu 08:00", "Sunday to Thursday at 08:00"),
            ("de", "weekdays sun-thu 08:00", "Sonntag bis Donnerstag um 08:00"),
            ("fr", "weekdays sun-thu 08:00", "du dimanche au jeudi à 08:00"),
            ("pl", "weekdays sun-thu 08:00", "niedziela–czwartek o 08:00"),
            ("ja", "weekdays sun-thu 08:00", "日曜日から木曜日の 8:00"),
            ("en", "hourly", "every hour"),
            ("en", "hourly at :30", "every hour, at minute 30"),
            ("en", "after 5m", "5 minutes after something happens"),
            ("en", "cron 0 8 * * sun-thu", "Sunday to Thursday at 8:00 AM"),
            ("en-GB", "cron 0 9,17 * * mon-fri", "Monday to Friday at 09:00 and 17:00"),
            ("en-GB", "cron 0 9 * * mon,wed", "Monday and Wednesday at 09:00"),
            ("en-GB", "cron 0 9 * * sat,sun", "Saturday and Sunday at 09:00"),
            ("en-GB", "cron 0 9 * * sun", "every Sunday at 09:00"),
            ("en-GB", "cron 30 9 * * *", "every day at 09:30"),
            ("en", "cron 0 9 1 * *", ""),
            ("en", "never", ""),
        ] {
            assert_eq!(said(tag, |phrases| how_often(phrases, cadence)), expected);
        }
    }

    #[test]
    fn a_time_is_the_same_however_often_it_is_written() {
        let (words, zone) = (LocalizedWords::new(None).unwrap(), TimeZone::get("Europe/Berlin").unwrap());
        let now: Timestamp = "2025-02-03T08:00:00Z".parse().unwrap();
        for language in ["en", "ar", "ja"] {
            let (phrases, written) = (words.choose([language]), FormattedTimes::default());
            let local = TimeContext { phrases, zone: &zone, now, this_year: 2025, written: &written };
            for at in [
                "2025-02-03T07:59:59Z",
                "2025-02-03T07:59:00.000001Z",
                "2025-02-03T08:00:00Z",
                "2024-02-03T07:59:59Z",
                "2024-10-27T00:30:00Z",
                "2024-10-27T01:30:00Z",
                "2025-02-03T07:59:59Z",
            ] {
                let at = at.parse().unwrap();
                assert_eq!(local.short_time(at), phrases.short_time(zone.to_datetime(at), 2025), "{at} in {language}");
            }
            assert_eq!(written.borrow().len(), 4, "{language}");
        }
    }
}
