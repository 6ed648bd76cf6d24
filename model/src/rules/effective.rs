//! A key's effective settings: the recipient's preferences on top of the digest type's configuration.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    Cadence, QuietHours, QuietTime, canonical_zone, known_zone,
    records::{KeyFacts, SuppressionReason},
    rules::{adapt, working_days::working_days},
    settings::{DigestSettings, FrequencyLimits},
    window::{DeadlineBasis, DigestOutcome, WindowEnd},
    words,
    zone::is_same_zone,
    zone_rules,
};

#[derive(Clone, Debug)]
pub struct EffectiveSettings {
    pub cadence: Cadence,
    pub chosen: bool,
    /// Set if the cadence was adapted to weekly: when the recipient's opens and clicks ended.
    pub adapted: Option<Timestamp>,
    pub quiet: QuietHours,
    pub zone: TimeZone,
    pub zone_name: String,
    pub unknown_zone: Option<String>,
}

impl EffectiveSettings {
    #[must_use]
    pub fn new(settings: &DigestSettings, facts: &KeyFacts, now: Timestamp) -> Self {
        let effective = Self::without_adapting(settings, facts);
        let unread_since = adapt::unread_since(settings, facts, now);
        match unread_since.zip(effective.cadence.weekly_replacement()) {
            Some((since, cadence)) => Self { cadence, adapted: Some(since), ..effective },
            None => effective,
        }
    }

    /// The settings without adapting the cadence. Unreadable preferences, e.g. from a later version, count as
    /// missing.
    #[must_use]
    pub fn without_adapting(settings: &DigestSettings, facts: &KeyFacts) -> Self {
        let preferences = &facts.preferences;
        let cadence = Self::chosen_cadence(settings, facts).on_working_days(|| working_days(settings, facts));
        let quiet = preferences.quiet.as_deref().and_then(quiet).unwrap_or_else(|| settings.quiet.clone());
        let InForceZone { zone, zone_name, unknown_zone } = InForceZone::new(settings, facts);
        Self { cadence, chosen: own_cadence(facts).is_some(), adapted: None, quiet, zone, zone_name, unknown_zone }
    }

    /// The recipient's cadence, or else the configured one. Note that `weekdays` is not yet resolved.
    #[must_use]
    pub fn chosen_cadence(settings: &DigestSettings, facts: &KeyFacts) -> Cadence {
        let cadence = own_cadence(facts).unwrap_or_else(|| settings.cadence.clone());
        let time = facts.preferences.at.as_deref().and_then(|at| words::parse_time(at).ok());
        time.and_then(|time| cadence.with_time(time)).unwrap_or(cadence)
    }

    /// Explains an adapted cadence; `None` for others. The day is in UTC.
    #[must_use]
    pub fn adapted_words(&self) -> Option<String> {
        let since = self.adapted?.strftime("%F");
        Some(format!("{} {}, as nothing was opened since {since} (adapt)", self.cadence, self.zone_name))
    }

    /// Why the cadence `never` sends nothing. A recipient's choice applies immediately; a configuration
    /// change only affects windows planned later.
    #[must_use]
    pub fn never_reason(&self, limits: &FrequencyLimits) -> Option<String> {
        let (never, whose) = if self.chosen {
            (self.cadence == Cadence::Never, "the recipient chose")
        } else {
            (limits.never, "the digest type has")
        };
        never.then(|| format!("never: {whose} a cadence that sends nothing"))
    }

    #[must_use]
    pub fn describe_settings(&self) -> String {
        let quiet: Vec<_> = self.quiet.times().iter().map(ToString::to_string).collect();
        let quiet = if quiet.is_empty() { String::new() } else { format!(", quiet {}", quiet.join(" ")) };
        let unknown =
            self.unknown_zone.as_ref().map(|name| format!(" (the zone {name:?} is unknown)")).unwrap_or_default();
        format!("{} {}{unknown}{quiet}", self.cadence, self.zone_name)
    }

    #[must_use]
    pub fn schedule_sentence(&self) -> String {
        let cadence = self.cadence.explain();
        if self.cadence.follows_the_calendar() { format!("{cadence} ({})", self.zone_name) } else { cadence }
    }

    #[must_use]
    pub fn basis(&self) -> DeadlineBasis {
        DeadlineBasis {
            cadence: self.cadence.to_string(),
            zone: self.zone_name.clone(),
            zone_rules: zone_rules(&self.zone_name),
            quiet: self.quiet.times().iter().map(ToString::to_string).collect(),
        }
    }

    /// Compares the parsed settings, not their spelling. A window gets a new deadline if its basis changes
    /// (rule 15).
    #[must_use]
    pub fn has_basis(&self, basis: &DeadlineBasis) -> bool {
        basis.cadence.parse().is_ok_and(|cadence: Cadence| cadence == self.cadence)
            && is_same_zone(&basis.zone, &self.zone_name)
            && (basis.zone_rules.is_none() || basis.zone_rules == zone_rules(&self.zone_name))
            && quiet(&basis.quiet).is_some_and(|quiet| quiet == self.quiet)
    }
}

fn own_cadence(facts: &KeyFacts) -> Option<Cadence> {
    facts.preferences.cadence.as_deref().and_then(|words| words.parse().ok())
}

/// Blocks even a flushed or urgent digest (rule 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBlock {
    OptedOut,
    Suppressed(SuppressionReason),
}

impl SendBlock {
    #[must_use]
    pub fn window_end(self) -> WindowEnd {
        match self {
            Self::OptedOut => WindowEnd { outcome: DigestOutcome::Skipped, why: "the recipient opted out".to_owned() },
            Self::Suppressed(reason) => {
                WindowEnd { outcome: DigestOutcome::Suppressed, why: format!("the address is suppressed: {reason}") }
            }
        }
    }
}

/// The block on all digests of this key, if any. Consent comes before suppression.
#[must_use]
pub fn consent_or_suppression_block(facts: &KeyFacts) -> Option<SendBlock> {
    if !facts.consent {
        return Some(SendBlock::OptedOut);
    }
    facts.suppressed.map(SendBlock::Suppressed)
}

fn quiet(words: &[String]) -> Option<QuietHours> {
    let times: Option<Vec<QuietTime>> = words.iter().map(|words| words.parse().ok()).collect();
    QuietHours::new(times?).ok()
}

#[must_use]
pub fn unknown_zone(settings: &DigestSettings, facts: &KeyFacts) -> Option<(String, String)> {
    let InForceZone { zone_name, unknown_zone, .. } = InForceZone::new(settings, facts);
    unknown_zone.map(|unknown| (unknown, zone_name))
}

/// The first known zone of: the recipient's choice for this digest, the directory's, the digest type's, UTC.
struct InForceZone {
    zone: TimeZone,
    zone_name: String,
    unknown_zone: Option<String>,
}

impl InForceZone {
    fn new(settings: &DigestSettings, facts: &KeyFacts) -> Self {
        let directory = facts.recipient.as_ref().map(|recipient| recipient.zone.as_str());
        let mut unknown_zone = None;
        for name in [facts.preferences.zone.as_deref(), directory, settings.zone.as_deref()].into_iter().flatten() {
            if let Some(zone) = known_zone(name) {
                return Self { zone, zone_name: canonical_zone(name).to_owned(), unknown_zone };
            }
            if !name.is_empty() {
                unknown_zone.get_or_insert_with(|| name.to_owned());
            }
        }
        Self { zone: TimeZone::UTC, zone_name: "UTC".to_owned(), unknown_zone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        records::Preferences,
        rules::samples::{self, recipient_in},
    };

    fn effective(chosen: Option<&str>, directory: Option<&str>, configured: Option<&str>) -> EffectiveSettings {
        let settings = DigestSettings {
            zone: configured.map(str::to_owned),
            ..DigestSettings::new("activity", "daily 08:00".parse().unwrap())
        };
        let preferences = Preferences { zone: chosen.map(str::to_owned), ..Preferences::default() };
        let recipient = directory.map(recipient_in);
        EffectiveSettings::without_adapting(&settings, &KeyFacts { recipient, preferences, ..samples::facts() })
    }

    #[test]
    fn a_zone_that_is_unknown_is_named_and_never_another_one_in_silence() {
        let berlin = Some("Europe/Berlin");
        for (chosen, directory, configured, zone, unknown) in [
            (None, None, None, "UTC", None),
            (None, Some(""), berlin, "Europe/Berlin", None),
            (Some("Asia/Tokyo"), Some("Asia/Seoul"), berlin, "Asia/Tokyo", None),
            (Some("US/Pacific"), None, berlin, "America/Los_Angeles", None),
            (None, Some("Asia/Calcutta"), berlin, "Asia/Kolkata", None),
            (Some("Asia/Nowhere"), Some("Asia/Seoul"), berlin, "Asia/Seoul", Some("Asia/Nowhere")),
            (None, Some("localtime"), berlin, "Europe/Berlin", Some("localtime")),
            (Some("Asia/Nowhere"), Some("localtime"), None, "UTC", Some("Asia/Nowhere")),
        ] {
            let effective = effective(chosen, directory, configured);
            assert_eq!((effective.zone_name.as_str(), effective.unknown_zone.as_deref()), (zone, unknown));
            let words = effective.describe_settings();
            match unknown {
                Some(name) => assert_eq!(words, format!("daily 08:00 {zone} (the zone {name:?} is unknown)")),
                None => assert_eq!(words, format!("daily 08:00 {zone}")),
            }
        }
    }

    #[test]
    fn a_basis_is_that_of_the_zone_and_of_its_rules() {
        let effective = effective(Some("Asia/Calcutta"), None, None);
        let basis = effective.basis();
        assert_eq!((basis.zone.as_str(), &basis.zone_rules), ("Asia/Kolkata", &zone_rules("Asia/Kolkata")));
        for (basis, is_same) in [
            (basis.clone(), true),
            (DeadlineBasis { zone: "Asia/Calcutta".to_owned(), ..basis.clone() }, true),
            (DeadlineBasis { zone_rules: None, ..basis.clone() }, true),
            (DeadlineBasis { zone: "Asia/Dhaka".to_owned(), ..basis.clone() }, false),
            (DeadlineBasis { zone_rules: zone_rules("Asia/Dhaka"), ..basis }, false),
        ] {
            assert_eq!(effective.has_basis(&basis), is_same, "{basis:?}");
        }
    }
}
