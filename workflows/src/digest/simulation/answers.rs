//! Stories of the answers that commands and queries give, on the model.

use std::time::Duration;

use serde_json::{json, to_value};
use tidings_model::command::DuePreview;

use super::{
    step::{Answer, Step},
    world::{Model, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, clear_finished_commands, decide},
    status::{DigestStage, DigestStatus},
};

fn stage(world: &World) -> DigestStage {
    DigestStatus::new(&world.state, None, world.now).state
}

#[test]
fn a_preview_gets_one_page_of_events_and_the_number_of_others() {
    let mut world = World::collecting(Model::default());
    for id in 2..8 {
        world.add(id, 100);
    }
    let open = world.state.open.as_mut().unwrap();
    (open.stashed, open.unread) = (2, 3);
    let opened = open.window.clone();
    let DuePreview { window, events, more, .. } = commands::due_events(&world.state).unwrap();
    let ids: Vec<_> = events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!((window, ids, more), (opened, vec!["1", "2", "3"], 4 + 3));
}

#[test]
fn a_flush_and_a_release_name_the_pause_that_stops_them() {
    let mut world = World::new(Model::default());
    world.take(&Step::Pause { minutes: None, signalled: false });
    world.add(1, 0);
    world.act(false, Answer::Good);
    let paused = world.paused.clone();
    assert!(paused.is_some());
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).paused, paused);
    assert_eq!(commands::release(&mut world.state, order().into(), world.now).paused, paused);
}

#[test]
fn the_status_names_each_stage() {
    let mut world = World::new(Model { undoes: true, ..Model::default() });
    assert_eq!(stage(&world), DigestStage::Idle);
    world.add(1, 0);
    assert_eq!(stage(&world), DigestStage::Planning);
    world.act(false, Answer::Good);
    assert_eq!(stage(&world), DigestStage::Collecting);
    world.take(&Step::Hold { minutes: Some(10) });
    assert_eq!(stage(&world), DigestStage::Held);
    world.take(&Step::Tick { minutes: 10 });
    assert_eq!(stage(&world), DigestStage::Collecting);
    world.now = world.waits();
    assert_eq!(stage(&world), DigestStage::Claiming);
    world.act(false, Answer::Good);
    assert_eq!(stage(&world), DigestStage::Rendering);
    world.act(false, Answer::Good);
    assert_eq!(stage(&world), DigestStage::Undoable);
    world.now = world.waits();
    assert_eq!(stage(&world), DigestStage::Sending);
    world.act(false, Answer::Deferred);
    assert_eq!(stage(&world), DigestStage::Retrying);
    world.take(&Step::Drop);
    assert_eq!(stage(&world), DigestStage::Dropping);
    world.take(&Step::Cancel);
    assert_eq!(stage(&world), DigestStage::Cancelling);

    let mut world = World::collecting(Model::default());
    world.settle();
    world.state.linger = Some(Duration::from_mins(10));
    clear_finished_commands(&mut world.state, world.now);
    assert!(matches!(decide(&world.state, world.now), DigestDecision::Wait(_)));
    assert_eq!(stage(&world), DigestStage::Idle);
}

#[test]
fn the_status_in_json_has_the_words_of_the_terminal() {
    let mut world = World::collecting(Model::default());
    let json = to_value(DigestStatus::new(&world.state, None, world.now)).unwrap();
    assert_eq!((&json["state"], &json["pending"]), (&json!("collecting"), &json!(1)));
    assert!(json.get("uncompared").or(json.get("returned")).is_none(), "{json}");
    world.add(2, 0);
    let json = to_value(DigestStatus::new(&world.state, None, world.now)).unwrap();
    assert_eq!((&json["pending"], &json["uncompared"]), (&json!(1), &json!(1)));
}
