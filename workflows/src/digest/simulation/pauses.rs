//! Stories of operators' pauses on the model.

use jiff::{Timestamp, ToSpan};
use tidings_model::window::DigestOutcome;

use super::{
    step::{Answer, Step},
    world::{Model, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, decide},
    delivery,
    status::{DigestStage, DigestStatus},
    window,
};

const PAUSE: Step = Step::Pause { minutes: None, signalled: false };
const RESUME: Step = Step::Resume { signalled: true };

fn status(world: &World) -> DigestStatus {
    DigestStatus::new(&world.state, None, world.now)
}

/// Lets time pass until then, and counts the activities.
fn activities_until(world: &mut World, then: Timestamp) -> u32 {
    let mut activities = 0;
    loop {
        match decide(&world.state, world.now) {
            DigestDecision::Wait(until) if until >= then => break,
            DigestDecision::Wait(until) => world.now = until,
            _ => {
                world.act(false, Answer::Good);
                activities += 1;
            }
        }
    }
    world.now = then;
    activities
}

#[test]
fn a_window_planned_during_a_pause_says_so_and_asks_rarely() {
    let mut world = World::new(Model::default());
    world.take(&PAUSE);
    world.add(1, 0);
    world.act(false, Answer::Good);
    let told = status(&world);
    assert_eq!(told.state, DigestStage::Paused);
    assert!(told.to_string().contains("The key is paused by ann since 1970-01-01T00:00:00Z: because"), "{told}");
    let look_at = world.state.pause(world.now).unwrap().look_at;
    assert!(world.state.pause(look_at - 1.second()).is_some() && world.state.pause(look_at).is_none());
    let day = world.now + 24.hours();
    let activities = activities_until(&mut world, day);
    assert!((24..=48).contains(&activities), "{activities} activities in a day");
    assert!(world.ledger.mails.is_empty());
}

#[test]
fn a_signal_shows_a_pause_at_once_and_a_resume_ends_it() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Pause { minutes: None, signalled: true });
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
    world.act(false, Answer::Good);
    assert_eq!(status(&world).state, DigestStage::Paused);
    world.take(&Step::Tick { minutes: 40 });
    world.take(&RESUME);
    world.act(false, Answer::Good);
    let DigestDecision::Wait(until) = decide(&world.state, world.now) else { panic!("not spread") };
    assert!(until.duration_since(world.now).as_secs() < 60, "{until}");
    assert!(status(&world).why.starts_with("the pause is over; spread"), "{}", status(&world).why);
    world.settle();
    assert_eq!(world.ledger.mails.len(), 1);
}

#[test]
fn a_resume_leaves_a_window_alone_that_is_not_due_yet() {
    let mut world = World::collecting(Model::default());
    let before = (decide(&world.state, world.now), status(&world).why);
    world.take(&Step::Pause { minutes: Some(5), signalled: true });
    world.act(false, Answer::Good);
    world.take(&RESUME);
    world.act(false, Answer::Good);
    assert_eq!((decide(&world.state, world.now), status(&world).why), before);
}

#[test]
fn a_window_waits_for_its_deadline_through_a_shorter_pause() {
    let mut world = World::collecting(Model::default());
    let waiting = decide(&world.state, world.now);
    world.take(&Step::Pause { minutes: Some(5), signalled: true });
    world.act(false, Answer::Good);
    assert!(world.state.pause(world.now).is_some());
    assert_eq!(decide(&world.state, world.now), waiting, "nothing is asked when the pause ends");
}

#[test]
fn a_pause_with_an_end_ends_by_itself() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Pause { minutes: Some(50), signalled: false });
    let end = world.now + 50.minutes();
    world.reach(DigestDecision::Render, Answer::Good);
    let late = world.now.duration_since(end).as_secs();
    assert!((0..60).contains(&late), "{late} s after the end");
}

#[test]
fn a_flush_waits_for_the_resume_and_is_carried_out_then() {
    let mut world = World::new(Model::default());
    world.take(&PAUSE);
    world.add(1, 0);
    world.act(false, Answer::Good);
    commands::flush(&mut world.state, order(), true, world.now);
    world.act(false, Answer::Good);
    assert!(matches!(decide(&world.state, world.now), DigestDecision::Wait(_)));
    let soon = world.now + 1.hours();
    activities_until(&mut world, soon);
    assert!(world.ledger.mails.is_empty() && world.state.flushed);
    world.take(&RESUME);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
}

#[test]
fn a_digest_in_delivery_waits_and_goes_out_after_the_resume() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.reach(DigestDecision::Send, Answer::Good);
    world.take(&PAUSE);
    world.act(false, Answer::Good);
    assert_eq!(status(&world).state, DigestStage::Paused);
    let DigestDecision::Wait(look_at) = decide(&world.state, world.now) else { panic!("not paused") };
    assert!(look_at.duration_since(world.now).as_mins() >= 30);
    world.take(&RESUME);
    let DigestDecision::Wait(until) = decide(&world.state, world.now) else { panic!("not spread") };
    assert!(until.duration_since(world.now).as_secs() < 60);
    world.now = until;
    world.act(false, Answer::Good);
    assert_eq!(world.ledger.ended.values().map(|closed| closed.outcome).collect::<Vec<_>>(), [DigestOutcome::Sent]);
}

#[test]
fn a_resume_during_an_attempt_that_saw_the_pause_is_not_lost() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.reach(DigestDecision::Send, Answer::Good);
    world.take(&PAUSE);
    let asked = delivery::begin_send(&mut world.state, world.now).unwrap();
    let answer = world.send(&asked, Answer::Good);
    world.take(&RESUME);
    delivery::apply_send(&mut world.state, &asked, answer, world.now);
    let DigestDecision::Wait(until) = decide(&world.state, world.now) else { panic!("not spread") };
    assert!(until.duration_since(world.now).as_secs() < 60);
}

#[test]
fn a_resume_during_a_plan_that_saw_the_pause_is_not_lost() {
    let mut world = World::new(Model::default());
    world.take(&PAUSE);
    world.add(1, 0);
    let asked = window::begin_plan(&mut world.state, world.now).unwrap();
    let answer = world.plan(&asked);
    world.take(&RESUME);
    window::apply_plan(&mut world.state, &asked, answer, world.now);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
}

#[test]
fn a_pause_survives_a_new_run() {
    let mut world = World::new(Model::default());
    world.take(&PAUSE);
    world.add(1, 0);
    world.act(false, Answer::Good);
    let before = (decide(&world.state, world.now), status(&world));
    world.roll();
    assert_eq!((decide(&world.state, world.now), status(&world)), before);
}

#[test]
fn a_window_whose_events_were_withdrawn_ends_with_the_pause() {
    let mut world = World::new(Model::default());
    world.take(&PAUSE);
    world.add(1, 0);
    world.act(false, Answer::Good);
    world.take(&Step::Retract { id: 1, entity: false });
    world.act(false, Answer::Good);
    world.take(&RESUME);
    let now = world.now;
    world.settle();
    assert_eq!(world.now, now, "nothing goes out, so that nothing is spread");
    assert_eq!(world.state.open.as_ref().map(|open| open.window.digest_id), None);
    assert!(world.ledger.mails.is_empty());
    world.check();
}
