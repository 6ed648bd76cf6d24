//! Step `reopen`: an operator resumes a digest that ended without a message, or that has no end.

use jiff::Timestamp;
use tidings_model::{
    command::Reopened,
    records::Actor,
    step::{ReopenInput, Resumed},
    window::Wait,
};

use super::{delivering::Delivering, state::State};

/// The input, if an operator asked for it.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<ReopenInput> {
    Some(ReopenInput { asked_at, key: state.key.clone()?, reopen: state.reopen.as_ref()?.request.clone() })
}

/// Starts the delivery of the resumed digest, and keeps the answer for the operator. What Tidings recovers by itself nobody wants in the night.
pub(super) fn apply(state: &mut State, asked: &ReopenInput, answer: Resumed, _: Timestamp) {
    let answer = match answer {
        Resumed::Claimed { window, items, groups } => {
            state.take_back(asked.reopen.digest_id);
            let digest = Delivering::new(window, items, groups);
            let by_itself = asked.reopen.order.by == Actor::Tidings.as_str();
            let wait = if by_itself { Wait::LateWorker } else { Wait::Flushed };
            state.delivering = Some(Delivering { wait, ..digest });
            Reopened { events: items, refused: None }
        }
        Resumed::Refused { why } => Reopened { events: 0, refused: Some(why) },
    };
    if let Some(reopening) = &mut state.reopen {
        reopening.answer = Some(answer);
    }
}
