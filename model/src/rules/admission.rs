//! Admission: decides from the facts and the time if a due window may become a digest
//! now (rules 28 and 33).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Cadence,
    records::KeyFacts,
    rules::{
        deadline::DeadlineTiming,
        effective::{EffectiveSettings, consent_or_suppression_block},
        limit::outlasts_slot,
        pause, plan, urgent,
    },
    settings::{DigestSettings, FrequencyLimits, OverLimit},
    step::{ClaimInput, ExhaustedLimit, PauseWait},
    window::{DigestOutcome, WaitReason, Window, WindowEnd},
};

/// Gives up on a window whose recipient or digest type stays unknown for this long (rule 33).
pub const UNKNOWN_AFTER: Duration = Duration::from_hours(7 * 24);
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    Admitted,
    /// The window collects until then. `limit_ends_at` is set for a cap, or a throttle longer than the time
    /// between two slots: the digest may then [count](FrequencyLimits::counted_end) from this end, and the
    /// next cap makes it [wait less](decide_capped).
    Later {
        until: Timestamp,
        why: String,
        limit_ends_at: Option<Timestamp>,
    },
    /// Collects and tries again at `until`.
    Unknown {
        since: Timestamp,
        until: Timestamp,
        why: String,
    },
    Paused(PauseWait),
    Changed,
    Refused(WindowEnd),
}

/// For an unknown recipient or digest type (rule 33).
#[derive(Debug, PartialEq, Eq)]
pub enum MissingDecision {
    Waits { since: Timestamp, until: Timestamp, why: String },
    Ends(WindowEnd),
}

impl From<MissingDecision> for AdmissionDecision {
    fn from(missing: MissingDecision) -> Self {
        match missing {
            MissingDecision::Waits { since, until, why } => Self::Unknown { since, until, why },
            MissingDecision::Ends(closed) => Self::Refused(closed),
        }
    }
}

impl AdmissionDecision {
    const fn later(until: Timestamp, why: String) -> Self {
        Self::Later { until, why, limit_ends_at: None }
    }
}

/// Decides about a due window, in this order: consent, suppression, `never`, operator's pause, recipient's
/// pause, directory. Unless it was flushed, then come changed preferences, throttle and quiet hours, which an
/// urgent event overrides. `limits` are the window's own, or today's if an older version planned it.
#[must_use]
pub fn admit(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &KeyFacts,
    input: &ClaimInput,
    now: Timestamp,
) -> AdmissionDecision {
    let facts = &*facts.without_future_dates(now);
    let window = &input.window;
    if let Some(block) = consent_or_suppression_block(facts) {
        return AdmissionDecision::Refused(block.window_end());
    }
    let effective = EffectiveSettings::new(settings, facts, now);
    if let Some(why) = effective.never_reason(limits) {
        return AdmissionDecision::Refused(WindowEnd { outcome: DigestOutcome::Skipped, why });
    }
    if let Some(paused) = wait_for_pause(facts, window, settings.spread, now) {
        return put_off_after(paused, input, &DeadlineTiming::new(settings, &window.key, &effective), &effective);
    }
    if facts.recipient.is_none() {
        return wait_for_recipient(facts.missing.as_deref(), input.unknown_since, now).into();
    }
    if input.flushed {
        return AdmissionDecision::Admitted;
    }
    match check_deferrals(settings, limits, facts, input, &effective, now) {
        AdmissionDecision::Later { until, why, .. } if input.urgent => urgent::shorten_wait(facts, until, why, now)
            .map_or(AdmissionDecision::Admitted, |(until, why)| AdmissionDecision::later(until, why)),
        admission => admission,
    }
}

/// Decides about a due window without a configured digest type. Even if flushed, it waits like one with an
/// unknown recipient.
#[must_use]
pub fn admit_without_table(facts: &KeyFacts, input: &ClaimInput, now: Timestamp) -> AdmissionDecision {
    if let Some(block) = consent_or_suppression_block(facts) {
        return AdmissionDecision::Refused(block.window_end());
    }
    if let Some(paused) = wait_for_pause(facts, &input.window, None, now) {
        return paused;
    }
    wait_for_table(&input.window.key.digest_type, input.unknown_since, now).into()
}

/// `since` is `None` if the recipient is only missing now.
#[must_use]
pub fn wait_for_recipient(why: Option<&str>, since: Option<Timestamp>, now: Timestamp) -> MissingDecision {
    let (end, why) = match why {
        Some(why) => (format!("for seven days there was no recipient: {why}"), why),
        None => (
            "the directory did not know the recipient for seven days".to_owned(),
            "the directory does not know the recipient; import them",
        ),
    };
    wait_or_end(since, end, why.to_owned(), now)
}

/// `since` is `None` if the digest type is only missing now.
#[must_use]
pub fn wait_for_table(digest_type: &str, since: Option<Timestamp>, now: Timestamp) -> MissingDecision {
    let why = plan::missing_table(digest_type);
    wait_or_end(since, format!("for seven days there was no table: {why}"), why, now)
}

fn wait_for_pause(
    facts: &KeyFacts,
    window: &Window,
    spread: Option<Duration>,
    now: Timestamp,
) -> Option<AdmissionDecision> {
    if let Some(pause) = pause::pause_wait(facts.pause.as_ref(), &window.key.workflow_id(), spread, now) {
        return Some(AdmissionDecision::Paused(pause));
    }
    let until = facts.preferences.paused_until.filter(|until| *until > now)?;
    Some(AdmissionDecision::later(until, format!("paused until {until:.0}")))
}

fn put_off_after(
    paused: AdmissionDecision,
    input: &ClaimInput,
    timing: &DeadlineTiming<'_>,
    effective: &EffectiveSettings,
) -> AdmissionDecision {
    match paused {
        AdmissionDecision::Later { until, why, limit_ends_at } if !input.flushed && !input.urgent => {
            match timing.put_off(&effective.cadence, WaitReason::PauseOfRecipient, input.window.due_at, until) {
                Some(moment) => AdmissionDecision::later(moment.at, format!("{why}; {}", moment.why)),
                None => AdmissionDecision::Later { until, why, limit_ends_at },
            }
        }
        paused => paused,
    }
}

fn check_deferrals(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &KeyFacts,
    input: &ClaimInput,
    effective: &EffectiveSettings,
    now: Timestamp,
) -> AdmissionDecision {
    let window = &input.window;
    if input.revision != facts.revision {
        return AdmissionDecision::Changed;
    }
    let timing = DeadlineTiming::new(settings, &window.key, effective);
    let cadence = &effective.cadence;
    // If a limit put the window off, its time of day counts as reached on the day the limit ended.
    let due_at = input.limit_ended_at.map_or(window.due_at, |at| at.max(window.due_at));
    if let Some(throttled) = limits.active_throttle(facts.last_slot_at, &effective.zone, now) {
        // An urgent event should wait at most, never be skipped.
        let over = if input.urgent { OverLimit::Defer } else { throttled.over };
        let throttled = ExhaustedLimit { over, ..throttled };
        let limited = limits.put_off(throttled, (&timing, cadence), WaitReason::Throttle, due_at);
        let outlasts = |throttle| outlasts_slot(cadence, window.due_at, throttle, &effective.zone);
        return over_limit(limited, limits.throttle.is_some_and(outlasts));
    }
    // The minute between two urgent digests also counts in quiet hours.
    let wait = if input.urgent { WaitReason::FirstDeadline } else { input.wait_reason() };
    match timing.put_off(cadence, wait, due_at, now) {
        Some(moment) => AdmissionDecision::later(moment.at, moment.why),
        None => AdmissionDecision::Admitted,
    }
}

/// Decides about a window over the recipient's cap, whose oldest digest counts from `oldest` (rule 13). The
/// second time, it does not wait for its time of day: otherwise a type with an earlier slot would always come
/// first.
#[must_use]
pub fn decide_capped(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &KeyFacts,
    input: &ClaimInput,
    oldest: Timestamp,
    now: Timestamp,
) -> AdmissionDecision {
    let Window { key, due_at, .. } = &input.window;
    let effective = EffectiveSettings::new(settings, facts, now);
    let timing = DeadlineTiming::new(settings, key, &effective);
    let cadence = if input.limit_ended_at.is_some() { &Cadence::Instant } else { &effective.cadence };
    let limited = limits.reached_cap(oldest, &effective.zone);
    over_limit(limits.put_off(limited, (&timing, cadence), WaitReason::Cap, *due_at), true)
}

/// For a window over its throttle or cap (rule 13).
fn over_limit(ExhaustedLimit { until, over, why }: ExhaustedLimit, keeps_end: bool) -> AdmissionDecision {
    match over {
        OverLimit::Defer => AdmissionDecision::Later { until, why, limit_ends_at: keeps_end.then_some(until) },
        OverLimit::Skip => AdmissionDecision::Refused(WindowEnd { outcome: DigestOutcome::Throttled, why }),
    }
}

/// Backs off for as long as it has waited, between a minute and an hour, and closes as `unknown` after seven
/// days. Other waits do not count.
fn wait_or_end(since: Option<Timestamp>, end: String, why: String, now: Timestamp) -> MissingDecision {
    let since = since.unwrap_or(now);
    let waited = now.duration_since(since);
    if waited >= SignedDuration::try_from(UNKNOWN_AFTER).unwrap_or(SignedDuration::MAX) {
        return MissingDecision::Ends(WindowEnd { outcome: DigestOutcome::Unknown, why: end });
    }
    let until = now.saturating_add(waited.clamp(FIRST_BACKOFF, LONGEST_BACKOFF)).unwrap_or(Timestamp::MAX);
    MissingDecision::Waits { since, until, why }
}

#[cfg(test)]
mod tests;
