//! Stories of flushes on the model.

use std::collections::BTreeSet;

use jiff::ToSpan;
use tidings_model::step::{ClaimAnswer, Closed, Ending, Outcome};

use super::{
    step::{Answer, Step},
    world::{EVERY_EVENT, Model, World, order},
};
use crate::digest::{
    claim, commands,
    decide::{Decision, decide},
};

#[test]
fn a_flush_takes_all_that_is_pending_also_under_an_instant_cadence() {
    let mut world = World::new(EVERY_EVENT);
    for id in 0..20 {
        world.add(id, 0);
    }
    assert_eq!(commands::flush(&mut world.state, order(), world.now).events, 20);
    world.settle();
    assert_eq!(world.ledger.mails.values().map(BTreeSet::len).collect::<Vec<_>>(), [20]);
}

#[test]
fn a_flush_goes_past_a_window_that_a_lost_task_ended() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Retract { id: 1, entity: false });
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), Decision::Claim);
    world.act(true, Answer::Good);
    world.add(2, 0);
    assert_eq!(commands::flush(&mut world.state, order(), world.now).events, 1);
    let now = world.now;
    world.settle();
    assert_eq!((world.now, world.ledger.mails.len()), (now, 1));
    world.check();
}

#[test]
fn a_flush_ends_with_the_events_that_it_found() {
    for (taken, flushed) in [(0, true), (1, false)] {
        let mut world = World::collecting(Model::default());
        commands::flush(&mut world.state, order(), world.now);
        let asked = claim::input(&world.state, world.now).unwrap();
        world.add(2, 0);
        let closed = Closed { outcome: Outcome::Skipped, why: String::new() };
        let nothing = ClaimAnswer::Nothing(Ending { closed, taken, returned: None });
        claim::apply(&mut world.state, &asked, nothing, world.now);
        assert_eq!(world.state.flushed, flushed, "{taken} taken");
    }
}

#[test]
fn a_flush_during_a_deferred_claim_is_carried_out() {
    let mut world = World::collecting(Model::default());
    let Decision::Wait(due_at) = decide(&world.state, world.now) else { panic!("not collecting") };
    world.now = due_at;
    let asked = claim::input(&world.state, world.now).unwrap();
    commands::flush(&mut world.state, order(), world.now);
    let later = ClaimAnswer::Later {
        until: world.now + 10.hours(),
        why: String::new(),
        pause: None,
        limit_ends_at: None,
        unknown_since: None,
    };
    claim::apply(&mut world.state, &asked, later, world.now);
    assert_eq!(decide(&world.state, world.now), Decision::Audit);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), Decision::Claim);
    assert!(claim::input(&world.state, world.now).unwrap().flushed);
}
