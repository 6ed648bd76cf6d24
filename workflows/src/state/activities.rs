//! What the digest workflow asks of each activity, and what it makes of the answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Delivering, State};
use crate::command::Order;
use crate::contract::{
    AuditInput, BuryInput, CloseInput, Closed, Ending, LoadInput, Loaded, Outcome, Plan, PlanInput, RenderInput,
    Rendered, SendInput, Sent, StashInput, Stashed,
};

/// Waits after the first, second ... failed attempt; with the first attempt that makes six.
pub const RETRY_DELAYS: [Duration; 5] = [minutes(1), minutes(5), minutes(30), minutes(120), minutes(480)];

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// The inputs.
impl State {
    pub fn plan_input(&mut self, _: Timestamp) -> Option<PlanInput> {
        let opened_at = match &self.open {
            Some(open) => open.window.opened_at,
            None => self.pending.first()?.at,
        };
        let first = self.pending.first().filter(|first| first.at == opened_at);
        let category = first.map(|first| first.event.category.clone());
        let open = self.open.as_ref().map(|open| open.window.digest_id);
        Some(PlanInput { key: self.key.clone()?, opened_at, category, open, event_ids: self.pending.event_ids() })
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
        let (by, why) = match &self.dropping {
            Some(Order { by, why }) => (by.clone(), why.clone()),
            None => (String::new(), "cancelled".to_owned()),
        };
        let closed = Closed { outcome: Outcome::Dropped, why };
        if let Some(digest) = &self.delivering {
            return Some(CloseInput { asked_at, window: digest.window.clone(), events: Vec::new(), closed, by });
        }
        self.ensure_open();
        let events = self.pending.head(self.pending.page_len(usize::MAX));
        Some(CloseInput { asked_at, window: self.open.as_ref()?.window.clone(), events, closed, by })
    }

    pub fn audit_input(&mut self, _: Timestamp) -> Option<AuditInput> {
        Some(AuditInput { key: self.key.clone()?, notes: self.notes.clone() })
    }

    pub fn bury_input(&self, workflow_id: String, run_id: String) -> BuryInput {
        BuryInput { workflow_id, run_id, letters: self.letters.clone() }
    }
}

/// The answers.
impl State {
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

    pub fn stashed(&mut self, done: &StashInput, Stashed { taken }: Stashed) {
        self.pending.drop_head(count(taken));
        if let Some(open) = &mut self.open {
            open.stashed += taken;
            open.sealed |= count(taken) < done.events.len();
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
            Loaded::Claimed { items, groups, taken } => {
                let window = asked.window.clone();
                self.take_claimed(taken);
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
            Loaded::Nothing(Ending { closed, taken }) => {
                self.take_claimed(taken);
                self.end(asked.window.digest_id, closed);
            }
        }
    }

    fn take_claimed(&mut self, taken: u64) {
        self.pending.drop_head(count(taken));
        self.open = None;
        self.windows += 1;
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

    pub fn closed(&mut self, asked: &CloseInput, Ending { closed, taken }: Ending) {
        if self.delivering.take().is_none() {
            self.take_claimed(taken);
        }
        self.end(asked.window.digest_id, closed);
    }

    pub fn audited(&mut self, done: &AuditInput) {
        self.notes.drain(..done.notes.len().min(self.notes.len()));
    }

    pub fn buried(&mut self, done: &BuryInput) {
        self.letters.drain(..done.letters.len().min(self.letters.len()));
    }
}

/// The wait after the failed attempt number `attempts + 1`; `None` if that was the last.
fn retry_delay(attempts: u32) -> Option<Duration> {
    RETRY_DELAYS.get(usize::try_from(attempts).ok()?).copied()
}

fn count(taken: u64) -> usize {
    usize::try_from(taken).unwrap_or(usize::MAX)
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.saturating_add(wait).ok()).unwrap_or(Timestamp::MAX)
}
