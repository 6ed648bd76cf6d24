//! Effective settings of a key: the recipient's preferences over the digest type's configuration.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    Cadence, Quiet, QuietTime,
    records::{Facts, Reason},
    rules::adapt,
    settings::{DigestSettings, FrequencyLimits},
    step::{Closed, DeadlineBasis, Outcome},
    time_zone, words,
};

/// The effective settings of a key.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The cadence of the windows.
    pub cadence: Cadence,
    /// The recipient chose a cadence of their own.
    pub chosen: bool,
    /// The recipient opened and clicked nothing since then, and gets digests weekly instead of more often.
    pub adapted: Option<Timestamp>,
    /// Times in which no message goes out.
    pub quiet: Quiet,
    /// The zone of local times.
    pub zone: TimeZone,
    /// The zone's name.
    pub zone_name: String,
}

impl Effective {
    /// The settings in force, with a cadence that is adapted if the recipient opens nothing.
    #[must_use]
    pub fn new(settings: &DigestSettings, facts: &Facts, now: Timestamp) -> Self {
        let effective = Self::unadapted(settings, facts);
        let unread_since = adapt::unread_since(settings, facts, now);
        match unread_since.zip(effective.cadence.weekly()) {
            Some((since, cadence)) => Self { cadence, adapted: Some(since), ..effective },
            None => effective,
        }
    }

    /// The settings as they are configured and chosen. A preference that cannot be read, because a later version wrote it or a zone
    /// was removed, counts as missing.
    #[must_use]
    pub fn unadapted(settings: &DigestSettings, facts: &Facts) -> Self {
        let preferences = &facts.preferences;
        let chosen = preferences.cadence.as_deref().and_then(|words| words.parse().ok());
        let (is_chosen, cadence) = (chosen.is_some(), chosen.unwrap_or_else(|| settings.cadence.clone()));
        let time = preferences.at.as_deref().and_then(|at| words::time(at).ok());
        let cadence = time.and_then(|time| cadence.at(time)).unwrap_or(cadence);
        let quiet = preferences.quiet.as_deref().and_then(quiet).unwrap_or_else(|| settings.quiet.clone());
        let (zone_name, zone) = zone(settings, facts);
        Self { cadence, chosen: is_chosen, adapted: None, quiet, zone, zone_name }
    }

    /// The cadence of a plan in words, where the cadence alone does not say why. The day is UTC's.
    #[must_use]
    pub fn adapted_words(&self) -> Option<String> {
        let since = self.adapted?.strftime("%F");
        Some(format!("{} {}, as nothing was opened since {since} (adapt)", self.cadence, self.zone_name))
    }

    /// The reason why a window under the cadence `never` sends nothing; `None` for every other cadence. The recipient's choice
    /// counts at once, the digest type's cadence from the window's plan on.
    #[must_use]
    pub fn never(&self, limits: &FrequencyLimits) -> Option<String> {
        let (never, whose) = if self.chosen {
            (self.cadence == Cadence::Never, "the recipient chose")
        } else {
            (limits.never, "the digest type has")
        };
        never.then(|| format!("never: {whose} a cadence that sends nothing"))
    }

    /// The settings that move a deadline, for people to read.
    #[must_use]
    pub fn words(&self) -> String {
        let quiet: Vec<_> = self.quiet.times().iter().map(ToString::to_string).collect();
        let quiet = if quiet.is_empty() { String::new() } else { format!(", quiet {}", quiet.join(" ")) };
        format!("{} {}{quiet}", self.cadence, self.zone_name)
    }

    /// The settings that move a deadline, in the syntax of `tidings.toml`.
    #[must_use]
    pub fn basis(&self) -> DeadlineBasis {
        DeadlineBasis {
            cadence: self.cadence.to_string(),
            zone: self.zone_name.clone(),
            quiet: self.quiet.times().iter().map(ToString::to_string).collect(),
        }
    }

    /// Compares the values of the settings and not their spelling. A window whose basis changes gets a new deadline (rule 15).
    #[must_use]
    pub fn has_basis(&self, basis: &DeadlineBasis) -> bool {
        basis.cadence.parse().is_ok_and(|cadence: Cadence| cadence == self.cadence)
            && basis.zone == self.zone_name
            && quiet(&basis.quiet).is_some_and(|quiet| quiet == self.quiet)
    }
}

/// A block that no flush and no urgent event overrides (rule 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The recipient opted out.
    OptedOut,
    /// The recipient's address is suppressed.
    Suppressed(Reason),
}

impl Block {
    /// The end of a digest that is blocked.
    #[must_use]
    pub fn closed(self) -> Closed {
        match self {
            Self::OptedOut => Closed { outcome: Outcome::Skipped, why: "the recipient opted out".to_owned() },
            Self::Suppressed(reason) => {
                Closed { outcome: Outcome::Suppressed, why: format!("the address is suppressed: {reason}") }
            }
        }
    }
}

/// The block that keeps every digest of the key from being sent. Consent comes before suppression.
#[must_use]
pub fn consent_or_suppression_block(facts: &Facts) -> Option<Block> {
    if !facts.consent {
        return Some(Block::OptedOut);
    }
    facts.suppressed.map(Block::Suppressed)
}

fn quiet(words: &[String]) -> Option<Quiet> {
    let times: Option<Vec<QuietTime>> = words.iter().map(|words| words.parse().ok()).collect();
    Quiet::new(times?).ok()
}

/// The first zone that exists: the recipient's choice for this digest, the directory's, the digest type's, UTC.
fn zone(settings: &DigestSettings, facts: &Facts) -> (String, TimeZone) {
    let directory = facts.recipient.as_ref().map(|recipient| recipient.zone.as_str());
    [facts.preferences.zone.as_deref(), directory, settings.zone.as_deref()]
        .into_iter()
        .flatten()
        .find_map(|name| time_zone(name).ok().map(|zone| (name.to_owned(), zone)))
        .unwrap_or_else(|| ("UTC".to_owned(), TimeZone::UTC))
}
