//! Stories of pages that leave workflow state for the ledger, on the model.

use tidings_model::step::StashAnswer;

use super::world::{Model, World};
use crate::digest::{
    state::{OpenWindow, RepetitionMode},
    window,
};

/// An answer without a number of events, as earlier versions gave it.
fn taken(taken: u64) -> StashAnswer {
    StashAnswer { taken, returned: None, events: None }
}

/// Stashes what is pending.
fn stashed(world: &mut World, answer: StashAnswer) -> &OpenWindow {
    let asked = window::begin_stash(&mut world.state, world.now).unwrap();
    window::apply_stash(&mut world.state, &asked, answer, world.now);
    world.state.open.as_ref().unwrap()
}

#[test]
fn a_page_that_is_taken_in_part_closes_the_window() {
    let mut world = World::collecting(Model::default());
    world.add(2, 0);
    assert!(!stashed(&mut world, taken(2)).closed_to_events);
    world.add(3, 0);
    world.add(4, 0);
    assert!(stashed(&mut world, taken(1)).closed_to_events);
    assert_eq!(world.state.pending.contents_after(0).0, ["4"]);
    assert!(stashed(&mut world, taken(1)).closed_to_events, "for good");
}

#[test]
fn the_ledger_or_in_older_runs_a_sum_counts_stashed_events() {
    let mut world = World::collecting(Model::default());
    world.state.repetitions = RepetitionMode::Counted;
    world.add(2, 0);
    assert_eq!(stashed(&mut world, taken(2)).stashed, 2);
    let open = world.state.open.as_mut().unwrap();
    (open.unread, open.runs) = (5, vec!["0".to_owned(), "1".to_owned()]);
    let open = stashed(&mut world, taken(0));
    assert_eq!((open.stashed, open.unread, open.runs.as_slice()), (2, 5, &["1".to_owned()][..]));
    let open = stashed(&mut world, taken(0));
    assert_eq!((open.stashed, open.unread, open.runs.len()), (7, 0, 0));
    world.add(3, 0);
    assert_eq!(stashed(&mut world, StashAnswer { events: Some(4), ..taken(1) }).stashed, 4);
}
