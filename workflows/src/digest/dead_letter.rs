//! Step dead letters (`bury` on the wire): the store records signals and events that could not be decoded.

use jiff::Timestamp;
use tidings_model::{decode::DeadLetter, step::DeadLettersInput};

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

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(seq: u64, bytes: usize) -> DeadLetter {
        DeadLetter {
            seq,
            reason: "no event".into(),
            encoding: "json/plain".into(),
            message_type: None,
            size: 0,
            sha256: String::new(),
            head: "x".repeat(bytes),
        }
    }

    fn heads(state: &State) -> Vec<usize> {
        state.dead_letters.iter().map(|letter| letter.head.len()).collect()
    }

    #[test]
    fn letters_keep_their_heads_while_there_is_room() {
        let mut state = State::new(None, "run".into());
        for (seq, bytes) in [200 * 1024, 56 * 1024 + 1, 56 * 1024, 1, 0].into_iter().enumerate() {
            keep(&mut state, letter(seq as u64, bytes));
        }
        assert_eq!((state.malformed, heads(&state)), (5, vec![200 * 1024, 0, 56 * 1024, 0, 0]));
    }

    #[test]
    fn letters_beyond_the_room_are_counted() {
        let mut state = State::new(None, "run".into());
        for seq in 0..502 {
            keep(&mut state, letter(seq, 0));
        }
        assert_eq!((state.malformed, state.dead_letters.len()), (502, 500));
    }

    #[test]
    fn letters_that_came_since_stay_when_the_others_are_recorded() {
        let mut state = State::new(None, "run".into());
        for seq in 0..2 {
            keep(&mut state, letter(seq, 1));
        }
        let asked = input(&state, "digest/of/no/key".into()).unwrap();
        assert_eq!(
            (asked.workflow_id.as_str(), asked.run_id.as_str(), asked.letters.len()),
            ("digest/of/no/key", "run", 2)
        );
        keep(&mut state, letter(2, 1));
        apply(&mut state, &asked, (), Timestamp::UNIX_EPOCH);
        assert_eq!(state.dead_letters.iter().map(|letter| letter.seq).collect::<Vec<_>>(), [2]);
        apply(&mut state, &asked, (), Timestamp::UNIX_EPOCH);
        assert!(state.dead_letters.is_empty());
    }
}
