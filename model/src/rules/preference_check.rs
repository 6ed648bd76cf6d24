//! Validates a recipient's preferences.

use jiff::Timestamp;

use crate::{
    Cadence, ParseError, QuietHours, QuietTime,
    limits::{self, InvalidField},
    records::Preferences,
    settings::DigestSettings,
    time_zone, words,
};

/// Limit for quiet times and for categories turned off, because every plan reads them.
const MOST: usize = 100;

/// Validates `chosen` against the digest type. Values unchanged since `before` stay valid (e.g. a cadence no
/// longer offered, a removed zone, a past pause), so the recipient can still change the rest.
///
/// # Errors
/// Names the first invalid field and a valid alternative.
pub fn check_preferences(
    settings: &DigestSettings,
    before: &Preferences,
    chosen: &Preferences,
    now: Timestamp,
) -> Result<(), InvalidField> {
    if (&chosen.cadence, &chosen.at) != (&before.cadence, &before.at) {
        cadence(settings, chosen)?;
    }
    if chosen.zone != before.zone
        && let Some(zone) = &chosen.zone
    {
        time_zone(zone).map_err(|problem| invalid_value("zone", zone, &problem))?;
    }
    if chosen.quiet != before.quiet
        && let Some(times) = &chosen.quiet
    {
        quiet(times)?;
    }
    if chosen.off != before.off {
        few("off", chosen.off.iter().filter(|category| !settings.categories.contains_key(*category)).count())?;
        chosen.off.iter().try_for_each(|category| limits::check_id("off", category))?;
    }
    if chosen.paused_until != before.paused_until
        && let Some(until) = chosen.paused_until
        && until <= now
    {
        return Err(invalid_value("paused_until", &format!("{until:.0}"), "is in the past"));
    }
    Ok(())
}

fn cadence(settings: &DigestSettings, chosen: &Preferences) -> Result<(), InvalidField> {
    let parsed =
        |words: &String| words.parse().map_err(|error: ParseError| unreadable_value("cadence", words, error.problem()));
    let whole = chosen.cadence.as_ref().map(parsed).transpose()?.unwrap_or_else(|| settings.cadence.clone());
    let (field, cadence) = match &chosen.at {
        Some(at) => (if chosen.cadence.is_some() { "cadence" } else { "at" }, at_time(&whole, at)?),
        None => ("cadence", whole),
    };
    if settings.choices.allows(&cadence) || cadence == settings.cadence {
        return Ok(());
    }
    let right = match settings.choices.entries() {
        [] => "is not offered; recipients of this digest type have no choice".to_owned(),
        _ => format!("is not offered; choose among {}", settings.choices),
    };
    Err(invalid_value(field, &cadence.to_string(), &right))
}

fn at_time(cadence: &Cadence, at: &str) -> Result<Cadence, InvalidField> {
    let time = words::parse_time(at).map_err(|problem| InvalidField { field: "at".to_owned(), problem })?;
    let right = || format!("means nothing to {:?}; leave it out, or choose \"daily {at}\"", cadence.to_string());
    cadence.with_time(time).ok_or_else(|| invalid_value("at", at, &right()))
}

fn quiet(times: &[String]) -> Result<(), InvalidField> {
    few("quiet", times.len())?;
    let parsed =
        |words: &String| words.parse::<QuietTime>().map_err(|problem| unreadable_value("quiet", words, &problem));
    let times = times.iter().map(parsed).collect::<Result<_, _>>()?;
    QuietHours::new(times).map(|_| ()).map_err(|_| InvalidField {
        field: "quiet".to_owned(),
        problem: "covers the whole week, so no email could ever be sent; leave some time".to_owned(),
    })
}

fn few(field: &str, count: usize) -> Result<(), InvalidField> {
    let problem = format!("has {count} entries, the limit is {MOST}");
    if count <= MOST { Ok(()) } else { Err(InvalidField { field: field.to_owned(), problem }) }
}

fn invalid_value(field: &str, written: &str, problem: &str) -> InvalidField {
    InvalidField { field: field.to_owned(), problem: format!("{written:?} {problem}") }
}

fn unreadable_value(field: &str, written: &str, problem: &str) -> InvalidField {
    InvalidField { field: field.to_owned(), problem: format!("{written:?}: {problem}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-10-24T18:00:00Z";

    fn settings() -> DigestSettings {
        let choices = ["instant", "daily", "weekly mon 08:00"].map(|words| words.parse().unwrap());
        DigestSettings {
            choices: crate::offered_cadences::OfferedCadences::new(choices.into()),
            ..DigestSettings::new("activity", "daily 08:00".parse().unwrap())
        }
    }

    fn said(chosen: &Preferences) -> String {
        let checked = check_preferences(&settings(), &Preferences::default(), chosen, NOW.parse().unwrap());
        checked.map_err(|invalid| invalid.to_string()).err().unwrap_or_default()
    }

    fn cadence(cadence: Option<&str>, at: Option<&str>) -> Preferences {
        Preferences { cadence: cadence.map(str::to_owned), at: at.map(str::to_owned), ..Preferences::default() }
    }

    #[test]
    fn a_cadence_outside_the_offered_ones_is_refused_with_the_list() {
        let offered = "is not offered; choose among \"instant\", \"daily\", \"weekly mon 08:00\"";
        for (chosen, at, problem) in [
            (None, None, String::new()),
            (Some("instant"), None, String::new()),
            (Some("daily 09:00"), Some("18:30"), String::new()),
            (None, Some("18:30"), String::new()),
            (Some("weekly mon 08:00"), None, String::new()),
            (Some("weekly mon 08:00"), Some("09:00"), format!("cadence: \"weekly mon 09:00\" {offered}")),
            (Some("hourly"), None, format!("cadence: \"hourly\" {offered}")),
            (
                Some("instant"),
                Some("09:00"),
                "at: \"09:00\" means nothing to \"instant\"; leave it out, or choose \"daily 09:00\"".into(),
            ),
            (None, Some("9:00"), "at: \"9:00\" is not a time of day; write for example \"08:00\"".into()),
        ] {
            assert_eq!(said(&cadence(chosen, at)), problem);
        }
        for (words, problem) in [
            ("dayly 08:00", "cadence: \"dayly 08:00\": \"dayly\" is not a cadence; write \"instant\""),
            ("dayly", "cadence: \"dayly\": \"dayly\" is not a cadence; write \"instant\""),
            ("", "cadence: \"\": is empty; write"),
        ] {
            let said = said(&cadence(Some(words), None));
            assert!(said.starts_with(problem), "{said}");
        }
    }

    #[test]
    fn no_cadence_can_be_chosen_if_none_is_offered() {
        let settings =
            DigestSettings { choices: crate::offered_cadences::OfferedCadences::new(Vec::new()), ..settings() };
        let check =
            |chosen: &Preferences| check_preferences(&settings, &Preferences::default(), chosen, NOW.parse().unwrap());
        let zone = Preferences { zone: Some("Asia/Tokyo".into()), ..Preferences::default() };
        assert!(check(&zone).is_ok());
        let refused = check(&cadence(Some("instant"), None)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cadence: \"instant\" is not offered; recipients of this digest type have no choice"
        );
    }

    #[test]
    fn a_cadence_no_longer_offered_may_stay() {
        let now = NOW.parse().unwrap();
        let before = cadence(Some("hourly"), None);
        let paused = Preferences { paused_until: Some("2026-11-01T00:00:00Z".parse().unwrap()), ..before.clone() };
        assert!(check_preferences(&settings(), &before, &paused, now).is_ok());
        let at = cadence(None, Some("18:30"));
        let instant = DigestSettings { cadence: Cadence::Instant, ..settings() };
        assert!(
            check_preferences(&instant, &at, &Preferences { off: ["share".to_owned()].into(), ..at.clone() }, now)
                .is_ok()
        );
        let other = cadence(Some("hourly at :30"), None);
        assert!(check_preferences(&settings(), &before, &other, now).is_err());
    }

    #[test]
    fn an_earlier_choice_may_stay_with_another_one() {
        let before = Preferences {
            cadence: Some("hourly".into()),
            zone: Some("Europe/Berln".into()),
            quiet: Some(vec!["none".into()]),
            paused_until: Some(NOW.parse().unwrap()),
            ..Preferences::default()
        };
        let check = |chosen: &Preferences| check_preferences(&settings(), &before, chosen, NOW.parse().unwrap());
        assert!(check(&Preferences { off: ["share".to_owned()].into(), ..before.clone() }).is_ok());
        for other in [
            Preferences { cadence: Some("hourly at :30".into()), ..before.clone() },
            Preferences { zone: Some("Europe/Pari".into()), ..before.clone() },
            Preferences { quiet: Some(vec!["noon".into()]), ..before.clone() },
            Preferences { paused_until: Some("2026-10-24T17:00:00Z".parse().unwrap()), ..before.clone() },
        ] {
            assert!(check(&other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn every_category_of_the_file_can_be_off_and_a_hundred_others() {
        let named = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let categories = named("known", 150).into_iter().map(|category| (category.clone(), category)).collect();
        let settings = DigestSettings { categories, ..settings() };
        let check = |others: usize| {
            let off = named("known", 150).into_iter().chain(named("other", others)).collect();
            let chosen = Preferences { off, ..Preferences::default() };
            check_preferences(&settings, &Preferences::default(), &chosen, NOW.parse().unwrap()).is_ok()
        };
        assert!(check(0) && check(MOST) && !check(MOST + 1));
    }

    #[test]
    fn every_other_field_says_what_would_be_right() {
        let default = Preferences::default;
        let quiet =
            |times: &[&str]| Preferences { quiet: Some(times.iter().map(|&t| t.to_owned()).collect()), ..default() };
        let off = |category: &str| Preferences { off: [category.to_owned()].into(), ..default() };
        let many = Preferences { off: (0..101).map(|n| n.to_string()).collect(), ..default() };
        let paused = |until: &str| Preferences { paused_until: Some(until.parse().unwrap()), ..default() };
        for (chosen, problem) in [
            (
                Preferences { zone: Some("Europe/Berln".into()), ..default() },
                "zone: \"Europe/Berln\" is not an IANA time zone",
            ),
            (quiet(&["22:00-07:00", "none"]), "quiet: \"none\": \"none\": write for example \"22:00-07:00\""),
            (quiet(&["fri 22"]), "quiet: \"fri 22\": \"22\": write for example \"22:00-07:00\""),
            (quiet(&[""]), "quiet: \"\": write for example \"22:00-07:00\""),
            (quiet(&["00:00-12:00", "12:00-24:00"]), "quiet: covers the whole week"),
            (off(""), "off: is required"),
            (off("a\nb"), "off: has the control character"),
            (many, "off: has 101 entries, the limit is 100"),
            (paused(NOW), "paused_until: \"2026-10-24T18:00:00Z\" is in the past"),
        ] {
            assert!(said(&chosen).starts_with(problem), "{}", said(&chosen));
        }
        for chosen in [quiet(&[]), quiet(&["22:00-07:00"]), off("share"), paused("2026-10-24T18:00:01Z")] {
            assert_eq!(said(&chosen), "");
        }
    }
}
