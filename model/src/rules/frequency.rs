//! A throttle or a cap that holds a due window back (rule 13), and how a status foresees it (rule 32).

use jiff::{SignedDuration, Timestamp};

use crate::{
    Key,
    records::Facts,
    rules::{
        deadline::{Deadline, Timing},
        effective::{Effective, consent_or_suppression_block},
    },
    settings::{Cap, DigestSettings, FrequencyLimits, OverLimit},
    step::{Limited, Plan},
    words,
};

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

    /// The limits that are exhausted now, in the order of admission. `capped_until` is the end of the cap.
    pub(super) fn exhausted(
        &self,
        facts: &Facts,
        timing: &Timing<'_>,
        due_at: Timestamp,
        capped_until: Option<Timestamp>,
        now: Timestamp,
    ) -> Vec<Limited> {
        let throttled = self.throttled(facts.last_sent_at, now);
        let capped = capped_until.filter(|until| *until > now).map(|until| self.capped(until));
        throttled.into_iter().chain(capped).map(|limited| limited.past_quiet_hours(timing, due_at)).collect()
    }
}

impl Limited {
    /// The limit with the quiet hours in which it ends. `due_at` is the time at which the window is due without the limit.
    #[must_use]
    pub fn past_quiet_hours(self, timing: &Timing<'_>, due_at: Timestamp) -> Self {
        let quiet = timing.defer_for_quiet_hours(due_at, self.until).filter(|_| self.over == OverLimit::Defer);
        match quiet {
            Some(Deadline { at, why }) => Self { until: at, why: format!("{}; {why}", self.why), ..self },
            None => self,
        }
    }
}

impl Deadline {
    /// The time and the reason of a window that meets these limits when it is due.
    #[must_use]
    pub fn under(mut self, limits: &[Limited]) -> Self {
        for Limited { until, over, why } in limits {
            match over {
                _ if *until <= self.at => {}
                OverLimit::Defer => self = Self { at: *until, why: format!("{}; {why}", self.why) },
                OverLimit::Skip => {
                    return Self { why: format!("{}; ends then without a message: {why}", self.why), ..self };
                }
            }
        }
        self
    }
}

/// The plan with what is known of throttle and cap, for the status. Admission checks both again.
#[must_use]
pub fn foresee(
    plan: Plan,
    settings: &DigestSettings,
    facts: &Facts,
    key: &Key,
    capped_until: Option<Timestamp>,
    now: Timestamp,
) -> Plan {
    let effective = Effective::new(settings, facts, now);
    let limits = plan.limits.unwrap_or_default();
    let is_free = plan.urgent || effective.never(&limits).is_some() || consent_or_suppression_block(facts).is_some();
    let timing = Timing::new(settings, key, &effective);
    let limited = limits.exhausted(facts, &timing, plan.due_at, capped_until, now);
    Plan { limited: if is_free { Vec::new() } else { limited }, ..plan }
}

#[cfg(test)]
mod tests;
