//! The deadline of events returned by a failed digest (rule 25), which are sent without waiting for another
//! event.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    Cadence, SlidingDeadline,
    records::KeyFacts,
    rules::{
        deadline::{Deadline, DeadlineTiming},
        effective::{EffectiveSettings, consent_or_suppression_block},
        plan::{counts_from, keeps_deadline},
    },
    settings::DigestSettings,
    step::{EventOrigin, Plan, PlanInput},
    words,
};

/// Brings the deadline forward for returned events. A window with only such events is due at the cadence's
/// next slot or, without a calendar cadence, `longest_wait` after the return.
#[must_use]
pub fn join_returned(
    plan: Plan,
    settings: &DigestSettings,
    facts: &KeyFacts,
    input: &PlanInput,
    longest_wait: Duration,
    now: Timestamp,
) -> Plan {
    let Some(returned_at) = input.signs.returned_at else { return plan };
    let effective = EffectiveSettings::new(settings, facts, now);
    let never = plan.limits.is_some_and(|limits| effective.never_reason(&limits).is_some());
    if never || consent_or_suppression_block(facts).is_some() {
        return plan;
    }
    let kept = input.before.as_ref().filter(|before| keeps_deadline(before, facts, &effective, input));
    let returned = match (input.joined, kept) {
        (None, Some(_)) => return plan,
        // The window's deadline was promised to these events before the recipient chose another schedule.
        (None | Some(EventOrigin::Own), None) if plan.then.is_some() => return plan,
        (Some(EventOrigin::Own), Some(before)) => Deadline { at: before.due_at, why: before.why.clone() },
        _ => {
            let from = counts_from(&effective.cadence, facts, &effective, input, returned_at);
            deadline(&DeadlineTiming::new(settings, &input.key, &effective), &effective.cadence, from, longest_wait)
        }
    };
    if input.signs.only_returned {
        return Plan { due_at: returned.at, why: returned.why, slide: None, max_events: settings.max_events, ..plan };
    }
    earlier_plan(plan, returned)
}

fn deadline(timing: &DeadlineTiming<'_>, cadence: &Cadence, from: Timestamp, longest_wait: Duration) -> Deadline {
    if cadence.follows_the_calendar() {
        let words = format!("events of a failed digest: {cadence} {}", timing.zone_name);
        return timing.cadence_deadline(cadence, Some(words), from);
    }
    let words = format!("events of a failed digest: {} after its last attempt", words::format_duration(longest_wait));
    timing.cadence_deadline(&Cadence::After(longest_wait), Some(words), from)
}

/// Uses the earlier deadline. Later events cannot slide it past the returned events'.
fn earlier_plan(plan: Plan, Deadline { at, why }: Deadline) -> Plan {
    let slide = plan.slide.map(|slide| SlidingDeadline { until: slide.until.min(at), ..slide });
    if at < plan.due_at { Plan { due_at: at, why, slide, ..plan } } else { Plan { slide, ..plan } }
}

#[cfg(test)]
mod tests;
