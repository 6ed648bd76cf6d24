//! The state against a model of the store, under random interleavings of events, operators' commands, lost answers, lost
//! workflow tasks, rolls, a cancel and the passing of time. Every event ends in exactly one digest, and no mail misses one of
//! its events. Nothing goes out during a hold, after a drop, before its time, or before what takes it back is known.

use proptest::prelude::*;

mod examples;
mod ledger;
mod step;
mod world;

use step::{Step, step};
use world::{Model, World};

proptest! {
    #[test]
    fn every_event_ends_in_exactly_one_digest(
        steps in prop::collection::vec(step(), 1..200),
        max_events in prop_oneof![2 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(7))],
        slides in any::<bool>(),
        cancel in any::<bool>(),
    ) {
        let mut world = World::new(Model { max_events, slides });
        for step in &steps {
            world.take(step);
        }
        if cancel {
            world.take(&Step::Cancel);
        }
        world.settle();
        world.check();
    }
}
