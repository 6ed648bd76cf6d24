//! Inputs of steps that a test calls without a workflow.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_model::{
    Event,
    step::{ClaimInput, SendDigestInput},
    window::Window,
};

/// The claim of a due window that a plain cadence planned.
#[must_use]
pub fn claim_of(window: &Window, events: Vec<Event>) -> ClaimInput {
    ClaimInput {
        asked_at: window.opened_at,
        window: window.clone(),
        events,
        flushed: false,
        urgent: false,
        revision: 0,
        planned: None,
        due_at: None,
        limits: None,
        undo: None,
        released: false,
        limit_ended_at: None,
        unknown_since: None,
    }
}

/// The first attempt for a claimed window, by a workflow that says all it can but not what it waited for.
#[must_use]
pub fn send_of(window: &Window, asked_at: Timestamp) -> SendDigestInput {
    SendDigestInput {
        asked_at,
        window: window.clone(),
        failed: 0,
        shortens: true,
        opens_returned: true,
        keeps_ends: true,
        unrecorded: None,
        after: None,
    }
}

/// An event of its own line, with a count and a title.
#[must_use]
pub fn recorded_event(event_id: &str, occurred_at: Timestamp) -> Event {
    let payload = [("title".to_owned(), format!("Event {event_id}").into())].into_iter().collect();
    Event {
        event_id: event_id.to_owned(),
        category: "comment".to_owned(),
        other_categories: BTreeSet::new(),
        entity_type: "page".to_owned(),
        entity_id: event_id.to_owned(),
        actor: String::new(),
        occurred_at,
        counts: [("critical".to_owned(), 1)].into(),
        urgent: false,
        payload,
    }
}
