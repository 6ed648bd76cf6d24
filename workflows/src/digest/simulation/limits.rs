//! Stories of a window whose throttle or cap is known before it is due (rule 32).

use jiff::ToSpan;
use tidings_model::{settings::OverLimit, step::Limited};

use super::world::{Model, World, order};
use crate::digest::{
    commands,
    deadline::planned,
    decide::{Decision, decide},
    status::Status,
};

/// A window that is due in half an hour, and meets a limit for an hour from now.
fn limited(over: OverLimit) -> World {
    let mut world = World::collecting(Model::default());
    let limit = Limited { until: world.now + 1.hours(), over, why: "throttled".into() };
    world.state.open.as_mut().unwrap().plan.as_mut().unwrap().limited = vec![limit];
    world
}

fn status(world: &World) -> Status {
    Status::new(&world.state, None, world.now)
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
        assert_eq!(decide(&world.state, world.now), Decision::Wait(world.now + 30.minutes()));
    }
}

#[test]
fn a_flush_passes_the_limit_and_the_ledger_has_no_forecast() {
    let mut world = limited(OverLimit::Defer);
    assert_eq!(planned(&world.state).unwrap().why, "");
    commands::flush(&mut world.state, order(), world.now);
    let status = status(&world);
    assert_eq!((status.due_at, status.why.as_str()), (Some(world.now + 30.minutes()), ""));
}
