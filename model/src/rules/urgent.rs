//! An urgent event makes the whole window due, at most once a minute for a key (rule 14).

use jiff::{SignedDuration, Timestamp};

use crate::{
    records::KeyFacts,
    step::{DeadlineInputs, Plan},
};

/// Minimum time between two digests of a key made due by urgent events (rule 14).
const URGENT_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// Brings the deadline forward for an urgent event, past spread, quiet hours and throttle (rule 14). All
/// collected events go along.
pub(super) fn expedite(plan: Plan, facts: &KeyFacts, signs: &DeadlineInputs) -> Plan {
    let Some(urgent_at) = signs.urgent_at else { return plan };
    let (at, why) = match urgent_again_at(facts).filter(|at| *at > urgent_at) {
        Some(at) => (at, format!("urgent, a minute after the last digest -> {at:.0}")),
        None => (urgent_at, format!("urgent -> {urgent_at:.0}")),
    };
    let plan = Plan { urgent: true, ..plan };
    if at < plan.due_at { Plan { due_at: at, why, max_events: None, ..plan } } else { plan }
}

fn urgent_again_at(facts: &KeyFacts) -> Option<Timestamp> {
    facts.last_sent_at.map(|last| last.saturating_add(URGENT_EVERY).unwrap_or(Timestamp::MAX))
}

/// When a window with an urgent event, put off until `until`, is admitted: now (`None`), a minute after the
/// last digest, or at `until` if earlier.
pub(super) fn shorten_wait(
    facts: &KeyFacts,
    until: Timestamp,
    why: String,
    now: Timestamp,
) -> Option<(Timestamp, String)> {
    let again = urgent_again_at(facts).filter(|at| *at > now)?;
    Some(if again < until {
        (again, format!("urgent, a minute after the last digest -> {again:.0}"))
    } else {
        (until, why)
    })
}
