//! Step `render`: makes the message of a claimed digest and stores it in the outbox.

use jiff::Timestamp;
use tidings_model::step::{RenderInput, Rendered};

use super::state::State;

/// The input, if a digest is being delivered.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<RenderInput> {
    let digest = state.delivering.as_ref()?;
    let (window, too_large) = (digest.window.clone(), digest.too_large.clone());
    Some(RenderInput { asked_at, window, stored: digest.stored && too_large.is_none(), too_large })
}

/// Leaves a message that is too large to the next attempt, as runs did that a worker of an earlier version went on with.
pub(super) fn leave_to_attempt(state: &mut State) {
    if let Some(digest) = &mut state.delivering {
        digest.rendered = true;
    }
}

/// Makes the digest ready to send, or ends it.
pub(super) fn apply(state: &mut State, _: &RenderInput, answer: Rendered, now: Timestamp) {
    let Some(digest) = &mut state.delivering else { return };
    match answer {
        Rendered::Stored => digest.note_rendered(now),
        Rendered::Nothing(closed) => state.end_delivery(closed),
    }
}
