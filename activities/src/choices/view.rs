//! The answer to a question for preferences: the chosen and the effective settings, and the time when a window would be due.

use std::fmt;

use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use tidings_model::{
    Key, known_zone,
    pause::Paused,
    records::{Facts, Preferences, Reading},
    rules::InForce,
    settings::{DigestSettings, FrequencyLimits},
    when,
};

/// A recipient's choices for a digest type, and what the configuration makes of them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreferencesView<'a> {
    key: &'a Key,
    revision: u64,
    changed_at: Option<Timestamp>,
    chosen: Preferences,
    in_force: InForce,
    /// Without the recipient's choices.
    default: InForce,
    /// The cadences that the digest type offers.
    choices: Vec<String>,
    paused_until: Option<Timestamp>,
    /// An operator's pause of the tenant or the digest type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<&'a Paused>,
    consent: bool,
    suppressed: Option<tidings_model::records::Reason>,
}

impl<'a> PreferencesView<'a> {
    #[must_use]
    pub fn new(
        settings: &DigestSettings,
        limits: &FrequencyLimits,
        capped_from: Option<Timestamp>,
        facts: &'a Facts,
        key: &'a Key,
        now: Timestamp,
    ) -> Self {
        let (preferences, reading) = (Preferences::default(), Reading::default());
        let unchosen = Facts { preferences, reading, ..facts.clone() };
        Self {
            key,
            revision: facts.revision,
            changed_at: facts.changed_at,
            chosen: Preferences { off: settings.off_today(&facts.preferences.off), ..facts.preferences.clone() },
            in_force: InForce::new(settings, limits, capped_from, facts, key, now),
            default: InForce::new(settings, limits, capped_from, &unchosen, key, now),
            choices: settings.choices.entries().iter().map(ToString::to_string).collect(),
            paused_until: facts.preferences.paused_until.filter(|until| *until > now),
            pause: facts.pause.as_ref().filter(|pause| pause.in_force(now)),
            consent: facts.consent,
            suppressed: facts.suppressed,
        }
    }

    /// Why no mail goes out, if none does.
    fn silence(&self) -> String {
        if !self.consent {
            "never: the recipient opted out".to_owned()
        } else if let Some(reason) = self.suppressed {
            format!("never: the address is suppressed: {reason}")
        } else if let Some(pause) = self.pause {
            pause.to_string()
        } else if let Some(until) = self.paused_until {
            format!("paused until {}", in_zone(until, &self.in_force.zone))
        } else {
            "never: the cadence sends nothing".to_owned()
        }
    }
}

impl fmt::Display for PreferencesView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_force, default, chosen, .. } = self;
        let zone = &in_force.zone;
        let changed = self.changed_at.map(|at| format!(", changed {}", in_zone(at, zone))).unwrap_or_default();
        write!(f, "{}: revision {}{changed}", self.key, self.revision)?;
        let quiet = |times: &[String]| if times.is_empty() { "none".to_owned() } else { times.join(", ") };
        let cadence = chosen.cadence.is_some() || chosen.at.is_some();
        for (name, value, is_chosen, default) in [
            ("cadence", &in_force.cadence, cadence, &default.cadence),
            ("zone", &in_force.zone, chosen.zone.is_some(), &default.zone),
            ("quiet", &quiet(&in_force.quiet), chosen.quiet.is_some(), &quiet(&default.quiet)),
        ] {
            let adapted = in_force.adapted_since.filter(|_| name == "cadence");
            let unknown = in_force.unknown_zone.as_ref().filter(|_| name == "zone");
            let whose = match (is_chosen, adapted, unknown) {
                (.., Some(unknown)) => {
                    format!("in place of {unknown:?}, which is no IANA time zone: choose another one")
                }
                (_, Some(since), None) => {
                    format!("adapted, as nothing was opened since {}; the default is {default}", since.strftime("%F"))
                }
                (true, None, None) => format!("chosen; the default is {default}"),
                (false, None, None) => "the default".to_owned(),
            };
            write!(f, "\n  {name:<8} {value}  ({whose})")?;
        }
        if !chosen.off.is_empty() {
            let off: Vec<_> = chosen.off.iter().map(String::as_str).collect();
            write!(f, "\n  off      {}", off.join(", "))?;
        }
        write!(f, "\n  choices  {}", self.choices.join(", "))?;
        match &in_force.next {
            Some(next) => write!(f, "\n  next     {}, if an event came now: {}", in_zone(next.due_at, zone), next.why),
            None => write!(f, "\n  next     {}", self.silence()),
        }
    }
}

/// The time on the clocks of a zone in force, which the zone data has.
fn in_zone(at: Timestamp, zone: &str) -> String {
    when::local(at, known_zone(zone).unwrap_or(TimeZone::UTC))
}
