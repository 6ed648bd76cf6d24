//! The cadences that the page offers. Times of day and days of the week are fields of their own.

use jiff::civil::{Time, Weekday};
use tidings_model::{
    Cadence,
    records::{Facts, Preferences},
    rules::{Choice, effective::Effective},
    settings::DigestSettings,
    words,
};

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Often {
    /// The digest type's own cadence.
    Default,
    /// The present choice, which the list cannot say.
    Kept,
    Instant,
    Hourly,
    Daily,
    Weekdays,
    Weekly,
    Monthly,
    /// A cadence that is offered as a whole.
    Exactly(Cadence),
}

/// The fields of a digest type about its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub often: Often,
    /// `08:00`.
    pub time: String,
    /// `mon`.
    pub day: String,
    /// The day of the month, `1` to `31`.
    pub date: String,
}

impl Often {
    /// The entry's value in the form.
    pub fn value(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Kept => "kept".to_owned(),
            Self::Instant => "instant".to_owned(),
            Self::Hourly => "hourly".to_owned(),
            Self::Daily => "daily".to_owned(),
            Self::Weekdays => "weekdays".to_owned(),
            Self::Weekly => "weekly".to_owned(),
            Self::Monthly => "monthly".to_owned(),
            Self::Exactly(cadence) => format!("={cadence}"),
        }
    }

    /// Reads a value.
    pub fn read(value: &str) -> Option<Self> {
        Some(match value {
            "default" => Self::Default,
            "kept" => Self::Kept,
            "instant" => Self::Instant,
            "hourly" => Self::Hourly,
            "daily" => Self::Daily,
            "weekdays" => Self::Weekdays,
            "weekly" => Self::Weekly,
            "monthly" => Self::Monthly,
            other => Self::Exactly(other.strip_prefix('=')?.parse().ok()?),
        })
    }

    /// Reports if the time of day counts.
    pub const fn has_time(&self) -> bool {
        matches!(self, Self::Daily | Self::Weekdays | Self::Weekly | Self::Monthly)
    }

    /// Reports if the day of the week counts.
    pub const fn has_day(&self) -> bool {
        matches!(self, Self::Weekly)
    }

    /// Reports if the day of the month counts.
    pub const fn has_date(&self) -> bool {
        matches!(self, Self::Monthly)
    }

    /// The entries for a digest type where `present` is chosen. Kinds with a duration and schedules are left out: an operator can
    /// set them.
    pub fn offered(settings: &DigestSettings, present: &Self) -> Vec<Self> {
        let entry = |choice: &Choice| match choice {
            Choice::Kind("instant") => Some(Self::Instant),
            Choice::Kind("hourly") => Some(Self::Hourly),
            Choice::Kind("daily") => Some(Self::Daily),
            Choice::Kind("weekdays") => Some(Self::Weekdays),
            Choice::Kind("weekly") => Some(Self::Weekly),
            Choice::Kind("monthly") => Some(Self::Monthly),
            Choice::Kind(_) | Choice::Whole(Cadence::Never) => None,
            Choice::Whole(cadence) => Some(Self::Exactly(cadence.clone())),
        };
        let kept = (*present == Self::Kept).then_some(Self::Kept);
        let offered = settings.choices.entries().iter().filter_map(entry);
        [Self::Default].into_iter().chain(kept).chain(offered).collect()
    }

    /// The entry that says a cadence, if one of the offered does.
    fn of(settings: &DigestSettings, cadence: &Cadence) -> Self {
        let kind = match cadence {
            Cadence::Instant => Self::Instant,
            Cadence::Hourly(0) => Self::Hourly,
            Cadence::Daily(_) => Self::Daily,
            Cadence::Weekdays(None, _) => Self::Weekdays,
            Cadence::Weekly(..) => Self::Weekly,
            Cadence::Monthly(..) => Self::Monthly,
            _ => Self::Kept,
        };
        let offered = Self::offered(settings, &Self::Default);
        let whole = Self::Exactly(cadence.clone());
        [whole, kind].into_iter().find(|entry| offered.contains(entry)).unwrap_or(Self::Kept)
    }
}

impl Times {
    /// The fields as they are now.
    pub fn present(settings: &DigestSettings, facts: &Facts) -> Self {
        let cadence = Effective::chosen_cadence(settings, facts);
        let Preferences { cadence: chosen, at, .. } = &facts.preferences;
        let often = match (chosen, at) {
            (None, None) => Often::Default,
            _ => Often::of(settings, &cadence),
        };
        let (time, day, date) = match &cadence {
            Cadence::Daily(time) | Cadence::Weekdays(_, time) => (*time, Weekday::Monday, 1),
            Cadence::Weekly(day, time) => (*time, *day, 1),
            Cadence::Monthly(date, time) => (*time, Weekday::Monday, *date),
            _ => (Time::constant(8, 0, 0, 0), Weekday::Monday, 1),
        };
        let (time, day) = (time.strftime("%H:%M").to_string(), words::day_name(day).to_owned());
        Self { often, time, day, date: date.to_string() }
    }

    /// Puts what the fields say into preferences. Fields that are as before leave them alone.
    pub fn put(&self, present: &Self, preferences: &mut Preferences) {
        let Self { often, time, day, date } = self;
        let same = often == &present.often
            && (!often.has_time() || time == &present.time)
            && (!often.has_day() || day == &present.day)
            && (!often.has_date() || date == &present.date);
        let cadence = match often {
            _ if same => return,
            Often::Kept => return,
            Often::Default => None,
            Often::Instant => Some("instant".to_owned()),
            Often::Hourly => Some("hourly".to_owned()),
            Often::Daily => Some(format!("daily {time}")),
            Often::Weekdays => Some(format!("weekdays {time}")),
            Often::Weekly => Some(format!("weekly {day} {time}")),
            Often::Monthly => Some(format!("monthly {date} {time}")),
            Often::Exactly(cadence) => Some(cadence.to_string()),
        };
        (preferences.cadence, preferences.at) = (cadence, None);
    }
}

#[cfg(test)]
mod tests {
    use tidings_model::{records::Reading, rules::Choices};

    use super::*;

    fn settings(choices: &[&str]) -> DigestSettings {
        let choices = choices.iter().map(|words| words.parse().unwrap()).collect();
        DigestSettings {
            choices: Choices::new(choices),
            ..DigestSettings::new("activity", "daily 08:00".parse().unwrap())
        }
    }

    fn facts(cadence: Option<&str>, at: Option<&str>) -> Facts {
        let (cadence, at) = (cadence.map(str::to_owned), at.map(str::to_owned));
        Facts {
            recipient: None,
            generation: 0,
            preferences: Preferences { cadence, at, ..Preferences::default() },
            revision: 0,
            changed_at: None,
            consent: true,
            suppressed: None,
            last_sent_at: None,
            last_slot_at: None,
            last_schedule: None,
            reading: Reading::default(),
            pause: None,
            answered_at: None,
            missing: None,
        }
    }

    #[test]
    fn the_list_has_what_is_offered_and_the_present_choice() {
        let values = |choices: &[&str], cadence| {
            let settings = settings(choices);
            let present = Times::present(&settings, &facts(cadence, None)).often;
            let offered = Often::offered(&settings, &present).iter().map(Often::value).collect::<Vec<_>>().join(" | ");
            (present.value(), offered)
        };
        for (choices, cadence, present, offered) in [
            (&["instant", "daily", "after", "never"][..], None, "default", "default | instant | daily"),
            (&["weekly mon 08:00"], Some("weekly mon 08:00"), "=weekly mon 08:00", "default | =weekly mon 08:00"),
            (&["weekly", "daily"], Some("weekly tue 09:30"), "weekly", "default | weekly | daily"),
            (&["monthly", "daily"], Some("monthly 31 09:30"), "monthly", "default | monthly | daily"),
            (&["weekdays", "daily"], Some("weekdays 09:30"), "weekdays", "default | weekdays | daily"),
            (&["weekdays"], Some("weekdays sun-thu 09:30"), "kept", "default | kept | weekdays"),
            (
                &["weekdays 08:00", "weekdays sun-thu 08:00"],
                Some("weekdays 08:00"),
                "=weekdays 08:00",
                "default | =weekdays 08:00 | =weekdays sun-thu 08:00",
            ),
            (&["daily"], Some("monthly 1 08:00"), "kept", "default | kept | daily"),
            (&["daily"], Some("after 5m"), "kept", "default | kept | daily"),
            (&["hourly"], Some("hourly at :30"), "kept", "default | kept | hourly"),
            (&[], None, "default", "default"),
        ] {
            assert_eq!(values(choices, cadence), (present.to_owned(), offered.to_owned()));
        }
    }

    #[test]
    fn every_value_is_read_back() {
        for often in Often::offered(
            &settings(&["instant", "hourly", "daily", "weekdays", "weekly", "monthly", "weekly mon 08:00"]),
            &Often::Kept,
        ) {
            assert_eq!(Often::read(&often.value()), Some(often));
        }
        assert_eq!((Often::read(""), Often::read("=dayly")), (None, None));
    }

    #[test]
    fn fields_that_stay_leave_the_preferences_alone() {
        let settings = settings(&["daily", "weekly", "monthly"]);
        for (cadence, at) in [
            (None, None),
            (Some("daily 09:00"), Some("10:00")),
            (None, Some("18:30")),
            (Some("monthly 31 09:00"), Some("10:00")),
            (Some("cron 0 9 * * *"), None),
        ] {
            let facts = facts(cadence, at);
            let present = Times::present(&settings, &facts);
            let mut preferences = facts.preferences.clone();
            present.put(&present, &mut preferences);
            assert_eq!(preferences, facts.preferences);
        }
        let facts = facts(None, Some("18:30"));
        let present = Times::present(&settings, &facts);
        assert_eq!((present.often.value(), present.time.as_str()), ("daily".to_owned(), "18:30"));
        for (often, cadence) in [
            ("weekly", Some("weekly fri 18:30")),
            ("monthly", Some("monthly 15 18:30")),
            ("default", None),
            ("instant", Some("instant")),
        ] {
            let mut preferences = facts.preferences.clone();
            let often = Often::read(often).unwrap();
            Times { often, day: "fri".into(), date: "15".into(), ..present.clone() }.put(&present, &mut preferences);
            assert_eq!((preferences.cadence.as_deref(), preferences.at), (cadence, None));
        }
    }
}
