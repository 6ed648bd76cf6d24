//! The state against a model of the store, under random interleavings of events, operators' commands, lost answers, lost
//! workflow tasks, rolls, a cancel and the passing of time: every event ends in exactly one digest, no mail misses one of its events, and
//! nothing goes out during a hold or after a drop.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use uuid::Uuid;

use crate::{
    Event, Key, Retract, Slide,
    command::{Hold, Order, Reopen, Retime},
    contract::{
        Closed, Ending, Loaded, Outcome, Plan, PlanInput, Rendered, Resumed, Sent, Signs, StashInput, Stashed, Window,
    },
    state::{Decision, State},
};

#[derive(Clone, Debug)]
enum Step {
    /// `id` may repeat; `kilobytes` make a state too large to carry.
    Add {
        id: u16,
        kilobytes: u8,
        urgent: bool,
    },
    /// By id, or all of the even or odd ones that have occurred so far.
    Retract {
        id: u16,
        entity: bool,
    },
    /// The recipient chooses something else; the signal that says so may be lost.
    Choose {
        signalled: bool,
    },
    /// To then, or to what a new plan says.
    Retime {
        minutes: Option<u16>,
    },
    Reopen {
        digest: Choice,
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

/// One of the digests that there are when it is chosen.
#[derive(Clone, Copy, Debug)]
struct Choice {
    nth: u8,
    chosen: Option<Uuid>,
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
        6 => (0..400u16, prop_oneof![3 => Just(0u8), 1 => Just(15u8)], prop::bool::weighted(0.05))
            .prop_map(|(id, kilobytes, urgent)| Step::Add { id, kilobytes, urgent }),
        2 => (0..400u16, prop::bool::weighted(0.3)).prop_map(|(id, entity)| Step::Retract { id, entity }),
        1 => any::<bool>().prop_map(|signalled| Step::Choose { signalled }),
        1 => prop::option::of(0..90u16).prop_map(|minutes| Step::Retime { minutes }),
        1 => any::<u8>().prop_map(|nth| Step::Reopen { digest: Choice { nth, chosen: None } }),
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
    retracts: BTreeSet<Retract>,
    /// Of the recipient's choices.
    revision: u64,
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
            let taken_back =
                self.of(digest_id).into_iter().filter(|id| self.retracts.iter().any(|r| r.covers(&event(id))));
            self.take_back(digest_id, taken_back.collect());
        }
        (self.of(digest_id).len() as u64, taken)
    }

    /// What is taken back is in a digest of its own, which says so.
    fn take_back(&mut self, digest_id: Uuid, ids: Vec<String>) {
        let left = Uuid::new_v5(&digest_id, b"retracted");
        for id in ids {
            self.events.insert(id, left);
            self.end(left, Outcome::Skipped);
        }
    }

    fn reopen(&mut self, digest_id: Uuid) -> Resumed {
        let content = self.of(digest_id);
        let again =
            self.ended.get(&digest_id).is_none_or(|end| [Outcome::Dropped, Outcome::Failed].contains(&end.outcome));
        let whole = self.mails.get(&digest_id).is_none_or(|mail| *mail == content);
        if content.is_empty() || !again || !whole {
            return Resumed::Refused { why: String::new() };
        }
        self.ended.remove(&digest_id);
        self.returned.retain(|id| !content.contains(id));
        let opened_at = Timestamp::UNIX_EPOCH;
        let window = Window { key: key(), digest_id, opened_at, due_at: opened_at };
        Resumed::Claimed { window, items: content.len() as u64, groups: 1 }
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
    histories: Vec<(BTreeSet<String>, BTreeSet<Retract>)>,
    accepted: BTreeSet<String>,
    /// What was taken back so far.
    retracts: BTreeSet<Retract>,
    cadence: Model,
}

/// Of the digest type.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    max_events: Option<u32>,
    slides: bool,
}

const EVERY_EVENT: Model = Model { max_events: Some(1), slides: false };
const SLIDING: Model = Model { max_events: None, slides: true };

fn key() -> Key {
    Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()
}

/// The event with this id: all about it follows from that.
fn event(id: &str) -> Event {
    let number: i64 = id.parse().unwrap();
    Event {
        event_id: id.to_owned(),
        category: "comment".into(),
        entity_type: "parity".into(),
        entity_id: (number % 2).to_string(),
        actor: String::new(),
        occurred_at: Timestamp::from_second(number).unwrap(),
        counts: BTreeMap::new(),
        urgent: false,
        payload: serde_json::Map::new(),
    }
}

fn order() -> Order {
    Order { by: "ann".into(), why: "because".into() }
}

fn ids(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.event_id.clone()).collect()
}

impl World {
    fn new(cadence: Model) -> Self {
        let state = State::new(Some(key()), "run".into());
        Self {
            state: state.clone(),
            durable: (state, Vec::new()),
            acted: false,
            now: Timestamp::UNIX_EPOCH,
            ledger: Ledger::default(),
            dropped: BTreeSet::new(),
            histories: vec![Default::default()],
            accepted: BTreeSet::new(),
            retracts: BTreeSet::new(),
            cadence,
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
                let arrival = self.chosen(arrival);
                self.durable.1.push(arrival.clone());
                self.arrive(&arrival, self.now);
            }
        }
    }

    /// What an arrival does outside of the workflow it does once, however often history runs again.
    fn chosen(&mut self, arrival: &Step) -> Step {
        match arrival {
            Step::Choose { .. } => self.ledger.revision += 1,
            Step::Reopen { digest: Choice { nth, .. } } => {
                let digests: BTreeSet<_> = self.ledger.events.values().copied().collect();
                let chosen = digests.iter().nth(usize::from(*nth) % digests.len().max(1)).copied();
                return Step::Reopen { digest: Choice { nth: *nth, chosen } };
            }
            _ => {}
        }
        arrival.clone()
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
            Step::Add { id, kilobytes, urgent } => self.receive(*id, *kilobytes, *urgent, at),
            Step::Retract { id, entity } => self.retract(*id, *entity),
            Step::Choose { signalled } => {
                if *signalled {
                    self.state.change();
                }
            }
            Step::Retime { minutes } => {
                let to = minutes.map(|minutes| at.checked_add(i64::from(minutes).minutes()).unwrap());
                self.state.retime(Retime { order: order(), at: to }, at);
            }
            Step::Reopen { digest } => {
                if let Some(digest_id) = digest.chosen {
                    self.state.reopen(Reopen { order: order(), digest_id, may_duplicate: true }, at);
                }
            }
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
        self.take(&Step::Add { id, kilobytes, urgent: false });
    }

    fn receive(&mut self, id: u16, kilobytes: u8, urgent: bool, at: Timestamp) {
        let payload = [("fill".to_owned(), "x".repeat(usize::from(kilobytes) * 1000).into())].into_iter().collect();
        let event = Event { payload, urgent, ..event(&id.to_string()) };
        self.accepted.insert(event.event_id.clone());
        self.histories.last_mut().unwrap().0.insert(event.event_id.clone());
        self.state.add(event, at);
    }

    fn retract(&mut self, id: u16, entity: bool) {
        let event = event(&id.to_string());
        let retract = if entity {
            let Event { category, entity_type, entity_id, occurred_at: until, .. } = event;
            Retract::Entity { category, entity_type, entity_id, until }
        } else {
            Retract::Event(event.event_id)
        };
        self.retracts.insert(retract.clone());
        self.histories.last_mut().unwrap().1.insert(retract.clone());
        self.state.retract(retract);
    }

    fn roll(&mut self) {
        self.state.roll(&(self.histories.len() - 1).to_string(), self.now);
        self.state = serde_json::from_str(&serde_json::to_string(&self.state).unwrap()).unwrap();
        let carried = ids(&self.state.pending.clone().into_events()).into_iter().collect();
        self.histories.push((carried, self.state.retracts.clone()));
        self.commit();
    }

    fn act(&mut self, lost: bool, answer: Answer) {
        let now = self.now;
        self.acted = true;
        self.state.tidy(now);
        let decision = self.state.decide(now);
        let held = !self.state.winds_down() && self.state.held_until(now).is_some();
        assert!(
            !held || !matches!(decision, Decision::Load | Decision::Render | Decision::Send),
            "{decision:?} on hold"
        );
        match decision {
            Decision::Wait(until) => self.wait(until),
            Decision::Finish => {}
            Decision::Plan => {
                let input = self.state.plan_input(now).unwrap();
                let plan = self.plan(&input);
                if !lost {
                    self.state.planned(&input, plan, now);
                }
            }
            Decision::Retract => {
                let input = self.state.retract_input(now).unwrap();
                self.ledger.retracts.extend(input.retracts.iter().cloned());
                if let Some(window) = &input.window {
                    let new = |id: &String| !self.ledger.events.contains_key(id);
                    let left = ids(&input.events).into_iter().filter(new).collect();
                    self.ledger.take_back(window.digest_id, left);
                }
                if !lost {
                    self.state.retracted(&input, (), now);
                }
            }
            Decision::Reopen => {
                let input = self.state.reopen_input(now).unwrap();
                let answer = self.ledger.reopen(input.reopen.digest_id);
                if matches!(answer, Resumed::Claimed { .. }) {
                    self.dropped.remove(&input.reopen.digest_id);
                }
                if !lost {
                    self.state.resumed(&input, answer, now);
                }
            }
            Decision::Stash => {
                let input = self.state.stash_input(now).unwrap();
                let taken = self.stash(&input);
                if !lost {
                    self.state.stashed(&input, Stashed { taken }, now);
                }
            }
            Decision::Load => {
                let input = self.state.load_input(now).unwrap();
                let digest_id = input.window.digest_id;
                self.check_load();
                let loaded = if !input.flushed && !input.urgent && input.revision != self.ledger.revision {
                    Loaded::Changed
                } else if matches!(answer, Answer::Later) {
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
                    self.state.loaded(&input, loaded, now);
                }
            }
            Decision::Render => {
                let input = self.state.render_input(now).unwrap();
                let digest_id = input.window.digest_id;
                let content = self.ledger.of(digest_id);
                self.ledger.mails.entry(digest_id).or_insert(content);
                if !lost {
                    self.state.rendered(&input, Rendered::Stored, now);
                }
            }
            Decision::Send => {
                // A remote activity starts when its workflow task has ended.
                self.commit();
                let input = self.state.send_input(now).unwrap();
                assert!(!self.dropped.contains(&input.window.digest_id), "an attempt after a drop");
                let sent = self.send(input.window.digest_id, input.last, answer);
                if !lost {
                    self.state.sent(&input, sent, now);
                    self.commit();
                }
            }
            Decision::Close => {
                let input = self.state.close_input(now).unwrap();
                let digest_id = input.window.digest_id;
                let taken = self.ledger.write(digest_id, ids(&input.events));
                let closed = self.ledger.end(digest_id, input.closed.outcome);
                if !lost {
                    self.state.closed(&input, Ending { closed, taken }, now);
                }
            }
            Decision::Audit => {
                let input = self.state.audit_input(now).unwrap();
                if !lost {
                    self.state.audited(&input, (), now);
                }
            }
            Decision::Bury => unreachable!("nothing malformed is sent here"),
        }
    }

    fn plan(&self, input: &PlanInput) -> Plan {
        let minutes = |at: Timestamp, minutes: i64| at.checked_add(minutes.minutes()).unwrap();
        let Signs { opened_at, last_at, urgent_at, .. } = input.signs;
        let until = minutes(opened_at, 60);
        let slide = Slide { by: Duration::from_secs(600), until };
        let slide = Some(slide).filter(|_| self.cadence.slides);
        let fresh = slide.map_or(minutes(opened_at, 30), |slide| slide.due_at(last_at));
        let kept = input.before.as_ref().filter(|plan| plan.revision == self.ledger.revision && plan.slide.is_none());
        let due_at = kept.filter(|_| input.anew_at.is_none()).map_or(fresh, |plan| plan.due_at);
        Plan {
            known: input.event_ids.iter().filter(|id| self.ledger.knows(id, input.open)).cloned().collect(),
            due_at: urgent_at.map_or(due_at, |at| at.min(due_at)),
            why: String::new(),
            max_events: self.cadence.max_events,
            slide: if kept.is_some() && input.anew_at.is_none() { None } else { slide },
            urgent: urgent_at.is_some(),
            revision: self.ledger.revision,
            follows: String::new(),
            linger: None,
        }
    }

    /// A deadline never moves past `max`.
    fn wait(&self, until: Timestamp) {
        let open = self.state.open.as_ref().filter(|open| self.state.delivering.is_none() && open.not_before.is_none());
        let slide = open.and_then(|open| open.plan.as_ref()?.slide);
        if let Some(slide) = slide.filter(|_| self.state.held_until(self.now).is_none()) {
            assert!(until <= slide.until, "a deadline past max");
        }
    }

    /// Nothing goes out before its time, or before the ledger knows what was taken back.
    fn check_load(&self) {
        assert!(self.retracts.is_subset(&self.ledger.retracts), "a claim before a retract");
        let plan = self.state.open.as_ref().and_then(|open| open.plan.as_ref()).unwrap();
        let full = plan.max_events.is_some_and(|most| self.state.collected() >= u64::from(most));
        let at_once = self.state.flushed || plan.urgent || full || self.state.collected() == 0;
        assert!(at_once || plan.due_at <= self.now, "a claim before the deadline");
        let last = self.state.pending.last().map(|last| last.at);
        let slid = plan.slide.zip(last).map(|(slide, last)| slide.due_at(last));
        assert!(
            at_once || slid.is_none_or(|slid| slid <= self.now),
            "a claim before the deadline that the last event made"
        );
    }

    fn stash(&mut self, input: &StashInput) -> u64 {
        for run in &input.runs {
            let (events, retracts) = self.histories[run.parse::<usize>().unwrap()].clone();
            self.ledger.retracts.extend(retracts);
            self.ledger.read_back(input.window.digest_id, events);
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
            self.state.tidy(self.now);
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
        slides in any::<bool>(),
        cancel in any::<bool>(),
    ) {
        let mut world = World::new(Model { max_events, slides });
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
    let mut world = World::new(Model::default());
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
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.take(&Step::Act { lost: false, answer: Answer::Good });
    let Decision::Wait(due_at) = world.state.decide(world.now) else { panic!("not collecting") };
    world.take(&Step::Tick { minutes: 29 });
    world.add(2, 0);
    assert_eq!(world.state.decide(world.now), Decision::Wait(due_at));
}

#[test]
fn each_event_moves_a_sliding_deadline_and_none_past_max() {
    let mut world = World::new(SLIDING);
    world.add(1, 0);
    let mut mails = Vec::new();
    for id in 2..20 {
        while world.ledger.mails.is_empty() && world.now.as_second() < 60 * 9 * (i64::from(id) - 1) {
            match world.state.decide(world.now) {
                Decision::Wait(until) => {
                    world.now = until.min(Timestamp::from_second(60 * 9 * (i64::from(id) - 1)).unwrap())
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
    let Decision::Wait(due_at) = world.state.decide(world.now) else { panic!("not collecting") };
    world.take(&Step::Tick { minutes: 5 });
    world.add(1, 0);
    world.now = due_at;
    assert_eq!(world.state.decide(world.now), Decision::Plan, "something came, and is looked at");
    world.act(false, Answer::Good);
    assert_eq!(world.state.decide(world.now), Decision::Load);
}

#[test]
fn an_urgent_event_makes_the_whole_window_due_once() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.act(false, Answer::Good);
    world.take(&Step::Tick { minutes: 1 });
    world.take(&Step::Add { id: 2, kilobytes: 0, urgent: true });
    assert_eq!(world.state.decide(world.now), Decision::Plan);
    world.act(false, Answer::Good);
    assert_eq!(world.state.decide(world.now), Decision::Load);
    world.settle();
    assert_eq!(world.ledger.mails.values().map(BTreeSet::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn an_urgent_event_that_the_ledger_knows_moves_nothing() {
    let mut world = World::new(Model::default());
    world.take(&Step::Add { id: 1, kilobytes: 0, urgent: true });
    world.settle();
    world.add(2, 0);
    world.act(false, Answer::Good);
    let waiting = world.state.decide(world.now);
    world.take(&Step::Add { id: 1, kilobytes: 0, urgent: true });
    for _ in 0..2 {
        world.act(false, Answer::Good);
    }
    assert_eq!(world.state.decide(world.now), waiting);
}

#[test]
fn a_window_that_is_emptied_ends_at_once_and_says_so() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.act(false, Answer::Good);
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
fn a_dropped_digest_is_taken_up_again_under_its_id_and_collects_nothing_new() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.act(false, Answer::Good);
    world.take(&Step::Drop);
    world.settle();
    let digest_id = *world.ledger.ended.keys().next().unwrap();
    world.add(2, 0);
    let reopen = Reopen { order: order(), digest_id, may_duplicate: false };
    assert_eq!(world.state.reopen(reopen, world.now), None);
    world.settle();
    assert_eq!(world.ledger.ended[&digest_id].outcome, Outcome::Sent);
    assert_eq!(world.ledger.mails[&digest_id], BTreeSet::from(["1".to_owned()]));
    world.check();
}

#[test]
fn an_operator_moves_the_deadline_and_the_audit_trail_has_both() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.act(false, Answer::Good);
    let at = world.now.checked_add(5.minutes()).unwrap();
    let retimed = world.state.retime(Retime { order: order(), at: Some(at) }, world.now);
    assert_eq!((retimed.was.map(|was| was.as_second()), retimed.due_at), (Some(1800), Some(at)));
    let note = world.state.notes[0].clone();
    assert_eq!((note.action.as_str(), note.by.as_str()), ("retime", "ann"));
    assert!(note.why.contains("due at 1970-01-01T00:05:00Z, was 1970-01-01T00:30:00Z"), "{}", note.why);
    world.act(false, Answer::Good);
    assert_eq!(world.state.decide(world.now), Decision::Wait(at));
}

#[test]
fn an_idle_run_lingers_and_then_ends() {
    let mut world = World::new(Model::default());
    world.add(1, 0);
    world.settle();
    world.state.linger = Some(Duration::from_secs(600));
    world.state.tidy(world.now);
    let until = world.now.checked_add(10.minutes()).unwrap();
    assert_eq!(world.state.decide(world.now), Decision::Wait(until));
    world.now = until;
    assert_eq!(world.state.decide(world.now), Decision::Finish);
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
fn six_attempts_at_the_delays_of_the_schedule_and_then_no_more() {
    let mut world = World::new(Model::default());
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
    let mut world = World::new(Model::default());
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
    let mut world = World::new(Model::default());
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
    let mut world = World::new(Model::default());
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
    world.state.tidy(world.now);
    assert_eq!(world.state.decide(world.now), Decision::Finish);
    world.add(3, 0);
    world.settle();
    let outcomes: Vec<_> = world.ledger.ended.values().map(|closed| closed.outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Dropped).count(), 2);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Sent).count(), 1);
}

#[test]
fn a_command_with_nothing_to_act_on_does_nothing() {
    let mut world = World::new(Model::default());
    assert_eq!(world.state.flush(order(), world.now).events, 0);
    assert_eq!(world.state.hold(Hold { order: order(), until: None }, world.now).events, 0);
    assert!(!world.state.release(order(), world.now).held);
    assert_eq!(world.state.discard(order()).events, 0);
    assert_eq!(world.state.decide(world.now), Decision::Finish);
}
