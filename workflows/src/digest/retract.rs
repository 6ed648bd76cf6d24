//! Step `retract`: the ledger records which events producers withdraw.

use jiff::Timestamp;
use tidings_model::step::RetractInput;

use super::{pending::PAGE_EVENTS, state::State};

/// The input: a page of retracts, with the pending events that they cover.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<RetractInput> {
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

/// Removes the withdrawn events. A retract goes when no pending event is left that it covers.
pub(super) fn apply(state: &mut State, done: &RetractInput, (): (), _: Timestamp) {
    let ids = state.pending.unchanged(&done.events);
    state.forget(&ids);
    if state.covered_by(&done.retracts).is_empty() {
        for retract in &done.retracts {
            state.forget_retract(retract);
        }
    }
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
    fn after_retract(firings: &[i64], add: fn(&mut State, Event)) -> State {
        let key = Key::new("acme".into(), "alerts".into(), "ann".into()).unwrap();
        let mut state = State::new(Some(key), "run".into());
        for (number, seconds) in firings.iter().enumerate() {
            add(&mut state, firing(*seconds));
            if number == 0 {
                state.retract(Retract::Event("fp".into()));
            }
        }
        state
    }

    /// The pending events, and those that the ledger is to take out, before and after the step.
    fn step(mut state: State) -> (Vec<Event>, Vec<Event>) {
        let asked = input(&state, BEGIN).unwrap();
        let covered = asked.events.clone();
        apply(&mut state, &asked, (), BEGIN);
        assert!(state.retracts.is_empty() && state.retracted_until.is_empty());
        (covered, state.pending.into_events())
    }

    #[test]
    fn what_comes_after_its_retract_and_occurred_later_is_new() {
        let add = |state: &mut State, event| state.add(event, BEGIN, None);
        assert_eq!(step(after_retract(&[0], add)), (vec![firing(0)], vec![]));
        assert_eq!(step(after_retract(&[0, 0], add)), (vec![firing(0)], vec![]), "a repetition");
        assert_eq!(step(after_retract(&[5, 0], add)), (vec![firing(5)], vec![]), "it occurred before");
        assert_eq!(step(after_retract(&[0, 5], add)), (vec![], vec![firing(5)]));
        assert!(after_retract(&[0], add).is_other_content(&firing(5)));
        assert!(!after_retract(&[0], add).is_other_content(&firing(0)));
    }

    #[test]
    fn a_firing_that_comes_while_the_ledger_takes_the_first_one_out_is_new() {
        let mut state = after_retract(&[0], |state, event| state.add(event, BEGIN, None));
        let asked = input(&state, BEGIN).unwrap();
        state.add(firing(5), BEGIN, None);
        apply(&mut state, &asked, (), BEGIN);
        assert_eq!((state.pending.into_events(), state.retracts.len()), (vec![firing(5)], 0));
    }

    #[test]
    fn the_ledger_decides_about_a_firing_after_a_retract_that_found_nothing_pending() {
        let mut state = after_retract(&[], |_, _| ());
        state.retract(Retract::Event("fp".into()));
        assert!(state.is_other_content(&firing(5)));
        state.add(firing(5), BEGIN, None);
        assert!(state.is_other_content(&firing(6)));
        let carried: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        for state in [state, carried] {
            assert_eq!(state.dated_retracts(), [Retract::Event("fp".into())]);
            assert_eq!(step(state), (vec![], vec![firing(5)]));
        }
    }

    #[test]
    fn a_second_retract_covers_the_firing_in_between() {
        let mut state = after_retract(&[0, 5], |state, event| state.add(event, BEGIN, None));
        let until = |seconds| [Retract::Event("fp".into()).until(firing(seconds).occurred_at)];
        assert_eq!(state.dated_retracts(), until(0));
        state.retract(Retract::Event("fp".into()));
        assert_eq!(state.dated_retracts(), until(5));
        assert_eq!(step(state), (vec![firing(5)], vec![]));
    }

    #[test]
    fn a_run_that_an_earlier_version_began_knows_the_id_alone() {
        let add = |state: &mut State, event| state.add_by_id(event, BEGIN, None);
        assert_eq!(step(after_retract(&[0, 5], add)), (vec![firing(0)], vec![]));
        let mut state = after_retract(&[], |_, _| ());
        state.retract(Retract::Event("fp".into()));
        add(&mut state, firing(5));
        assert_eq!(step(state), (vec![firing(5)], vec![]), "whatever came after its retract");
    }
}
