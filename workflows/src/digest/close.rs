//! Step `close`: after a cancel or a drop, the ledger records the end of a delivery or of a window.

use jiff::Timestamp;
use tidings_model::{
    command::Order,
    step::{CloseInput, Ending},
    window::{Closed, Outcome},
};

use super::{deadline::planned, state::State};

/// The input. Opens the window if pending events have none.
pub(super) fn begin(state: &mut State, asked_at: Timestamp) -> Option<CloseInput> {
    let (by, why) = match state.drop.as_ref().map(|drop| &drop.order) {
        Some(Order { by, why }) => (by.clone(), why.clone()),
        None => (String::new(), "cancelled".to_owned()),
    };
    let closed = Closed { outcome: Outcome::Dropped, why };
    if let Some(digest) = &state.delivering {
        return Some(CloseInput {
            asked_at,
            window: digest.window.clone(),
            events: Vec::new(),
            closed,
            by,
            planned: None,
            opens_returned: true,
        });
    }
    state.ensure_open(asked_at);
    let events = state.pending.head(state.pending.page_len(state.doomed()));
    Some(CloseInput {
        asked_at,
        window: state.open.as_ref()?.window.clone(),
        events,
        closed,
        by,
        planned: planned(state),
        opens_returned: true,
    })
}

/// Ends the delivery, or the window if nothing was being delivered.
pub(super) fn apply(state: &mut State, asked: &CloseInput, Ending { closed, taken, returned }: Ending, _: Timestamp) {
    if state.delivering.take().is_none() {
        state.close_window(&asked.events, taken);
    }
    state.note_returned(returned);
    state.end(asked.window.digest_id, closed);
}
