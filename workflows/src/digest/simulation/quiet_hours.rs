//! Stories of digests whose wait ends in quiet hours (rule 56).

use jiff::{Timestamp, ToSpan as _};
use tidings_model::{
    command::{CommandContext, HoldCommand, ReleaseCommand, ReopenCommand},
    step::ClaimAnswer,
    window::{DigestOutcome, WaitReason},
};

use super::{
    step::{Answer, Step},
    world::{Model, UNDO, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, clear_finished_commands, decide},
    delivery,
    status::{DigestStage, DigestStatus},
    window,
};

const QUIET: Model = Model { max_events: None, slides: false, undoes: false, has_quiet_hours: true };

fn begins() -> Timestamp {
    Timestamp::UNIX_EPOCH + 180.minutes()
}

fn ends() -> Timestamp {
    Timestamp::UNIX_EPOCH + 240.minutes()
}

/// Due half a minute before the quiet time.
fn claimed(model: Model) -> World {
    let mut world = World::new(model);
    world.now = begins() - 30.minutes() - 30.seconds();
    world.add(1, 0);
    world.reach(DigestDecision::Render, Answer::Good);
    world.act(false, Answer::Good);
    world
}

/// Its first attempt failed, and the next one was put off to the end of the quiet time.
fn retried() -> World {
    let mut world = claimed(QUIET);
    world.act(false, Answer::Deferred);
    world.now = world.waits();
    world.act(false, Answer::Good);
    world
}

fn outcomes(world: &World) -> Vec<DigestOutcome> {
    world.ledger.ended.values().map(|closed| closed.outcome).collect()
}

#[test]
fn a_retry_waits_for_the_end_of_quiet_hours_and_the_status_says_so() {
    let mut world = retried();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(ends()));
    let status = DigestStatus::new(&world.state, None, world.now);
    assert_eq!((status.state, status.delivering.unwrap().next_attempt_at), (DigestStage::Retrying, Some(ends())));
    world.roll();
    world.now = ends();
    assert_eq!(delivery::begin_send(&mut world.state, world.now).unwrap().after, Some(WaitReason::Retry));
    world.act(false, Answer::Good);
    assert_eq!(outcomes(&world), [DigestOutcome::Sent]);
}

#[test]
fn the_end_of_undo_in_quiet_hours_costs_no_attempt() {
    let mut world = claimed(Model { undoes: true, ..QUIET });
    world.now += UNDO;
    assert_eq!(decide(&world.state, world.now), DigestDecision::Send);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(ends()));
    let digest = world.state.delivering.clone().unwrap();
    assert_eq!((digest.attempts, digest.wait), (0, WaitReason::Undo));
    world.settle();
    assert_eq!((world.now, outcomes(&world)), (ends(), vec![DigestOutcome::Sent]));
}

#[test]
fn a_hold_that_ends_in_quiet_hours_is_followed_by_the_next_good_moment() {
    let mut world = claimed(QUIET);
    let hold = HoldCommand { order: order(), until: Some(begins() + 5.minutes()) };
    commands::hold(&mut world.state, hold, world.now);
    world.act(false, Answer::Good);
    world.now = begins() + 5.minutes();
    assert_eq!(delivery::begin_send(&mut world.state, world.now).unwrap().after, Some(WaitReason::Hold));
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(ends()));
}

#[test]
fn a_flush_sends_what_waits_for_a_better_hour() {
    let mut world = retried();
    world.now = begins() + 10.minutes();
    world.haste = true;
    assert!(commands::flush(&mut world.state, order(), true, world.now).hurried);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Send);
    world.act(false, Answer::Deferred);
    let DigestDecision::Wait(again) = decide(&world.state, world.now) else { panic!("no retry") };
    assert!(again < ends(), "the next attempt is not put off either");
}

#[test]
fn a_flush_of_an_earlier_version_hurries_no_attempt() {
    let mut world = World::retried();
    assert!(!commands::flush(&mut world.state, order(), false, world.now).hurried);
    // The share of a release is still ahead.
    let digest = world.state.delivering.as_mut().unwrap();
    digest.moment = digest.not_before.map(|at| at + 1.hour());
    assert!(!commands::flush(&mut world.state, order(), false, world.now).hurried);
    assert_eq!(delivery::begin_send(&mut world.state, world.now).unwrap().after, Some(WaitReason::Retry));
}

#[test]
fn an_urgent_event_that_comes_during_the_claim_does_not_wait_behind_the_digest() {
    let mut world = World::new(QUIET);
    world.now = begins() - 31.minutes();
    world.add(1, 0);
    world.act(false, Answer::Good);
    world.now = world.waits();
    let asked = window::claim_input(&world.state, world.now).unwrap();
    world.receive(2, 0, true, world.now);
    let claimed = ClaimAnswer::Claimed { items: 1, groups: 1, taken: 1, rendered: false };
    window::apply_claim(&mut world.state, &asked, claimed, world.now);
    assert_eq!(world.state.delivering.map(|digest| digest.wait), Some(WaitReason::Urgent));
}

#[test]
fn a_time_that_an_operator_gave_holds_in_quiet_hours_and_through_undo_and_a_retry() {
    let mut world = World::new(Model { undoes: true, ..QUIET });
    world.now = begins() - 20.minutes();
    world.add(1, 0);
    world.act(false, Answer::Good);
    world.take(&Step::Retime { minutes: Some(25) });
    world.act(false, Answer::Good);
    assert_eq!(world.waits(), begins() + 5.minutes());
    world.now = begins() + 5.minutes();
    assert_eq!(window::claim_input(&world.state, world.now).unwrap().wait_reason(), WaitReason::Released);
    world.reach(DigestDecision::Send, Answer::Good);
    assert_eq!(world.now, begins() + 7.minutes(), "after undo, and not after the quiet time");
    world.act(false, Answer::Deferred);
    world.settle();
    assert_eq!((world.now, outcomes(&world)), (begins() + 8.minutes(), vec![DigestOutcome::Sent]));
}

#[test]
fn the_recipients_own_pause_holds_an_attempt_back_and_its_end_is_seen() {
    for hurried in [false, true] {
        let mut world = claimed(QUIET);
        world.take(&Step::Rest { minutes: 120, signalled: true });
        world.haste = hurried;
        if hurried {
            world.state.delivering.as_mut().unwrap().note_wait(WaitReason::Flushed);
        }
        let pause_ends = world.now + 120.minutes();
        world.act(false, Answer::Good);
        assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(pause_ends), "hurried: {hurried}");
        world.now = begins() - 10.seconds();
        world.take(&Step::Rest { minutes: 0, signalled: true });
        let again = if hurried { DigestDecision::Wait(pause_ends) } else { DigestDecision::Send };
        assert_eq!(decide(&world.state, world.now), again, "hurried: {hurried}");
        world.settle();
        assert_eq!(outcomes(&world), [DigestOutcome::Sent]);
    }
}

#[test]
fn a_pause_that_ends_during_the_attempt_that_saw_it_is_not_waited_for() {
    let mut world = claimed(QUIET);
    world.take(&Step::Rest { minutes: 120, signalled: false });
    let asked = delivery::begin_send(&mut world.state, world.now).unwrap();
    let answer = world.send(&asked, Answer::Good);
    world.take(&Step::Rest { minutes: 0, signalled: true });
    delivery::apply_send(&mut world.state, &asked, answer, world.now);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Send);
}

#[test]
fn what_tidings_recovers_by_itself_waits_for_a_good_moment() {
    for (by, after) in [("tidings", WaitReason::LateWorker), ("ann", WaitReason::Flushed)] {
        let mut world = World::retried();
        let digest_id = world.state.delivering_id().unwrap();
        world.take(&Step::Drop);
        world.act(false, Answer::Good);
        clear_finished_commands(&mut world.state, world.now);
        let order = CommandContext { by: by.to_owned(), why: "its run was terminated".to_owned() };
        let reopen = ReopenCommand { order, digest_id, may_duplicate: true };
        assert_eq!(commands::reopen(&mut world.state, reopen, world.now), None);
        world.reach(DigestDecision::Send, Answer::Good);
        assert_eq!(delivery::begin_send(&mut world.state, world.now).unwrap().after, Some(after), "{by}");
    }
}

#[test]
fn an_urgent_event_does_not_wait_behind_a_digest_that_waits_for_the_morning() {
    let mut world = retried();
    world.now = begins() + 10.minutes();
    world.take(&Step::Add { id: 2, kilobytes: 0, urgent: true });
    world.settle();
    assert_eq!(
        (world.now, outcomes(&world)),
        (begins() + 10.minutes(), vec![DigestOutcome::Sent, DigestOutcome::Sent])
    );
}

#[test]
fn a_repeated_urgent_event_hurries_no_digest_that_waits_for_the_morning() {
    let urgent = Step::Add { id: 9, kilobytes: 0, urgent: true };
    let mut world = World::new(QUIET);
    world.take(&urgent);
    world.settle();
    world.now = begins() - 30.minutes() - 30.seconds();
    world.add(1, 0);
    world.reach(DigestDecision::Send, Answer::Good);
    world.act(false, Answer::Deferred);
    world.now = begins() + 10.minutes();
    // The attempt is put off.
    world.act(false, Answer::Good);
    world.take(&urgent);
    assert_eq!(decide(&world.state, world.now), DigestDecision::CompareUrgent);
    world.act(true, Answer::Good);
    world.act(false, Answer::Good);
    assert_eq!((world.state.pending.len(), decide(&world.state, world.now)), (0, DigestDecision::Wait(ends())));
    world.take(&urgent);
    world.take(&Step::Add { id: 2, kilobytes: 0, urgent: true });
    world.act(false, Answer::Good);
    assert_eq!(
        (world.state.pending.len(), decide(&world.state, world.now)),
        (1, DigestDecision::Send),
        "a new one does"
    );
}

#[test]
fn what_an_operator_releases_by_name_goes_out_in_quiet_hours_and_many_do_not() {
    for spread in [false, true] {
        let mut world = World::new(QUIET);
        world.now = begins() - 40.minutes();
        world.add(1, 0);
        world.act(false, Answer::Good);
        commands::hold(&mut world.state, HoldCommand { order: order(), until: None }, world.now);
        world.act(false, Answer::Good);
        world.now = begins() + 10.minutes();
        world.haste = !spread;
        commands::release(&mut world.state, ReleaseCommand { order: order(), spread }, world.now);
        world.settle();
        let expected = if spread { ends() } else { begins() + 10.minutes() };
        assert_eq!((world.now, outcomes(&world)), (expected, vec![DigestOutcome::Sent]), "spread: {spread}");
    }
}

#[test]
fn a_reopened_digest_goes_out_at_any_hour() {
    let mut world = retried();
    let digest_id = world.state.delivering_id().unwrap();
    world.take(&Step::Drop);
    world.act(false, Answer::Good);
    world.now = begins() + 10.minutes();
    clear_finished_commands(&mut world.state, world.now);
    world.haste = true;
    let reopen = ReopenCommand { order: order(), digest_id, may_duplicate: true };
    assert_eq!(commands::reopen(&mut world.state, reopen, world.now), None);
    world.reach(DigestDecision::Send, Answer::Good);
    assert_eq!(delivery::begin_send(&mut world.state, world.now).unwrap().after, Some(WaitReason::Flushed));
}
