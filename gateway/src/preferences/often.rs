//! Cadences offered on the page, and their wording. Time and day are separate fields.

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use tidings_mail::words::{Phrases, describe_cadence, describe_days};
use tidings_model::{
    Cadence, CadenceField, CadenceKind,
    cadence::DayRange,
    offered_cadences::OfferedCadence,
    records::{KeyFacts, Preferences},
    rules::effective::EffectiveSettings,
    settings::DigestSettings,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CadenceEntry {
    /// The digest type's own cadence.
    Default,
    /// The current choice, if the list cannot express it.
    Kept,
    /// A kind whose times come from the other fields.
    Kind(CadenceKind),
    /// A complete cadence.
    Exactly(Cadence),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CadenceFields {
    pub often: CadenceEntry,
    /// E.g. `08:00`.
    pub time: String,
    /// E.g. `mon`.
    pub day: String,
    /// Day of the month, `1` to `31`.
    pub date: String,
}

impl CadenceEntry {
    pub fn value(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Kept => "kept".to_owned(),
            Self::Kind(kind) => kind.name().to_owned(),
            Self::Exactly(cadence) => format!("={cadence}"),
        }
    }

    pub fn from_value(value: &str) -> Option<Self> {
        match (value, value.strip_prefix('=')) {
            ("default", _) => Some(Self::Default),
            ("kept", _) => Some(Self::Kept),
            (_, Some(words)) => words.parse().ok().map(Self::Exactly),
            (kind, None) => Self::of_kind(CadenceKind::named(kind)?),
        }
    }

    fn of_kind(kind: CadenceKind) -> Option<Self> {
        kind.fields().map(|_| Self::Kind(kind))
    }

    /// Fields used by this entry, in the order of the cadence's words.
    pub fn fields(&self) -> &'static [CadenceField] {
        match self {
            Self::Kind(kind) => kind.fields().unwrap_or_default(),
            Self::Default | Self::Kept | Self::Exactly(_) => &[],
        }
    }

    /// Leaves out durations and schedules; an operator can set those.
    pub fn offered_entries(settings: &DigestSettings, present: &Self) -> Vec<Self> {
        let entry = |choice: &OfferedCadence| match choice {
            OfferedCadence::Kind(kind) => Self::of_kind(*kind),
            OfferedCadence::Whole(Cadence::Never) => None,
            OfferedCadence::Whole(cadence) => Some(Self::Exactly(cadence.clone())),
        };
        let kept = (*present == Self::Kept).then_some(Self::Kept);
        let offered = settings.choices.entries().iter().filter_map(entry);
        [Self::Default].into_iter().chain(kept).chain(offered).collect()
    }
}

impl CadenceFields {
    pub fn from_facts(settings: &DigestSettings, facts: &KeyFacts) -> Self {
        let cadence = EffectiveSettings::chosen_cadence(settings, facts);
        let word = |field, usual: &str| cadence.field_text(field).unwrap_or_else(|| usual.to_owned());
        let (time, day) = (word(CadenceField::Time, "08:00"), word(CadenceField::Weekday, "mon"));
        let mut times = Self { often: CadenceEntry::Default, time, day, date: word(CadenceField::Date, "1") };
        if facts.preferences.cadence.is_some() || facts.preferences.at.is_some() {
            let offered = CadenceEntry::offered_entries(settings, &CadenceEntry::Default);
            // If the fields cannot express this cadence, e.g. `hourly at :30`, only the complete one matches
            // an entry.
            let kind = Some(cadence.kind()).filter(|kind| times.cadence_words(*kind) == cadence.to_string());
            let entries = [Some(CadenceEntry::Exactly(cadence)), kind.map(CadenceEntry::Kind)];
            times.often =
                entries.into_iter().flatten().find(|entry| offered.contains(entry)).unwrap_or(CadenceEntry::Kept);
        }
        times
    }

    /// Writes the fields into the preferences, unless they are unchanged.
    pub fn apply_to(&self, present: &Self, preferences: &mut Preferences) {
        let is_as_before = |field: &CadenceField| self.field_word(*field) == present.field_word(*field);
        let cadence = match &self.often {
            often if *often == present.often && often.fields().iter().all(is_as_before) => return,
            CadenceEntry::Kept => return,
            CadenceEntry::Default => None,
            CadenceEntry::Kind(kind) => Some(self.cadence_words(*kind)),
            CadenceEntry::Exactly(cadence) => Some(cadence.to_string()),
        };
        (preferences.cadence, preferences.at) = (cadence, None);
    }

    fn cadence_words(&self, kind: CadenceKind) -> String {
        let fields = kind.fields().unwrap_or_default().iter().map(|field| self.field_word(*field));
        [kind.name()].into_iter().chain(fields).collect::<Vec<_>>().join(" ")
    }

    fn field_word(&self, field: CadenceField) -> &str {
        match field {
            CadenceField::Time => &self.time,
            CadenceField::Weekday => &self.day,
            CadenceField::Date => &self.date,
        }
    }
}

/// `default` is the digest type's cadence and `present` the effective one. The wording depends on the
/// recipient's working days.
pub(super) fn entry_text(
    phrases: Phrases<'_>,
    often: &CadenceEntry,
    default: &Cadence,
    present: &Cadence,
    working_days: DayRange,
) -> String {
    let cadence = |said: &Cadence| describe_cadence(phrases, &said.clone().on_working_days(|| working_days));
    let with = |id, said: &Cadence| phrases.message_with(id, [("cadence", cadence(said).into())]);
    match often {
        CadenceEntry::Default => with("often_default", default),
        CadenceEntry::Kept => with("often_kept", present),
        CadenceEntry::Kind(CadenceKind::Weekdays) if working_days != DayRange::MONDAY_TO_FRIDAY => {
            capitalized(&describe_days(phrases, &working_days.days().collect::<Vec<_>>()))
        }
        CadenceEntry::Kind(kind) => phrases.message_text(&format!("often_{kind}")),
        CadenceEntry::Exactly(said) => capitalized(&cadence(said)),
    }
}

/// E.g. `tomorrow, Wed, Nov 25, 8:00 AM (Europe/Berlin)`.
pub(super) fn time_text(
    phrases: Phrases<'_>,
    at: Timestamp,
    zone: &TimeZone,
    zone_name: &str,
    now: Timestamp,
) -> String {
    let (at, now) = (zone.to_datetime(at), zone.to_datetime(now));
    let date = phrases.day(at.date(), now.year());
    let day = if at.date() == now.date() {
        phrases.message_with("today", [("date", date.into())])
    } else if now.date().saturating_add(1.day()) == at.date() {
        phrases.message_with("tomorrow", [("date", date.into())])
    } else {
        date
    };
    let time = phrases.time(at.time());
    phrases.message_with("when", [("day", day.into()), ("time", time.into()), ("zone", zone_name.into())])
}

/// Day 31 reads as the last one, in any month.
pub(super) fn day_of_month(phrases: Phrases<'_>, day: u8) -> String {
    if day == 31 { phrases.message_text("last_day") } else { phrases.number(day.into()) }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_mail::words::LocalizedWords;
    use tidings_model::{offered_cadences::OfferedCadences, records::EngagementTimes};

    fn settings(choices: &[&str]) -> DigestSettings {
        let choices = choices.iter().map(|words| words.parse().unwrap()).collect();
        DigestSettings {
            choices: OfferedCadences::new(choices),
            ..DigestSettings::new("activity", "daily 08:00".parse().unwrap())
        }
    }

    fn facts(cadence: Option<&str>, at: Option<&str>) -> KeyFacts {
        let (cadence, at) = (cadence.map(str::to_owned), at.map(str::to_owned));
        KeyFacts {
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
            reading: EngagementTimes::default(),
            pause: None,
            answered_at: None,
            missing: None,
        }
    }

    #[test]
    fn the_list_has_what_is_offered_and_the_present_choice() {
        let values = |choices: &[&str], cadence| {
            let settings = settings(choices);
            let present = CadenceFields::from_facts(&settings, &facts(cadence, None)).often;
            let offered = CadenceEntry::offered_entries(&settings, &present)
                .iter()
                .map(CadenceEntry::value)
                .collect::<Vec<_>>()
                .join(" | ");
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
        for often in CadenceEntry::offered_entries(
            &settings(&["instant", "hourly", "daily", "weekdays", "weekly", "monthly", "weekly mon 08:00"]),
            &CadenceEntry::Kept,
        ) {
            assert_eq!(CadenceEntry::from_value(&often.value()), Some(often));
        }
        assert_eq!((CadenceEntry::from_value(""), CadenceEntry::from_value("=dayly")), (None, None));
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
            let present = CadenceFields::from_facts(&settings, &facts);
            let mut preferences = facts.preferences.clone();
            present.apply_to(&present, &mut preferences);
            assert_eq!(preferences, facts.preferences);
        }
        let facts = facts(None, Some("18:30"));
        let present = CadenceFields::from_facts(&settings, &facts);
        assert_eq!((present.often.value(), present.time.as_str()), ("daily".to_owned(), "18:30"));
        for (often, cadence) in [
            ("weekly", Some("weekly fri 18:30")),
            ("monthly", Some("monthly 15 18:30")),
            ("default", None),
            ("instant", Some("instant")),
        ] {
            let mut preferences = facts.preferences.clone();
            let often = CadenceEntry::from_value(often).unwrap();
            CadenceFields { often, day: "fri".into(), date: "15".into(), ..present.clone() }
                .apply_to(&present, &mut preferences);
            assert_eq!((preferences.cadence.as_deref(), preferences.at), (cadence, None));
        }
    }

    #[test]
    fn an_entry_says_the_working_days_of_the_recipient() {
        let words = LocalizedWords::new(None).unwrap();
        let phrases = words.choose(["en-GB"]);
        let (default, sliding) = ("weekdays 08:00".parse().unwrap(), "sliding 5m max 1h".parse().unwrap());
        for (entry, days, said) in [
            ("weekdays", "mon-fri", "Monday to Friday"),
            ("weekdays", "sun-thu", "Sunday to Thursday"),
            ("default", "sun-thu", "As usual: Sunday to Thursday at 08:00"),
            ("default", "mon-fri", "As usual: Monday to Friday at 08:00"),
            ("=weekdays 09:00", "sun-thu", "Sunday to Thursday at 09:00"),
            ("=weekdays mon-fri 09:00", "sun-thu", "Monday to Friday at 09:00"),
            ("=cron 0 8 * * sat,sun", "sun-thu", "Saturday and Sunday at 08:00"),
        ] {
            let entry = CadenceEntry::from_value(entry).unwrap();
            assert_eq!(entry_text(phrases, &entry, &default, &sliding, days.parse().unwrap()), said);
        }
    }
}
