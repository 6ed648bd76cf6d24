//! A key's schedule in force: the recipient's preferences on top of the configuration.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    Key,
    records::KeyFacts,
    rules::{deadline::DeadlineTiming, effective::EffectiveSettings, promise},
    settings::{DigestSettings, FrequencyLimits},
};

/// The effective schedule of a key's next window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EffectiveSchedule {
    /// In `tidings.toml` syntax.
    pub cadence: String,
    /// Set if the cadence was adapted to weekly, because the recipient has opened nothing since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapted_since: Option<Timestamp>,
    /// IANA.
    pub zone: String,
    /// The recipient's zone if no zone data has it; `zone` is then used instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_zone: Option<String>,
    /// In the words of `tidings.toml`.
    pub quiet: Vec<String>,
    /// The next digest; `None` if consent, a suppression, a pause or `never` prevents it.
    pub next: Option<NextDeadline>,
}

/// The deadline of a window that would open now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NextDigest))]
pub struct NextDeadline {
    /// The time.
    pub due_at: Timestamp,
    /// Every step that led there, in words.
    pub why: String,
}

impl EffectiveSchedule {
    /// Assumes that a window opens now. `capped_from` is when the cap's oldest digest counts from, if
    /// reached.
    #[must_use]
    pub fn new(
        settings: &DigestSettings,
        limits: &FrequencyLimits,
        capped_from: Option<Timestamp>,
        facts: &KeyFacts,
        key: &Key,
        now: Timestamp,
    ) -> Self {
        let effective = EffectiveSettings::new(settings, facts, now);
        let stopped = facts.pause.as_ref().is_some_and(|pause| pause.in_force(now));
        let paused = stopped || facts.preferences.paused_until.is_some_and(|until| until > now);
        let wanted = facts.consent && facts.suppressed.is_none() && !paused && effective.never_reason(limits).is_none();
        let timing = DeadlineTiming::new(settings, key, &effective);
        let deadline = wanted.then(|| {
            let from = promise::after_served(&effective.cadence, facts, &effective, now);
            let deadline = timing.cadence_deadline(&effective.cadence, effective.adapted_words(), from);
            let limited = limits.exhausted_limits(facts, (&timing, &effective.cadence), deadline.at, capped_from, now);
            deadline.apply_limits(&limited)
        });
        Self {
            next: deadline.map(|deadline| NextDeadline { due_at: deadline.at, why: deadline.why }),
            cadence: effective.cadence.to_string(),
            adapted_since: effective.adapted,
            quiet: effective.quiet.times().iter().map(ToString::to_string).collect(),
            zone: effective.zone_name,
            unknown_zone: effective.unknown_zone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pause::PauseDetails,
        records::{Preferences, SentSchedule, SuppressionReason},
        rules::samples,
        settings::OverLimit,
    };

    const NOW: &str = "2026-03-02T08:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn in_force(cadence: &str, facts: &KeyFacts) -> EffectiveSchedule {
        let settings = DigestSettings::new("activity", cadence.parse().unwrap());
        let limits = FrequencyLimits::new(&settings, None, OverLimit::Defer);
        EffectiveSchedule::new(&settings, &limits, None, facts, &"acme/activity/ann".parse().unwrap(), at(NOW))
    }

    fn stopped(until: Option<&str>) -> KeyFacts {
        let (by, why, since) = ("bo".to_owned(), "wrong prices".to_owned(), at("2026-03-01T08:00:00Z"));
        KeyFacts { pause: Some(PauseDetails { by, why, since, until: until.map(at) }), ..samples::facts() }
    }

    fn paused(until: &str) -> KeyFacts {
        let preferences = Preferences { paused_until: Some(at(until)), ..Preferences::default() };
        KeyFacts { preferences, ..samples::facts() }
    }

    #[test]
    fn consent_suppression_never_and_pauses_prevent_the_next_digest() {
        for (why, cadence, facts, comes) in [
            ("nothing is in the way", "after 1h", samples::facts(), true),
            ("opted out", "after 1h", KeyFacts { consent: false, ..samples::facts() }, false),
            (
                "suppressed",
                "after 1h",
                KeyFacts { suppressed: Some(SuppressionReason::HardBounce), ..samples::facts() },
                false,
            ),
            ("never", "never", samples::facts(), false),
            ("an operator stopped it", "after 1h", stopped(None), false),
            ("an operator's pause is over", "after 1h", stopped(Some(NOW)), true),
            ("paused", "after 1h", paused("2026-03-02T08:00:01Z"), false),
            ("the pause is over", "after 1h", paused(NOW), true),
        ] {
            assert_eq!(in_force(cadence, &facts).next.is_some(), comes, "{why}");
        }
        let next = in_force("after 1h", &samples::facts()).next.unwrap();
        assert_eq!((next.due_at, next.why.as_str()), (at("2026-03-02T09:00:00Z"), "after 1h -> 2026-03-02T09:00:00Z"));
    }

    #[test]
    fn the_next_digest_is_the_only_one_of_its_day() {
        let (cadence, zone) = ("daily 07:00".to_owned(), "UTC".to_owned());
        let last_schedule = Some(SentSchedule { at: at("2026-03-02T07:00:00Z"), cadence, zone });
        let next = in_force("daily 18:00", &KeyFacts { last_schedule, ..samples::facts() }).next.unwrap();
        assert_eq!(next.due_at, at("2026-03-03T18:00:00Z"));
    }
}
