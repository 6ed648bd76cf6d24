//! When a window is due: a pure function of the digest type, the recipient and the window's first event.

use jiff::{Timestamp, tz::TimeZone};
use tidings_workflows::{
    Cadence,
    contract::{Plan, PlanInput},
};

use crate::{settings::DigestSettings, store::Facts};

/// The plan of a window that opens at `input.opened_at`. `known` are those of its events that the ledger has seen.
#[must_use]
pub fn plan(settings: &DigestSettings, facts: &Facts, input: &PlanInput, known: Vec<String>) -> Plan {
    if let Some(reason) = unwanted(facts) {
        return Plan { known, due_at: input.opened_at, why: format!("at once: {reason}"), max_events: None };
    }
    let cadence = cadence(settings, facts);
    let (zone_name, zone) = zone(settings, facts);
    let due_at = cadence.due_at(input.opened_at, &zone);
    Plan {
        known,
        due_at,
        why: why(cadence, &zone_name, due_at),
        max_events: cadence.max_events().or(settings.max_events),
    }
}

/// The recipient's choice, or the digest type's.
pub fn cadence(settings: &DigestSettings, facts: &Facts) -> Cadence {
    facts.preferences.cadence.as_deref().and_then(|words| words.parse().ok()).unwrap_or(settings.cadence)
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

/// The first zone that exists: the recipient's choice for this digest, the directory's, the digest type's, UTC.
pub fn zone(settings: &DigestSettings, facts: &Facts) -> (String, TimeZone) {
    let directory = facts.recipient.as_ref().map(|recipient| recipient.zone.as_str());
    [facts.preferences.zone.as_deref(), directory, settings.zone.as_deref()]
        .into_iter()
        .flatten()
        .find_map(|name| TimeZone::get(name).ok().map(|zone| (name.to_owned(), zone)))
        .unwrap_or_else(|| ("UTC".to_owned(), TimeZone::UTC))
}

fn why(cadence: Cadence, zone: &str, due_at: Timestamp) -> String {
    if cadence.follows_the_calendar() {
        format!("{cadence} {zone} -> {due_at}")
    } else {
        format!("{cadence} -> {due_at}")
    }
}
