//! Stories of a message that waits, so that an operator can take it back.

use std::collections::BTreeSet;

use jiff::ToSpan;
use tidings_model::window::DigestOutcome;

use super::{
    step::{Answer, Step},
    world::{EVERY_EVENT, Model, UNDO, World, order},
};
use crate::{
    digest::{
        commands,
        decide::{DigestDecision, decide, planned_summary, waits_for_undo},
        status::{DigestStage, DigestStatus},
    },
    driver::after_delay,
};

const UNDOES: Model = Model { max_events: None, slides: false, undoes: true, has_quiet_hours: false };

/// One event, and the message waits.
fn waiting(cadence: Model) -> World {
    let mut world = World::new(cadence);
    world.add(1, 0);
    while world.state.delivering.as_ref().is_none_or(|digest| !digest.rendered) {
        if let DigestDecision::Wait(until) = decide(&world.state, world.now) {
            world.now = until;
        }
        world.act(false, Answer::Good);
    }
    world
}

fn status(world: &World) -> DigestStatus {
    DigestStatus::new(&world.state, None, world.now)
}

fn outcomes(world: &World) -> Vec<DigestOutcome> {
    world.ledger.ended.values().map(|closed| closed.outcome).collect()
}

#[test]
fn a_message_waits_after_it_is_made_and_says_until_when() {
    let mut world = waiting(UNDOES);
    let at = after_delay(world.now, UNDO);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(at));
    world.roll();
    let mut later = world.state.clone();
    later.delivering.as_mut().unwrap().not_before = Some(after_delay(at, UNDO));
    assert_eq!(DigestStatus::new(&later, None, at).state, DigestStage::Retrying, "it cannot be taken back any more");
    let told = status(&world);
    let delivery = told.delivering.unwrap();
    assert_eq!((told.state, delivery.next_attempt_at, delivery.attempts), (DigestStage::Undoable, Some(at), 0));
    assert_eq!(delivery.why, format!("waits until {at:.0}; tidings digest drop takes it back"));
    world.now = at;
    assert_eq!(decide(&world.state, at), DigestDecision::Send);
    world.act(false, Answer::Deferred);
    let told = status(&world);
    assert_eq!((told.state, told.delivering.unwrap().attempts), (DigestStage::Retrying, 1));
    world.settle();
    assert_eq!(outcomes(&world), [DigestOutcome::Sent]);
}

#[test]
fn a_drop_takes_the_message_back() {
    let mut world = waiting(UNDOES);
    world.take(&Step::Drop);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Close);
    world.settle();
    assert_eq!(outcomes(&world), [DigestOutcome::Dropped]);
}

#[test]
fn a_flush_sends_the_message_at_once() {
    let mut world = waiting(UNDOES);
    let flushed = commands::flush(&mut world.state, order(), true, world.now);
    assert_eq!((flushed.events, flushed.hurried, flushed.behind), (0, true, world.state.delivering_id()));
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Send);
    assert_eq!(status(&world).delivering.unwrap().why, "");
}

#[test]
fn a_flushed_or_urgent_window_does_not_wait() {
    for urgent in [false, true] {
        let mut world = World::new(UNDOES);
        world.take(&Step::Add { id: 1, kilobytes: 0, urgent });
        world.act(false, Answer::Good);
        if !urgent {
            world.take(&Step::Flush);
        }
        let began = world.now;
        world.settle();
        assert_eq!((world.now, outcomes(&world)), (began, vec![DigestOutcome::Sent]), "urgent: {urgent}");
    }
}

#[test]
fn events_that_come_while_a_message_waits_make_one_digest() {
    let mut world = waiting(Model { undoes: true, ..EVERY_EVENT });
    world.add(2, 0);
    world.add(3, 0);
    world.settle();
    assert_eq!(world.ledger.mails.values().map(BTreeSet::len).max(), Some(2));
    assert_eq!(outcomes(&world), [DigestOutcome::Sent, DigestOutcome::Sent]);
}

#[test]
fn the_plan_says_that_a_message_can_be_taken_back() {
    let mut world = World::collecting(UNDOES);
    let step = "waits 2m, in which tidings digest drop takes it back";
    assert!(status(&world).why.ends_with(step), "{}", status(&world).why);
    assert_eq!(planned_summary(&world.state).unwrap().why, step);
    world.now += 1.minutes();
    world.take(&Step::Flush);
    assert!(!planned_summary(&world.state).unwrap().why.contains(step));
}

#[test]
fn only_a_wait_to_take_a_message_back_needs_its_patch() {
    let world = waiting(UNDOES);
    let wait = decide(&world.state, world.now);
    assert!(waits_for_undo(&world.state, wait));
    assert!(!waits_for_undo(&world.state, DigestDecision::Send));
    let at_once = waiting(Model::default());
    assert!(!waits_for_undo(&at_once.state, wait));
    assert!(!waits_for_undo(&World::collecting(UNDOES).state, wait));
}
