//! Stories of a release of many keys on the model (rule 30).

use tidings_model::command::{HoldCommand, ReleaseCommand, ReleaseResult};

use super::{
    step::{Answer, Step},
    world::{Model, SHARE, World, order},
};
use crate::{
    digest::{
        commands,
        decide::{DigestDecision, decide},
        status::DigestStatus,
    },
    driver::after_delay,
};

fn hold(world: &mut World) {
    commands::hold(&mut world.state, HoldCommand { order: order(), until: None }, world.now);
    world.act(false, Answer::Good);
}

fn release(world: &mut World, spread: bool) -> ReleaseResult {
    let released = commands::release(&mut world.state, ReleaseCommand { order: order(), spread }, world.now);
    world.act(false, Answer::Good);
    released
}

/// Held, and due half an hour ago.
fn overdue() -> World {
    let mut world = World::collecting(Model::default());
    hold(&mut world);
    world.take(&Step::Tick { minutes: 60 });
    world
}

fn next(world: &World) -> DigestDecision {
    decide(&world.state, world.now)
}

#[test]
fn an_overdue_window_waits_for_its_share_and_says_so() {
    let mut world = overdue();
    let at = after_delay(world.now, SHARE);
    assert_eq!(release(&mut world, true).due_at, Some(at));
    assert_eq!(next(&world), DigestDecision::Wait(at));
    world.roll();
    let status = DigestStatus::new(&world.state, None, world.now);
    assert_eq!((status.due_at, status.why), (Some(at), format!("the hold is over; spread -> {at}")));
    world.now = at;
    assert_eq!(next(&world), DigestDecision::Claim);
    world.settle();
    assert_eq!(world.ledger.mails.len(), 1);
}

#[test]
fn a_key_that_an_operator_names_goes_out_at_once() {
    let mut world = overdue();
    release(&mut world, false);
    assert_eq!(next(&world), DigestDecision::Claim);
}

#[test]
fn a_flushed_key_is_not_spread() {
    let mut world = overdue();
    commands::flush(&mut world.state, order(), true, world.now);
    release(&mut world, true);
    assert_eq!(next(&world), DigestDecision::Claim);
}

#[test]
fn only_an_overdue_window_of_a_held_key_is_spread() {
    for held in [true, false] {
        let mut world = World::collecting(Model::default());
        let waiting = next(&world);
        if held {
            hold(&mut world);
        }
        world.take(&Step::Tick { minutes: 5 });
        release(&mut world, true);
        assert_eq!(next(&world), waiting, "held: {held}");
    }
    let mut due = World::collecting(Model::default());
    due.take(&Step::Tick { minutes: 60 });
    assert!(!commands::release(&mut due.state, ReleaseCommand { order: order(), spread: true }, due.now).held);
    assert_eq!(next(&due), DigestDecision::Claim);
}

#[test]
fn a_digest_in_delivery_waits_for_its_share_or_for_its_retry() {
    for minutes in [0, 60] {
        let mut world = World::retried();
        let DigestDecision::Wait(retry) = next(&world) else { panic!("no retry") };
        assert!(retry > after_delay(world.now, SHARE));
        hold(&mut world);
        world.take(&Step::Tick { minutes });
        release(&mut world, true);
        let at = if minutes == 0 { retry } else { after_delay(world.now, SHARE) };
        assert_eq!(next(&world), DigestDecision::Wait(at), "after {minutes} minutes");
        world.settle();
        assert_eq!(world.ledger.mails.len(), 1);
    }
}

#[test]
fn a_retry_that_is_due_with_the_share_keeps_its_reason() {
    let mut world = World::retried();
    let digest = world.state.delivering.as_mut().unwrap();
    digest.why = "451 later".to_owned();
    let Some(at) = digest.not_before else { panic!("no retry waits") };
    digest.wait_for(SHARE, "the hold is over", at - SHARE);
    assert_eq!((digest.not_before, digest.why.as_str()), (Some(at), "451 later"));
    digest.wait_for(SHARE, "the hold is over", at);
    assert_eq!(
        (digest.not_before, digest.why.clone()),
        (Some(at + SHARE), format!("the hold is over; spread -> {}", at + SHARE))
    );
}
