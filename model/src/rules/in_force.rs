//! The schedule that a recipient's preferences and the configuration make together.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    Key,
    records::Facts,
    rules::{deadline::Timing, effective::Effective},
    settings::{DigestSettings, FrequencyLimits},
};

/// The effective schedule of a key's next window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InForce {
    /// In the words of `tidings.toml`.
    pub cadence: String,
    /// The recipient opened nothing since then, and the cadence is weekly instead of a more frequent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapted_since: Option<Timestamp>,
    /// IANA.
    pub zone: String,
    /// In the words of `tidings.toml`.
    pub quiet: Vec<String>,
    /// The next digest; `None` if consent, a suppression, a pause or `never` prevents it.
    pub next: Option<Next>,
}

/// The deadline of a window that would open now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NextDigest))]
pub struct Next {
    /// The time.
    pub due_at: Timestamp,
    /// Every step that led there, in words.
    pub why: String,
}

impl InForce {
    /// With a window that opened now. `capped_until` is the end of the recipient's cap.
    #[must_use]
    pub fn new(
        settings: &DigestSettings,
        limits: &FrequencyLimits,
        capped_until: Option<Timestamp>,
        facts: &Facts,
        key: &Key,
        now: Timestamp,
    ) -> Self {
        let effective = Effective::new(settings, facts, now);
        let stopped = facts.pause.as_ref().is_some_and(|pause| pause.in_force(now));
        let paused = stopped || facts.preferences.paused_until.is_some_and(|until| until > now);
        let wanted = facts.consent && facts.suppressed.is_none() && !paused && effective.never(limits).is_none();
        let timing = Timing::new(settings, key, &effective);
        let deadline = wanted.then(|| {
            let deadline = timing.deadline(&effective.cadence, effective.adapted_words(), now);
            let limited = limits.exhausted(facts, &timing, deadline.at, capped_until, now);
            deadline.under(&limited)
        });
        Self {
            next: deadline.map(|deadline| Next { due_at: deadline.at, why: deadline.why }),
            cadence: effective.cadence.to_string(),
            adapted_since: effective.adapted,
            quiet: effective.quiet.times().iter().map(ToString::to_string).collect(),
            zone: effective.zone_name,
        }
    }
}
