//! The state against a model of the store, under random interleavings of events, operators' commands, lost answers, lost
//! workflow tasks, rolls, a cancel and the passing of time: every event ends in exactly one digest, no mail misses one of its events, and
//! nothing goes out during a hold or after a drop.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use uuid::Uuid;

use crate::{
    Event, Key,
    command::{Hold, Order},
    contract::{Closed, Ending, Loaded, Outcome, Plan, Rendered, Sent, StashInput, Stashed},
    state::{Decision, State},
};

#[derive(Clone, Debug)]
enum Step {
    /// `id` may repeat; `kilobytes` make a state too large to carry.
    Add {
        id: u16,
        kilobytes: u8,
    },
    Flush,
    /// For so long, or until it is released.
    Hold {
        minutes: Option<u16>,
    },
    Release,
    Drop,
    Tick {
        minutes: u16,
    },
    /// Carry out what the state decides. `lost`: the activity ran, its answer did not arrive.
    Act {
        lost: bool,
        answer: Answer,
    },
    Roll,
    Cancel,
    /// The workflow task ends, and history has the answers so far.
    Commit,
    /// The worker dies: what activities did stays done, their answers since the last commit are forgotten.
    Crash,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Good,
    Later,
    Deferred,
    Failed,
}

fn step() -> impl Strategy<Value = Step> {
    let answer = prop_oneof![4 => Just(Answer::Good), 1 => Just(Answer::Later), 2 => Just(Answer::Deferred), 1 => Just(Answer::Failed)];
    prop_oneof![
        6 => (0..400u16, prop_oneof![3 => Just(0u8), 1 => Just(15u8)]).prop_map(|(id, kilobytes)| Step::Add { id, kilobytes }),
        1 => Just(Step::Flush),
        1 => prop::option::of(0..90u16).prop_map(|minutes| Step::Hold { minutes }),
        1 => Just(Step::Release),
        1 => Just(Step::Drop),
        3 => (0..90u16).prop_map(|minutes| Step::Tick { minutes }),
        8 => (prop::bool::weighted(0.2), answer).prop_map(|(lost, answer)| Step::Act { lost, answer }),
        1 => Just(Step::Roll),
        2 => Just(Step::Commit),
        2 => Just(Step::Crash),
    ]
}

#[derive(Default)]
struct Ledger {
    events: BTreeMap<String, Uuid>,
    returned: BTreeSet<String>,
    mails: BTreeMap<Uuid, BTreeSet<String>>,
    ended: BTreeMap<Uuid, Closed>,
}

impl Ledger {
    /// How many of the events, from the first on, are there now.
    fn write(&mut self, digest_id: Uuid, event_ids: impl IntoIterator<Item = String>) -> u64 {
        // A digest that was closed without a message takes events still, as in the store.
        let sealed = self.mails.contains_key(&digest_id);
        let mut ids = event_ids.into_iter().peekable();
        let mut taken = 0;
        while ids.next_if(|id| !sealed || self.events.contains_key(id)).is_some_and(|id| {
            self.events.entry(id).or_insert(digest_id);
            true
        }) {
            taken += 1;
        }
        taken
    }

    /// Whether an event opens no window any more.
    fn knows(&self, id: &str, open: Option<Uuid>) -> bool {
        self.events.get(id).is_some_and(|owner| self.ended.contains_key(owner) || open == Some(*owner))
    }

    /// What is too late for the digest joins the key's next claim.
    fn read_back(&mut self, digest_id: Uuid, event_ids: impl IntoIterator<Item = String>) {
        for id in event_ids {
            if self.write(digest_id, [id.clone()]) == 0 {
                let late = Uuid::new_v5(&digest_id, id.as_bytes());
                self.events.insert(id.clone(), late);
                self.returned.insert(id);
                self.end(late, Outcome::Skipped);
            }
        }
    }

    fn of(&self, digest_id: Uuid) -> BTreeSet<String> {
        self.events.iter().filter(|(_, owner)| **owner == digest_id).map(|(id, _)| id.clone()).collect()
    }

    /// How many events are the digest's, and how many of these are there.
    fn claim(&mut self, digest_id: Uuid, event_ids: impl IntoIterator<Item = String>) -> (u64, u64) {
        let taken = self.write(digest_id, event_ids);
        if !self.mails.contains_key(&digest_id) {
            for id in std::mem::take(&mut self.returned) {
                self.events.insert(id, digest_id);
            }
        }
        (self.of(digest_id).len() as u64, taken)
    }

    fn end(&mut self, digest_id: Uuid, outcome: Outcome) -> Closed {
        self.ended.entry(digest_id).or_insert(Closed { outcome, why: String::new() }).clone()
    }
}

struct World {
    state: State,
    /// What history has: the state at the last commit, and what has arrived since.
    durable: (State, Vec<Step>),
    /// Whether the state holds more than that.
    acted: bool,
    now: Timestamp,
    ledger: Ledger,
    /// Digests that were on their way when a drop came.
    dropped: BTreeSet<Uuid>,
    /// What each run received, for those that are read back.
    histories: Vec<BTreeSet<String>>,
    accepted: BTreeSet<String>,
    max_events: Option<u32>,
}

fn order() -> Order {
    Order { by: "ann".into(), why: "because".into() }
}

fn ids(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.event_id.clone()).collect()
}

impl World {
    fn new(max_events: Option<u32>) -> Self {
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        let state = State::new(Some(key), "run".into());
        Self {
            state: state.clone(),
            durable: (state, Vec::new()),
            acted: false,
            now: Timestamp::UNIX_EPOCH,
            ledger: Ledger::default(),
            dropped: BTreeSet::new(),
            histories: vec![BTreeSet::new()],
            accepted: BTreeSet::new(),
            max_events,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Commit => self.commit(),
            Step::Crash => self.crash(),
            Step::Act { lost, answer } => self.act(*lost, *answer),
            Step::Roll => self.roll(),
            Step::Tick { minutes } => self.now = self.now.checked_add(i64::from(*minutes).minutes()).unwrap(),
            arrival => {
                // What arrives during a workflow task is seen by the next one: this one has ended, or is lost.
                if self.acted {
                    self.commit();
                }
                self.durable.1.push(arrival.clone());
                self.arrive(arrival, self.now);
            }
        }
    }

    fn commit(&mut self) {
        self.durable = (self.state.clone(), Vec::new());
        self.acted = false;
    }

    /// History runs again: the state of the last commit, and after it what has arrived since, by the clock of the new
    /// workflow task.
    fn crash(&mut self) {
        self.state = self.durable.0.clone();
        self.acted = false;
        for arrival in self.durable.1.clone() {
            self.arrive(&arrival, self.now);
        }
    }

    fn arrive(&mut self, step: &Step, at: Timestamp) {
        match step {
            Step::Add { id, kilobytes } => self.receive(*id, *kilobytes, at),
            Step::Flush => drop(self.state.flush(order(), at)),
            Step::Hold { minutes } => {
                let until = minutes.map(|minutes| at.checked_add(i64::from(minutes).minutes()).unwrap());
                self.state.hold(Hold { order: order(), until }, at);
            }
            Step::Release => drop(self.state.release(order(), at)),
            Step::Drop => self.dropped.extend(self.state.discard(order()).delivering),
            Step::Cancel => self.state.cancelled = true,
            Step::Act { .. } | Step::Roll | Step::Tick { .. } | Step::Commit | Step::Crash => unreachable!(),
        }
    }

    fn add(&mut self, id: u16, kilobytes: u8) {
        self.take(&Step::Add { id, kilobytes });
    }

    fn receive(&mut self, id: u16, kilobytes: u8, at: Timestamp) {
        let payload = [("fill".to_owned(), "x".repeat(usize::from(kilobytes) * 1000).into())].into_iter().collect();
        let event = Event {
            event_id: id.to_string(),
            category: "comment".into(),
            entity_type: String::new(),
            entity_id: String::new(),
            actor: String::new(),
            occurred_at: Timestamp::UNIX_EPOCH,
            counts: BTreeMap::new(),
            urgent: false,
            payload,
        };
        self.accepted.insert(event.event_id.clone());
        self.histories.last_mut().unwrap().insert(event.event_id.clone());
        self.state.add(event, at);
    }

    fn roll(&mut self) {
        self.state.roll(&(self.histories.len() - 1).to_string());
        self.state = serde_json::from_str(&serde_json::to_string(&self.state).unwrap()).unwrap();
        self.histories.push(ids(&self.state.pending.clone().into_events()).into_iter().collect());
        self.commit();
    }

    fn act(&mut self, lost: bool, answer: Answer) {
        let now = self.now;
        self.acted = true;
        self.state.tidy();
        let decision = self.state.decide(now);
        let held = !self.state.winds_down() && self.state.held_until(now).is_some();
        assert!(
            !held || !matches!(decision, Decision::Load | Decision::Render | Decision::Send),
            "{decision:?} on hold"
        );
        match decision {
            Decision::Wait(_) | Decision::Finish => {}
            Decision::Plan => {
                let input = self.state.plan_input(now).unwrap();
                let known = input.event_ids.into_iter().filter(|id| self.ledger.knows(id, input.open)).collect();
                let due_at = input.opened_at.checked_add(30.minutes()).unwrap();
                let plan = Plan { known, due_at, why: String::new(), max_events: self.max_events };
                if !lost {
                    self.state.planned(plan);
                }
            }
            Decision::Stash => {
                let input = self.state.stash_input(now).unwrap();
                let taken = self.stash(&input);
                if !lost {
                    self.state.stashed(&input, Stashed { taken });
                }
            }
            Decision::Load => {
                let input = self.state.load_input(now).unwrap();
                let digest_id = input.window.digest_id;
                let loaded = if matches!(answer, Answer::Later) {
                    Loaded::Later { until: now.checked_add(10.minutes()).unwrap(), why: String::new() }
                } else {
                    match self.ledger.claim(digest_id, ids(&input.events)) {
                        (0, taken) => {
                            let closed = self.ledger.end(digest_id, Outcome::Skipped);
                            Loaded::Nothing(Ending { closed, taken })
                        }
                        (items, taken) => Loaded::Claimed { items, groups: 1, taken },
                    }
                };
                if !lost {
                    self.state.loaded(&input, loaded);
                }
            }
            Decision::Render => {
                let digest_id = self.state.render_input(now).unwrap().window.digest_id;
                let content = self.ledger.of(digest_id);
                self.ledger.mails.entry(digest_id).or_insert(content);
                if !lost {
                    self.state.rendered(Rendered::Stored);
                }
            }
            Decision::Send => {
                // A remote activity starts when its workflow task has ended.
                self.commit();
                let input = self.state.send_input(now).unwrap();
                assert!(!self.dropped.contains(&input.window.digest_id), "an attempt after a drop");
                let sent = self.send(input.window.digest_id, input.last, answer);
                if !lost {
                    self.state.sent(sent, now);
                    self.commit();
                }
            }
            Decision::Close => {
                let input = self.state.close_input(now).unwrap();
                let digest_id = input.window.digest_id;
                let taken = self.ledger.write(digest_id, ids(&input.events));
                let closed = self.ledger.end(digest_id, input.closed.outcome);
                if !lost {
                    self.state.closed(&input, Ending { closed, taken });
                }
            }
            Decision::Audit => {
                let input = self.state.audit_input(now).unwrap();
                if !lost {
                    self.state.audited(&input);
                }
            }
            Decision::Bury => unreachable!("nothing malformed is sent here"),
        }
    }

    fn stash(&mut self, input: &StashInput) -> u64 {
        for run in &input.runs {
            let history = self.histories[run.parse::<usize>().unwrap()].clone();
            self.ledger.read_back(input.window.digest_id, history);
        }
        self.ledger.write(input.window.digest_id, ids(&input.events))
    }

    fn send(&mut self, digest_id: Uuid, last: bool, answer: Answer) -> Sent {
        if let Some(closed) = self.ledger.ended.get(&digest_id) {
            return Sent::Closed(closed.clone());
        }
        match answer {
            Answer::Deferred if !last => Sent::Deferred { why: String::new() },
            Answer::Deferred => {
                self.ledger.returned.extend(self.ledger.of(digest_id));
                Sent::Closed(self.ledger.end(digest_id, Outcome::Failed))
            }
            Answer::Failed => Sent::Closed(self.ledger.end(digest_id, Outcome::Failed)),
            Answer::Good | Answer::Later => Sent::Closed(self.ledger.end(digest_id, Outcome::Sent)),
        }
    }

    /// Lets the workflow come to its end in good weather.
    fn settle(&mut self) {
        self.state.release(order(), self.now);
        for _ in 0..5_000 {
            self.state.tidy();
            match self.state.decide(self.now) {
                Decision::Finish => return,
                Decision::Wait(until) => self.now = until,
                _ => self.act(false, Answer::Good),
            }
        }
        panic!("the workflow does not come to an end: {:?}", self.state.decide(self.now));
    }

    fn check(&self) {
        for id in &self.accepted {
            let digest_id = self.ledger.events.get(id).unwrap_or_else(|| panic!("event {id} is lost"));
            assert!(self.ledger.ended.contains_key(digest_id), "event {id} is in a digest without an end");
        }
        for (digest_id, content) in &self.ledger.mails {
            let returned_since = self.ledger.ended[digest_id].outcome == Outcome::Failed;
            assert!(returned_since || *content == self.ledger.of(*digest_id), "a mail misses an event of its digest");
        }
    }
}

proptest! {
    #[test]
    fn every_event_ends_in_exactly_one_digest(
        steps in prop::collection::vec(step(), 1..200),
        max_events in prop_oneof![2 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(7))],
        cancel in any::<bool>(),
    ) {
        let mut world = World::new(max_events);
        for step in &steps {
            world.take(step);
        }
        if cancel {
            world.take(&Step::Cancel);
        }
        world.settle();
        world.check();
    }
}

#[test]
fn a_window_opens_with_its_first_new_event() {
    let mut world = World::new(None);
    world.add(1, 0);
    world.settle();
    let first = world.state.summary.last.clone().unwrap();

    world.add(1, 0);
    world.take(&Step::Act { lost: false, answer: Answer::Good });
    assert_eq!(world.state.decide(world.now), Decision::Finish, "a known event opened a window");

    world.add(1, 0);
    world.add(2, 0);
    world.settle();
    let second = world.state.summary.last.clone().unwrap();
    assert_ne!(first.digest_id, second.digest_id);
    assert_eq!(world.ledger.of(second.digest_id), BTreeSet::from(["2".to_owned()]));
}

#[test]
fn later_events_never_move_the_deadline_of_after() {
    let mut world = World::new(None);
    world.add(1, 0);
    world.take(&Step::Act { lost: false, answer: Answer::Good });
    let Decision::Wait(due_at) = world.state.decide(world.now) else { panic!("not collecting") };
    world.take(&Step::Tick { minutes: 29 });
    world.add(2, 0);
    assert_eq!(world.state.decide(world.now), Decision::Wait(due_at));
}

#[test]
fn an_instant_cadence_makes_one_mail_per_event() {
    let mut world = World::new(Some(1));
    for id in 0..20 {
        world.add(id, 0);
    }
    world.settle();
    assert_eq!(world.ledger.mails.len(), 20);
}

#[test]
fn six_attempts_at_the_delays_of_the_schedule_and_then_no_more() {
    let mut world = World::new(None);
    world.add(1, 0);
    let mut waits = Vec::new();
    while world.ledger.ended.is_empty() {
        match world.state.decide(world.now) {
            Decision::Wait(until) => {
                waits.push(until.duration_since(world.now).as_mins());
                world.now = until;
            }
            _ => world.act(false, Answer::Deferred),
        }
    }
    assert_eq!(waits, [30, 1, 5, 30, 120, 480]);
    assert_eq!(world.ledger.returned, BTreeSet::from(["1".to_owned()]));
}

#[test]
fn a_hold_keeps_collecting_survives_a_roll_and_a_release_makes_an_overdue_window_due() {
    let mut world = World::new(None);
    world.add(1, 0);
    world.act(false, Answer::Good);
    let held = world.state.hold(Hold { order: order(), until: None }, world.now);
    assert_eq!((held.events, held.delivering), (1, None));
    assert_eq!(world.state.decide(world.now), Decision::Audit);
    world.act(false, Answer::Good);
    world.take(&Step::Tick { minutes: 90 });
    world.add(2, 0);
    world.roll();
    assert_eq!(world.state.flush(order(), world.now).events, 2);
    world.act(false, Answer::Good);
    assert_eq!(world.state.decide(world.now), Decision::Wait(Timestamp::MAX), "a flush is no release");
    assert!(world.state.release(order(), world.now).held);
    assert_eq!(world.state.decide(world.now), Decision::Load);
    world.settle();
    assert_eq!(world.ledger.mails.len(), 1);
}

#[test]
fn a_hold_with_an_end_ends_by_itself() {
    let mut world = World::new(None);
    world.add(1, 0);
    world.act(false, Answer::Good);
    world.take(&Step::Hold { minutes: Some(60) });
    world.act(false, Answer::Good);
    let Decision::Wait(until) = world.state.decide(world.now) else { panic!("not on hold") };
    assert_eq!(until.duration_since(world.now).as_mins(), 60);
    world.now = until;
    assert_eq!(world.state.decide(world.now), Decision::Load);
}

#[test]
fn a_drop_ends_what_is_on_its_way_and_what_is_pending_and_nothing_that_comes_later() {
    let mut world = World::new(None);
    world.add(1, 0);
    while !matches!(world.state.decide(world.now), Decision::Send) {
        match world.state.decide(world.now) {
            Decision::Wait(until) => world.now = until,
            _ => world.act(false, Answer::Good),
        }
    }
    world.act(false, Answer::Deferred);
    world.add(2, 0);
    let dropped = world.state.discard(order());
    assert_eq!((dropped.events, dropped.delivering.is_some()), (1, true));
    for _ in 0..2 {
        assert_eq!(world.state.decide(world.now), Decision::Close);
        world.act(false, Answer::Good);
    }
    world.state.tidy();
    assert_eq!(world.state.decide(world.now), Decision::Finish);
    world.add(3, 0);
    world.settle();
    let outcomes: Vec<_> = world.ledger.ended.values().map(|closed| closed.outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Dropped).count(), 2);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Sent).count(), 1);
}

#[test]
fn a_command_with_nothing_to_act_on_does_nothing() {
    let mut world = World::new(None);
    assert_eq!(world.state.flush(order(), world.now).events, 0);
    assert_eq!(world.state.hold(Hold { order: order(), until: None }, world.now).events, 0);
    assert!(!world.state.release(order(), world.now).held);
    assert_eq!(world.state.discard(order()).events, 0);
    assert_eq!(world.state.decide(world.now), Decision::Finish);
}
