//! Step `render`: makes the message of a claimed digest and stores it in the outbox.

use jiff::Timestamp;
use tidings_model::step::{RenderInput, Rendered};

use super::state::State;

/// The input, if a digest is being delivered.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<RenderInput> {
    Some(RenderInput { asked_at, window: state.delivering.as_ref()?.window.clone() })
}

/// Makes the digest ready to send, or ends it.
pub(super) fn apply(state: &mut State, _: &RenderInput, answer: Rendered, _: Timestamp) {
    let Some(digest) = &mut state.delivering else { return };
    match answer {
        Rendered::Stored => digest.rendered = true,
        Rendered::Nothing(closed) => state.end_delivery(closed),
    }
}
