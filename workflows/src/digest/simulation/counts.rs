//! Stories of a window with `max_events`, and of events that the ledger knows (rule 3).

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::{
    step::{Answer, Step},
    world::{Model, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, decide, treats_repetitions, waits_for_first},
    state::{RepetitionMode, UnusedRunMode},
    status::DigestStatus,
};

/// The ledger knows the first events from a digest that was sent.
fn knows(events: u16, max_events: u32) -> World {
    let mut world = World::new(Model::default());
    for id in 0..events {
        world.add(id, 0);
    }
    world.settle();
    world.cadence.max_events = Some(max_events);
    world
}

fn mails(world: &World) -> Vec<usize> {
    world.ledger.mails.values().map(BTreeSet::len).collect()
}

/// The pending events of the status, and those that may be repetitions.
fn pending(world: &World) -> (u64, u64) {
    let DigestStatus { pending, uncompared, .. } = DigestStatus::new(&world.state, None, world.now);
    (pending, uncompared)
}

proptest! {
    /// The new events come in any order with repetitions, in one workflow task or many, and in several runs.
    #[test]
    fn the_last_new_event_fills_a_window_and_no_repetition_does(
        most in 2..8u16,
        repetitions in prop::collection::vec((0..8u16, 0..20u16), 0..40),
        rolls in any::<bool>(),
        acts in any::<bool>(),
    ) {
        let mut world = knows(20, most.into());
        let sent = world.ledger.mails.len();
        for id in 100..100 + most - 1 {
            for (_, known) in repetitions.iter().filter(|(at, _)| *at == id - 100) {
                world.add(*known, 0);
                if acts {
                    world.act(false, Answer::Good);
                }
            }
            world.add(id, 0);
            if rolls {
                world.roll();
            }
        }
        for (_, known) in &repetitions {
            world.add(*known, 0);
        }
        let due_at = world.waits();
        prop_assert_eq!(due_at.duration_since(world.now).as_mins(), 30);
        prop_assert_eq!((world.ledger.mails.len(), pending(&world).0 < u64::from(most)), (sent, true));
        world.add(200, 0);
        while world.ledger.mails.len() == sent {
            prop_assert!(!matches!(decide(&world.state, world.now), DigestDecision::Wait(_)), "not full");
            world.act(false, Answer::Good);
        }
        prop_assert!(mails(&world).contains(&usize::from(most)), "{:?}", mails(&world));
        world.settle();
        world.check();
    }
}

#[test]
fn the_status_counts_a_repetition_apart_until_a_plan_finds_it_known() {
    let mut world = knows(2, 3);
    world.add(10, 0);
    world.waits();
    assert_eq!(pending(&world), (1, 0));
    world.add(0, 0);
    world.waits();
    assert_eq!(pending(&world), (1, 1), "fewer than would fill the window are not compared");
    let words = DigestStatus::new(&world.state, None, world.now).to_string();
    assert!(words.contains("1 event pending, and 1 not compared with the ledger yet, due at "), "{words}");
    world.add(1, 0);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Compare);
    world.waits();
    assert_eq!(pending(&world), (1, 0));
    let DigestStatus { state, why, .. } = DigestStatus::new(&world.state, None, world.now);
    assert_eq!((state.to_string().as_str(), why.as_str()), ("collecting", ""));
}

#[test]
fn a_repetition_of_an_event_in_the_open_window_fills_nothing() {
    let mut world = World::new(Model { max_events: Some(700), ..Model::default() });
    for id in 0..600 {
        world.add(id, 0);
    }
    world.waits();
    assert_eq!(world.state.open.as_ref().unwrap().stashed, 500);
    for id in 0..400 {
        world.add(id, 0);
    }
    world.waits();
    assert_eq!(pending(&world).0, 600);
    for id in 600..700 {
        world.add(id, 0);
    }
    let now = world.now;
    world.settle();
    assert_eq!((world.now, mails(&world)), (now, vec![700]));
    world.check();
}

#[test]
fn a_full_window_is_claimed_without_a_page_in_the_ledger_first() {
    let mut world = World::collecting(Model { max_events: Some(7), ..Model::default() });
    for id in 2..602 {
        world.add(id, 0);
    }
    assert_eq!(decide(&world.state, world.now), DigestDecision::Compare);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
}

#[test]
fn known_events_that_collected_behind_a_delivery_are_stashed_and_not_counted() {
    let mut world = World::new(Model::default());
    for id in 0..600 {
        world.add(id, 0);
    }
    world.settle();
    world.cadence.max_events = Some(610);
    world.add(1000, 0);
    while world.state.delivering.as_ref().is_none_or(|digest| digest.attempts == 0) {
        world.advance(Answer::Deferred);
    }
    for id in (0..600).chain(2000..2020) {
        world.add(id, 0);
    }
    world.waits();
    let open = world.state.open.as_ref().unwrap();
    assert_eq!((open.stashed, world.state.collected()), (0, 120), "the ledger took a page of known events");
    world.settle();
    assert_eq!(mails(&world).iter().max(), Some(&600));
    assert!(mails(&world).contains(&20), "{:?}", mails(&world));
    world.check();
}

#[test]
fn a_hold_compares_nothing_and_a_flush_takes_everything() {
    let mut world = knows(3, 2);
    world.add(10, 0);
    world.waits();
    world.take(&Step::Hold { minutes: None });
    world.waits();
    world.add(0, 0);
    assert!(matches!(decide(&world.state, world.now), DigestDecision::Wait(_)), "a key on hold costs nothing");
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).events, 2);
    commands::release(&mut world.state, order().into(), world.now);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim, "nothing is compared, either");
    let now = world.now;
    world.settle();
    assert_eq!((world.now, mails(&world).contains(&1)), (now, true));
    world.check();
}

#[test]
fn a_retracted_event_does_not_count_and_an_event_after_it_does() {
    let mut world = knows(2, 3);
    for id in [10, 11] {
        world.add(id, 0);
    }
    world.waits();
    world.take(&Step::Retract { id: 10, entity: false });
    world.add(0, 0);
    world.waits();
    world.add(12, 0);
    world.waits();
    assert_eq!(pending(&world), (2, 0));
    let now = world.now;
    world.add(13, 0);
    world.settle();
    assert_eq!((world.now, mails(&world).contains(&3)), (now, true));
    world.check();
}

#[test]
fn a_run_that_an_earlier_version_began_counts_as_it_did() {
    let mut world = knows(2, 2);
    world.state.repetitions = RepetitionMode::Counted;
    world.commit();
    world.add(10, 0);
    world.waits();
    world.add(0, 0);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
    world.roll();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Compare, "the next run counts new events only");
}

#[test]
fn a_run_that_got_repetitions_only_waits_some_seconds_for_more() {
    let mut world = knows(1, 2);
    for _ in 0..3 {
        world.add(0, 0);
        assert_eq!(world.waits(), world.now + 5.seconds());
        world.now += 4.seconds();
    }
    world.now += 1.second();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish);

    world.add(10, 0);
    world.settle();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish, "a run that sent a digest waits for nothing");
    world.state.repetitions = RepetitionMode::Counted;
    world.add(0, 0);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish, "an earlier version began the run");
}

#[test]
fn a_run_that_got_no_event_yet_waits_some_seconds_for_one() {
    let mut world = World::new(Model::default());
    let until = world.now + 5.seconds();
    assert_eq!(world.waits(), until);
    assert!(waits_for_first(&world.state, DigestDecision::Wait(until)));
    world.state.unused = UnusedRunMode::Ends;
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish, "an earlier version began the run");
    world.state.unused = UnusedRunMode::Waits;
    world.add(0, 0);
    world.settle();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish, "a run that sent a digest waits for nothing");
    assert!(!waits_for_first(&world.state, DigestDecision::Wait(until)));
}

#[test]
fn only_steps_that_earlier_versions_did_not_take_need_their_patch() {
    let mut state = World::new(Model::default()).state;
    let wait = DigestDecision::Wait(Timestamp::UNIX_EPOCH);
    let mut treats = |repetitions, idle: bool, decision| {
        (state.repetitions, state.idle_since) = (repetitions, idle.then_some(Timestamp::UNIX_EPOCH));
        treats_repetitions(&state, decision)
    };
    assert!(treats(RepetitionMode::NothingElse, true, wait));
    assert!(!treats(RepetitionMode::NothingElse, false, wait));
    for (repetitions, new) in
        [(RepetitionMode::Apart, true), (RepetitionMode::NothingElse, true), (RepetitionMode::Counted, false)]
    {
        assert_eq!(treats(repetitions, true, wait), repetitions == RepetitionMode::NothingElse);
        for decision in [DigestDecision::Compare, DigestDecision::Stash] {
            assert_eq!(treats(repetitions, false, decision), new, "{repetitions:?} {decision:?}");
        }
        assert!(!treats(repetitions, true, DigestDecision::Plan));
    }
}
