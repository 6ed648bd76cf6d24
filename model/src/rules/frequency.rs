//! Throttles and caps that hold back a due window (rule 13), and how the status predicts them (rule 32).

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    Cadence, Key,
    records::KeyFacts,
    rules::{
        deadline::{Deadline, DeadlineTiming, add_wait},
        effective::{EffectiveSettings, consent_or_suppression_block},
        limit::{ends_at_midnight, limit_ends},
    },
    settings::{DigestCap, DigestSettings, FrequencyLimits, OverLimit},
    step::{ExhaustedLimit, Plan},
    window::WaitReason,
    words,
};

impl FrequencyLimits {
    /// The throttle, if still active. `last` is when the key's last digest counts from.
    #[must_use]
    pub fn active_throttle(&self, last: Option<Timestamp>, zone: &TimeZone, now: Timestamp) -> Option<ExhaustedLimit> {
        let (last, throttle) = (last?, self.throttle?);
        let until = limit_ends(last, throttle, zone);
        let why =
            format!("throttled to one in {}, the last at {last:.0} -> {until:.0}", words::format_duration(throttle));
        (until > now).then_some(ExhaustedLimit { until, over: self.on_throttle, why })
    }

    /// A reached cap; `oldest` is when its oldest digest counts from.
    #[must_use]
    pub fn reached_cap(&self, oldest: Timestamp, zone: &TimeZone) -> ExhaustedLimit {
        let until = self.cap.map_or(oldest, |cap| limit_ends(oldest, cap.within, zone));
        let digests = self.cap.map(|DigestCap { most, within }| {
            format!("{most} digest{} in {}", if most == 1 { "" } else { "s" }, words::format_duration(within))
        });
        let why = format!("the recipient had {}, as many as they get -> {until:.0}", digests.unwrap_or_default());
        ExhaustedLimit { until, over: self.on_cap, why }
    }

    /// In admission order. `capped_from` is when the cap's oldest digest counts from, if reached.
    pub(super) fn exhausted_limits(
        &self,
        facts: &KeyFacts,
        (timing, cadence): (&DeadlineTiming<'_>, &Cadence),
        due_at: Timestamp,
        capped_from: Option<Timestamp>,
        now: Timestamp,
    ) -> Vec<ExhaustedLimit> {
        let throttled = self.active_throttle(facts.without_future_dates(now).last_slot_at, timing.zone, now);
        let capped =
            capped_from.map(|oldest| self.reached_cap(oldest, timing.zone)).filter(|capped| capped.until > now);
        let put_off = |limited, wait| self.put_off(limited, (timing, cadence), wait, due_at);
        let throttled = throttled.map(|limited| put_off(limited, WaitReason::Throttle));
        throttled.into_iter().chain(capped.map(|limited| put_off(limited, WaitReason::Cap))).collect()
    }

    /// Moves a limit's end to the next good moment. Whole days end at midnight for everybody, so each key
    /// adds its share of the spread. `due_at` is the deadline without the limit.
    pub(super) fn put_off(
        &self,
        limited: ExhaustedLimit,
        (timing, cadence): (&DeadlineTiming<'_>, &Cadence),
        wait: WaitReason,
        due_at: Timestamp,
    ) -> ExhaustedLimit {
        if limited.over != OverLimit::Defer {
            return limited;
        }
        let length = if wait == WaitReason::Cap { self.cap.map(|cap| cap.within) } else { self.throttle };
        let spreads = length.is_some_and(ends_at_midnight);
        let ends_at = if spreads { add_wait(limited.until, timing.overdue_offset) } else { limited.until };
        match timing.put_off(cadence, wait, due_at, ends_at) {
            Some(Deadline { at, why }) => {
                ExhaustedLimit { until: at, why: format!("{}; {why}", limited.why), ..limited }
            }
            None if spreads => {
                ExhaustedLimit { until: ends_at, why: format!("{}; spread -> {ends_at:.0}", limited.why), ..limited }
            }
            None => limited,
        }
    }
}

impl Deadline {
    /// Moves the deadline, or explains that the window then closes without a message.
    #[must_use]
    pub fn apply_limits(mut self, limits: &[ExhaustedLimit]) -> Self {
        for ExhaustedLimit { until, over, why } in limits {
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

/// Predicts pauses, throttle and cap for the status; admission checks them again.
#[must_use]
pub fn predict_limits(
    plan: Plan,
    settings: &DigestSettings,
    facts: &KeyFacts,
    key: &Key,
    capped_from: Option<Timestamp>,
    now: Timestamp,
) -> Plan {
    let effective = EffectiveSettings::new(settings, facts, now);
    let limits = plan.limits.unwrap_or_default();
    let is_free =
        plan.urgent || effective.never_reason(&limits).is_some() || consent_or_suppression_block(facts).is_some();
    let timing = DeadlineTiming::new(settings, key, &effective);
    if is_free {
        return Plan { limited: Vec::new(), resumes_at: None, ..plan };
    }
    let limited = limits.exhausted_limits(facts, (&timing, &effective.cadence), plan.due_at, capped_from, now);
    let paused_by_operator = plan.pause.as_ref().and_then(|pause| pause.paused.until);
    let waits = [(WaitReason::PauseOfRecipient, plan.paused_until), (WaitReason::PauseOfOperator, paused_by_operator)];
    let last = waits.into_iter().max_by_key(|(_, until)| *until).and_then(|(wait, until)| Some((wait, until?)));
    let put_off = |(wait, until)| timing.put_off(&effective.cadence, wait, plan.due_at, until);
    let resumes_at = last.filter(|(_, until)| *until > plan.due_at.max(now)).and_then(put_off).map(|moment| moment.at);
    Plan { resumes_at, limited, ..plan }
}

#[cfg(test)]
mod tests;
