//! The state of the digest workflow. Each step has a file that reads and changes the state; nothing here talks to the
//! outside.
//!
//! Events collect in `pending`. The first of them opens a window (`open`). A due window becomes a digest (`delivering`),
//! and events that arrive during the delivery are pending again. There is at most one window and one digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{
    Event, Key, Retract,
    command::{Hold, Order},
    decode::DeadLetter,
    rules::spread,
    step::{Note, PauseWait, Plan, Returned, Signs},
    window::{Closed, Wait, Window},
};
use uuid::Uuid;

use super::{
    delivery::Delivering,
    pending::{Arrival, Pending},
    requests::{Drop, Preferences, Reopening, drop_fields},
};

/// Bytes of pending events that a run hands to the next run. Above that, the run hands over a pointer to its own history.
const CARRY_BYTES: usize = 512 * 1024;

/// Everything that one run hands to the next. Older and newer workers read the same JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// `None`: the workflow id is not a key, and every signal is refused.
    pub key: Option<Key>,
    /// The run that the chain of runs began with.
    pub first_run_id: String,
    /// Number of windows that were claimed or ended.
    pub windows: u64,
    #[serde(default)]
    pub pending: Pending,
    #[serde(default)]
    pub open: Option<Open>,
    #[serde(default)]
    pub delivering: Option<Delivering>,
    /// Events in the ledger that failed digests returned. The next claim takes them (rule 25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    /// The pending events waited for a digest whose first attempt failed, or that could be taken back for a while.
    #[serde(rename = "waited", default, skip_serializing_if = "std::ops::Not::not")]
    pub queued_behind_delivery: bool,
    /// An operator wants the pending events sent now.
    #[serde(default)]
    pub flushed: bool,
    /// An operator wants nothing sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The recipient's preferences, as far as the open window's plan follows them.
    #[serde(flatten)]
    pub preferences: Preferences,
    /// An operator wants the open window planned again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retiming: Option<Order>,
    /// An operator wants a digest resumed.
    #[serde(rename = "reopening", default, skip_serializing_if = "Reopening::is_over")]
    pub reopen: Option<Reopening>,
    /// Retracts that the ledger does not have yet.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retracts: BTreeSet<Retract>,
    /// The time until which such a retract by id covers pending events of the id; [`Timestamp::MIN`]: the ledger decides. An id that has
    /// none: any time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retracted_until: BTreeMap<String, Timestamp>,
    /// An operator wants everything to end without a message.
    #[serde(flatten, with = "drop_fields")]
    pub drop: Option<Drop>,
    /// Commands that the audit trail does not have yet.
    #[serde(rename = "notes", default, skip_serializing_if = "Vec::is_empty")]
    pub audit_notes: Vec<Note>,
    /// Dead letters that the store does not have yet.
    #[serde(rename = "letters", default)]
    pub dead_letters: Vec<DeadLetter>,
    /// Number of malformed signals and events.
    #[serde(default)]
    pub malformed: u64,
    /// The workflow was cancelled: nothing new starts, and the ledger records what was pending.
    #[serde(default)]
    pub cancelled: bool,
    #[serde(default)]
    pub summary: Summary,
    /// The time for which an idle run waits for another event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// The key's share of the spread, by its last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Duration>,
    /// The treatment of events that the ledger knows.
    #[serde(skip)]
    pub repetitions: Repetitions,
    #[serde(skip)]
    pub unused: Unused,
}

/// The treatment of events that the ledger knows, in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Repetitions {
    /// They count nowhere (rule 3).
    #[default]
    Apart,
    /// So, too, and the last plan found nothing else pending.
    NothingElse,
    /// An earlier version began the run: they count, and the run does not wait for more of them.
    Counted,
}

/// What a run does that got no event yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unused {
    /// It waits a while for one.
    #[default]
    Waits,
    /// An earlier version began the run: it ends at once.
    Ends,
}

/// The result of a completed workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of digests that ended since the key was last idle.
    pub digests: u64,
    /// The last of them.
    pub last: Option<Ended>,
}

/// The end of one digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub digest_id: Uuid,
    #[serde(flatten)]
    pub closed: Closed,
}

/// The window that collects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    /// `due_at` is the plan's. Use [`Open::set_plan`].
    pub window: Window,
    /// `None` while a digest is being delivered: the window is planned after that.
    pub plan: Option<Plan>,
    /// The inputs of the plan.
    #[serde(rename = "seen", default, skip_serializing_if = "Option::is_none")]
    pub planned_from: Option<Signs>,
    /// Number of the first pending events that a plan compared with the ledger. They are new (rule 3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub compared: usize,
    /// Number of events that are in the ledger already.
    pub stashed: u64,
    /// The arrival of the latest event that left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stashed_at: Option<Timestamp>,
    /// The arrival of the first urgent event that left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent_at: Option<Timestamp>,
    /// The category of the window's first event, if that event left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Set if returned events opened the window, and no event had arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_return: bool,
    /// The arrival of the first event in such a window, if that event left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<Timestamp>,
    /// Events that were read back too late for this window. They are returned, and open the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Returned>,
    /// Earlier runs whose events are to be read back from their histories.
    pub runs: Vec<String>,
    /// Number of events in those runs.
    pub unread: u64,
    /// The digest got a message or an end in a workflow task that was lost, so the window takes no more events.
    #[serde(rename = "sealed", default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_to_events: bool,
    /// Admission deferred the window to this time.
    pub not_before: Option<Timestamp>,
    /// The latest end of a limit that put the window off, by admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ends_at: Option<Timestamp>,
    /// The first claim that found the recipient or the digest type unknown, if the last one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Timestamp>,
    /// An operator released the overdue window by the name of its key, or gave it its time: it goes out at any hour.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// The reason that admission gave, or else the plan's.
    pub why: String,
    /// The reasons for which the due window waited on, each once. For the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferrals: Vec<String>,
}

/// The largest number of [deferrals](Open::deferrals) that are kept.
const DEFERRALS: usize = 16;

impl Open {
    const fn new(window: Window) -> Self {
        Self {
            window,
            plan: None,
            planned_from: None,
            compared: 0,
            stashed: 0,
            stashed_at: None,
            urgent_at: None,
            category: None,
            by_return: false,
            arrived_at: None,
            late: None,
            runs: Vec::new(),
            unread: 0,
            closed_to_events: false,
            not_before: None,
            limit_ends_at: None,
            unknown_since: None,
            released: false,
            why: String::new(),
            deferrals: Vec::new(),
        }
    }

    /// Keeps the reason for which the due window waits on. Beyond the bound, the earliest reason goes.
    pub fn note_deferral(&mut self, why: &str) {
        if self.deferrals.iter().any(|known| known == why) {
            return;
        }
        if self.deferrals.len() == DEFERRALS {
            self.deferrals.remove(0);
        }
        self.deferrals.push(why.to_owned());
    }

    /// Sets the plan, and the copies of its deadline and reason that activities and older workers read.
    pub fn set_plan(&mut self, plan: Plan) {
        if self.window.due_at != plan.due_at {
            self.released = false;
            self.limit_ends_at = None;
        }
        self.window.due_at = plan.due_at;
        self.why.clone_from(&plan.why);
        self.plan = Some(plan);
    }
}

impl State {
    pub fn new(key: Option<Key>, first_run_id: String) -> Self {
        Self { key, first_run_id, ..Self::default() }
    }

    /// Adds an event. `started_at` is the start of the run if the event came in the run's first workflow task.
    pub fn add(&mut self, event: Event, now: Timestamp, started_at: Option<Timestamp>) {
        if self.awaits_retract(&event.event_id) {
            self.retracted_until.insert(event.event_id.clone(), Timestamp::MIN);
        }
        self.pending.push(event, now, started_at);
    }

    /// Reports an id whose retract came while nothing of it was pending, and is not in the ledger yet.
    fn awaits_retract(&self, event_id: &str) -> bool {
        let awaits = |id: &str| self.retracts.contains(&Retract::Event(id.to_owned()));
        !self.retracts.is_empty() && !self.retracted_until.contains_key(event_id) && awaits(event_id)
    }

    /// Reports an event that earlier versions took for a repetition, or for one that its retract covers: other content under a
    /// pending id, and what occurred after the retract of its id.
    pub fn is_other_content(&self, event: &Event) -> bool {
        let pending = self.pending.event(&event.event_id);
        let until = self.retracted_until.get(&event.event_id);
        pending.is_some_and(|pending| pending != event)
            || until.is_some_and(|until| event.occurred_after(*until))
            || self.awaits_retract(&event.event_id)
    }

    /// Adds such an event as earlier versions did.
    pub fn add_by_id(&mut self, event: Event, now: Timestamp, started_at: Option<Timestamp>) {
        self.retracted_until.remove(&event.event_id);
        if self.pending.event(&event.event_id).is_none() {
            self.pending.push(event, now, started_at);
        }
    }

    /// Withdraws events: pending ones and ones that are still to come. A retract by id covers what is pending of the id, and not what
    /// comes after it and occurred later. Where nothing is pending, the ledger decides.
    pub fn retract(&mut self, retract: Retract) {
        if let Retract::Event(id) = &retract
            && let Some(event) = self.pending.event(id)
        {
            self.retracted_until.insert(id.clone(), event.occurred_at);
        }
        self.retracts.insert(retract);
    }

    /// The retracts, of which those by id say until when they cover, if that does not depend on the ledger.
    pub fn dated_retracts(&self) -> Vec<Retract> {
        let dated = |retract: &Retract| match retract {
            Retract::Event(id) => {
                let until = self.retracted_until.get(id).filter(|until| **until != Timestamp::MIN);
                until.map_or_else(|| retract.clone(), |until| retract.clone().until(*until))
            }
            _ => retract.clone(),
        };
        self.retracts.iter().map(dated).collect()
    }

    /// A page of the pending events that the retracts cover.
    pub fn covered_by(&self, retracts: &[Retract]) -> Vec<Event> {
        self.pending.covered_by(retracts, &self.retracted_until)
    }

    /// Forgets a retract that the ledger has.
    pub fn forget_retract(&mut self, retract: &Retract) {
        self.retracts.remove(retract);
        if let Retract::Event(id) = retract {
            self.retracted_until.remove(id);
        }
    }

    /// Number of events that arrived for the next claim, in this state, in the ledger or in earlier runs.
    pub fn collected(&self) -> u64 {
        let elsewhere = self.open.as_ref().map_or(0, |open| open.stashed + open.unread);
        elsewhere + self.pending.len() as u64
    }

    /// Number of the first pending events that a plan compared with the ledger.
    pub fn compared(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.compared)
    }

    /// Number of events that arrived for the next claim, and that may be repetitions of events in the ledger.
    pub fn uncompared(&self) -> u64 {
        let unread = self.open.as_ref().map_or(0, |open| open.unread);
        unread + (self.pending.len() - self.compared()) as u64
    }

    /// Number of events that count for `max_events`: the new ones (rule 3).
    pub fn counted(&self) -> u64 {
        let uncounted = if self.repetitions == Repetitions::Counted { 0 } else { self.uncompared() };
        self.collected() - uncounted
    }

    /// Notes the number of further pending events that a plan found to be new.
    pub fn note_compared(&mut self, new: usize) {
        if let Some(open) = &mut self.open {
            open.compared += new;
        }
    }

    /// Number of events that failed digests returned.
    pub fn returned(&self) -> u64 {
        self.returned.as_ref().map_or(0, Returned::events)
    }

    /// Number of events that wait for a claim: those that arrived, and returned ones.
    pub fn waiting(&self) -> u64 {
        self.collected() + self.returned()
    }

    /// The arrival of the first event, or the return that opened the window if no event has arrived.
    pub fn opened_at(&self, now: Timestamp) -> Option<Timestamp> {
        let window = self.window(now)?;
        let by_return = self.open.as_ref().filter(|open| open.by_return);
        let arrived = by_return.and_then(|open| open.arrived_at.or(Some(self.pending.first()?.opens_at())));
        Some(arrived.unwrap_or(window.opened_at))
    }

    /// The plan of the open window.
    pub fn plan(&self) -> Option<&Plan> {
        self.open.as_ref()?.plan.as_ref()
    }

    /// The digest in delivery.
    pub fn delivering_id(&self) -> Option<Uuid> {
        self.delivering.as_ref().map(|digest| digest.window.digest_id)
    }

    /// Reports a digest in delivery that waits for the time of its next attempt.
    pub fn waits_for_attempt(&self, now: Timestamp) -> bool {
        self.delivering.as_ref().is_some_and(|digest| digest.waits_for_attempt(now))
    }

    /// Reports an attempt that is under way or due.
    pub fn is_attempted(&self, now: Timestamp) -> bool {
        self.delivering.as_ref().is_some_and(|digest| digest.is_attempted(now))
    }

    /// The end of the hold, while there is one.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let hold = self.hold.as_ref()?;
        Some(hold.until.unwrap_or(Timestamp::MAX)).filter(|until| *until > now)
    }

    /// The pause that the digest in delivery or the open window waits for.
    pub fn pause(&self, now: Timestamp) -> Option<&PauseWait> {
        match &self.delivering {
            Some(digest) => digest.pause.as_ref().filter(|_| digest.waits_until(now).is_some()),
            None => self.plan()?.pause.as_ref().filter(|pause| pause.look_at > now),
        }
    }

    /// The wait of what is overdue after a release of many keys. A plan of an older version does not say.
    pub fn overdue_share(&self) -> Duration {
        let share = |key: &Key| spread::overdue_share(&key.workflow_id(), None);
        self.share.or_else(|| self.key.as_ref().map(share)).unwrap_or_default()
    }

    /// Reports a cancel or a drop: everything ends without a message.
    pub const fn winds_down(&self) -> bool {
        self.cancelled || self.drop.is_some()
    }

    /// The number of pending events that end with the cancel or the drop, from the first on.
    pub fn doomed(&self) -> usize {
        self.drop.as_ref().filter(|_| !self.cancelled).map_or(usize::MAX, |drop| drop.events)
    }

    /// The window of the pending events, opened or still to be opened.
    pub fn window(&self, now: Timestamp) -> Option<Window> {
        if let Some(open) = &self.open {
            return Some(open.window.clone());
        }
        let key = self.key.clone()?;
        let digest_id = key.digest_id(&self.first_run_id, self.windows);
        let returned_at = self.returned.as_ref().map(|returned| returned.at);
        let opened_at = self.pending.first().map(Arrival::opens_at).or(returned_at).unwrap_or(now);
        Some(Window { key, digest_id, opened_at, due_at: opened_at })
    }

    /// Opens the window of the pending events if none is open.
    pub fn ensure_open(&mut self, now: Timestamp) {
        if let (None, Some(window)) = (&self.open, self.window(now)) {
            let by_return = self.pending.is_empty() && self.returned.is_some();
            self.open = Some(Open { by_return, ..Open::new(window) });
        }
    }

    /// Removes the `asked` events that the ledger took for the window, and closes the window. The ledger took the returned ones, too.
    pub fn close_window(&mut self, asked: &[Event], taken: u64) {
        self.drop_taken(asked, taken);
        self.returned = self.open.take().and_then(|open| open.late);
        self.windows += 1;
    }

    /// Notes what the ledger says about returned events.
    pub fn note_returned(&mut self, returned: Option<Returned>) {
        self.returned = returned.or(self.returned.take());
    }

    /// Forgets events that a reopened digest took back. A window that opened for them alone is not needed any more.
    pub fn take_back(&mut self, digest_id: Uuid) {
        let Some(returned) = &mut self.returned else { return };
        returned.digests.remove(&digest_id);
        if returned.digests.is_empty() {
            self.returned = None;
            let collected = self.collected();
            self.open = self.open.take().filter(|open| !open.by_return || collected > 0);
        }
    }

    /// Reports urgent events behind a digest that waits for a better hour. One that the ledger knows does not hurry the digest.
    pub fn compares_urgent(&self) -> bool {
        let digest = self.delivering.as_ref();
        digest.is_some_and(Delivering::may_be_hurried) && self.pending.urgent_at(usize::MAX).is_some()
    }

    /// Sends the digest in delivery at any hour, because an urgent event waits behind it.
    pub fn hurry(&mut self) {
        if let Some(digest) = &mut self.delivering {
            digest.note_wait(Wait::Urgent);
        }
    }

    /// Ends the digest in delivery.
    pub fn end_delivery(&mut self, closed: Closed) {
        if let Some(digest) = self.delivering.take() {
            self.queued_behind_delivery =
                digest.not_before.is_some() || digest.moment.is_some() || digest.undo.is_some();
            self.end(digest.window.digest_id, closed);
        }
    }

    /// Counts the end of a digest.
    pub fn end(&mut self, digest_id: Uuid, closed: Closed) {
        self.summary.digests += 1;
        self.summary.last = Some(Ended { digest_id, closed });
    }

    /// Keeps a command for the audit trail.
    pub fn note(&mut self, action: &str, Order { by, why }: Order, at: Timestamp) {
        self.audit_notes.push(Note { at, by, action: action.to_owned(), why });
    }

    /// Keeps the deadline inputs of the first `count` pending events, which are about to leave workflow state.
    pub fn note_leaving(&mut self, count: usize) {
        let Some(open) = &mut self.open else { return };
        let opened_at = if open.by_return { open.arrived_at } else { Some(open.window.opened_at) };
        let is_first = |first: &&Arrival| count > 0 && opened_at.is_none_or(|at| first.opens_at() == at);
        let first = self.pending.first().filter(is_first);
        if open.by_return {
            open.arrived_at = open.arrived_at.or_else(|| first.map(Arrival::opens_at));
        }
        open.category = open.category.take().or_else(|| Some(first?.event.category.clone()));
        open.urgent_at = open.urgent_at.or_else(|| self.pending.urgent_at(count));
        let last = count.checked_sub(1).and_then(|last| self.pending.arrived_at(last));
        open.stashed_at = last.or(open.stashed_at);
    }

    /// Removes the first pending events, of which the ledger has `taken` some of those that it was asked to. What came with other
    /// content meanwhile is pending anew.
    pub fn drop_taken(&mut self, asked: &[Event], taken: u64) {
        self.note_gone(count(taken));
        self.pending.drop_taken(asked, count(taken));
    }

    /// Removes the first `count` pending events.
    pub fn drop_head(&mut self, count: usize) {
        self.note_gone(count);
        self.pending.drop_head(count);
    }

    /// Counts the first `count` pending events no more.
    fn note_gone(&mut self, count: usize) {
        if let Some(open) = &mut self.open {
            open.compared = open.compared.saturating_sub(count);
        }
        if let Some(drop) = &mut self.drop {
            drop.events = drop.events.saturating_sub(count);
        }
    }

    /// Removes the pending events with these ids.
    pub fn forget(&mut self, event_ids: &[String]) {
        if let Some(drop) = &mut self.drop {
            drop.events -= self.pending.count_in_head(drop.events, event_ids);
        }
        if let Some(open) = &mut self.open {
            open.compared -= self.pending.count_in_head(open.compared, event_ids);
        }
        self.pending.forget(event_ids);
    }

    /// Prepares the state for the next run. A state that is too large loses its events, and keeps a pointer to this run.
    pub fn leave_behind(&mut self, run_id: &str, now: Timestamp) {
        let retracts: usize = self.retracts.iter().map(Retract::bytes).sum();
        if self.pending.bytes() + retracts <= CARRY_BYTES {
            return;
        }
        self.ensure_open(now);
        let count = self.pending.len();
        self.note_leaving(count);
        self.drop_head(count);
        self.retracts.clear();
        self.retracted_until.clear();
        if let Some(open) = &mut self.open {
            open.unread += count as u64;
            open.runs.push(run_id.to_owned());
        }
    }
}

/// A value that JSON leaves out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A number of events as an index.
pub(super) fn count(taken: u64) -> usize {
    usize::try_from(taken).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
