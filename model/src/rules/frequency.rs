//! A throttle or a cap that holds a due window back (rule 13).

use jiff::{SignedDuration, Timestamp};

use crate::{
    settings::{Cap, FrequencyLimits, OverLimit},
    words,
};

/// A limit that is exhausted until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit allows another digest from then on.
    pub until: Timestamp,
    /// Treatment of a window that is due before.
    pub over: OverLimit,
    /// The limit and the time in words.
    pub why: String,
}

impl FrequencyLimits {
    /// The throttle of a key whose last digest went out at `last_sent_at`, if it is not over.
    #[must_use]
    pub fn throttled(&self, last_sent_at: Option<Timestamp>, now: Timestamp) -> Option<Limited> {
        let (last, throttle) = (last_sent_at?, self.throttle?);
        let until = last.saturating_add(SignedDuration::try_from(throttle).ok()?).unwrap_or(Timestamp::MAX);
        let why = format!("throttled to one in {}, the last at {last:.0} -> {until:.0}", words::written(throttle));
        (until > now).then_some(Limited { until, over: self.throttled, why })
    }

    /// The cap of a recipient who may get the next digest at `until`.
    #[must_use]
    pub fn capped(&self, until: Timestamp) -> Limited {
        let digests = self.cap.map(|Cap { most, within }| {
            format!("{most} digest{} in {}", if most == 1 { "" } else { "s" }, words::written(within))
        });
        let why = format!("the recipient had {}, as many as they get -> {until:.0}", digests.unwrap_or_default());
        Limited { until, over: self.capped, why }
    }
}
