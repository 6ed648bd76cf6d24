//! Property test of the state against a model of the store: random sequences of events, commands, lost answers,
//! lost workflow tasks, new runs, a cancel and time. Every event ends in exactly one digest, and each message
//! has all events of its digest. No message goes out during a hold or a pause, after a drop, before its time,
//! in quiet hours unless somebody wanted that, or with a withdrawn event.

use proptest::prelude::*;

mod answers;
mod counts;
mod deliveries;
mod drops;
mod examples;
mod flushes;
mod ledger;
mod limits;
mod pauses;
mod quiet_hours;
mod releases;
mod returned;
mod runs;
mod stashes;
mod step;
mod undo;
mod world;

use step::{Step, step};
use world::{Model, World};

use super::state::RepetitionMode;

proptest! {
    #[test]
    fn every_event_ends_in_exactly_one_digest(
        steps in prop::collection::vec(step(), 1..200),
        max_events in prop_oneof![2 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(7))],
        slides in any::<bool>(),
        undoes in any::<bool>(),
        has_quiet_hours in any::<bool>(),
        counts_known in prop::bool::weighted(0.2),
        cancel in any::<bool>(),
    ) {
        let mut world = World::new(Model { max_events, slides, undoes, has_quiet_hours });
        if counts_known {
            world.state.repetitions = RepetitionMode::Counted;
        }
        world.commit();
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
