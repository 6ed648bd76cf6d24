//! Stories of flushes on the model.

use std::{collections::BTreeSet, time::Duration};

use jiff::{Timestamp, ToSpan};
use tidings_model::{
    command::ReopenResult,
    step::{ClaimAnswer, CloseAnswer, SendAnswer},
    window::{DigestOutcome, WaitReason, WindowEnd},
};

use super::{
    step::{Answer, Step},
    world::{EVERY_EVENT, Model, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, decide},
    delivery,
    status::{DigestStage, DigestStatus},
    window,
};

#[test]
fn a_flush_takes_all_that_is_pending_also_under_an_instant_cadence() {
    let mut world = World::new(EVERY_EVENT);
    for id in 0..20 {
        world.add(id, 0);
    }
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).events, 20);
    world.settle();
    assert_eq!(world.ledger.mails.values().map(BTreeSet::len).collect::<Vec<_>>(), [20]);
}

#[test]
fn a_flush_sends_what_waits_for_its_next_attempt_and_its_delays_begin_anew() {
    let mut world = World::retried();
    world.haste = true;
    world.now = world.waits();
    world.act(false, Answer::Deferred);
    assert!(world.waits() > world.now + 1.minute(), "the second delay is longer");
    let flushed = commands::flush(&mut world.state, order(), true, world.now);
    assert_eq!((flushed.events, flushed.hurried, flushed.behind), (0, true, world.state.delivering_id()));
    world.reach(DigestDecision::Send, Answer::Good);
    let began = world.now;
    world.act(false, Answer::Deferred);
    assert_eq!(world.waits(), began + 1.minute());
    let digest = world.state.delivering.as_ref().unwrap();
    assert_eq!((digest.attempts, digest.wait), (1, WaitReason::Flushed), "it goes at any hour from here on");
}

#[test]
fn a_flush_during_an_attempt_that_is_deferred_lets_one_more_follow_at_once() {
    let mut world = World::collecting(Model::default());
    world.reach(DigestDecision::Send, Answer::Good);
    world.haste = true;
    let attempt = |world: &mut World, flushes: bool| {
        let input = delivery::begin_send(&mut world.state, world.now).unwrap();
        if flushes {
            assert!(commands::flush(&mut world.state, order(), true, world.now).hurried);
        }
        let again_in = Some(Duration::from_hours(2));
        delivery::apply_send(&mut world.state, &input, SendAnswer::Deferred { why: "451".into(), again_in }, world.now);
    };
    attempt(&mut world, true);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Audit);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Send);
    attempt(&mut world, false);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(world.now + 2.hours()));
}

#[test]
fn a_flush_goes_past_no_pause_and_no_hold() {
    let mut world = World::retried();
    world.take(&Step::Hold { minutes: None });
    assert!(commands::flush(&mut world.state, order(), true, world.now).hurried);
    assert_eq!(world.waits(), Timestamp::MAX);
    let mut world = World::retried();
    world.take(&Step::Pause { signalled: false, minutes: None });
    world.now = world.waits();
    world.act(false, Answer::Good);
    assert!(!commands::flush(&mut world.state, order(), true, world.now).hurried);
}

#[test]
fn a_retry_of_the_message_in_delivery_sends_it_and_leaves_the_window_behind_it_alone() {
    let mut world = World::retried();
    world.add(2, 0);
    let reopened = commands::hurry_delivery(&mut world.state, order(), world.now);
    assert_eq!(reopened, ReopenResult { events: 1, refused: None });
    world.reach(DigestDecision::Send, Answer::Good);
    assert!(!world.state.flushed && world.state.waiting_count() == 1);
}

#[test]
fn what_waits_for_a_relay_is_not_shown_as_retried() {
    let mut world = World::collecting(Model::default());
    world.reach(DigestDecision::Send, Answer::Good);
    let input = delivery::begin_send(&mut world.state, world.now).unwrap();
    let until = world.now + 5.minutes();
    let waits =
        SendAnswer::Waiting { until, why: "second: policy".into(), pause: None, too_large: None, moment: false };
    delivery::apply_send(&mut world.state, &input, waits, world.now);
    let status = DigestStatus::new(&world.state, None, world.now);
    assert_eq!((status.state, status.delivering.unwrap().next_attempt_at), (DigestStage::Waiting, Some(until)));
    assert!(commands::flush(&mut world.state, order(), true, world.now).hurried, "it asks again at once");
}

#[test]
fn a_flush_goes_past_a_window_that_a_lost_task_ended() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Retract { id: 1, entity: false });
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
    world.act(true, Answer::Good);
    world.add(2, 0);
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).events, 1);
    let now = world.now;
    world.settle();
    assert_eq!((world.now, world.ledger.mails.len()), (now, 1));
    world.check();
}

#[test]
fn a_flush_ends_with_the_events_that_it_found() {
    for (taken, flushed) in [(0, true), (1, false)] {
        let mut world = World::collecting(Model::default());
        commands::flush(&mut world.state, order(), true, world.now);
        let asked = window::claim_input(&world.state, world.now).unwrap();
        world.add(2, 0);
        let closed = WindowEnd { outcome: DigestOutcome::Skipped, why: String::new() };
        let nothing = ClaimAnswer::Nothing(CloseAnswer { closed, taken, returned: None });
        window::apply_claim(&mut world.state, &asked, nothing, world.now);
        assert_eq!(world.state.flushed, flushed, "{taken} taken");
    }
}

#[test]
fn a_flush_during_a_deferred_claim_is_carried_out() {
    let mut world = World::collecting(Model::default());
    let DigestDecision::Wait(due_at) = decide(&world.state, world.now) else { panic!("not collecting") };
    world.now = due_at;
    let asked = window::claim_input(&world.state, world.now).unwrap();
    commands::flush(&mut world.state, order(), true, world.now);
    let later = ClaimAnswer::Later {
        until: world.now + 10.hours(),
        why: String::new(),
        pause: None,
        limit_ends_at: None,
        unknown_since: None,
    };
    window::apply_claim(&mut world.state, &asked, later, world.now);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Audit);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
    assert!(window::claim_input(&world.state, world.now).unwrap().flushed);
}
