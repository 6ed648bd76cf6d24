//! Step `retract`: the ledger records which events producers withdraw.

use jiff::Timestamp;
use tidings_model::step::RetractInput;

use super::{pending::PAGE_EVENTS, state::State};

/// The input: a page of retracts, with the pending events that they cover.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<RetractInput> {
    let retracts: Vec<_> = state.retracts.iter().take(PAGE_EVENTS).cloned().collect();
    let events = state.pending.covered_by(&retracts);
    let window = if events.is_empty() { None } else { state.window(asked_at) };
    Some(RetractInput {
        asked_at,
        key: state.key.clone()?,
        retracts,
        window,
        events,
        delivering: state.delivering_id(),
    })
}

/// Removes the withdrawn events. A retract goes when no pending event is left that it covers.
pub(super) fn apply(state: &mut State, done: &RetractInput, (): (), _: Timestamp) {
    let ids: Vec<_> = done.events.iter().map(|event| event.event_id.clone()).collect();
    state.forget(&ids);
    if state.pending.covered_by(&done.retracts).is_empty() {
        for retract in &done.retracts {
            state.retracts.remove(retract);
        }
    }
}
