//! When a window is due: a pure function of the digest type, the recipient and the window's first event.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use tidings_workflows::{
    Cadence,
    contract::{Plan, PlanInput},
    words,
};

use crate::{settings::DigestSettings, store::Facts, timing::Timing};

/// The plan of a window that opens at `input.opened_at`. `known` are those of its events that the ledger has seen.
#[must_use]
pub fn plan(settings: &DigestSettings, facts: &Facts, input: &PlanInput, known: Vec<String>) -> Plan {
    let at_once = |why: String| Plan { known: Vec::new(), due_at: input.opened_at, why, max_events: None };
    if let Some(reason) = unwanted(facts) {
        return Plan { known, ..at_once(format!("at once: {reason}")) };
    }
    let cadence = cadence(settings, facts);
    if cadence == Cadence::Never {
        return Plan { known, ..at_once(never(facts)) };
    }
    let zone = zone(settings, facts);
    let timing = Timing::new(settings, &input.key, &zone);
    let (deadline, max_events) = match sooner(settings, facts, &cadence, input) {
        Some((cadence, words)) => (timing.deadline(&cadence, Some(words), input.opened_at), None),
        None => (timing.deadline(&cadence, None, input.opened_at), cadence.max_events()),
    };
    Plan { known, due_at: deadline.at, why: deadline.why, max_events: max_events.or(settings.max_events) }
}

/// What takes the place of the cadence for one window, and why: the first event in a long time, or a category's delay.
fn sooner(settings: &DigestSettings, facts: &Facts, cadence: &Cadence, input: &PlanInput) -> Option<(Cadence, String)> {
    if let Some(silence) = settings.first_now {
        let silent = |last: Timestamp| {
            SignedDuration::try_from(silence).is_ok_and(|s| input.opened_at.duration_since(last) >= s)
        };
        if facts.last_sent_at.is_none_or(silent) {
            return Some((Cadence::Instant, format!("at once, as the first in {}", words::written(silence))));
        }
    }
    let category = input.category.as_ref().filter(|_| matches!(cadence, Cadence::Instant | Cadence::After(_)))?;
    let delay = settings.delay.get(category)?;
    Some((Cadence::After(*delay), format!("{category} may wait {}", words::written(*delay))))
}

/// The recipient's choice, or the digest type's.
pub fn cadence(settings: &DigestSettings, facts: &Facts) -> Cadence {
    facts
        .preferences
        .cadence
        .as_deref()
        .and_then(|words| words.parse().ok())
        .unwrap_or_else(|| settings.cadence.clone())
}

/// Nothing will be sent, so the ledger may as well say so now (rule 28).
fn unwanted(facts: &Facts) -> Option<&'static str> {
    if !facts.consent {
        Some("the recipient opted out")
    } else if facts.suppressed.is_some() {
        Some("the address is suppressed")
    } else {
        None
    }
}

/// Why a window under the cadence `never` sends nothing.
pub fn never(facts: &Facts) -> String {
    let whose = if facts.preferences.cadence.is_some() { "the recipient chose" } else { "the digest type has" };
    format!("never: {whose} a cadence that sends nothing")
}

/// The first zone that exists: the recipient's choice for this digest, the directory's, the digest type's, UTC.
pub fn zone(settings: &DigestSettings, facts: &Facts) -> (String, TimeZone) {
    let directory = facts.recipient.as_ref().map(|recipient| recipient.zone.as_str());
    [facts.preferences.zone.as_deref(), directory, settings.zone.as_deref()]
        .into_iter()
        .flatten()
        .find_map(|name| TimeZone::get(name).ok().map(|zone| (name.to_owned(), zone)))
        .unwrap_or_else(|| ("UTC".to_owned(), TimeZone::UTC))
}

#[cfg(test)]
mod tests;
