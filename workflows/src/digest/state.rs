//! What the digest workflow knows, and how it changes when something arrives or a run ends. Pure, as are what it
//! decides from that ([`decision`]), what it tells activities and makes of their answers ([`activities`]), and what an
//! operator's commands do to it ([`commands`]).
//!
//! Events collect in `pending`. The first of them opens a window (`open`), a due window becomes a digest
//! (`delivering`), and what arrives meanwhile is pending again. There is at most one of each.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{
    Event, Key, Retract,
    command::{Hold, Order, Reopen, Reopened},
    contract::{Closed, DeadLetter, Note, Plan, Signs, Window},
};
use uuid::Uuid;

use super::pending::{Arrival, Pending};

/// Bytes of pending events that a run hands to the next one. Above that it hands over a pointer to its own history.
const CARRY_BYTES: usize = 512 * 1024;

/// Bytes of dead letters kept in state while the store cannot take them; later ones lose their `head`.
const LETTER_BYTES: usize = 256 * 1024;

/// Dead letters kept in state; later ones are only counted, and are in the run's history.
const LETTERS: usize = 500;

/// Everything one run hands to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// `None`: the workflow id is no key, and every signal is refused.
    pub key: Option<Key>,
    /// The run that the chain of runs began with.
    pub first_run_id: String,
    /// Windows so far that were claimed or came to an end.
    pub windows: u64,
    #[serde(default)]
    pub pending: Pending,
    #[serde(default)]
    pub open: Option<Open>,
    #[serde(default)]
    pub delivering: Option<Delivering>,
    /// The pending events waited for a digest that was not delivered at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    /// An operator wants the pending events now.
    #[serde(default)]
    pub flushed: bool,
    /// An operator wants nothing to go out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The recipient's choices have changed since the open window was planned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// They had when a plan was asked for whose answer has not counted yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
    /// An operator wants the open window planned anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retiming: Option<Order>,
    /// An operator wants a digest taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reopening: Option<Reopen>,
    /// What became of that, until the command's answer is made of it.
    #[serde(skip)]
    pub reopened: Option<Reopened>,
    /// What takes events back, and is not in the ledger yet.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retracts: BTreeSet<Retract>,
    /// An operator wants what there is to end without a mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropping: Option<Order>,
    /// How many of the pending events that is about, from the first on; what came after the order is not dropped, unless a run
    /// had to leave all of them behind ([`State::roll`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropping_events: Option<usize>,
    /// Commands that the audit trail does not have yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    #[serde(default)]
    pub letters: Vec<DeadLetter>,
    /// Malformed signals and events so far.
    #[serde(default)]
    pub malformed: u64,
    /// A cancel was requested: record what there is, start nothing new.
    #[serde(default)]
    pub cancelled: bool,
    #[serde(default)]
    pub summary: Summary,
    /// How long an idle run waits for another event, and since when it is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
}

/// The result of a completed workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Digests that came to an end since the key was last idle.
    pub digests: u64,
    /// How the last of them ended.
    pub last: Option<Ended>,
}

/// The end of one digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which one.
    pub digest_id: Uuid,
    /// How.
    #[serde(flatten)]
    pub closed: Closed,
}

/// The window that collects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub window: Window,
    /// `None` while a digest is being delivered: the window is planned when that is done.
    pub plan: Option<Plan>,
    /// What the plan was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Signs>,
    /// Events already in the ledger.
    pub stashed: u64,
    /// When the latest of those arrived that have left workflow state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stashed_at: Option<Timestamp>,
    /// When the first urgent one of them arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgent_at: Option<Timestamp>,
    /// The category of the window's first event, if that is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Earlier runs whose events are to be read back from their histories, and how many those are.
    pub runs: Vec<String>,
    pub unread: u64,
    /// The digest got a mail or an end in a workflow task that was lost: it takes no more events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// Admission said: not before then, because.
    pub not_before: Option<Timestamp>,
    pub why: String,
}

/// The digest on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivering {
    pub window: Window,
    pub items: u64,
    pub groups: u64,
    pub rendered: bool,
    /// Failed attempts.
    pub attempts: u32,
    pub not_before: Option<Timestamp>,
    pub why: String,
}

impl Delivering {
    pub(super) const fn new(window: Window, items: u64, groups: u64) -> Self {
        Self { window, items, groups, rendered: false, attempts: 0, not_before: None, why: String::new() }
    }
}

impl State {
    pub fn new(key: Option<Key>, first_run_id: String) -> Self {
        Self {
            key,
            first_run_id,
            windows: 0,
            pending: Pending::default(),
            open: None,
            delivering: None,
            waited: false,
            flushed: false,
            hold: None,
            changed: false,
            unanswered: false,
            retiming: None,
            reopening: None,
            reopened: None,
            retracts: BTreeSet::new(),
            dropping: None,
            dropping_events: None,
            notes: Vec::new(),
            letters: Vec::new(),
            malformed: 0,
            cancelled: false,
            summary: Summary::default(),
            linger: None,
            idle_since: None,
        }
    }

    /// Events that wait for a claim, wherever they are.
    pub fn collected(&self) -> u64 {
        let elsewhere = self.open.as_ref().map_or(0, |open| open.stashed + open.unread);
        elsewhere + self.pending.len() as u64
    }

    /// How many events the open window takes, as long as none of them is stashed.
    pub(super) fn limit(&self) -> Option<usize> {
        // A flush takes all that is pending.
        let open = self.open.as_ref().filter(|open| open.stashed == 0 && open.runs.is_empty() && !self.flushed)?;
        open.plan.as_ref()?.max_events.and_then(|most| usize::try_from(most).ok())
    }

    /// `started_at`: when the run was started, if the event came in its first workflow task.
    pub fn add(&mut self, event: Event, now: Timestamp, started_at: Option<Timestamp>) {
        self.pending.push(event, now, started_at);
    }

    /// Takes events back: those that are here, and those that are still to come.
    pub fn retract(&mut self, retract: Retract) {
        self.retracts.insert(retract);
    }

    /// Keeps what the open window's deadline follows of the first `count` pending events, which leave workflow state.
    pub(super) fn note_leaving(&mut self, count: usize) {
        let Some(open) = &mut self.open else { return };
        let first = self.pending.first().filter(|first| count > 0 && first.opens_at() == open.window.opened_at);
        open.category = open.category.take().or_else(|| Some(first?.event.category.clone()));
        open.urgent_at = open.urgent_at.or_else(|| self.pending.urgent_at(count));
        let last = count.checked_sub(1).and_then(|last| self.pending.arrived_at(last));
        open.stashed_at = last.or(open.stashed_at);
    }

    /// Removes the first `count` pending events.
    pub(super) fn drop_head(&mut self, count: usize) {
        self.pending.drop_head(count);
        self.dropping_events = self.dropping_events.map(|left| left.saturating_sub(count));
    }

    /// Removes the pending events with these ids.
    pub(super) fn forget(&mut self, event_ids: &[String]) {
        let dropped = self.dropping_events.map(|left| left - self.pending.count_in_head(left, event_ids));
        self.pending.forget(event_ids);
        self.dropping_events = dropped;
    }

    pub fn refuse(&mut self, mut letter: DeadLetter) {
        self.malformed += 1;
        if self.letters.len() >= LETTERS {
            return;
        }
        let kept: usize = self.letters.iter().map(|letter| letter.head.len()).sum();
        if kept + letter.head.len() > LETTER_BYTES {
            letter.head.clear();
        }
        self.letters.push(letter);
    }

    /// Prepares the state for the next run. What is too much to carry is left behind with a pointer to this run.
    pub fn roll(&mut self, run_id: &str, now: Timestamp) {
        let retracts: usize = self.retracts.iter().map(Retract::bytes).sum();
        if self.pending.bytes() + retracts <= CARRY_BYTES {
            return;
        }
        self.ensure_open(now);
        let count = self.pending.len();
        self.note_leaving(count);
        self.drop_head(count);
        self.retracts.clear();
        if let Some(open) = &mut self.open {
            open.unread += count as u64;
            open.runs.push(run_id.to_owned());
        }
    }

    /// Gives the pending events their window, if they have none.
    pub(super) fn ensure_open(&mut self, now: Timestamp) {
        if let (None, Some(window)) = (&self.open, self.window(now)) {
            self.open = Some(Open {
                window,
                plan: None,
                seen: None,
                stashed: 0,
                stashed_at: None,
                urgent_at: None,
                category: None,
                runs: Vec::new(),
                unread: 0,
                sealed: false,
                not_before: None,
                why: String::new(),
            });
        }
    }

    /// The window of the pending events.
    pub(super) fn window(&self, now: Timestamp) -> Option<Window> {
        if let Some(open) = &self.open {
            return Some(open.window.clone());
        }
        let key = self.key.clone()?;
        let digest_id = key.digest_id(&self.first_run_id, self.windows);
        let opened_at = self.pending.first().map_or(now, Arrival::opens_at);
        Some(Window { key, digest_id, opened_at, due_at: opened_at })
    }

    /// What the deadline of the pending events follows.
    pub(super) fn signs(&self, now: Timestamp) -> Option<Signs> {
        let open = self.open.as_ref();
        let opened_at = self.window(now)?.opened_at;
        let first = self.pending.first().filter(|first| first.opens_at() == opened_at);
        let last_at = self.pending.last().map(|last| last.at).or_else(|| open?.stashed_at).unwrap_or(opened_at);
        Some(Signs {
            opened_at,
            category: first.map(|first| first.event.category.clone()).or_else(|| open?.category.clone()),
            last_at,
            urgent_at: open.and_then(|open| open.urgent_at).or_else(|| self.pending.urgent_at(usize::MAX)),
        })
    }

    pub(super) fn end(&mut self, digest_id: Uuid, closed: Closed) {
        self.summary.digests += 1;
        self.summary.last = Some(Ended { digest_id, closed });
    }
}
