//! State of the digest workflow. Each step has its own file; nothing here does I/O.
//!
//! Events collect in `pending`. The first one opens a window (`open`). A due window becomes a digest
//! (`delivering`), and events during its delivery are pending again. At most one window and one digest exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{
    Event, Key, Retract,
    command::{CommandContext, HoldCommand},
    decode::DeadLetter,
    rules::spread,
    step::{AuditNote, DeadlineInputs, PauseWait, Plan, ReturnedEvents},
    window::{WaitReason, Window, WindowEnd},
};
use uuid::Uuid;

use super::{
    delivery::DigestDelivery,
    pending::{EventArrival, PendingEvents},
    requests::{DropRequest, PreferencesState, ReopenRequest, drop_fields},
};

/// Maximum bytes of pending events passed to the next run. Beyond this, we pass a pointer to this run's
/// history.
const CARRY_BYTES: usize = 512 * 1024;

/// Older and newer workers read the same JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DigestRunState {
    /// `None` if the workflow id is not a key. We then reject every signal.
    pub key: Option<Key>,
    pub first_run_id: String,
    pub windows: u64,
    #[serde(default)]
    pub pending: PendingEvents,
    #[serde(default)]
    pub open: Option<OpenWindow>,
    #[serde(default)]
    pub delivering: Option<DigestDelivery>,
    /// Events in the ledger that failed digests gave back. The next claim takes them (rule 25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<ReturnedEvents>,
    /// The pending events waited behind a digest whose first attempt failed, or behind its undo period.
    #[serde(rename = "waited", default, skip_serializing_if = "std::ops::Not::not")]
    pub queued_behind_delivery: bool,
    #[serde(default)]
    pub flushed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldCommand>,
    #[serde(flatten)]
    pub preferences: PreferencesState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retiming: Option<CommandContext>,
    #[serde(rename = "reopening", default, skip_serializing_if = "ReopenRequest::is_over")]
    pub reopen: Option<ReopenRequest>,
    /// Not in the ledger yet.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retracts: BTreeSet<Retract>,
    /// For such a retract by id: pending events with this id are covered until this time. [`Timestamp::MIN`]
    /// leaves it to the ledger; a missing id means any time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retracted_until: BTreeMap<String, Timestamp>,
    #[serde(flatten, with = "drop_fields")]
    pub drop: Option<DropRequest>,
    /// Not in the audit trail yet.
    #[serde(rename = "notes", default, skip_serializing_if = "Vec::is_empty")]
    pub audit_notes: Vec<AuditNote>,
    /// Not in the store yet.
    #[serde(rename = "letters", default)]
    pub dead_letters: Vec<DeadLetter>,
    #[serde(default)]
    pub malformed: u64,
    /// The workflow was cancelled: nothing new starts, and the ledger records all pending events.
    #[serde(default)]
    pub cancelled: bool,
    #[serde(default)]
    pub summary: DigestSummary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Duration>,
    #[serde(skip)]
    pub repetitions: RepetitionMode,
    #[serde(skip)]
    pub unused: UnusedRunMode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RepetitionMode {
    /// Not counted anywhere (rule 3).
    #[default]
    Apart,
    /// Like `Apart`, and the last plan found nothing new pending.
    NothingElse,
    /// Started by an earlier version: counted, and the run does not wait for more.
    Counted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnusedRunMode {
    /// Waits a while for one.
    #[default]
    Waits,
    /// Started by an earlier version: ends immediately.
    Ends,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestSummary {
    pub digests: u64,
    pub last: Option<DigestEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestEnd {
    pub digest_id: Uuid,
    #[serde(flatten)]
    pub closed: WindowEnd,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenWindow {
    /// Its `due_at` must match the plan, so use [`OpenWindow::set_plan`].
    pub window: Window,
    /// `None` while a digest is being delivered; we plan the window afterwards.
    pub plan: Option<Plan>,
    #[serde(rename = "seen", default, skip_serializing_if = "Option::is_none")]
    pub planned_from: Option<DeadlineInputs>,
    /// Leading pending events that a plan has compared with the ledger. They are new (rule 3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub compared: usize,
    /// Events already in the ledger.
    pub stashed: u64,
    /// Arrival of the latest event that left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stashed_at: Option<Timestamp>,
    /// Arrival of the first urgent event that left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent_at: Option<Timestamp>,
    /// Of the window's first event, if that left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Returned events opened the window before any other event arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_return: bool,
    /// Arrival of the first event in such a window, if it left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<Timestamp>,
    /// Events read back too late for this window. They will open the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<ReturnedEvents>,
    /// Read back events from these runs' histories.
    pub runs: Vec<String>,
    pub unread: u64,
    /// A lost workflow task already gave the digest a message or an end.
    #[serde(rename = "sealed", default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_to_events: bool,
    pub not_before: Option<Timestamp>,
    /// Latest end of any limit that made admission defer the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ends_at: Option<Timestamp>,
    /// First claim with an unknown recipient or digest type. Reset once a claim finds both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Timestamp>,
    /// Send at any hour: an operator released the overdue window by its key or set its time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// Reason from admission, otherwise from the plan.
    pub why: String,
    /// Distinct reasons for deferring the due window. For the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferrals: Vec<String>,
}

/// How many [deferrals](Open::deferrals) to keep.
const DEFERRALS: usize = 16;

impl OpenWindow {
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

    /// Drops the earliest beyond the limit.
    pub fn note_deferral(&mut self, why: &str) {
        if self.deferrals.iter().any(|known| known == why) {
            return;
        }
        if self.deferrals.len() == DEFERRALS {
            self.deferrals.remove(0);
        }
        self.deferrals.push(why.to_owned());
    }

    /// Also copies deadline and reason for activities and older workers.
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

impl DigestRunState {
    pub fn new(key: Option<Key>, first_run_id: String) -> Self {
        Self { key, first_run_id, ..Self::default() }
    }

    /// `started_at` is the start of the run if the event arrived in its first workflow task.
    pub fn add_event(&mut self, event: Event, now: Timestamp, started_at: Option<Timestamp>) {
        if self.awaits_retract(&event.event_id) {
            self.retracted_until.insert(event.event_id.clone(), Timestamp::MIN);
        }
        self.pending.push(event, now, started_at);
    }

    /// Returns `true` if the id has a retract that is not in the ledger yet, and that arrived when nothing with
    /// this id was pending.
    fn awaits_retract(&self, event_id: &str) -> bool {
        let awaits = |id: &str| self.retracts.contains(&Retract::Event(id.to_owned()));
        !self.retracts.is_empty() && !self.retracted_until.contains_key(event_id) && awaits(event_id)
    }

    /// Returns `true` if earlier versions would have ignored this event: as a repetition, despite its different
    /// content, or as withdrawn, although it occurred after the retract.
    pub fn is_other_content(&self, event: &Event) -> bool {
        let pending = self.pending.event(&event.event_id);
        let until = self.retracted_until.get(&event.event_id);
        pending.is_some_and(|pending| pending != event)
            || until.is_some_and(|until| event.occurred_after(*until))
            || self.awaits_retract(&event.event_id)
    }

    pub fn add_by_id(&mut self, event: Event, now: Timestamp, started_at: Option<Timestamp>) {
        self.retracted_until.remove(&event.event_id);
        if self.pending.event(&event.event_id).is_none() {
            self.pending.push(event, now, started_at);
        }
    }

    /// Withdraws pending and future events. A retract by id covers the pending event with this id, but not a
    /// later one that also occurred later. If none is pending, the ledger decides.
    pub fn add_retract(&mut self, retract: Retract) {
        if let Retract::Event(id) = &retract
            && let Some(event) = self.pending.event(id)
        {
            self.retracted_until.insert(id.clone(), event.occurred_at);
        }
        self.retracts.insert(retract);
    }

    /// Those by id include their end time, unless this depends on the ledger.
    pub fn dated_retracts(&self) -> Vec<Retract> {
        let dated = |retract: &Retract| match retract {
            Retract::Event(id) => {
                let until = self.retracted_until.get(id).filter(|until| **until != Timestamp::MIN);
                until.map_or_else(|| retract.clone(), |until| retract.clone().with_until(*until))
            }
            _ => retract.clone(),
        };
        self.retracts.iter().map(dated).collect()
    }

    pub fn covered_by(&self, retracts: &[Retract]) -> Vec<Event> {
        self.pending.covered_by(retracts, &self.retracted_until)
    }

    pub fn forget_retract(&mut self, retract: &Retract) {
        self.retracts.remove(retract);
        if let Retract::Event(id) = retract {
            self.retracted_until.remove(id);
        }
    }

    /// In this state, in the ledger and in earlier runs.
    pub fn collected(&self) -> u64 {
        let elsewhere = self.open.as_ref().map_or(0, |open| open.stashed + open.unread);
        elsewhere + self.pending.len() as u64
    }

    pub fn compared_count(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.compared)
    }

    pub fn uncompared_count(&self) -> u64 {
        let unread = self.open.as_ref().map_or(0, |open| open.unread);
        unread + (self.pending.len() - self.compared_count()) as u64
    }

    /// New events, which count towards `max_events` (rule 3).
    pub fn new_count(&self) -> u64 {
        let uncounted = if self.repetitions == RepetitionMode::Counted { 0 } else { self.uncompared_count() };
        self.collected() - uncounted
    }

    pub fn note_compared(&mut self, new: usize) {
        if let Some(open) = &mut self.open {
            open.compared += new;
        }
    }

    pub fn returned(&self) -> u64 {
        self.returned.as_ref().map_or(0, ReturnedEvents::event_count)
    }

    pub fn waiting_count(&self) -> u64 {
        self.collected() + self.returned()
    }

    /// If no event has arrived yet, when returned events opened the window.
    pub fn opened_at(&self, now: Timestamp) -> Option<Timestamp> {
        let window = self.window(now)?;
        let by_return = self.open.as_ref().filter(|open| open.by_return);
        let arrived = by_return.and_then(|open| open.arrived_at.or(Some(self.pending.first()?.opens_at())));
        Some(arrived.unwrap_or(window.opened_at))
    }

    pub fn plan(&self) -> Option<&Plan> {
        self.open.as_ref()?.plan.as_ref()
    }

    pub fn delivering_id(&self) -> Option<Uuid> {
        self.delivering.as_ref().map(|digest| digest.window.digest_id)
    }

    pub fn waits_for_attempt(&self, now: Timestamp) -> bool {
        self.delivering.as_ref().is_some_and(|digest| digest.waits_for_attempt(now))
    }

    pub fn is_attempted(&self, now: Timestamp) -> bool {
        self.delivering.as_ref().is_some_and(|digest| digest.is_attempted(now))
    }

    /// `None` if there is no hold now.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let hold = self.hold.as_ref()?;
        Some(hold.until.unwrap_or(Timestamp::MAX)).filter(|until| *until > now)
    }

    /// The pause that delays the digest or the open window now.
    pub fn pause(&self, now: Timestamp) -> Option<&PauseWait> {
        match &self.delivering {
            Some(digest) => digest.pause.as_ref().filter(|_| digest.waits_until(now).is_some()),
            None => self.plan()?.pause.as_ref().filter(|pause| pause.look_at > now),
        }
    }

    /// Delay when releasing many keys. Computed if the plan is from an older version.
    pub fn overdue_share(&self) -> Duration {
        let share = |key: &Key| spread::overdue_share(&key.workflow_id(), None);
        self.share.or_else(|| self.key.as_ref().map(share)).unwrap_or_default()
    }

    /// After a cancel or a drop, everything should end without a message.
    pub const fn winds_down(&self) -> bool {
        self.cancelled || self.drop.is_some()
    }

    /// How many of the first pending events end with the cancel or the drop.
    pub fn doomed_count(&self) -> usize {
        self.drop.as_ref().filter(|_| !self.cancelled).map_or(usize::MAX, |drop| drop.events)
    }

    /// The next window if none is open.
    pub fn window(&self, now: Timestamp) -> Option<Window> {
        if let Some(open) = &self.open {
            return Some(open.window.clone());
        }
        let key = self.key.clone()?;
        let digest_id = key.digest_id(&self.first_run_id, self.windows);
        let returned_at = self.returned.as_ref().map(|returned| returned.at);
        let opened_at = self.pending.first().map(EventArrival::opens_at).or(returned_at).unwrap_or(now);
        Some(Window { key, digest_id, opened_at, due_at: opened_at })
    }

    pub fn ensure_open(&mut self, now: Timestamp) {
        if let (None, Some(window)) = (&self.open, self.window(now)) {
            let by_return = self.pending.is_empty() && self.returned.is_some();
            self.open = Some(OpenWindow { by_return, ..OpenWindow::new(window) });
        }
    }

    /// Removes the `asked` events that the ledger took. Returned events were taken, too.
    pub fn close_window(&mut self, asked: &[Event], taken: u64) {
        self.drop_taken(asked, taken);
        self.returned = self.open.take().and_then(|open| open.late);
        self.windows += 1;
    }

    pub fn note_returned(&mut self, returned: Option<ReturnedEvents>) {
        self.returned = returned.or(self.returned.take());
    }

    /// If a window opened just for these events, closes it.
    pub fn take_back(&mut self, digest_id: Uuid) {
        let Some(returned) = &mut self.returned else { return };
        returned.digests.remove(&digest_id);
        if returned.digests.is_empty() {
            self.returned = None;
            let collected = self.collected();
            self.open = self.open.take().filter(|open| !open.by_return || collected > 0);
        }
    }

    /// Returns `true` if urgent events wait behind a digest that waits for a better hour. If they are already
    /// in the ledger, they should not hurry it.
    pub fn compares_urgent(&self) -> bool {
        let digest = self.delivering.as_ref();
        digest.is_some_and(DigestDelivery::may_be_hurried) && self.pending.urgent_at(usize::MAX).is_some()
    }

    /// Sends the digest in delivery at any hour.
    pub fn hurry_delivery(&mut self) {
        if let Some(digest) = &mut self.delivering {
            digest.note_wait(WaitReason::Urgent);
        }
    }

    pub fn end_delivery(&mut self, closed: WindowEnd) {
        if let Some(digest) = self.delivering.take() {
            self.queued_behind_delivery =
                digest.not_before.is_some() || digest.moment.is_some() || digest.undo.is_some();
            self.record_end(digest.window.digest_id, closed);
        }
    }

    pub fn record_end(&mut self, digest_id: Uuid, closed: WindowEnd) {
        self.summary.digests += 1;
        self.summary.last = Some(DigestEnd { digest_id, closed });
    }

    pub fn note_command(&mut self, action: &str, CommandContext { by, why }: CommandContext, at: Timestamp) {
        self.audit_notes.push(AuditNote { at, by, action: action.to_owned(), why });
    }

    /// Saves the deadline inputs of the first `count` pending events before they leave workflow state.
    pub fn note_leaving(&mut self, count: usize) {
        let Some(open) = &mut self.open else { return };
        let opened_at = if open.by_return { open.arrived_at } else { Some(open.window.opened_at) };
        let is_first = |first: &&EventArrival| count > 0 && opened_at.is_none_or(|at| first.opens_at() == at);
        let first = self.pending.first().filter(is_first);
        if open.by_return {
            open.arrived_at = open.arrived_at.or_else(|| first.map(EventArrival::opens_at));
        }
        open.category = open.category.take().or_else(|| Some(first?.event.category.clone()));
        open.urgent_at = open.urgent_at.or_else(|| self.pending.urgent_at(count));
        let last = count.checked_sub(1).and_then(|last| self.pending.arrived_at(last));
        open.stashed_at = last.or(open.stashed_at);
    }

    /// Removes the first `taken` events. If one changed since it was `asked`, it becomes pending again.
    pub fn drop_taken(&mut self, asked: &[Event], taken: u64) {
        self.note_gone(to_index(taken));
        self.pending.drop_taken(asked, to_index(taken));
    }

    pub fn drop_head(&mut self, count: usize) {
        self.note_gone(count);
        self.pending.drop_head(count);
    }

    fn note_gone(&mut self, count: usize) {
        if let Some(open) = &mut self.open {
            open.compared = open.compared.saturating_sub(count);
        }
        if let Some(drop) = &mut self.drop {
            drop.events = drop.events.saturating_sub(count);
        }
    }

    pub fn forget_events(&mut self, event_ids: &[String]) {
        if let Some(drop) = &mut self.drop {
            drop.events -= self.pending.count_in_head(drop.events, event_ids);
        }
        if let Some(open) = &mut self.open {
            open.compared -= self.pending.count_in_head(open.compared, event_ids);
        }
        self.pending.remove_ids(event_ids);
    }

    /// If the state is too large, replaces its events with a pointer to this run.
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

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn to_index(taken: u64) -> usize {
    usize::try_from(taken).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
