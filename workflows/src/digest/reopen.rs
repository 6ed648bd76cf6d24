//! Step `reopen`: an operator resumes a digest that ended without a message, or that has no end.

use jiff::Timestamp;
use tidings_model::{
    command::Reopened,
    step::{ReopenInput, Resumed},
};

use super::{delivering::Delivering, state::State};

/// The input, if an operator asked for it.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<ReopenInput> {
    Some(ReopenInput { asked_at, key: state.key.clone()?, reopen: state.reopen.as_ref()?.request.clone() })
}

/// Starts the delivery of the resumed digest, and keeps the answer for the operator.
pub(super) fn apply(state: &mut State, asked: &ReopenInput, answer: Resumed, _: Timestamp) {
    let answer = match answer {
        Resumed::Claimed { window, items, groups } => {
            state.take_back(asked.reopen.digest_id);
            state.delivering = Some(Delivering::new(window, items, groups));
            Reopened { events: items, refused: None }
        }
        Resumed::Refused { why } => Reopened { events: 0, refused: Some(why) },
    };
    if let Some(reopening) = &mut state.reopen {
        reopening.answer = Some(answer);
    }
}
