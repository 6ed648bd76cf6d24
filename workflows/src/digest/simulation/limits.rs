//! Stories of a window whose throttle or cap is known before it is due (rule 32).

use jiff::ToSpan;
use tidings_model::{
    command::RetimeCommand,
    settings::OverLimit,
    step::{ClaimAnswer, ClaimInput, ExhaustedLimit},
};

use super::world::{Model, World, order};
use crate::digest::{
    commands,
    decide::{DigestDecision, decide, planned_summary},
    status::DigestStatus,
    window,
};

/// Due in half an hour, and meets a limit for an hour from now.
fn limited(over: OverLimit) -> World {
    let mut world = World::collecting(Model::default());
    let limit = ExhaustedLimit { until: world.now + 1.hours(), over, why: "throttled".into() };
    world.state.open.as_mut().unwrap().plan.as_mut().unwrap().limited = vec![limit];
    world
}

fn status(world: &World) -> DigestStatus {
    DigestStatus::new(&world.state, None, world.now)
}

#[test]
fn the_status_shows_the_limit_before_the_window_is_due() {
    for (over, minutes, why) in
        [(OverLimit::Defer, 60, "; throttled"), (OverLimit::Skip, 30, "; ends then without a message: throttled")]
    {
        let mut world = limited(over);
        let expected = (Some(world.now + minutes.minutes()), why.to_owned());
        world.roll();
        let status = status(&world);
        assert_eq!((status.due_at, status.why), expected);
        assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(world.now + 30.minutes()));
    }
}

#[test]
fn a_flush_passes_the_limit_and_the_ledger_has_no_forecast() {
    let mut world = limited(OverLimit::Defer);
    assert_eq!(planned_summary(&world.state).unwrap().why, "");
    commands::flush(&mut world.state, order(), true, world.now);
    let status = status(&world);
    assert_eq!((status.due_at, status.why.as_str()), (Some(world.now + 30.minutes()), ""));
}

#[test]
fn the_end_of_a_limit_is_known_to_each_later_claim_until_the_deadline_moves() {
    let mut world = World::collecting(Model::default());
    world.now = world.waits();
    let asked = window::claim_input(&world.state, world.now).unwrap();
    assert_eq!(asked.limit_ended_at, None);
    let later = |minutes: i64, limit: Option<i64>| ClaimAnswer::Later {
        until: asked.asked_at + minutes.minutes(),
        why: String::new(),
        pause: None,
        limit_ends_at: limit.map(|limit| asked.asked_at + limit.minutes()),
        unknown_since: None,
    };
    // The next reason is no limit, and one ends before the one that was there.
    for answer in [later(60, Some(60)), later(70, None), later(80, Some(50))] {
        window::apply_claim(&mut world.state, &asked, answer, world.now);
        world.roll();
        let ClaimInput { limit_ended_at, .. } = window::claim_input(&world.state, world.now).unwrap();
        assert_eq!(limit_ended_at, Some(asked.asked_at + 60.minutes()));
    }
    let moved = RetimeCommand { order: order(), at: Some(world.now + 3.hours()) };
    commands::retime(&mut world.state, moved, world.now);
    assert_eq!(window::claim_input(&world.state, world.now).unwrap().limit_ended_at, None);
}
