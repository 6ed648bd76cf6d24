//! Stories of what one run hands to the next.

use tidings_model::{Event, Retract};

use super::{
    ledger::event,
    world::{Model, World},
};
use crate::digest::state::DigestRunState;

/// Bytes of events and retracts that a run hands over.
const MOST: usize = 512 * 1024;

/// A planned window with this many bytes of pending events.
fn collecting(bytes: usize) -> World {
    let mut world = World::collecting(Model::default());
    for id in 2..6 {
        world.add(id, 100);
    }
    let filled = |bytes: usize| {
        let payload = [("fill".to_owned(), "x".repeat(bytes).into())].into_iter().collect();
        Event { payload, ..event("6") }
    };
    let empty = serde_json::to_vec(&filled(0)).unwrap().len();
    let last = filled(bytes - world.state.pending.bytes() - empty);
    world.state.add_event(last, world.now, None);
    assert_eq!((world.state.pending.len(), world.state.pending.bytes()), (6, bytes));
    world
}

/// Returns the number of events that the next run gets, and of those that it has to read back.
fn next(world: &mut World) -> (usize, u64) {
    world.roll();
    (world.state.pending.len(), world.state.open.as_ref().unwrap().unread)
}

#[test]
fn a_run_hands_over_what_fits_and_leaves_the_rest() {
    assert_eq!(next(&mut collecting(MOST)), (6, 0));
    let mut world = collecting(MOST + 1);
    assert_eq!(next(&mut world), (0, 6));
    let DigestRunState { open, .. } = &world.state;
    let open = open.as_ref().unwrap();
    assert_eq!((open.runs.as_slice(), open.compared, world.state.collected()), (&["0".to_owned()][..], 0, 6));
    for id in 7..10 {
        world.add(id, 250);
    }
    assert_eq!(next(&mut world), (0, 9), "a second run leaves its own behind");
}

#[test]
fn retracts_count_as_what_a_run_hands_over() {
    let retract = Retract::Event("r".repeat(100));
    let mut world = collecting(MOST - retract.bytes());
    world.state.add_retract(retract.clone());
    assert_eq!((next(&mut world), world.state.retracts.len()), ((6, 0), 1));
    let mut world = collecting(MOST - retract.bytes() + 1);
    world.state.add_retract(retract);
    assert_eq!((next(&mut world), world.state.retracts.len()), ((0, 6), 0));
}
