//! What the digest workflow does next: a pure function of (state, now).

use jiff::{SignedDuration, Timestamp};
use tidings_model::{contract::Plan, words};

use super::state::{Open, State};

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
    /// After a cancel or a drop: the ledger learns what was pending or on its way.
    Close,
    /// The ledger learns what is taken back.
    Retract,
    Reopen,
    Bury,
    /// The audit trail learns of commands.
    Audit,
    /// Nothing pending and nothing undelivered.
    Finish,
}

impl State {
    /// The one place that decides.
    ///
    /// What is decided here is decided again when history replays, and then the clock may be ahead: the SDK takes workflow
    /// tasks that ended without a command and the one after them for one, at the time of the last. So whatever does not
    /// wait comes to the same at any later time, and what depends on the time comes last.
    pub fn decide(&self, now: Timestamp) -> Decision {
        if self.winds_down() {
            return self.wind_down();
        }
        if let Some(chore) = self.chore() {
            return chore;
        }
        if let Some(until) = self.held_until(now) {
            return Decision::Wait(until);
        }
        match (&self.delivering, &self.open) {
            (Some(digest), _) if !digest.rendered => Decision::Render,
            (Some(digest), _) => digest.not_before.filter(|at| *at > now).map_or(Decision::Send, Decision::Wait),
            (None, Some(Open { plan: Some(plan), .. })) if !self.is_due(plan, now) => Decision::Wait(self.due_at(plan)),
            // Asked at the deadline and not with every event: an event that the ledger knows moves nothing.
            (None, Some(_)) if self.slides() && !self.flushed => Decision::Plan,
            (None, Some(_)) => Decision::Load,
            (None, None) => self.idle(now),
        }
    }

    /// What is done whatever the time is, and also on hold: a window is planned, so that everybody sees when it is due, and
    /// the state is kept small.
    fn chore(&self) -> Option<Decision> {
        if !self.letters.is_empty() {
            Some(Decision::Bury)
        } else if !self.notes.is_empty() {
            Some(Decision::Audit)
        } else if !self.retracts.is_empty() {
            // Before any claim, which leaves out what the ledger knows to be taken back.
            Some(Decision::Retract)
        } else if self.delivering.is_none() && self.reopening.is_some() {
            Some(Decision::Reopen)
        } else if self.delivering.is_none() && self.must_plan() {
            Some(Decision::Plan)
        } else if self.must_stash() && !self.is_full() {
            Some(Decision::Stash)
        } else {
            None
        }
    }

    fn must_plan(&self) -> bool {
        let Some(open) = &self.open else { return !self.pending.is_empty() };
        let Some(seen) = open.seen.as_ref().filter(|_| open.plan.is_some()) else { return true };
        let came = open.urgent_at.or_else(|| self.pending.urgent_at(usize::MAX));
        let urgent = seen.urgent_at.is_none() && came.is_some();
        self.changed || self.unanswered || self.retiming.is_some() || urgent || (self.slides() && self.must_stash())
    }

    /// Whether an event has come that moves the deadline, unless the ledger knows it.
    fn slides(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let last_at = self.pending.last().map(|last| last.at).or(open.stashed_at);
        let slide = open.plan.as_ref().and_then(|plan| plan.slide);
        slide.is_some() && last_at.is_some() && last_at != open.seen.as_ref().map(|seen| seen.last_at)
    }

    /// An idle run waits for the next event for a while, where it is configured to.
    fn idle(&self, now: Timestamp) -> Decision {
        let linger = self.linger.and_then(|linger| SignedDuration::try_from(linger).ok());
        let until = self.idle_since.zip(linger).and_then(|(since, linger)| since.checked_add(linger).ok());
        until.filter(|until| *until > now).map_or(Decision::Finish, Decision::Wait)
    }

    fn wind_down(&self) -> Decision {
        let doomed = self.doomed() > 0 && !self.pending.is_empty();
        if self.delivering.is_some() {
            Decision::Close
        } else if self.reopening.is_some() {
            // The ledger may have taken the digest up again already, and it needs another end.
            Decision::Reopen
        } else if self.must_stash() && (doomed || self.open.as_ref().is_some_and(|open| !open.runs.is_empty())) {
            Decision::Stash
        } else if self.open.is_some() || doomed {
            Decision::Close
        } else {
            self.chore().unwrap_or(Decision::Finish)
        }
    }

    fn must_stash(&self) -> bool {
        let open = self.open.as_ref();
        let takes_more = open.is_none_or(|open| !open.sealed);
        (takes_more && self.pending.overflows()) || open.is_some_and(|open| !open.runs.is_empty())
    }

    /// A full window claims its first events only; every other claim needs each event in the ledger or in its input.
    fn is_full(&self) -> bool {
        self.limit().is_some_and(|most| self.pending.len() >= most)
    }

    fn is_due(&self, plan: &Plan, now: Timestamp) -> bool {
        let Some(open) = &self.open else { return false };
        let admitted = open.not_before.is_none_or(|at| at <= now);
        let full = plan.max_events.is_some_and(|most| self.collected() >= u64::from(most));
        // All that a window held was taken back: its end says so.
        let emptied = self.collected() == 0;
        self.flushed || (admitted && (full || emptied || plan.due_at <= now))
    }

    /// When the open window is due, as far as it is planned and nothing more comes.
    pub fn deadline(&self) -> Option<Timestamp> {
        let plan = self.open.as_ref()?.plan.as_ref()?;
        let at = self.slid(plan).unwrap_or_else(|| self.due_at(plan));
        Some(plan.paused_until.map_or(at, |until| at.max(until)))
    }

    /// Why then, in words.
    pub fn why(&self) -> String {
        let Some(open) = &self.open else { return String::new() };
        let Some(plan) = &open.plan else { return open.why.clone() };
        let slid = self.slid(plan).zip(plan.slide);
        let why = slid.map_or_else(
            || open.why.clone(),
            |(at, slide)| format!("{} after the latest event -> {at:.0}", words::written(slide.by)),
        );
        match plan.paused_until.filter(|until| *until > self.due_at(plan)) {
            Some(until) => format!("{why}; paused until {until:.0}"),
            None => why,
        }
    }

    /// Where events that came since the plan was made would move its deadline.
    fn slid(&self, plan: &Plan) -> Option<Timestamp> {
        let at = plan.slide?.due_at(self.pending.last()?.at);
        Some(at).filter(|at| *at > self.due_at(plan))
    }

    fn due_at(&self, plan: &Plan) -> Timestamp {
        let not_before = self.open.as_ref().and_then(|open| open.not_before);
        not_before.map_or(plan.due_at, |at| at.max(plan.due_at))
    }
}
