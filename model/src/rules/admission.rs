//! Admission: decides if a due window may become a digest now, from the facts and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    records::Facts,
    rules::{
        deadline::Timing,
        effective::{Effective, consent_or_suppression_block},
        pause, plan,
    },
    settings::{DigestSettings, FrequencyLimits, OverLimit},
    step::{ClaimInput, Closed, Limited, Outcome, PauseWait, Window},
};

/// A window whose recipient or digest type stays unknown for this long is given up (rule 33).
pub const UNKNOWN_AFTER: Duration = Duration::from_hours(7 * 24);
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_hours(1);

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Claim it.
    Admitted,
    /// The window goes on collecting until then.
    Later { until: Timestamp, why: String },
    /// An operator's pause covers the key: the window goes on collecting.
    Paused(PauseWait),
    /// The recipient chose something else since it was planned.
    Changed,
    /// The window ends without a message.
    Refused(Closed),
}

/// Decides about a due window. The checks come in this order: consent, suppression, `never`, the operator's pause, the
/// recipient's pause, and the directory; then, unless the window was flushed or is urgent, changed preferences, the throttle and the quiet hours.
/// `limits` are the window's own, or today's for a window that an older version planned.
#[must_use]
pub fn admit(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &Facts,
    input: &ClaimInput,
    now: Timestamp,
) -> Admission {
    let window = &input.window;
    if let Some(block) = consent_or_suppression_block(facts) {
        return Admission::Refused(block.closed());
    }
    let effective = Effective::new(settings, facts, now);
    if let Some(why) = effective.never(limits) {
        return Admission::Refused(Closed { outcome: Outcome::Skipped, why });
    }
    if let Some(paused) = paused(facts, window, settings.spread, now) {
        return paused;
    }
    if facts.recipient.is_none() {
        let (end, why) = if let Some(why) = facts.missing.clone() {
            (format!("for seven days there was no recipient: {why}"), why)
        } else {
            let end = "the directory did not know the recipient for seven days";
            (end.to_owned(), "the directory does not know the recipient; import them".to_owned())
        };
        return wait_or_end(window, end, why, now);
    }
    if input.flushed {
        return Admission::Admitted;
    }
    match ordinary(settings, limits, facts, input, &effective, now) {
        Admission::Later { until, why } if input.urgent => expedite(facts, until, why, now),
        admission => admission,
    }
}

/// Decides about a due window whose digest type no table has: it waits like one whose recipient is unknown, a flushed one too.
#[must_use]
pub fn admit_without_table(facts: &Facts, window: &Window, now: Timestamp) -> Admission {
    if let Some(block) = consent_or_suppression_block(facts) {
        return Admission::Refused(block.closed());
    }
    if let Some(paused) = paused(facts, window, None, now) {
        return paused;
    }
    wait_for_table(window, now)
}

/// The wait of a due window or of its digest for the table of the digest type.
#[must_use]
pub fn wait_for_table(window: &Window, now: Timestamp) -> Admission {
    let why = plan::missing_table(&window.key.digest_type);
    wait_or_end(window, format!("for seven days there was no table: {why}"), why, now)
}

/// The wait for the end of the operator's pause, or of the recipient's.
fn paused(facts: &Facts, window: &Window, spread: Option<Duration>, now: Timestamp) -> Option<Admission> {
    if let Some(pause) = pause::wait(facts.pause.as_ref(), &window.key.workflow_id(), spread, now) {
        return Some(Admission::Paused(pause));
    }
    let until = facts.preferences.paused_until.filter(|until| *until > now)?;
    Some(Admission::Later { until, why: format!("paused until {until:.0}") })
}

/// The checks that a flush or an urgent event skips.
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
    if let Some(throttled) = limits.throttled(facts.last_sent_at, now) {
        // An urgent event waits at most; see `expedite`.
        let over = if input.urgent { OverLimit::Defer } else { throttled.over };
        return Limited { over, ..throttled }.past_quiet_hours(&timing, window.due_at).into();
    }
    match timing.defer_for_quiet_hours(window.due_at, now) {
        Some(later) => Admission::Later { until: later.at, why: later.why },
        None => Admission::Admitted,
    }
}

/// An urgent event is never later than it would be without the haste, and not past its minute.
fn expedite(facts: &Facts, until: Timestamp, why: String, now: Timestamp) -> Admission {
    match plan::urgent_again_at(facts).filter(|at| *at > now) {
        None => Admission::Admitted,
        Some(again) if again < until => {
            Admission::Later { until: again, why: format!("urgent, a minute after the last digest -> {again:.0}") }
        }
        Some(_) => Admission::Later { until, why },
    }
}

/// The answer to a window whose recipient may get the next digest at `until`, by the cap (rule 13).
#[must_use]
pub fn capped(
    settings: &DigestSettings,
    limits: &FrequencyLimits,
    facts: &Facts,
    window: &Window,
    until: Timestamp,
) -> Limited {
    let effective = Effective::unadapted(settings, facts);
    limits.capped(until).past_quiet_hours(&Timing::new(settings, &window.key, &effective), window.due_at)
}

/// The answer to a window that a throttle or a cap holds back (rule 13).
impl From<Limited> for Admission {
    fn from(Limited { until, over, why }: Limited) -> Self {
        match over {
            OverLimit::Defer => Self::Later { until, why },
            OverLimit::Skip => Self::Refused(Closed { outcome: Outcome::Throttled, why }),
        }
    }
}

/// Waits as long again as the window has waited already, between a minute and an hour, and ends it as `unknown` after seven days.
fn wait_or_end(window: &Window, end: String, why: String, now: Timestamp) -> Admission {
    let waited = now.duration_since(window.due_at);
    if waited >= SignedDuration::try_from(UNKNOWN_AFTER).unwrap_or(SignedDuration::MAX) {
        return Admission::Refused(Closed { outcome: Outcome::Unknown, why: end });
    }
    let until = now.saturating_add(waited.clamp(FIRST_BACKOFF, LONGEST_BACKOFF)).unwrap_or(Timestamp::MAX);
    Admission::Later { until, why }
}

#[cfg(test)]
mod tests;
