//! Stories of events that a failed digest returned (rule 25).

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan};
use tidings_model::{
    command::{HoldCommand, ReopenCommand, RetimeCommand},
    window::DigestOutcome,
};

use super::{
    step::{Answer, Step},
    world::{EVERY_EVENT, Model, SLIDING, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, clear_finished_commands, decide},
    status::{DigestStage, DigestStatus},
};

/// Minutes from a return to its deadline.
const WAIT: i64 = 480;

/// The first digest has returned event 1.
fn returned(model: Model) -> World {
    let mut world = World::new(model);
    world.add(1, 0);
    fail(&mut world);
    world
}

/// Lets every attempt fail until one more digest has ended.
fn fail(world: &mut World) {
    let before = world.state.summary.digests;
    while world.state.summary.digests == before {
        clear_finished_commands(&mut world.state, world.now);
        match decide(&world.state, world.now) {
            DigestDecision::Wait(until) => world.now = until,
            DigestDecision::Finish => panic!("nothing is left to fail"),
            _ => world.act(false, Answer::Deferred),
        }
    }
}

fn outcome(world: &World, id: &str) -> DigestOutcome {
    world.ledger.ended[&world.ledger.events[id]].outcome
}

#[test]
fn returned_events_open_a_window_of_their_own() {
    for model in [Model::default(), SLIDING, EVERY_EVENT] {
        let mut world = returned(model);
        let due_at = world.now + WAIT.minutes();
        assert_eq!(world.waits(), due_at);
        world.settle();
        assert_eq!((world.now, outcome(&world, "1")), (due_at, DigestOutcome::Sent));
        world.check();
    }
}

#[test]
fn an_event_returns_twice_and_then_stays_with_the_failed_digest() {
    let mut world = returned(Model::default());
    fail(&mut world);
    assert_eq!(world.state.returned(), 1);
    fail(&mut world);
    clear_finished_commands(&mut world.state, world.now);
    assert_eq!((world.state.returned.clone(), decide(&world.state, world.now)), (None, DigestDecision::Finish));
    assert_eq!((outcome(&world, "1"), world.state.summary.digests), (DigestOutcome::Failed, 3));
    world.check();
}

#[test]
fn an_event_that_joins_brings_the_time_forward() {
    let mut world = returned(Model::default());
    world.waits();
    world.take(&Step::Tick { minutes: 60 });
    world.add(2, 0);
    let opened_at = world.now;
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
    assert_eq!(world.waits(), opened_at + 30.minutes());
    assert_eq!(world.state.open.as_ref().unwrap().planned_from.as_ref().unwrap().opened_at, opened_at);
    world.settle();
    assert_eq!(world.ledger.events["1"], world.ledger.events["2"]);
    world.check();
}

#[test]
fn an_event_late_in_the_wait_delays_nothing() {
    let mut world = returned(Model::default());
    let due_at = world.waits();
    world.now = due_at - 1.minute();
    world.add(2, 0);
    assert_eq!(world.waits(), due_at);
}

#[test]
fn a_known_event_changes_nothing_about_the_window() {
    let mut world = returned(Model::default());
    let due_at = world.waits();
    world.take(&Step::Tick { minutes: 60 });
    world.add(1, 0);
    assert_eq!(world.waits(), due_at);
    assert_eq!((world.state.collected(), world.state.returned()), (0, 1));
}

#[test]
fn returned_events_do_not_fill_a_window() {
    let mut world = World::new(Model { max_events: Some(2), ..Model::default() });
    world.add(1, 0);
    fail(&mut world);
    world.waits();
    world.add(2, 0);
    let due_at = world.now + 30.minutes();
    assert_eq!(world.waits(), due_at);
}

#[test]
fn the_status_has_the_returned_events_their_time_and_the_reason() {
    let mut world = returned(Model::default());
    let due_at = world.waits();
    let status = DigestStatus::new(&world.state, None, world.now);
    assert_eq!((status.state, status.pending, status.returned), (DigestStage::Collecting, 1, 1));
    assert_eq!(status.due_at, Some(due_at));
    assert!(status.to_string().contains("1 event pending, 1 of them returned by a failed digest, due at "), "{status}");
}

#[test]
fn a_hold_and_a_pause_keep_what_was_returned() {
    let mut world = returned(Model::default());
    let due_at = world.waits();
    let hold = HoldCommand { order: order(), until: None };
    assert_eq!(commands::hold(&mut world.state, hold, world.now).events, 1);
    world.now = due_at;
    assert_eq!(world.waits(), Timestamp::MAX);
    commands::release(&mut world.state, order().into(), world.now);
    world.take(&Step::Pause { minutes: Some(90), signalled: true });
    assert!(world.waits() > world.now && world.state.pause(world.now).is_some());

    let mut world = returned(Model::default());
    let now = world.now;
    world.waits();
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).events, 1);
    world.settle();
    assert_eq!((world.now, outcome(&world, "1")), (now, DigestOutcome::Sent));
}

#[test]
fn a_drop_and_a_cancel_end_returned_events() {
    for cancel in [false, true] {
        let mut world = returned(Model::default());
        world.waits();
        if cancel {
            world.take(&Step::Cancel);
        } else {
            assert_eq!(commands::discard(&mut world.state, order()).events, 1);
        }
        world.settle();
        assert_eq!(outcome(&world, "1"), DigestOutcome::Dropped, "{cancel}");
        world.before_an_end.insert("1".to_owned());
        world.check();
    }
}

#[test]
fn a_drop_ends_events_that_were_returned_meanwhile() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    while world.state.delivering.as_ref().is_none_or(|digest| digest.attempts < 5) {
        world.advance(Answer::Deferred);
    }
    let DigestDecision::Wait(until) = decide(&world.state, world.now) else { panic!("not retrying") };
    world.now = until;
    // The answer of the last attempt is lost, and the drop closes the digest.
    world.act(true, Answer::Deferred);
    world.take(&Step::Drop);
    world.settle();
    assert_eq!(outcome(&world, "1"), DigestOutcome::Dropped);
    world.check();
}

#[test]
fn a_reopened_digest_takes_its_events_back_and_leaves_no_window() {
    let mut world = returned(Model::default());
    world.waits();
    let digest_id = world.ledger.events["1"];
    let reopen = ReopenCommand { order: order(), digest_id, may_duplicate: false };
    assert_eq!(commands::reopen(&mut world.state, reopen, world.now), None);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Reopen);
    world.act(false, Answer::Good);
    assert_eq!((world.state.returned.clone(), world.state.open.clone()), (None, None));
    world.settle();
    assert_eq!((outcome(&world, "1"), world.ledger.ended.len()), (DigestOutcome::Sent, 1));
    world.check();
}

#[test]
fn a_reopened_digest_leaves_events_that_joined_their_window() {
    let mut world = returned(Model::default());
    world.waits();
    world.add(2, 0);
    world.waits();
    let reopen = ReopenCommand { order: order(), digest_id: world.ledger.events["1"], may_duplicate: false };
    commands::reopen(&mut world.state, reopen, world.now);
    let window = |world: &World| world.state.open.as_ref().map(|open| open.window.digest_id);
    let opened = window(&world);
    world.act(false, Answer::Good);
    assert!(opened.is_some() && world.state.delivering.is_some());
    assert_eq!((window(&world), world.state.returned()), (opened, 0));
    world.settle();
    assert_eq!(["1", "2"].map(|id| outcome(&world, id)), [DigestOutcome::Sent; 2]);
    assert_ne!(world.ledger.events["1"], world.ledger.events["2"]);
}

#[test]
fn events_that_a_reopened_digest_returns_join_the_open_window() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Drop);
    world.settle();
    world.add(2, 0);
    world.waits();
    let reopen = ReopenCommand { order: order(), digest_id: world.ledger.events["1"], may_duplicate: false };
    commands::reopen(&mut world.state, reopen, world.now);
    fail(&mut world);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan, "the return is no part of the plan yet");
    world.settle();
    assert_eq!(world.ledger.mails[&world.ledger.events["1"]], BTreeSet::from(["1".to_owned(), "2".to_owned()]));
    world.check();
}

#[test]
fn an_event_opens_the_window_that_returned_ones_wait_for() {
    for event_first in [false, true] {
        let mut world = returned(Model::default());
        if event_first {
            world.add(2, 0);
        }
        world.waits();
        assert_eq!(world.state.open.as_ref().unwrap().by_return, !event_first);
    }
}

#[test]
fn an_operator_gives_returned_events_another_time() {
    let mut world = returned(Model::default());
    world.waits();
    let at = world.now + 5.minutes();
    let retimed = commands::retime(&mut world.state, RetimeCommand { order: order(), at: Some(at) }, world.now);
    assert_eq!((retimed.events, retimed.due_at), (1, Some(at)));
    assert_eq!(world.waits(), at);
}

#[test]
fn returned_events_survive_continue_as_new() {
    let mut world = returned(Model::default());
    world.roll();
    let due_at = world.waits();
    world.roll();
    assert_eq!(world.waits(), due_at);
    world.settle();
    world.check();
}

#[test]
fn a_known_event_tells_a_new_workflow_of_returned_events() {
    let mut world = returned(Model::default());
    let due_at = world.now + WAIT.minutes();
    // The run was terminated, and its events are emitted again.
    world.state = crate::digest::DigestRunState::new(world.state.key.clone(), "another".into());
    world.commit();
    world.add(1, 0);
    assert_eq!(world.waits(), due_at);
    world.settle();
    assert_eq!(outcome(&world, "1"), DigestOutcome::Sent);
    world.check();
}
