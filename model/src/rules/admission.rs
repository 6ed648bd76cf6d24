//! Admission: decides from the facts and the time if a due window may become a digest now.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Cadence,
    records::Facts,
    rules::{
        deadline::Timing,
        effective::{Effective, consent_or_suppression_block},
        limit::outlasts_slot,
        pause, plan,
    },
    settings::{DigestSettings, FrequencyLimits, OverLimit},
    step::{ClaimInput, Limited, PauseWait},
    window::{Closed, Outcome, Wait, Window},
};

/// Gives up on a window if its recipient or digest type stays unknown for this long (rule 33).
pub const UNKNOWN_AFTER: Duration = Duration::from_hours(7 * 24);
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    Admitted,
    /// The window collects until then. `limit_ends_at` is set for a cap, or a throttle longer than the time
    /// between two slots: the digest may then [count](FrequencyLimits::counted_end) from this end, and the
    /// next cap makes it [wait less](capped).
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
    Refused(Closed),
}

/// For an unknown recipient or digest type (rule 33).
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    Waits { since: Timestamp, until: Timestamp, why: String },
    Ends(Closed),
}

impl From<Missing> for Admission {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Waits { since, until, why } => Self::Unknown { since, until, why },
            Missing::Ends(closed) => Self::Refused(closed),
        }
    }
}

impl Admission {
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
    facts: &Facts,
    input: &ClaimInput,
    now: Timestamp,
) -> Admission {
    let facts = &*facts.believed(now);
    let window = &input.window;
    if let Some(block) = consent_or_suppression_block(facts) {
        return Admission::Refused(block.closed());
    }
    let effective = Effective::new(settings, facts, now);
    if let Some(why) = effective.never(limits) {
        return Admission::Refused(Closed { outcome: Outcome::Skipped, why });
    }
    if let Some(paused) = paused(facts, window, settings.spread, now) {
        return put_off_after(paused, input, &Timing::new(settings, &window.key, &effective), &effective);
    }
    if facts.recipient.is_none() {
        return wait_for_recipient(facts.missing.as_deref(), input.unknown_since, now).into();
    }
    if input.flushed {
        return Admission::Admitted;
    }
    match ordinary(settings, limits, facts, input, &effective, now) {
        Admission::Later { until, why, .. } if input.urgent => expedite(facts, until, why, now),
        admission => admission,
    }
}

/// Decides about a due window without a configured digest type. Even if flushed, it waits like one with an
/// unknown recipient.
#[must_use]
pub fn admit_without_table(facts: &Facts, input: &ClaimInput, now: Timestamp) -> Admission {
    if let Some(block) = consent_or_suppression_block(facts) {
        return Admission::Refused(block.closed());
    }
    if let Some(paused) = paused(facts, &input.window, None, now) {
        return paused;
    }
    wait_for_table(&input.window.key.digest_type, input.unknown_since, now).into()
}

/// `since` is `None` if the recipient is missing only now.
#[must_use]
pub fn wait_for_recipient(why: Option<&str>, since: Option<Timestamp>, now: Timestamp) -> Missing {
    let (end, why) = match why {
        Some(why) => (format!("for seven days there was no recipient: {why}"), why),
        None => (
            "the directory did not know the recipient for seven days".to_owned(),
            "the directory does not know the recipient; import them",
        ),
    };
    wait_or_end(since, end, why.to_owned(), now)
}

/// `since` is `None` if the digest type is missing only now.
#[must_use]
pub fn wait_for_table(digest_type: &str, since: Option<Timestamp>, now: Timestamp) -> Missing {
    let why = plan::missing_table(digest_type);
    wait_or_end(since, format!("for seven days there was no table: {why}"), why, now)
}

fn paused(facts: &Facts, window: &Window, spread: Option<Duration>, now: Timestamp) -> Option<Admission> {
    if let Some(pause) = pause::wait(facts.pause.as_ref(), &window.key.workflow_id(), spread, now) {
        return Some(Admission::Paused(pause));
    }
    let until = facts.preferences.paused_until.filter(|until| *until > now)?;
    Some(Admission::later(until, format!("paused until {until:.0}")))
}

fn put_off_after(paused: Admission, input: &ClaimInput, timing: &Timing<'_>, effective: &Effective) -> Admission {
    match paused {
        Admission::Later { until, why, limit_ends_at } if !input.flushed && !input.urgent => {
            match timing.put_off(&effective.cadence, Wait::PauseOfRecipient, input.window.due_at, until) {
                Some(moment) => Admission::later(moment.at, format!("{why}; {}", moment.why)),
                None => Admission::Later { until, why, limit_ends_at },
            }
        }
        paused => paused,
    }
}

fn ordinary(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &Facts,
    input: &ClaimInput,
    effective: &Effective,
    now: Timestamp,
) -> Admission {
    let window = &input.window;
    if input.revision != facts.revision {
        return Admission::Changed;
    }
    let timing = Timing::new(settings, &window.key, effective);
    let cadence = &effective.cadence;
    // If a limit put the window off, its time of day counts as reached on the day the limit ended.
    let due_at = input.limit_ended_at.map_or(window.due_at, |at| at.max(window.due_at));
    if let Some(throttled) = limits.throttled(facts.last_slot_at, &effective.zone, now) {
        // An urgent event should wait at most, never be skipped.
        let over = if input.urgent { OverLimit::Defer } else { throttled.over };
        let throttled = Limited { over, ..throttled };
        let limited = limits.put_off(throttled, (&timing, cadence), Wait::Throttle, due_at);
        let outlasts = |throttle| outlasts_slot(cadence, window.due_at, throttle, &effective.zone);
        return over_limit(limited, limits.throttle.is_some_and(outlasts));
    }
    // The minute between two urgent digests also counts in quiet hours.
    let wait = if input.urgent { Wait::FirstDeadline } else { input.wait() };
    match timing.put_off(cadence, wait, due_at, now) {
        Some(moment) => Admission::later(moment.at, moment.why),
        None => Admission::Admitted,
    }
}

/// Admits an urgent event one minute after the last digest, or at `until` if this is earlier.
fn expedite(facts: &Facts, until: Timestamp, why: String, now: Timestamp) -> Admission {
    match plan::urgent_again_at(facts).filter(|at| *at > now) {
        None => Admission::Admitted,
        Some(again) if again < until => {
            Admission::later(again, format!("urgent, a minute after the last digest -> {again:.0}"))
        }
        Some(_) => Admission::later(until, why),
    }
}

/// Decides about a window over the recipient's cap, whose oldest digest counts from `oldest` (rule 13). The
/// second time, we should not wait for its time of day: otherwise a type with an earlier slot would always
/// come first.
#[must_use]
pub fn capped(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &Facts,
    input: &ClaimInput,
    oldest: Timestamp,
    now: Timestamp,
) -> Admission {
    let Window { key, due_at, .. } = &input.window;
    let effective = Effective::new(settings, facts, now);
    let timing = Timing::new(settings, key, &effective);
    let cadence = if input.limit_ended_at.is_some() { &Cadence::Instant } else { &effective.cadence };
    let limited = limits.capped(oldest, &effective.zone);
    over_limit(limits.put_off(limited, (&timing, cadence), Wait::Cap, *due_at), true)
}

/// For a window over its throttle or cap (rule 13).
fn over_limit(Limited { until, over, why }: Limited, keeps_end: bool) -> Admission {
    match over {
        OverLimit::Defer => Admission::Later { until, why, limit_ends_at: keeps_end.then_some(until) },
        OverLimit::Skip => Admission::Refused(Closed { outcome: Outcome::Throttled, why }),
    }
}

/// Backs off for as long as it has waited, between a minute and an hour, and closes as `unknown` after seven
/// days. Other waits do not count.
fn wait_or_end(since: Option<Timestamp>, end: String, why: String, now: Timestamp) -> Missing {
    let since = since.unwrap_or(now);
    let waited = now.duration_since(since);
    if waited >= SignedDuration::try_from(UNKNOWN_AFTER).unwrap_or(SignedDuration::MAX) {
        return Missing::Ends(Closed { outcome: Outcome::Unknown, why: end });
    }
    let until = now.saturating_add(waited.clamp(FIRST_BACKOFF, LONGEST_BACKOFF)).unwrap_or(Timestamp::MAX);
    Missing::Waits { since, until, why }
}

#[cfg(test)]
mod tests;
