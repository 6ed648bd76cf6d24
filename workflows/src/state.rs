//! What the digest workflow knows, and what it does next: a pure function of (state, now).
//!
//! Events collect in `pending`. The first of them opens a window (`open`), a due window becomes a digest
//! (`delivering`), and what arrives meanwhile is pending again. There is at most one of each.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Event, Key,
    contract::{
        BuryInput, CloseInput, Closed, DeadLetter, LoadInput, Loaded, Outcome, Plan, PlanInput, RenderInput, Rendered,
        SendInput, Sent, StashInput, Window,
    },
    pending::Pending,
};

/// Waits after the first, second ... failed attempt; with the first attempt that makes six.
pub const RETRY_DELAYS: [Duration; 5] = [minutes(1), minutes(5), minutes(30), minutes(120), minutes(480)];

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

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
    #[serde(default)]
    pub pending: Pending,
    #[serde(default)]
    pub open: Option<Open>,
    #[serde(default)]
    pub delivering: Option<Delivering>,
    /// An operator wants the pending events now.
    #[serde(default)]
    pub flushed: bool,
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

/// The answer of the update `flush`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushed {
    /// Events that go out now. Zero: nothing was pending.
    pub events: u64,
    /// The digest that is still on its way and goes first.
    pub behind: Option<Uuid>,
}

/// The window that collects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub window: Window,
    /// `None` while a digest is being delivered: the window is planned when that is done.
    pub plan: Option<Plan>,
    /// Events already in the ledger.
    pub stashed: u64,
    /// Earlier runs whose events are to be read back from their histories, and how many those are.
    pub runs: Vec<String>,
    pub unread: u64,
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

/// What the workflow does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing until then, or until something arrives.
    Wait(Timestamp),
    Plan,
    Stash,
    Load,
    Render,
    Send,
    /// After a cancel: the ledger learns what was pending or on its way.
    Close,
    Bury,
    /// Nothing pending and nothing undelivered.
    Finish,
}

impl State {
    pub fn new(key: Option<Key>) -> Self {
        Self {
            key,
            pending: Pending::default(),
            open: None,
            delivering: None,
            flushed: false,
            letters: Vec::new(),
            malformed: 0,
            cancelled: false,
            summary: Summary::default(),
        }
    }

    /// The one place that decides.
    pub fn decide(&self, now: Timestamp) -> Decision {
        if self.cancelled {
            return self.wind_down();
        }
        match (&self.delivering, &self.open) {
            (Some(digest), _) if !digest.rendered => Decision::Render,
            (Some(digest), _) => match digest.not_before {
                Some(at) if at > now => self.chore().unwrap_or(Decision::Wait(at)),
                _ => Decision::Send,
            },
            (None, Some(Open { plan: Some(plan), .. })) if !self.is_due(plan, now) => {
                self.chore().unwrap_or_else(|| Decision::Wait(self.due_at(plan)))
            }
            (None, Some(Open { plan: Some(_), .. })) if self.load_waits_for_stash() => Decision::Stash,
            (None, Some(Open { plan: Some(_), .. })) => Decision::Load,
            (None, Some(_)) => Decision::Plan,
            (None, None) if !self.pending.is_empty() => Decision::Plan,
            (None, None) => self.chore().unwrap_or(Decision::Finish),
        }
    }

    fn wind_down(&self) -> Decision {
        if self.delivering.is_some() {
            Decision::Close
        } else if self.must_stash() {
            Decision::Stash
        } else if self.open.is_some() || !self.pending.is_empty() {
            Decision::Close
        } else {
            self.chore().unwrap_or(Decision::Finish)
        }
    }

    /// What keeps the state small while there is nothing else to do.
    fn chore(&self) -> Option<Decision> {
        if !self.letters.is_empty() {
            Some(Decision::Bury)
        } else if self.must_stash() {
            Some(Decision::Stash)
        } else {
            None
        }
    }

    fn must_stash(&self) -> bool {
        self.pending.overflows() || self.open.as_ref().is_some_and(|open| !open.runs.is_empty())
    }

    /// A claim needs every event in the ledger or in its input. A window with a limit claims its first events only.
    fn load_waits_for_stash(&self) -> bool {
        self.must_stash() && self.limit().is_none()
    }

    /// How many events the open window takes, as long as none of them is stashed.
    fn limit(&self) -> Option<usize> {
        let open = self.open.as_ref().filter(|open| open.stashed == 0 && open.runs.is_empty())?;
        open.plan.as_ref()?.max_events.and_then(|most| usize::try_from(most).ok())
    }

    fn is_due(&self, plan: &Plan, now: Timestamp) -> bool {
        let Some(open) = &self.open else { return false };
        let admitted = open.not_before.is_none_or(|at| at <= now);
        let full = plan.max_events.is_some_and(|most| self.collected() >= u64::from(most));
        self.flushed || (admitted && (full || plan.due_at <= now))
    }

    fn due_at(&self, plan: &Plan) -> Timestamp {
        let not_before = self.open.as_ref().and_then(|open| open.not_before);
        not_before.map_or(plan.due_at, |at| at.max(plan.due_at))
    }

    /// Events that wait for a claim, wherever they are.
    pub fn collected(&self) -> u64 {
        let elsewhere = self.open.as_ref().map_or(0, |open| open.stashed + open.unread);
        elsewhere + self.pending.len() as u64
    }

    // What arrives.

    pub fn add(&mut self, event: Event, now: Timestamp) {
        self.pending.push(event, now);
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

    /// Makes the pending events due, as soon as no digest is on its way. Zero events: nothing changes.
    pub fn flush(&mut self) -> Flushed {
        let events = self.collected();
        self.flushed = events > 0;
        Flushed { events, behind: self.delivering.as_ref().map(|digest| digest.window.digest_id) }
    }

    // The activities' inputs.

    pub fn plan_input(&mut self, _: Timestamp) -> Option<PlanInput> {
        let opened_at = match &self.open {
            Some(open) => open.window.opened_at,
            None => self.pending.first()?.at,
        };
        Some(PlanInput { key: self.key.clone()?, opened_at, event_ids: self.pending.event_ids() })
    }

    pub fn stash_input(&mut self, _: Timestamp) -> Option<StashInput> {
        self.ensure_open();
        let open = self.open.as_ref()?;
        let window = open.window.clone();
        Some(match open.runs.first() {
            Some(run) => StashInput { window, events: Vec::new(), runs: vec![run.clone()] },
            None => {
                StashInput { window, events: self.pending.head(self.pending.page_len(usize::MAX)), runs: Vec::new() }
            }
        })
    }

    pub fn load_input(&mut self, asked_at: Timestamp) -> Option<LoadInput> {
        let open = self.open.as_ref()?;
        let count = self.pending.page_len(self.limit().unwrap_or(usize::MAX));
        Some(LoadInput {
            asked_at,
            window: open.window.clone(),
            events: self.pending.head(count),
            flushed: self.flushed,
        })
    }

    pub fn render_input(&mut self, asked_at: Timestamp) -> Option<RenderInput> {
        Some(RenderInput { asked_at, window: self.delivering.as_ref()?.window.clone() })
    }

    pub fn send_input(&mut self, asked_at: Timestamp) -> Option<SendInput> {
        let digest = self.delivering.as_ref()?;
        Some(SendInput { asked_at, window: digest.window.clone(), last: retry_delay(digest.attempts).is_none() })
    }

    pub fn close_input(&mut self, asked_at: Timestamp) -> Option<CloseInput> {
        let closed = Closed { outcome: Outcome::Dropped, why: "cancelled".to_owned() };
        if let Some(digest) = &self.delivering {
            return Some(CloseInput { asked_at, window: digest.window.clone(), events: Vec::new(), closed });
        }
        self.ensure_open();
        let events = self.pending.head(self.pending.page_len(usize::MAX));
        Some(CloseInput { asked_at, window: self.open.as_ref()?.window.clone(), events, closed })
    }

    pub fn bury_input(&self, workflow_id: String, run_id: String) -> BuryInput {
        BuryInput { workflow_id, run_id, letters: self.letters.clone() }
    }

    // The activities' answers.

    pub fn planned(&mut self, plan: Plan) {
        let reopens = self.pending.first().is_some_and(|first| plan.known.contains(&first.event.event_id));
        self.pending.forget(&plan.known);
        // A window opens with its first new event. If that came later than the plan assumed, it is planned again.
        if self.open.is_none() && reopens {
            return;
        }
        self.ensure_open();
        if let Some(open) = &mut self.open {
            open.window.due_at = plan.due_at;
            open.why.clone_from(&plan.why);
            open.plan = Some(Plan { known: Vec::new(), ..plan });
        }
    }

    pub fn stashed(&mut self, done: &StashInput) {
        self.pending.drop_head(done.events.len());
        if let Some(open) = &mut self.open {
            open.stashed += done.events.len() as u64;
            open.runs.retain(|run| !done.runs.contains(run));
            if open.runs.is_empty() {
                open.stashed += std::mem::take(&mut open.unread);
            }
        }
    }

    pub fn loaded(&mut self, asked: &LoadInput, answer: Loaded) {
        self.flushed = false;
        match answer {
            Loaded::Later { until, why } => {
                if let Some(open) = &mut self.open {
                    open.not_before = Some(until);
                    open.why = why;
                }
            }
            Loaded::Claimed { items, groups } => {
                let window = asked.window.clone();
                self.take_claimed(asked.events.len());
                self.delivering = Some(Delivering {
                    window,
                    items,
                    groups,
                    rendered: false,
                    attempts: 0,
                    not_before: None,
                    why: String::new(),
                });
            }
            Loaded::Nothing(closed) => {
                self.take_claimed(asked.events.len());
                self.end(asked.window.digest_id, closed);
            }
        }
    }

    fn take_claimed(&mut self, events: usize) {
        self.pending.drop_head(events);
        self.open = None;
    }

    pub fn rendered(&mut self, answer: Rendered) {
        let Some(digest) = &mut self.delivering else { return };
        match answer {
            Rendered::Stored => digest.rendered = true,
            Rendered::Nothing(closed) => self.delivered(closed),
        }
    }

    fn delivered(&mut self, closed: Closed) {
        if let Some(digest) = self.delivering.take() {
            self.end(digest.window.digest_id, closed);
        }
    }

    pub fn sent(&mut self, answer: Sent, now: Timestamp) {
        let Some(digest) = &mut self.delivering else { return };
        match answer {
            Sent::Closed(closed) => self.delivered(closed),
            Sent::Deferred { why } => {
                let delay = retry_delay(digest.attempts).unwrap_or(RETRY_DELAYS[RETRY_DELAYS.len() - 1]);
                digest.attempts += 1;
                digest.not_before = Some(later(now, delay));
                digest.why = why;
            }
            Sent::Waiting { until, why } => {
                digest.not_before = Some(until);
                digest.why = why;
            }
        }
    }

    pub fn closed(&mut self, asked: &CloseInput, closed: Closed) {
        if self.delivering.take().is_none() {
            self.pending.drop_head(asked.events.len());
            self.open = None;
        }
        self.end(asked.window.digest_id, closed);
    }

    pub fn buried(&mut self, done: &BuryInput) {
        self.letters.drain(..done.letters.len().min(self.letters.len()));
    }

    /// Prepares the state for the next run. What is too much to carry is left behind with a pointer to this run.
    pub fn roll(&mut self, run_id: &str) {
        if self.pending.bytes() <= CARRY_BYTES {
            return;
        }
        self.ensure_open();
        let count = self.pending.len();
        self.pending.drop_head(count);
        if let Some(open) = &mut self.open {
            open.unread += count as u64;
            open.runs.push(run_id.to_owned());
        }
    }

    /// Gives the pending events their window, if they have none.
    fn ensure_open(&mut self) {
        let (None, Some(first), Some(key)) = (&self.open, self.pending.first(), &self.key) else { return };
        let window = Window {
            key: key.clone(),
            digest_id: key.digest_id(first.at, &first.event.event_id),
            opened_at: first.at,
            due_at: first.at,
        };
        self.open = Some(Open {
            window,
            plan: None,
            stashed: 0,
            runs: Vec::new(),
            unread: 0,
            not_before: None,
            why: String::new(),
        });
    }

    fn end(&mut self, digest_id: Uuid, closed: Closed) {
        self.summary.digests += 1;
        self.summary.last = Some(Ended { digest_id, closed });
    }
}

/// The wait after the failed attempt number `attempts + 1`; `None` if that was the last.
fn retry_delay(attempts: u32) -> Option<Duration> {
    RETRY_DELAYS.get(usize::try_from(attempts).ok()?).copied()
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.saturating_add(wait).ok()).unwrap_or(Timestamp::MAX)
}
