//! Step dead letters (`bury` on the wire): the store records signals and events that could not be decoded.

use jiff::Timestamp;
use tidings_model::step::{DeadLetter, DeadLettersInput};

use super::state::State;

/// Bytes of dead letters that the state keeps while the store cannot take them. Later ones lose their `head`.
const MAX_BYTES: usize = 256 * 1024;

/// Dead letters that the state keeps. Later ones are only counted; the run's history has them.
const MAX_LETTERS: usize = 500;

/// Counts a dead letter, and keeps the letter while there is room.
pub(super) fn keep(state: &mut State, mut letter: DeadLetter) {
    state.malformed += 1;
    if state.dead_letters.len() >= MAX_LETTERS {
        return;
    }
    let kept: usize = state.dead_letters.iter().map(|letter| letter.head.len()).sum();
    if kept + letter.head.len() > MAX_BYTES {
        letter.head.clear();
    }
    state.dead_letters.push(letter);
}

/// The input: all dead letters that the store does not have yet.
#[expect(clippy::unnecessary_wraps, reason = "the driver asks every step for an optional input")]
pub(super) fn input(state: &State, workflow_id: String) -> Option<DeadLettersInput> {
    Some(DeadLettersInput { workflow_id, run_id: state.first_run_id.clone(), letters: state.dead_letters.clone() })
}

/// Removes the recorded dead letters from the state.
pub(super) fn apply(state: &mut State, done: &DeadLettersInput, (): (), _: Timestamp) {
    state.dead_letters.drain(..done.letters.len().min(state.dead_letters.len()));
}
