//! Steps that only record: events withdrawn by producers (`retract`), operators' commands (`audit`), and dead
//! letters (`bury` on the wire).

use jiff::Timestamp;
use tidings_model::{
    decode::DeadLetter,
    step::{AuditInput, DeadLettersInput, RetractInput},
};

use super::{pending::PAGE_EVENTS, state::DigestRunState};

pub(super) fn retract_input(state: &DigestRunState, asked_at: Timestamp) -> Option<RetractInput> {
    let retracts: Vec<_> = state.retracts.iter().take(PAGE_EVENTS).cloned().collect();
    let events = state.covered_by(&retracts);
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

/// A retract stays until it covers no more pending events.
pub(super) fn apply_retract(state: &mut DigestRunState, done: &RetractInput, (): (), _: Timestamp) {
    let ids = state.pending.unchanged_ids(&done.events);
    state.forget_events(&ids);
    if state.covered_by(&done.retracts).is_empty() {
        for retract in &done.retracts {
            state.forget_retract(retract);
        }
    }
}

pub(super) fn audit_input(state: &DigestRunState, _: Timestamp) -> Option<AuditInput> {
    Some(AuditInput { key: state.key.clone()?, notes: state.audit_notes.clone() })
}

pub(super) fn apply_audit(state: &mut DigestRunState, done: &AuditInput, (): (), _: Timestamp) {
    state.audit_notes.drain(..done.notes.len().min(state.audit_notes.len()));
}

/// Limit while the store is unavailable. Later letters lose their `head`.
const MAX_BYTES: usize = 256 * 1024;

/// Later dead letters are only counted, but remain in the run's history.
const MAX_LETTERS: usize = 500;

pub(super) fn keep_dead_letter(state: &mut DigestRunState, mut letter: DeadLetter) {
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

#[expect(clippy::unnecessary_wraps, reason = "the driver asks every step for an optional input")]
pub(super) fn dead_letters_input(state: &DigestRunState, workflow_id: String) -> Option<DeadLettersInput> {
    Some(DeadLettersInput { workflow_id, run_id: state.first_run_id.clone(), letters: state.dead_letters.clone() })
}

pub(super) fn apply_dead_letters(state: &mut DigestRunState, done: &DeadLettersInput, (): (), _: Timestamp) {
    state.dead_letters.drain(..done.letters.len().min(state.dead_letters.len()));
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{from_value, json};
    use tidings_model::{Event, Key, Retract};

    use super::*;

    const BEGIN: Timestamp = Timestamp::constant(1_800_000_000, 0);

    /// The alert `fp`, which fires this number of seconds after the begin.
    fn firing(seconds: i64) -> Event {
        let at = BEGIN + SignedDuration::from_secs(seconds);
        from_value(json!({"event_id": "fp", "category": "outage", "occurred_at": at})).unwrap()
    }

    /// A state that got these firings, and a retract by id after the first of them.
    fn after_retract(firings: &[i64], add: fn(&mut DigestRunState, Event)) -> DigestRunState {
        let key = Key::new("acme".into(), "alerts".into(), "ann".into()).unwrap();
        let mut state = DigestRunState::new(Some(key), "run".into());
        for (number, seconds) in firings.iter().enumerate() {
            add(&mut state, firing(*seconds));
            if number == 0 {
                state.add_retract(Retract::Event("fp".into()));
            }
        }
        state
    }

    /// Pending events, and those that the ledger should take out, before and after the step.
    fn step(mut state: DigestRunState) -> (Vec<Event>, Vec<Event>) {
        let asked = retract_input(&state, BEGIN).unwrap();
        let covered = asked.events.clone();
        apply_retract(&mut state, &asked, (), BEGIN);
        assert!(state.retracts.is_empty() && state.retracted_until.is_empty());
        (covered, state.pending.into_events())
    }

    #[test]
    fn what_comes_after_its_retract_and_occurred_later_is_new() {
        let add = |state: &mut DigestRunState, event| state.add_event(event, BEGIN, None);
        assert_eq!(step(after_retract(&[0], add)), (vec![firing(0)], vec![]));
        assert_eq!(step(after_retract(&[0, 0], add)), (vec![firing(0)], vec![]), "a repetition");
        assert_eq!(step(after_retract(&[5, 0], add)), (vec![firing(5)], vec![]), "it occurred before");
        assert_eq!(step(after_retract(&[0, 5], add)), (vec![], vec![firing(5)]));
        assert!(after_retract(&[0], add).is_other_content(&firing(5)));
        assert!(!after_retract(&[0], add).is_other_content(&firing(0)));
    }

    #[test]
    fn a_firing_that_comes_while_the_ledger_takes_the_first_one_out_is_new() {
        let mut state = after_retract(&[0], |state, event| state.add_event(event, BEGIN, None));
        let asked = retract_input(&state, BEGIN).unwrap();
        state.add_event(firing(5), BEGIN, None);
        apply_retract(&mut state, &asked, (), BEGIN);
        assert_eq!((state.pending.into_events(), state.retracts.len()), (vec![firing(5)], 0));
    }

    #[test]
    fn the_ledger_decides_about_a_firing_after_a_retract_that_found_nothing_pending() {
        let mut state = after_retract(&[], |_, _| ());
        state.add_retract(Retract::Event("fp".into()));
        assert!(state.is_other_content(&firing(5)));
        state.add_event(firing(5), BEGIN, None);
        assert!(state.is_other_content(&firing(6)));
        let carried: DigestRunState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        for state in [state, carried] {
            assert_eq!(state.dated_retracts(), [Retract::Event("fp".into())]);
            assert_eq!(step(state), (vec![], vec![firing(5)]));
        }
    }

    #[test]
    fn a_second_retract_covers_the_firing_in_between() {
        let mut state = after_retract(&[0, 5], |state, event| state.add_event(event, BEGIN, None));
        let until = |seconds| [Retract::Event("fp".into()).with_until(firing(seconds).occurred_at)];
        assert_eq!(state.dated_retracts(), until(0));
        state.add_retract(Retract::Event("fp".into()));
        assert_eq!(state.dated_retracts(), until(5));
        assert_eq!(step(state), (vec![firing(5)], vec![]));
    }

    #[test]
    fn a_run_that_an_earlier_version_began_knows_the_id_alone() {
        let add = |state: &mut DigestRunState, event| state.add_by_id(event, BEGIN, None);
        assert_eq!(step(after_retract(&[0, 5], add)), (vec![firing(0)], vec![]));
        let mut state = after_retract(&[], |_, _| ());
        state.add_retract(Retract::Event("fp".into()));
        add(&mut state, firing(5));
        assert_eq!(step(state), (vec![firing(5)], vec![]), "whatever came after its retract");
    }

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

    fn heads(state: &DigestRunState) -> Vec<usize> {
        state.dead_letters.iter().map(|letter| letter.head.len()).collect()
    }

    #[test]
    fn letters_keep_their_heads_while_there_is_room() {
        let mut state = DigestRunState::new(None, "run".into());
        for (seq, bytes) in [200 * 1024, 56 * 1024 + 1, 56 * 1024, 1, 0].into_iter().enumerate() {
            keep_dead_letter(&mut state, letter(seq as u64, bytes));
        }
        assert_eq!((state.malformed, heads(&state)), (5, vec![200 * 1024, 0, 56 * 1024, 0, 0]));
    }

    #[test]
    fn letters_beyond_the_room_are_counted() {
        let mut state = DigestRunState::new(None, "run".into());
        for seq in 0..502 {
            keep_dead_letter(&mut state, letter(seq, 0));
        }
        assert_eq!((state.malformed, state.dead_letters.len()), (502, 500));
    }

    #[test]
    fn letters_that_came_since_stay_when_the_others_are_recorded() {
        let mut state = DigestRunState::new(None, "run".into());
        for seq in 0..2 {
            keep_dead_letter(&mut state, letter(seq, 1));
        }
        let asked = dead_letters_input(&state, "digest/of/no/key".into()).unwrap();
        assert_eq!(
            (asked.workflow_id.as_str(), asked.run_id.as_str(), asked.letters.len()),
            ("digest/of/no/key", "run", 2)
        );
        keep_dead_letter(&mut state, letter(2, 1));
        apply_dead_letters(&mut state, &asked, (), Timestamp::UNIX_EPOCH);
        assert_eq!(state.dead_letters.iter().map(|letter| letter.seq).collect::<Vec<_>>(), [2]);
        apply_dead_letters(&mut state, &asked, (), Timestamp::UNIX_EPOCH);
        assert!(state.dead_letters.is_empty());
    }
}
