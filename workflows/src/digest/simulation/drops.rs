//! Stories of drops and cancels on the model.

use std::collections::BTreeSet;

use tidings_model::{command::ReopenCommand, window::DigestOutcome};

use super::{
    step::{Answer, Step},
    world::{EVERY_EVENT, Model, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, clear_finished_commands, decide},
};

#[test]
fn a_dropped_digest_is_reopened_under_its_id_without_new_events() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Drop);
    world.settle();
    let digest_id = *world.ledger.ended.keys().next().unwrap();
    world.add(2, 0);
    let reopen = ReopenCommand { order: order(), digest_id, may_duplicate: false };
    assert_eq!(commands::reopen(&mut world.state, reopen, world.now), None);
    world.settle();
    assert_eq!(world.ledger.ended[&digest_id].outcome, DigestOutcome::Sent);
    assert_eq!(world.ledger.mails[&digest_id], BTreeSet::from(["1".to_owned()]));
    world.check();
}

#[test]
fn a_drop_ends_the_delivery_and_pending_events_but_no_later_event() {
    let mut world = World::retried();
    world.add(2, 0);
    let dropped = commands::discard(&mut world.state, order());
    assert_eq!((dropped.events, dropped.delivering.is_some()), (1, true));
    for _ in 0..2 {
        assert_eq!(decide(&world.state, world.now), DigestDecision::Close);
        world.act(false, Answer::Good);
    }
    clear_finished_commands(&mut world.state, world.now);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish);
    world.add(3, 0);
    world.settle();
    let outcomes: Vec<_> = world.ledger.ended.values().map(|closed| closed.outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == DigestOutcome::Dropped).count(), 2);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == DigestOutcome::Sent).count(), 1);
}

#[test]
fn a_drop_leaves_alone_what_comes_while_it_is_carried_out() {
    let mut world = World::retried();
    world.add(2, 0);
    world.take(&Step::Hold { minutes: None });
    world.take(&Step::Drop);
    world.add(3, 0);
    world.settle();
    let outcome = |id: &str| world.ledger.ended[&world.ledger.events[id]].outcome;
    assert_eq!(["1", "2", "3"].map(outcome), [DigestOutcome::Dropped, DigestOutcome::Dropped, DigestOutcome::Sent]);
    world.check();
}

#[test]
fn a_lost_task_with_drop_and_claim_leaves_no_event_open() {
    let mut world = World::new(EVERY_EVENT);
    world.add(1, 0);
    world.take(&Step::Drop);
    world.add(2, 0);
    for _ in 0..3 {
        world.act(false, Answer::Good);
    }
    assert!(world.state.delivering.is_some());
    world.crash();
    world.take(&Step::Cancel);
    world.settle();
    world.check();
}

#[test]
fn an_end_records_full_pages_and_earlier_runs_first() {
    let end = |events: std::ops::Range<u16>, of_earlier_runs: bool, how: &Step| {
        let mut world = World::collecting(Model::default());
        let open = world.state.open.as_mut().unwrap();
        (open.stashed, open.unread) = (1, u64::from(of_earlier_runs));
        open.runs.extend(of_earlier_runs.then(|| "0".to_owned()));
        world.state.drop_head(1);
        for id in events.clone() {
            world.add(id, 0);
        }
        world.take(how);
        decide(&world.state, world.now)
    };
    for how in [Step::Drop, Step::Cancel] {
        assert_eq!(end(2..503, false, &how), DigestDecision::Stash, "{how:?}");
        assert_eq!(end(2..502, false, &how), DigestDecision::Close, "{how:?}");
        assert_eq!(end(2..2, true, &how), DigestDecision::Stash, "{how:?}");
        assert_eq!(end(2..2, false, &how), DigestDecision::Close, "{how:?}");
    }
}

#[test]
fn a_drop_writes_no_later_event_into_its_window() {
    let mut world = World::collecting(Model::default());
    world.state.open.as_mut().unwrap().stashed = 1;
    world.state.drop_head(1);
    world.take(&Step::Drop);
    for id in 2..503 {
        world.add(id, 0);
    }
    assert_eq!(decide(&world.state, world.now), DigestDecision::Close);
}

#[test]
fn a_withdrawn_event_makes_a_drop_smaller_and_reaches_no_later_event() {
    let mut world = World::collecting(Model::default());
    world.add(2, 0);
    world.add(3, 0);
    world.take(&Step::Drop);
    world.add(4, 0);
    let ends = |world: &World| world.state.drop.as_ref().unwrap().events;
    assert_eq!((ends(&world), world.state.compared_count()), (3, 1));
    world.state.forget_events(&["1".to_owned(), "4".to_owned()]);
    assert_eq!((ends(&world), world.state.compared_count()), (2, 0));
    world.state.drop_head(2);
    assert_eq!(ends(&world), 0);
}
