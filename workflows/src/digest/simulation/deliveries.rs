//! Stories of attempts on the model.

use jiff::ToSpan;
use tidings_model::{
    step::{ClaimAnswer, SendAnswer},
    window::DigestOutcome,
};

use super::{
    step::Answer,
    world::{EVERY_EVENT, Model, World},
};
use crate::digest::{
    decide::{DigestDecision, clear_finished_commands, decide},
    delivery, window,
};

#[test]
fn a_message_that_its_claim_stored_is_not_made_again() {
    for rendered in [true, false] {
        let mut world = World::collecting(Model::default());
        let asked = window::claim_input(&world.state, world.now).unwrap();
        let claimed = ClaimAnswer::Claimed { items: 1, groups: 1, taken: 1, rendered };
        window::apply_claim(&mut world.state, &asked, claimed, world.now);
        assert_eq!(delivery::render_input(&world.state, world.now).unwrap().stored, rendered);
    }
}

#[test]
fn six_attempts_at_the_delays_of_the_schedule_and_then_no_more() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    let mut waits = Vec::new();
    while world.ledger.ended.is_empty() {
        match decide(&world.state, world.now) {
            DigestDecision::Wait(until) => {
                waits.push(until.duration_since(world.now).as_mins());
                world.now = until;
            }
            _ => world.act(false, Answer::Deferred),
        }
    }
    assert_eq!(waits, [30, 1, 5, 30, 120, 480]);
    assert_eq!(world.ledger.returned.keys().collect::<Vec<_>>(), ["1"]);
}

#[test]
fn an_attempt_beyond_the_schedule_waits_the_longest_delay() {
    let mut world = World::collecting(Model::default());
    world.reach(DigestDecision::Send, Answer::Good);
    world.state.delivering.as_mut().unwrap().attempts = 9;
    let asked = delivery::begin_send(&mut world.state, world.now).unwrap();
    delivery::apply_send(
        &mut world.state,
        &asked,
        SendAnswer::Deferred { why: String::new(), again_in: None },
        world.now,
    );
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(world.now + 8.hours()));
}

#[test]
fn events_behind_a_retried_digest_are_one_email() {
    let mut world = World::new(EVERY_EVENT);
    world.add(0, 0);
    while world.state.delivering.as_ref().is_none_or(|digest| digest.attempts == 0) {
        world.act(false, Answer::Deferred);
    }
    for id in 1..20 {
        world.add(id, 0);
    }
    world.settle();
    assert_eq!(world.ledger.mails.len(), 2);
    world.add(20, 0);
    world.add(21, 0);
    world.settle();
    assert_eq!(world.ledger.mails.len(), 4, "and from then on each event is one again");
}

#[test]
fn a_message_that_is_too_large_is_made_shorter_once() {
    for refusals in [1, 2] {
        let mut world = World::new(Model::default());
        world.add(1, 0);
        let mut decisions = Vec::new();
        let mut left = refusals;
        loop {
            clear_finished_commands(&mut world.state, world.now);
            let decision = decide(&world.state, world.now);
            match decision {
                DigestDecision::Finish => break,
                DigestDecision::Wait(until) => world.now = until,
                DigestDecision::Send if left > 0 => {
                    left -= 1;
                    world.act(false, Answer::TooLarge);
                }
                _ => world.act(false, Answer::Good),
            }
            if matches!(decision, DigestDecision::Shorten | DigestDecision::Send) {
                decisions.push(decision);
            }
        }
        assert_eq!(decisions, [DigestDecision::Send, DigestDecision::Shorten, DigestDecision::Send]);
        let outcome = if refusals == 1 { DigestOutcome::Sent } else { DigestOutcome::Failed };
        assert_eq!(world.state.summary.last.unwrap().closed.outcome, outcome);
    }
}

#[test]
fn an_earlier_version_leaves_what_is_too_large_to_the_attempt() {
    let mut world = World::collecting(Model::default());
    world.reach(DigestDecision::Shorten, Answer::TooLarge);
    delivery::leave_to_attempt(&mut world.state);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Send);
}
