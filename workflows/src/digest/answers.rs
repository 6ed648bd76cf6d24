//! What the digest workflow asks of each activity, and what it makes of the answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_model::{
    command::{Order, Reopened},
    contract::{
        AuditInput, BuryInput, CloseInput, Closed, Ending, LoadInput, Loaded, Outcome, Plan, PlanInput, RenderInput,
        Rendered, ReopenInput, Resumed, RetractInput, SendInput, Sent, StashInput, Stashed,
    },
    settings::RETRY_DELAYS,
};

use super::{
    pending::PAGE_EVENTS,
    state::{Delivering, State},
};

/// The inputs.
impl State {
    pub fn plan_input(&mut self, asked_at: Timestamp) -> Option<PlanInput> {
        if self.open.is_none() && self.pending.is_empty() {
            return None;
        }
        let signs = self.signs(asked_at)?;
        self.unanswered |= std::mem::take(&mut self.changed);
        let open = self.open.as_ref();
        Some(PlanInput {
            key: self.key.clone()?,
            signs,
            open: open.map(|open| open.window.digest_id),
            event_ids: self.pending.event_ids(),
            waited: self.waited,
            before: open.and_then(|open| open.plan.clone()),
            anew_at: self.retiming.as_ref().map(|_| asked_at),
        })
    }

    pub fn stash_input(&mut self, asked_at: Timestamp) -> Option<StashInput> {
        self.ensure_open(asked_at);
        let open = self.open.as_ref()?;
        let window = open.window.clone();
        let delivering = self.on_its_way();
        Some(match open.runs.first() {
            Some(run) => StashInput { window, events: Vec::new(), runs: vec![run.clone()], delivering },
            None => {
                let events = self.pending.head(self.pending.page_len(self.doomed()));
                StashInput { window, events, runs: Vec::new(), delivering }
            }
        })
    }

    pub fn retract_input(&mut self, asked_at: Timestamp) -> Option<RetractInput> {
        let retracts: Vec<_> = self.retracts.iter().take(PAGE_EVENTS).cloned().collect();
        let events = self.pending.covered_by(&retracts);
        let window = if events.is_empty() { None } else { self.window(asked_at) };
        Some(RetractInput { asked_at, key: self.key.clone()?, retracts, window, events, delivering: self.on_its_way() })
    }

    pub fn reopen_input(&mut self, asked_at: Timestamp) -> Option<ReopenInput> {
        Some(ReopenInput { asked_at, key: self.key.clone()?, reopen: self.reopening.clone()? })
    }

    pub fn load_input(&mut self, asked_at: Timestamp) -> Option<LoadInput> {
        let open = self.open.as_ref()?;
        let plan = open.plan.as_ref()?;
        let count = self.pending.page_len(self.limit().unwrap_or(usize::MAX));
        Some(LoadInput {
            asked_at,
            window: open.window.clone(),
            events: self.pending.head(count),
            flushed: self.flushed,
            urgent: plan.urgent,
            revision: plan.revision,
        })
    }

    pub fn render_input(&mut self, asked_at: Timestamp) -> Option<RenderInput> {
        Some(RenderInput { asked_at, window: self.delivering.as_ref()?.window.clone() })
    }

    pub fn send_input(&mut self, asked_at: Timestamp) -> Option<SendInput> {
        let digest = self.delivering.as_ref()?;
        Some(SendInput { asked_at, window: digest.window.clone(), failed: digest.attempts })
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
        self.ensure_open(asked_at);
        let events = self.pending.head(self.pending.page_len(self.doomed()));
        Some(CloseInput { asked_at, window: self.open.as_ref()?.window.clone(), events, closed, by })
    }

    pub fn audit_input(&mut self, _: Timestamp) -> Option<AuditInput> {
        Some(AuditInput { key: self.key.clone()?, notes: self.notes.clone() })
    }

    pub fn bury_input(&self, workflow_id: String) -> BuryInput {
        BuryInput { workflow_id, run_id: self.first_run_id.clone(), letters: self.letters.clone() }
    }
}

/// The answers.
impl State {
    pub fn planned(&mut self, asked: &PlanInput, plan: Plan, now: Timestamp) {
        self.forget(&plan.known);
        if self.open.is_none() && self.pending.is_empty() {
            return;
        }
        // What the ledger knows moves nothing. If the deadline follows it, it is planned again.
        if !plan.known.is_empty() && self.signs(now).as_ref() != Some(&asked.signs) {
            return;
        }
        // An operator's deadline that came meanwhile stands, and the rest is new.
        let retimed =
            self.open.as_ref().and_then(|open| open.plan.clone()).filter(|plan| asked.before.as_ref() != Some(plan));
        let before = retimed.as_ref().or(asked.before.as_ref());
        let plan = match &retimed {
            Some(Plan { due_at, why, slide, .. }) => Plan { due_at: *due_at, why: why.clone(), slide: *slide, ..plan },
            None => plan,
        };
        self.note_new_deadline(asked.anew_at.is_some(), before, &plan, now);
        self.waited = false;
        self.unanswered = false;
        self.ensure_open(now);
        let same = |old: &Plan| (old.due_at, old.revision, old.urgent) == (plan.due_at, plan.revision, plan.urgent);
        self.linger = plan.linger;
        if let Some(open) = &mut self.open {
            open.window.due_at = plan.due_at;
            open.why.clone_from(&plan.why);
            open.not_before = open.not_before.filter(|_| asked.anew_at.is_none() && before.is_some_and(same));
            open.seen = Some(asked.signs.clone());
            open.plan = Some(Plan { known: Vec::new(), ..plan });
        }
    }

    /// The audit trail has both send times, and whose wish it was.
    fn note_new_deadline(&mut self, anew: bool, before: Option<&Plan>, plan: &Plan, now: Timestamp) {
        let order = if anew { self.retiming.take() } else { None };
        let Some(before) = before else { return };
        let moved = format!("due at {:.0}, was {:.0}", plan.due_at, before.due_at);
        if let Some(Order { by, why }) = order {
            self.note("retime", Order { by, why: format!("{why}: {moved}") }, now);
        } else if before.revision != plan.revision && before.due_at != plan.due_at {
            self.note("retime", Order { by: "tidings".into(), why: format!("the recipient chose: {moved}") }, now);
        }
    }

    pub fn stashed(&mut self, done: &StashInput, Stashed { taken }: Stashed, _: Timestamp) {
        self.note_leaving(count(taken));
        self.drop_head(count(taken));
        if let Some(open) = &mut self.open {
            open.stashed += taken;
            open.sealed |= count(taken) < done.events.len();
            open.runs.retain(|run| !done.runs.contains(run));
            if open.runs.is_empty() {
                open.stashed += std::mem::take(&mut open.unread);
            }
        }
    }

    pub fn retracted(&mut self, done: &RetractInput, (): (), _: Timestamp) {
        let ids: Vec<_> = done.events.iter().map(|event| event.event_id.clone()).collect();
        self.forget(&ids);
        if self.pending.covered_by(&done.retracts).is_empty() {
            for retract in &done.retracts {
                self.retracts.remove(retract);
            }
        }
    }

    pub fn resumed(&mut self, _: &ReopenInput, answer: Resumed, _: Timestamp) {
        self.reopening = None;
        self.reopened = Some(match answer {
            Resumed::Claimed { window, items, groups } => {
                self.delivering = Some(Delivering::new(window, items, groups));
                Reopened { events: items, refused: None }
            }
            Resumed::Refused { why } => Reopened { events: 0, refused: Some(why) },
        });
    }

    pub fn loaded(&mut self, asked: &LoadInput, answer: Loaded, _: Timestamp) {
        // What the claim of a window that is over left here is for the next one.
        let left = |ending: &Ending| count(ending.taken) < asked.events.len();
        self.flushed &= match &answer {
            Loaded::Nothing(ending) => left(ending),
            // A flush that came after this was asked is still to be carried out.
            Loaded::Later { .. } | Loaded::Changed => !asked.flushed,
            Loaded::Claimed { .. } => false,
        };
        match answer {
            Loaded::Later { until, why } => {
                if let Some(open) = &mut self.open {
                    open.not_before = Some(until);
                    open.why = why;
                }
            }
            Loaded::Changed => self.changed = true,
            Loaded::Claimed { items, groups, taken } => {
                self.take_claimed(taken);
                self.delivering = Some(Delivering::new(asked.window.clone(), items, groups));
            }
            Loaded::Nothing(Ending { closed, taken }) => {
                self.take_claimed(taken);
                self.end(asked.window.digest_id, closed);
            }
        }
    }

    fn take_claimed(&mut self, taken: u64) {
        self.drop_head(count(taken));
        self.open = None;
        self.windows += 1;
    }

    pub fn rendered(&mut self, _: &RenderInput, answer: Rendered, _: Timestamp) {
        let Some(digest) = &mut self.delivering else { return };
        match answer {
            Rendered::Stored => digest.rendered = true,
            Rendered::Nothing(closed) => self.delivered(closed),
        }
    }

    fn delivered(&mut self, closed: Closed) {
        if let Some(digest) = self.delivering.take() {
            self.waited = digest.not_before.is_some();
            self.end(digest.window.digest_id, closed);
        }
    }

    pub fn sent(&mut self, _: &SendInput, answer: Sent, now: Timestamp) {
        let Some(digest) = &mut self.delivering else { return };
        match answer {
            Sent::Closed(closed) => self.delivered(closed),
            Sent::Deferred { why, again_in } => {
                let usual = || retry_delay(digest.attempts).unwrap_or(RETRY_DELAYS[RETRY_DELAYS.len() - 1]);
                let delay = again_in.unwrap_or_else(usual);
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

    pub fn closed(&mut self, asked: &CloseInput, Ending { closed, taken }: Ending, _: Timestamp) {
        if self.delivering.take().is_none() {
            self.take_claimed(taken);
        }
        self.end(asked.window.digest_id, closed);
    }

    pub fn audited(&mut self, done: &AuditInput, (): (), _: Timestamp) {
        self.notes.drain(..done.notes.len().min(self.notes.len()));
    }

    pub fn buried(&mut self, done: &BuryInput, (): (), _: Timestamp) {
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
