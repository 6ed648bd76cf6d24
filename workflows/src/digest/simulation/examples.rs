//! Single stories on the model.

use std::{collections::BTreeSet, time::Duration};

use jiff::{Timestamp, ToSpan};
use tidings_model::{
    Event,
    command::{HoldCommand, RetimeCommand},
    step::ClaimAnswer,
};

use super::{
    ledger::event,
    step::{Answer, Step},
    world::{EVERY_EVENT, Model, SLIDING, World, order},
};
use crate::digest::{
    commands,
    decide::{DigestDecision, clear_finished_commands, deadline, deadline_reason, decide, planned_summary},
    records,
    requests::PreferencesState,
    window,
};

#[test]
fn a_window_opens_with_its_first_new_event() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.settle();
    let first = world.state.summary.last.clone().unwrap();

    world.add(1, 0);
    world.take(&Step::Act { lost: false, answer: Answer::Good });
    assert_eq!((world.state.open.clone(), world.state.waiting_count()), (None, 0), "a known event opened a window");

    world.add(1, 0);
    world.add(2, 0);
    world.settle();
    let second = world.state.summary.last.clone().unwrap();
    assert_ne!(first.digest_id, second.digest_id);
    assert_eq!(world.ledger.of(second.digest_id), BTreeSet::from(["2".to_owned()]));
}

#[test]
fn a_deferral_ends_with_another_plan_and_with_a_wish_for_one() {
    let replanned = |change: fn(&mut World)| {
        let mut world = World::collecting(Model::default());
        world.now = world.waits();
        world.act(false, Answer::Later);
        change(&mut world);
        assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
        world.act(false, Answer::Good);
        let open = world.state.open.unwrap();
        (open.not_before.is_some(), open.deferrals.len())
    };
    let anew = |world: &mut World| {
        commands::retime(&mut world.state, RetimeCommand { order: order(), at: None }, world.now);
    };
    assert_eq!(replanned(|world| commands::facts_changed(&mut world.state, world.now)), (true, 1));
    assert_eq!(replanned(|world| world.take(&Step::Choose { signalled: true })), (false, 0));
    assert_eq!(replanned(anew), (false, 0));
}

#[test]
fn the_ledger_gets_each_step_that_deferred_the_window_until_another_plan() {
    let mut world = World::collecting(Model::default());
    world.state.open.as_mut().unwrap().plan.as_mut().unwrap().why = "after 30m -> nine".to_owned();
    let asked = window::claim_input(&world.state, world.now).unwrap();
    for why in ["throttled -> ten", "quiet -> noon", "throttled -> ten"] {
        let later = ClaimAnswer::Later {
            until: world.now + 1.hour(),
            why: why.to_owned(),
            pause: None,
            limit_ends_at: None,
            unknown_since: None,
        };
        window::apply_claim(&mut world.state, &asked, later, world.now);
    }
    let told = planned_summary(&world.state).unwrap().why;
    assert_eq!(told, "after 30m -> nine; then throttled -> ten; then quiet -> noon");
    for n in 0..100 {
        let later = ClaimAnswer::Later {
            until: world.now,
            why: format!("{n}"),
            pause: None,
            limit_ends_at: None,
            unknown_since: None,
        };
        window::apply_claim(&mut world.state, &asked, later, world.now);
    }
    assert_eq!(planned_summary(&world.state).unwrap().why.split("; then ").count(), 17, "the state stays bounded");

    let retime = RetimeCommand { order: order(), at: Some(world.now + 3.hours()) };
    commands::retime(&mut world.state, retime, world.now);
    let told = planned_summary(&world.state).unwrap().why;
    assert!(told.starts_with("retimed by ") && !told.contains("; then "), "{told}");
}

#[test]
fn a_window_opens_at_the_start_of_its_run() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.settle();

    world.now = Timestamp::UNIX_EPOCH + 7.hours() + 3.minutes();
    world.add(1, 0);
    world.add(2, 0);
    world.take(&Step::Act { lost: false, answer: Answer::Good });
    let open = world.state.open.as_ref().unwrap();
    assert_eq!(open.window.opened_at, world.now - 5.minutes());
    assert!(open.plan.as_ref().unwrap().known.is_empty(), "each run would hand them to the next");
    assert!(matches!(decide(&world.state, world.now), DigestDecision::Wait(_)), "planned once more");
}

#[test]
fn a_plan_gets_the_category_of_the_first_event_of_its_window() {
    let mut world = World::collecting(Model::default());
    let later = Event { category: "share".into(), ..event("2") };
    world.state.add_event(later, world.now + 1.minute(), None);
    let category = |world: &mut World| window::begin_plan(&mut world.state, world.now).unwrap().signs.category;
    assert_eq!(category(&mut world), Some(event("1").category));
    world.state.note_leaving(1);
    world.state.drop_head(1);
    assert_eq!(category(&mut world), Some(event("1").category), "also when that event has left the state");

    let mut withdrawn = World::collecting(Model::default());
    withdrawn.state.add_event(event("2"), withdrawn.now + 1.minute(), None);
    withdrawn.state.note_leaving(0);
    withdrawn.state.drop_head(1);
    withdrawn.state.note_leaving(1);
    assert_eq!(category(&mut withdrawn), None, "another event has not opened the window");
}

#[test]
fn later_events_never_move_the_deadline_of_after() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.take(&Step::Act { lost: false, answer: Answer::Good });
    let DigestDecision::Wait(due_at) = decide(&world.state, world.now) else { panic!("not collecting") };
    world.take(&Step::Tick { minutes: 29 });
    world.add(2, 0);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(due_at));
}

#[test]
fn each_event_moves_a_sliding_deadline_and_none_past_max() {
    let mut world = World::new(SLIDING);
    world.add(1, 0);
    let mut mails = Vec::new();
    for id in 2..20 {
        while world.ledger.mails.is_empty() && world.now.as_second() < 60 * 9 * (i64::from(id) - 1) {
            match decide(&world.state, world.now) {
                DigestDecision::Wait(until) => {
                    world.now = until.min(Timestamp::from_second(60 * 9 * (i64::from(id) - 1)).unwrap());
                }
                _ => world.act(false, Answer::Good),
            }
        }
        if !world.ledger.mails.is_empty() {
            mails.push(world.now.as_second() / 60);
            break;
        }
        world.add(id, 0);
    }
    assert_eq!(mails, [60], "an event each nine minutes, and ten of silence never come");
}

#[test]
fn an_event_that_the_ledger_knows_moves_no_sliding_deadline() {
    let mut world = World::new(SLIDING);
    world.add(1, 0);
    world.settle();
    world.add(2, 0);
    world.act(false, Answer::Good);
    let DigestDecision::Wait(due_at) = decide(&world.state, world.now) else { panic!("not collecting") };
    world.take(&Step::Tick { minutes: 5 });
    world.add(1, 0);
    world.now = due_at;
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan, "something came, and is looked at");
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
}

#[test]
fn an_urgent_event_makes_the_whole_window_due_once() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Tick { minutes: 1 });
    world.take(&Step::Add { id: 2, kilobytes: 0, urgent: true });
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
    world.settle();
    assert_eq!(world.ledger.mails.values().map(BTreeSet::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn an_urgent_event_stays_urgent_when_it_is_stashed() {
    for rolls in [false, true] {
        let mut world = World::retried();
        world.take(&Step::Add { id: 2, kilobytes: 200, urgent: true });
        for id in 3..6 {
            world.add(id, 200);
        }
        if rolls {
            world.take(&Step::Roll);
        }
        while world.state.delivering.is_some() {
            world.advance(Answer::Good);
        }
        let signs = window::begin_plan(&mut world.state, world.now).unwrap().signs;
        assert!(signs.urgent_at.is_some() && signs.category.is_some(), "{rolls} {signs:?}");
        assert!(world.state.pending.first().is_none_or(|first| !first.event.urgent), "it was not stashed");
    }
}

#[test]
fn an_urgent_event_that_the_ledger_knows_moves_nothing() {
    let mut world = World::new(Model::default());
    world.take(&Step::Add { id: 1, kilobytes: 0, urgent: true });
    world.settle();
    world.add(2, 0);
    world.act(false, Answer::Good);
    let waiting = decide(&world.state, world.now);
    world.take(&Step::Add { id: 1, kilobytes: 0, urgent: true });
    for _ in 0..2 {
        world.act(false, Answer::Good);
    }
    assert_eq!(decide(&world.state, world.now), waiting);
}

#[test]
fn a_window_that_is_emptied_ends_at_once_and_says_so() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Retract { id: 1, entity: false });
    let now = world.now;
    world.settle();
    assert_eq!((world.now, world.ledger.mails.len()), (now, 0));
    world.check();
    world.add(1, 0);
    world.settle();
    assert_eq!(world.ledger.mails.len(), 0, "what was taken back stays so");
}

#[test]
fn a_retract_that_comes_before_its_event_waits_for_it() {
    let mut world = World::new(Model::default());
    world.take(&Step::Retract { id: 1, entity: false });
    world.settle();
    world.add(1, 0);
    world.add(2, 0);
    world.settle();
    assert_eq!(world.ledger.mails.values().cloned().collect::<Vec<_>>(), [BTreeSet::from(["2".to_owned()])]);
    world.check();
}

#[test]
fn an_operator_moves_the_deadline_and_the_audit_trail_has_both() {
    let mut world = World::collecting(Model::default());
    let at = world.now.checked_add(5.minutes()).unwrap();
    let retimed = commands::retime(&mut world.state, RetimeCommand { order: order(), at: Some(at) }, world.now);
    assert_eq!((retimed.was.map(jiff::Timestamp::as_second), retimed.due_at), (Some(1800), Some(at)));
    let note = world.state.audit_notes[0].clone();
    assert_eq!((note.action.as_str(), note.by.as_str()), ("retime", "ann"));
    assert!(note.why.contains("due at 1970-01-01T00:05:00Z, was 1970-01-01T00:30:00Z"), "{}", note.why);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(at));
}

#[test]
fn the_ledger_gets_the_number_of_events_that_filled_the_window() {
    let mut world = World::collecting(Model { max_events: Some(2), ..Model::default() });
    assert_eq!(planned_summary(&world.state).unwrap().why, "");
    world.add(2, 0);
    world.act(false, Answer::Good);
    assert_eq!(planned_summary(&world.state).unwrap().why, "full with 2 events");
}

#[test]
fn a_wish_for_another_plan_ends_with_the_window() {
    let mut idle = World::new(Model::default());
    commands::facts_changed(&mut idle.state, idle.now);
    assert_eq!(idle.state.preferences, PreferencesState::Current, "nothing is planned anew");
    for cancelled in [false, true] {
        let mut world = World::collecting(Model::default());
        commands::retime(&mut world.state, RetimeCommand { order: order(), at: None }, world.now);
        commands::facts_changed(&mut world.state, world.now);
        clear_finished_commands(&mut world.state, world.now);
        assert_eq!((world.state.retiming.is_some(), world.state.preferences), (true, PreferencesState::Changed));
        world.state.cancelled = cancelled;
        if !cancelled {
            let asked = world.state.pending.head(1);
            world.state.close_window(&asked, 1);
        }
        clear_finished_commands(&mut world.state, world.now);
        assert_eq!((world.state.retiming.clone(), world.state.preferences), (None, PreferencesState::Current));
    }
}

#[test]
fn an_idle_run_lingers_and_then_ends() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.settle();
    world.state.linger = Some(Duration::from_mins(10));
    clear_finished_commands(&mut world.state, world.now);
    let until = world.now.checked_add(10.minutes()).unwrap();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(until));
    world.now = until;
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish);
}

#[test]
fn an_instant_cadence_makes_one_mail_per_event() {
    let mut world = World::new(EVERY_EVENT);
    for id in 0..20 {
        world.add(id, 0);
    }
    world.settle();
    assert_eq!(world.ledger.mails.len(), 20);
}

#[test]
fn the_status_includes_a_slide_and_a_pause() {
    let mut world = World::collecting(SLIDING);
    world.state.open.as_mut().unwrap().why = "planned".to_owned();
    assert_eq!(deadline_reason(&world.state), "planned", "the first event is in the plan");
    world.take(&Step::Tick { minutes: 5 });
    world.add(2, 0);
    let slid = world.now.checked_add(10.minutes()).unwrap();
    assert_eq!(deadline(&world.state), Some(slid));
    assert_eq!(deadline_reason(&world.state), format!("10m after the latest event -> {slid}"));
    let until = world.now.checked_add(90.minutes()).unwrap();
    world.state.open.as_mut().unwrap().plan.as_mut().unwrap().paused_until = Some(until);
    assert_eq!(deadline(&world.state), Some(until));
    assert!(
        deadline_reason(&world.state).ends_with(&format!("; paused until {until}")),
        "{}",
        deadline_reason(&world.state)
    );
    let due_at = world.state.open.as_ref().unwrap().window.due_at;
    world.state.open.as_mut().unwrap().plan.as_mut().unwrap().paused_until = Some(due_at);
    assert!(
        !deadline_reason(&world.state).contains("paused"),
        "a pause until the deadline moves nothing: {}",
        deadline_reason(&world.state)
    );
}

#[test]
fn a_hold_survives_continue_as_new_and_a_release_ends_it() {
    let mut world = World::collecting(Model::default());
    let held = commands::hold(&mut world.state, HoldCommand { order: order(), until: None }, world.now);
    assert_eq!((held.events, held.delivering), (1, None));
    assert_eq!(decide(&world.state, world.now), DigestDecision::Audit);
    world.act(false, Answer::Good);
    world.take(&Step::Tick { minutes: 90 });
    world.add(2, 0);
    world.roll();
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).events, 2);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(Timestamp::MAX), "a flush is no release");
    assert!(commands::release(&mut world.state, order().into(), world.now).held);
    world.act(false, Answer::Good);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
    world.settle();
    assert_eq!(world.ledger.mails.len(), 1);
}

#[test]
fn a_hold_with_an_end_ends_by_itself() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Hold { minutes: Some(60) });
    world.act(false, Answer::Good);
    let DigestDecision::Wait(until) = decide(&world.state, world.now) else { panic!("not on hold") };
    assert_eq!(until.duration_since(world.now).as_mins(), 60);
    world.now = until;
    assert_eq!(decide(&world.state, world.now), DigestDecision::Claim);
}

#[test]
fn a_retract_of_a_repeated_event_names_the_digest_in_delivery() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    while world.state.delivering.is_none() {
        world.advance(Answer::Good);
    }
    world.add(1, 0);
    world.take(&Step::Retract { id: 1, entity: false });
    assert_eq!(decide(&world.state, world.now), DigestDecision::Retract);
    let input = records::retract_input(&world.state, world.now).unwrap();
    assert_eq!(input.events.len(), 1);
    assert_eq!(input.delivering, world.state.delivering.map(|digest| digest.window.digest_id));
}

#[test]
fn a_change_counts_although_a_known_event_comes_with_it() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.settle();
    world.add(2, 0);
    world.act(false, Answer::Good);
    world.take(&Step::Tick { minutes: 1 });
    world.add(1, 0);
    world.take(&Step::Choose { signalled: true });
    for _ in 0..2 {
        assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
        world.act(false, Answer::Good);
    }
    let plan = world.state.open.as_ref().unwrap().plan.as_ref().unwrap();
    assert_eq!(plan.revision, world.ledger.revision);
    assert!(matches!(decide(&world.state, world.now), DigestDecision::Wait(_)));
}

#[test]
fn a_change_counts_although_the_plan_that_it_asked_for_never_came() {
    let mut world = World::collecting(Model::default());
    world.take(&Step::Choose { signalled: true });
    window::begin_plan(&mut world.state, world.now).unwrap();
    world.roll();
    assert_eq!(decide(&world.state, world.now), DigestDecision::Plan);
}

#[test]
fn a_deadline_that_an_operator_gives_while_a_plan_is_made_stands() {
    for model in [Model::default(), SLIDING] {
        let mut world = World::collecting(model);
        world.take(&Step::Choose { signalled: true });
        let asked = window::begin_plan(&mut world.state, world.now).unwrap();
        let answer = world.plan(&asked);
        let at = world.now + 5.hours();
        commands::retime(&mut world.state, RetimeCommand { order: order(), at: Some(at) }, world.now);
        window::apply_plan(&mut world.state, &asked, answer, world.now);
        assert_eq!(decide(&world.state, world.now), DigestDecision::Audit);
        world.act(false, Answer::Good);
        assert_eq!(decide(&world.state, world.now), DigestDecision::Wait(at));
        let plan = world.state.open.unwrap().plan.unwrap();
        assert_eq!((plan.revision, plan.slide), (world.ledger.revision, None));
        assert!(plan.why.starts_with("retimed by "), "{}", plan.why);
    }
}

#[test]
fn a_command_with_nothing_to_act_on_does_nothing() {
    let mut world = World::new(Model::default());
    assert_eq!(commands::flush(&mut world.state, order(), true, world.now).events, 0);
    assert_eq!(commands::hold(&mut world.state, HoldCommand { order: order(), until: None }, world.now).events, 0);
    assert!(!commands::release(&mut world.state, order().into(), world.now).held);
    assert_eq!(commands::discard(&mut world.state, order()).events, 0);
    assert_eq!(decide(&world.state, world.now), DigestDecision::Finish);
}
