//! The state with a model of the outside world.

use std::{collections::BTreeSet, time::Duration};

use jiff::{Timestamp, ToSpan};
use tidings_model::{
    Event, Retract, SlidingDeadline,
    attempt::{AttemptClass, AttemptPhase},
    command::{CommandContext, HoldCommand, ReleaseCommand, ReopenCommand, RetimeCommand},
    pause::PauseDetails,
    rules::pause,
    step::{
        ClaimAnswer, CloseAnswer, DeadlineInputs, EventOrigin, PauseWait, Plan, PlanInput, RenderAnswer, ReopenAnswer,
        ReturnedEvents, SendAnswer, SendDigestInput, StashAnswer, StashInput, UnrecordedEnd,
    },
    window::{DigestOutcome, SendMoment},
};
use uuid::Uuid;

use super::{
    ledger::{Ledger, event, ids, key},
    step::{Answer, Choice, Step},
};
use crate::{
    digest::{
        commands,
        decide::{DigestDecision, clear_finished_commands, decide},
        delivery, records,
        state::{DigestRunState, RepetitionMode},
        window,
    },
    driver::after_delay,
};

pub(super) struct World {
    pub state: DigestRunState,
    /// The contents of history: the state at the last commit, and the arrivals since.
    pub durable: (DigestRunState, Vec<Step>),
    pub acted: bool,
    pub now: Timestamp,
    pub ledger: Ledger,
    /// Events that came before the latest drop or cancel.
    pub before_an_end: BTreeSet<String>,
    /// Digests that were in delivery when a drop came.
    pub dropped: BTreeSet<Uuid>,
    /// Digests whose acceptance by the relay the workflow keeps for the ledger, or kept.
    pub kept: BTreeSet<Uuid>,
    /// The events and retracts that each run received.
    pub histories: Vec<(BTreeSet<String>, BTreeSet<Retract>)>,
    pub accepted: BTreeSet<String>,
    pub retracts: BTreeSet<Retract>,
    pub cadence: Model,
    /// The operator's pause in the store.
    pub paused: Option<PauseDetails>,
    /// The end of the recipient's own pause.
    pub rests_until: Option<Timestamp>,
    /// An urgent event came, or an operator flushed, released or reopened the key by its name: something may go out in quiet hours.
    pub haste: bool,
    /// Until then the workflow knows of a pause, and asks for nothing unless a signal comes.
    pub silent_until: Option<Timestamp>,
}

/// Of the digest type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Model {
    pub max_events: Option<u32>,
    pub slides: bool,
    /// A message waits for [`UNDO`].
    pub undoes: bool,
    /// Of each four hours the last one is quiet.
    pub has_quiet_hours: bool,
}

pub(super) const EVERY_EVENT: Model =
    Model { max_events: Some(1), slides: false, undoes: false, has_quiet_hours: false };
pub(super) const SLIDING: Model = Model { max_events: None, slides: true, undoes: false, has_quiet_hours: false };
/// The key's share of the spread.
pub(super) const SHARE: Duration = Duration::from_secs(40);

pub(super) const UNDO: Duration = Duration::from_mins(2);

pub(super) fn order() -> CommandContext {
    CommandContext { by: "ann".into(), why: "because".into() }
}
impl World {
    pub fn new(cadence: Model) -> Self {
        let state = DigestRunState::new(Some(key()), "run".into());
        Self {
            state: state.clone(),
            durable: (state, Vec::new()),
            acted: false,
            now: Timestamp::UNIX_EPOCH,
            ledger: Ledger::default(),
            before_an_end: BTreeSet::new(),
            dropped: BTreeSet::new(),
            kept: BTreeSet::new(),
            histories: vec![Default::default()],
            accepted: BTreeSet::new(),
            retracts: BTreeSet::new(),
            cadence,
            paused: None,
            rests_until: None,
            haste: false,
            silent_until: None,
        }
    }

    /// A window that event 1 opened, and that has its plan.
    pub fn collecting(cadence: Model) -> Self {
        let mut world = Self::new(cadence);
        world.add(1, 0);
        world.act(false, Answer::Good);
        world
    }

    pub fn take(&mut self, step: &Step) {
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

    /// Applies an arrival to the outside world, once. History may run again many times.
    pub fn chosen(&mut self, arrival: &Step) -> Step {
        self.haste |= matches!(
            arrival,
            Step::Add { urgent: true, .. }
                | Step::Flush
                | Step::Release { spread: false }
                | Step::Reopen { .. }
                | Step::Retime { minutes: Some(_) }
        );
        match arrival {
            Step::Choose { .. } => self.ledger.revision += 1,
            Step::Pause { minutes, .. } => {
                let until = minutes.map(|minutes| self.now.checked_add(i64::from(minutes).minutes()).unwrap());
                let CommandContext { by, why } = order();
                self.paused = Some(PauseDetails { by, why, since: self.now, until });
            }
            Step::Resume { .. } => self.paused = None,
            Step::Rest { minutes, .. } => self.rests_until = Some(self.now + i64::from(*minutes).minutes()),
            Step::Reopen { digest: Choice { nth, .. } } => {
                let digests: BTreeSet<_> = self.ledger.events.values().copied().collect();
                let chosen = digests.iter().nth(usize::from(*nth) % digests.len().max(1)).copied();
                return Step::Reopen { digest: Choice { nth: *nth, chosen } };
            }
            _ => {}
        }
        arrival.clone()
    }

    pub fn commit(&mut self) {
        self.durable = (self.state.clone(), Vec::new());
        self.acted = false;
    }

    /// History runs again: the state of the last commit, and after it what has arrived since, by the clock of the new
    /// workflow task.
    pub fn crash(&mut self) {
        self.state = self.durable.0.clone();
        self.acted = false;
        self.silent_until = None;
        for arrival in self.durable.1.clone() {
            self.arrive(&arrival, self.now);
        }
    }

    pub fn arrive(&mut self, step: &Step, at: Timestamp) {
        match step {
            Step::Add { id, kilobytes, urgent } => self.receive(*id, *kilobytes, *urgent, at),
            Step::Retract { id, entity } => self.retract(*id, *entity),
            Step::Choose { signalled }
            | Step::Pause { signalled, .. }
            | Step::Resume { signalled }
            | Step::Rest { signalled, .. } => {
                if *signalled {
                    self.silent_until = None;
                    commands::facts_changed(&mut self.state, at);
                }
            }
            Step::Retime { minutes } => {
                let to = minutes.map(|minutes| at.checked_add(i64::from(minutes).minutes()).unwrap());
                commands::retime(&mut self.state, RetimeCommand { order: order(), at: to }, at);
            }
            Step::Reopen { digest } => {
                if let Some(digest_id) = digest.chosen {
                    commands::reopen(
                        &mut self.state,
                        ReopenCommand { order: order(), digest_id, may_duplicate: true },
                        at,
                    );
                }
            }
            Step::Flush => drop(commands::flush(&mut self.state, order(), true, at)),
            Step::Hold { minutes } => {
                let until = minutes.map(|minutes| at.checked_add(i64::from(minutes).minutes()).unwrap());
                commands::hold(&mut self.state, HoldCommand { order: order(), until }, at);
            }
            Step::Release { spread } => {
                drop(commands::release(&mut self.state, ReleaseCommand { order: order(), spread: *spread }, at));
            }
            Step::Drop => {
                self.dropped.extend(commands::discard(&mut self.state, order()).delivering);
                self.before_an_end.clone_from(&self.accepted);
            }
            Step::Cancel => {
                self.state.cancelled = true;
                self.before_an_end.clone_from(&self.accepted);
            }
            Step::Act { .. } | Step::Roll | Step::Tick { .. } | Step::Commit | Step::Crash => unreachable!(),
        }
    }

    pub fn add(&mut self, id: u16, kilobytes: u8) {
        self.take(&Step::Add { id, kilobytes, urgent: false });
    }

    pub fn receive(&mut self, id: u16, kilobytes: u8, urgent: bool, at: Timestamp) {
        let payload = [("fill".to_owned(), "x".repeat(usize::from(kilobytes) * 1000).into())].into_iter().collect();
        let event = Event { payload, urgent, ..event(&id.to_string()) };
        self.accepted.insert(event.event_id.clone());
        self.histories.last_mut().unwrap().0.insert(event.event_id.clone());
        // A worker may read all that came to an idle key minutes after the run was started for it.
        let idle = self.state.open.is_none() && self.state.delivering.is_none();
        let first_task = idle && self.state.pending.first().is_none_or(|first| first.at == at);
        let started_at = (first_task && at.as_second() / 60 % 7 == 3).then(|| at - 5.minutes());
        self.state.add_event(event, at, started_at);
    }

    pub fn retract(&mut self, id: u16, entity: bool) {
        let event = event(&id.to_string());
        let retract = if entity {
            let Event { category, entity_type, entity_id, occurred_at: until, .. } = event;
            Retract::Entity { category, entity_type, entity_id, until }
        } else {
            Retract::Event(event.event_id)
        };
        self.retracts.insert(retract.clone());
        self.histories.last_mut().unwrap().1.insert(retract.clone());
        self.state.add_retract(retract);
    }

    pub fn roll(&mut self) {
        self.state.leave_behind(&(self.histories.len() - 1).to_string(), self.now);
        self.state = serde_json::from_str(&serde_json::to_string(&self.state).unwrap()).unwrap();
        let carried = ids(&self.state.pending.clone().into_events()).into_iter().collect();
        self.histories.push((carried, self.state.retracts.clone()));
        self.commit();
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each decision, as in the workflow")]
    pub fn act(&mut self, lost: bool, answer: Answer) {
        let now = self.now;
        self.acted = true;
        clear_finished_commands(&mut self.state, now);
        let decision = decide(&self.state, now);
        for minutes in [1, 90, 10_000] {
            let later = decide(&self.state, now.checked_add(minutes.minutes()).unwrap());
            assert!(
                matches!(decision, DigestDecision::Wait(_)) || later == decision,
                "{decision:?}, and later {later:?}"
            );
        }
        // What became of an attempt is recorded on hold, too.
        let records = self.state.delivering.as_ref().is_some_and(|digest| digest.unrecorded.is_some());
        let held = !self.state.winds_down() && !records && self.state.held_until(now).is_some();
        assert!(
            !held
                || !matches!(
                    decision,
                    DigestDecision::Claim | DigestDecision::Render | DigestDecision::Shorten | DigestDecision::Send
                ),
            "{decision:?} on hold"
        );
        match decision {
            DigestDecision::Wait(until) => self.wait(until),
            DigestDecision::Finish => {}
            DigestDecision::Plan | DigestDecision::Compare => {
                let input = window::begin_plan(&mut self.state, now).unwrap();
                let plan = self.plan(&input);
                if !lost {
                    self.silent_until = None;
                    window::apply_plan(&mut self.state, &input, plan, now);
                }
            }
            DigestDecision::CompareUrgent => {
                let input = window::begin_urgent(&mut self.state, now).unwrap();
                let plan = self.plan(&input);
                if !lost {
                    window::apply_urgent(&mut self.state, &input, plan, now);
                }
            }
            DigestDecision::Retract => {
                let input = records::retract_input(&self.state, now).unwrap();
                self.ledger.retracts.extend(input.retracts.iter().cloned());
                if let Some(window) = &input.window {
                    let new = |id: &String| !self.ledger.events.contains_key(id);
                    let left = ids(&input.events).into_iter().filter(new).collect();
                    self.ledger.take_back(window.digest_id, left);
                }
                if !lost {
                    records::apply_retract(&mut self.state, &input, (), now);
                }
            }
            DigestDecision::Reopen => {
                let input = delivery::reopen_input(&self.state, now).unwrap();
                // The attempt of the reopened digest is another question than that of the window.
                self.silent_until = None;
                let answer = self.ledger.reopen(input.reopen.digest_id);
                if matches!(answer, ReopenAnswer::Claimed { .. }) {
                    self.dropped.remove(&input.reopen.digest_id);
                }
                if !lost {
                    delivery::apply_reopen(&mut self.state, &input, answer, now);
                }
            }
            DigestDecision::Stash => {
                let input = window::begin_stash(&mut self.state, now).unwrap();
                let stashed = self.stash(&input);
                if !lost {
                    window::apply_stash(&mut self.state, &input, stashed, now);
                }
            }
            DigestDecision::Claim => {
                let input = window::claim_input(&self.state, now).unwrap();
                let digest_id = input.window.digest_id;
                self.check_load();
                self.check_silence();
                let at_any_hour = input.flushed || input.urgent || input.released;
                let later = |until, limit_ends_at| ClaimAnswer::Later {
                    until,
                    why: String::new(),
                    pause: None,
                    limit_ends_at,
                    unknown_since: None,
                };
                let loaded = if let Some(pause) = self.pause() {
                    ClaimAnswer::Later {
                        until: pause.look_at,
                        why: String::new(),
                        pause: Some(pause),
                        limit_ends_at: None,
                        unknown_since: None,
                    }
                } else if let Some(until) = self.rests_until.filter(|until| *until > now) {
                    let until = if input.flushed || input.urgent { until } else { self.good_moment(until) };
                    later(until, None)
                } else if !input.flushed && !input.urgent && input.revision != self.ledger.revision {
                    ClaimAnswer::Changed
                } else if let Some(until) = self.quiet_until(now).filter(|_| !at_any_hour) {
                    later(until, None)
                } else if matches!(answer, Answer::Later) && !at_any_hour {
                    // A limit.
                    let until = self.good_moment(now + 10.minutes());
                    later(until, Some(until))
                } else if matches!(answer, Answer::Later) {
                    later(now + 10.minutes(), None)
                } else {
                    match self.ledger.claim(digest_id, ids(&input.events)) {
                        (0, taken) => {
                            let closed = self.ledger.end(digest_id, DigestOutcome::Skipped);
                            ClaimAnswer::Nothing(CloseAnswer { closed, taken, returned: None })
                        }
                        (items, taken) => ClaimAnswer::Claimed { items, groups: 1, taken, rendered: false },
                    }
                };
                if !lost {
                    self.silent_until = match &loaded {
                        ClaimAnswer::Later { pause: Some(pause), .. } => Some(pause.look_at),
                        _ => None,
                    };
                    window::apply_claim(&mut self.state, &input, loaded, now);
                }
            }
            DigestDecision::Render | DigestDecision::Shorten => {
                let input = delivery::render_input(&self.state, now).unwrap();
                let digest_id = input.window.digest_id;
                let content = self.ledger.of(digest_id);
                self.ledger.mails.entry(digest_id).or_insert(content);
                if !lost {
                    delivery::apply_render(&mut self.state, &input, RenderAnswer::Stored, now);
                }
            }
            DigestDecision::Send => {
                // A remote activity starts when its workflow task has ended.
                self.commit();
                let undo_until = self.state.delivering.as_ref().and_then(|digest| digest.undo_until);
                assert!(undo_until.is_none_or(|at| at <= now), "an attempt while the message can be taken back");
                let input = delivery::begin_send(&mut self.state, now).unwrap();
                let digest_id = input.window.digest_id;
                let sent = if input.unrecorded.is_some() {
                    // The activity fails, and Temporal repeats it.
                    if matches!(answer, Answer::Refused) {
                        return;
                    }
                    SendAnswer::closed(self.ledger.end(digest_id, DigestOutcome::Sent))
                } else {
                    assert!(!self.dropped.contains(&digest_id), "an attempt after a drop");
                    assert!(!self.kept.contains(&digest_id), "a second copy, although the workflow knew of the first");
                    self.check_silence();
                    self.send(&input, answer)
                };
                if !lost {
                    if matches!(sent, SendAnswer::Unrecorded(_)) {
                        self.kept.insert(digest_id);
                    }
                    self.silent_until = match &sent {
                        SendAnswer::Waiting { pause: Some(pause), .. } => Some(pause.look_at),
                        _ => None,
                    };
                    delivery::apply_send(&mut self.state, &input, sent, now);
                    self.commit();
                }
            }
            DigestDecision::Close => {
                let input = window::begin_close(&mut self.state, now).unwrap();
                let digest_id = input.window.digest_id;
                let taken = self.ledger.write(digest_id, ids(&input.events), Some(input.closed.outcome));
                if !self.ledger.claimed.contains(&digest_id) && !self.ledger.ended.contains_key(&digest_id) {
                    self.ledger.take_returned(digest_id);
                }
                let closed = self.ledger.end(digest_id, input.closed.outcome);
                let returned = self.returned_by(digest_id);
                if !lost {
                    window::apply_close(&mut self.state, &input, CloseAnswer { closed, taken, returned }, now);
                }
            }
            DigestDecision::Audit => {
                let input = records::audit_input(&self.state, now).unwrap();
                if !lost {
                    records::apply_audit(&mut self.state, &input, (), now);
                }
            }
            DigestDecision::DeadLetters => unreachable!("nothing malformed is sent here"),
        }
    }

    pub fn plan(&self, input: &PlanInput) -> Plan {
        let minutes = |at: Timestamp, minutes: i64| at.checked_add(minutes.minutes()).unwrap();
        let DeadlineInputs { opened_at, last_at, urgent_at, returned_at, only_returned, .. } = input.signs;
        let until = minutes(opened_at, 60);
        let slide = SlidingDeadline { by: Duration::from_mins(10), until };
        let slide = Some(slide).filter(|_| self.cadence.slides);
        let fresh = slide.map_or(minutes(opened_at, 30), |slide| slide.due_at(last_at));
        let kept = input.before.as_ref().filter(|plan| plan.revision == self.ledger.revision && plan.slide.is_none());
        let kept = kept.filter(|_| input.anew_at.is_none()).map(|plan| plan.due_at);
        let returned = returned_at.map_or(Timestamp::MAX, |at| minutes(at, 480));
        let due_at = match (input.joined, kept) {
            (Some(EventOrigin::Own), Some(kept)) => kept.min(fresh),
            (Some(EventOrigin::Returned), Some(kept)) => kept.min(returned),
            (None, Some(kept)) => kept,
            (_, None) if only_returned => returned,
            (_, None) => fresh.min(returned),
        };
        let slide =
            slide.filter(|_| !only_returned).map(|slide| SlidingDeadline { until: slide.until.min(returned), ..slide });
        let known: Vec<_> = input.event_ids.iter().filter(|id| self.ledger.knows(id, input.open)).cloned().collect();
        Plan {
            returned: if known.is_empty() { None } else { self.ledger.waiting() },
            known,
            due_at: urgent_at.map_or(due_at, |at| at.min(due_at)),
            why: String::new(),
            max_events: self.cadence.max_events.filter(|most| *most > 1 || !input.waited),
            slide: slide.filter(|_| kept.is_none()),
            urgent: urgent_at.is_some(),
            promised_at: None,
            then: None,
            paused_until: None,
            resumes_at: None,
            pause: self.pause(),
            revision: self.ledger.revision,
            follows: String::new(),
            basis: None,
            linger: None,
            undo: self.cadence.undoes.then_some(UNDO),
            limits: None,
            share: Some(SHARE),
            limited: Vec::new(),
        }
    }

    /// A deadline never moves past `max`.
    pub fn wait(&self, until: Timestamp) {
        let open = self.state.open.as_ref().filter(|open| self.state.delivering.is_none() && open.not_before.is_none());
        let slide = open.and_then(|open| open.plan.as_ref()?.slide.filter(|_| self.state.pause(self.now).is_none()));
        if let Some(slide) = slide.filter(|_| self.state.held_until(self.now).is_none()) {
            assert!(until <= slide.until, "a deadline past max");
        }
    }

    /// The wait of the key for the pause in the store.
    pub fn pause(&self) -> Option<PauseWait> {
        pause::pause_wait(self.paused.as_ref(), &key().workflow_id(), None, self.now)
    }

    /// A workflow that knows of a pause does not keep asking.
    pub fn check_silence(&self) {
        assert!(self.silent_until.is_none_or(|until| until <= self.now), "asked again during a pause");
    }

    /// Nothing goes out before its time, or before the ledger knows what was taken back.
    pub fn check_load(&self) {
        assert!(self.retracts.is_subset(&self.ledger.retracts), "a claim before a retract");
        let plan = self.state.open.as_ref().and_then(|open| open.plan.as_ref()).unwrap();
        let full = plan.max_events.is_some_and(|most| self.counted() >= u64::from(most));
        let at_once = self.state.flushed || plan.urgent || full || self.state.waiting_count() == 0;
        assert!(at_once || plan.due_at <= self.now, "a claim before the deadline");
        let last = self.state.pending.last().map(|last| last.at);
        let slid = plan.slide.zip(last).map(|(slide, last)| slide.due_at(last));
        assert!(
            at_once || slid.is_none_or(|slid| slid <= self.now),
            "a claim before the deadline that the last event made"
        );
        let input = window::claim_input(&self.state, self.now).unwrap();
        let due_at = input.due_at();
        let moved = slid.filter(|slid| *slid > plan.due_at);
        assert!(
            due_at >= moved.unwrap_or(plan.due_at),
            "the claim has an earlier time than the plan or the last event"
        );
        assert!(at_once || due_at <= self.now, "the claim has a later time than now");
        let waits = self.cadence.undoes && !self.state.flushed && !plan.urgent;
        let message_due_at = if waits { after_delay(due_at, UNDO) } else { due_at };
        assert_eq!(input.due_window().due_at, message_due_at, "the message is due after the wait to take it back");
    }

    /// Number of the open window's events. A run of this version counts the new ones only.
    fn counted(&self) -> u64 {
        let digest_id = self.state.open.as_ref().unwrap().window.digest_id;
        // A claim whose answer was lost has left the window with fewer events, and is asked for again.
        if self.state.repetitions == RepetitionMode::Counted || self.ledger.claimed.contains(&digest_id) {
            return self.state.collected();
        }
        let is_new = |id: &String| self.ledger.of(digest_id).contains(id) || !self.ledger.knows(id, None);
        let pending = ids(&self.state.pending.clone().into_events()).into_iter().filter(is_new);
        self.ledger.of(digest_id).into_iter().chain(pending).collect::<BTreeSet<_>>().len() as u64
    }

    pub fn stash(&mut self, input: &StashInput) -> StashAnswer {
        let digest_id = input.window.digest_id;
        for run in &input.runs {
            let (events, retracts) = self.histories[run.parse::<usize>().unwrap()].clone();
            self.ledger.retracts.extend(retracts);
            self.ledger.read_back(digest_id, events, self.now);
        }
        let taken = self.ledger.write(digest_id, ids(&input.events), None);
        let sealed = self.ledger.mails.contains_key(&digest_id) || self.ledger.ended.contains_key(&digest_id);
        let events = input.counts_new.then(|| self.ledger.of(digest_id).len() as u64);
        StashAnswer { taken, returned: if sealed { self.ledger.waiting() } else { None }, events }
    }

    /// The events that wait for a claim, if this digest returned some.
    pub fn returned_by(&self, digest_id: Uuid) -> Option<ReturnedEvents> {
        self.ledger.waiting().filter(|returned| returned.digests.contains_key(&digest_id))
    }

    pub fn quiet_until(&self, at: Timestamp) -> Option<Timestamp> {
        let minutes = at.as_second().div_euclid(60);
        let is_quiet = self.cadence.has_quiet_hours && minutes.rem_euclid(240) >= 180;
        is_quiet.then(|| Timestamp::from_second((minutes - minutes.rem_euclid(240) + 240) * 60).unwrap())
    }

    /// The first moment from then on that is not quiet.
    pub fn good_moment(&self, at: Timestamp) -> Timestamp {
        self.quiet_until(at).unwrap_or(at)
    }

    pub fn send(&mut self, input: &SendDigestInput, answer: Answer) -> SendAnswer {
        let (digest_id, last, shortens) = (input.window.digest_id, input.failed >= 5, input.shortens);
        let hurried = input.after.is_some_and(|wait| wait.send_moment() == SendMoment::AtOnce);
        if let Some(closed) = self.ledger.ended.get(&digest_id) {
            return SendAnswer::Closed { closed: closed.clone(), returned: self.returned_by(digest_id) };
        }
        if let Some(pause) = self.pause() {
            return SendAnswer::Waiting {
                until: pause.look_at,
                why: String::new(),
                pause: Some(pause),
                too_large: None,
                moment: false,
            };
        }
        if let Some(until) = self.rests_until.filter(|until| *until > self.now) {
            let until = if hurried { until } else { self.good_moment(until) };
            return SendAnswer::Waiting { until, why: String::new(), pause: None, too_large: None, moment: !hurried };
        }
        if let Some(until) = self.quiet_until(self.now).filter(|_| !hurried) {
            return SendAnswer::Waiting { until, why: String::new(), pause: None, too_large: None, moment: true };
        }
        assert!(self.haste || self.quiet_until(self.now).is_none(), "an attempt in quiet hours");
        match answer {
            Answer::Deferred if !last => SendAnswer::Deferred { why: String::new(), again_in: None },
            Answer::Deferred => {
                self.ledger.give_back(digest_id, self.now);
                let closed = self.ledger.end(digest_id, DigestOutcome::Failed);
                SendAnswer::Closed { closed, returned: self.returned_by(digest_id) }
            }
            Answer::TooLarge if shortens => SendAnswer::Waiting {
                until: self.now,
                why: String::new(),
                pause: None,
                too_large: Some(1),
                moment: false,
            },
            Answer::Failed | Answer::TooLarge => SendAnswer::closed(self.ledger.end(digest_id, DigestOutcome::Failed)),
            Answer::Refused => SendAnswer::Unrecorded(UnrecordedEnd {
                number: 1,
                relay: "default".to_owned(),
                at: self.now,
                class: AttemptClass::Sent,
                phase: AttemptPhase::Done,
                reply: None,
                first: None,
            }),
            Answer::Good | Answer::Later => SendAnswer::closed(self.ledger.end(digest_id, DigestOutcome::Sent)),
        }
    }

    /// A digest of event 1 whose first attempt failed.
    pub fn retried() -> Self {
        let mut world = Self::collecting(Model::default());
        world.reach(DigestDecision::Send, Answer::Good);
        world.act(false, Answer::Deferred);
        world
    }

    /// Lets the next wait pass, or acts.
    pub fn advance(&mut self, answer: Answer) {
        match decide(&self.state, self.now) {
            DigestDecision::Wait(until) => self.now = until,
            _ => self.act(false, answer),
        }
    }

    pub fn reach(&mut self, decision: DigestDecision, answer: Answer) {
        while decide(&self.state, self.now) != decision {
            self.advance(answer);
        }
    }

    /// Acts until the workflow waits. Returns the end of the wait.
    pub fn waits(&mut self) -> Timestamp {
        loop {
            clear_finished_commands(&mut self.state, self.now);
            match decide(&self.state, self.now) {
                DigestDecision::Wait(until) => return until,
                DigestDecision::Finish => panic!("nothing waits"),
                _ => self.act(false, Answer::Good),
            }
        }
    }

    /// Lets the workflow finish without faults. A pause ends, and no signal says so.
    pub fn settle(&mut self) {
        self.paused = None;
        commands::release(&mut self.state, ReleaseCommand { order: order(), spread: true }, self.now);
        for _ in 0..5_000 {
            clear_finished_commands(&mut self.state, self.now);
            match decide(&self.state, self.now) {
                DigestDecision::Finish => return,
                DigestDecision::Wait(until) => self.now = until,
                _ => self.act(false, Answer::Good),
            }
        }
        panic!("the workflow does not finish: {:?}", decide(&self.state, self.now));
    }

    pub fn check(&self) {
        for id in &self.accepted {
            let digest_id = self.ledger.events.get(id).unwrap_or_else(|| panic!("event {id} is lost"));
            let of_no_use = self.retracts.iter().any(|retract| retract.covers(&event(id)));
            let Some(end) = self.ledger.ended.get(digest_id) else {
                // The answer to the claim was lost, and what it took was withdrawn before the next one. The key's next window ends it.
                assert!(of_no_use, "event {id} is in a digest without an end");
                continue;
            };
            let passed_over = end.outcome == DigestOutcome::Skipped && !of_no_use;
            assert!(!self.ledger.returned.contains_key(id), "event {id} was returned, and waits for ever");
            assert!(!passed_over, "event {id} was not withdrawn, and no message has it");
            let dropped = end.outcome == DigestOutcome::Dropped && !self.state.cancelled;
            assert!(!dropped || self.before_an_end.contains(id), "event {id} came after the drop that ended it");
        }
        for (digest_id, content) in &self.ledger.mails {
            let returned_since = self.ledger.ended[digest_id].outcome == DigestOutcome::Failed;
            assert!(returned_since || *content == self.ledger.of(*digest_id), "a mail misses an event of its digest");
        }
    }
}
