//! What the digest workflow does next: a pure function of (state, now).

use jiff::{SignedDuration, Timestamp};

use super::{Open, State};
use crate::contract::Plan;

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
    pub fn decide(&self, now: Timestamp) -> Decision {
        if self.winds_down() {
            return self.wind_down();
        }
        if let Some(until) = self.held_until(now) {
            return self.on_hold(until);
        }
        match (&self.delivering, &self.open) {
            (Some(digest), _) if !digest.rendered => Decision::Render,
            (Some(digest), _) => match digest.not_before {
                Some(at) if at > now => self.chore().unwrap_or(Decision::Wait(at)),
                _ => Decision::Send,
            },
            (None, _) if self.reopening.is_some() => Decision::Reopen,
            (None, Some(open)) => self.collect(open, now),
            (None, None) if !self.pending.is_empty() => self.taking_back().unwrap_or(Decision::Plan),
            (None, None) => self.chore().unwrap_or_else(|| self.idle(now)),
        }
    }

    /// What is next for the window that collects.
    fn collect(&self, open: &Open, now: Timestamp) -> Decision {
        let Some(plan) = open.plan.as_ref().filter(|plan| !self.must_plan_again(open, plan, now)) else {
            return Decision::Plan;
        };
        if !self.is_due(plan, now) {
            self.chore().unwrap_or_else(|| Decision::Wait(self.due_at(open, plan)))
        } else if let Some(decision) = self.taking_back() {
            decision
        } else if self.load_waits_for_stash() {
            Decision::Stash
        } else {
            Decision::Load
        }
    }

    /// Whether something has happened that moves the deadline, or may: the plan that is asked again knows.
    fn must_plan_again(&self, open: &Open, plan: &Plan, now: Timestamp) -> bool {
        if self.changed || self.retiming.is_some() {
            return true;
        }
        let Some((signs, seen)) = self.signs(now).zip(open.seen.as_ref()) else { return false };
        let urgent = signs.urgent_at.is_some() && seen.urgent_at.is_none();
        // Asked at the deadline and not with every event: an event that the ledger knows moves nothing.
        let slides = plan.slide.is_some() && signs.last_at != seen.last_at;
        urgent || (slides && !self.flushed && (plan.due_at <= now || self.must_stash()))
    }

    /// An idle run waits for the next event for a while, where it is configured to.
    fn idle(&self, now: Timestamp) -> Decision {
        let linger = self.linger.and_then(|linger| SignedDuration::try_from(linger).ok());
        let until = self.idle_since.zip(linger).and_then(|(since, linger)| since.checked_add(linger).ok());
        until.filter(|until| *until > now).map_or(Decision::Finish, Decision::Wait)
    }

    fn wind_down(&self) -> Decision {
        if self.delivering.is_some() {
            Decision::Close
        } else if self.reopening.is_some() {
            // The ledger may have taken the digest up again already, and it needs another end.
            Decision::Reopen
        } else if self.must_stash() {
            Decision::Stash
        } else if self.open.is_some() || !self.pending.is_empty() {
            Decision::Close
        } else {
            self.chore().unwrap_or(Decision::Finish)
        }
    }

    /// A window is planned, so that everybody sees when it would be due. Nothing else begins.
    fn on_hold(&self, until: Timestamp) -> Decision {
        let again = self.changed || self.retiming.is_some();
        match (&self.delivering, &self.open) {
            (None, _) if self.reopening.is_some() => Decision::Reopen,
            (None, Some(open)) if open.plan.is_none() || again => Decision::Plan,
            (None, None) if !self.pending.is_empty() => Decision::Plan,
            _ => self.chore().unwrap_or(Decision::Wait(until)),
        }
    }

    /// What keeps the state small while there is nothing else to do.
    fn chore(&self) -> Option<Decision> {
        if !self.letters.is_empty() {
            Some(Decision::Bury)
        } else if !self.notes.is_empty() {
            Some(Decision::Audit)
        } else if let Some(decision) = self.taking_back() {
            Some(decision)
        } else if self.must_stash() {
            Some(Decision::Stash)
        } else {
            None
        }
    }

    /// A claim leaves out what the ledger knows to be taken back.
    fn taking_back(&self) -> Option<Decision> {
        (!self.retracts.is_empty()).then_some(Decision::Retract)
    }

    fn must_stash(&self) -> bool {
        let open = self.open.as_ref();
        let takes_more = open.is_none_or(|open| !open.sealed);
        (takes_more && self.pending.overflows()) || open.is_some_and(|open| !open.runs.is_empty())
    }

    /// A claim needs every event in the ledger or in its input. A window with a limit claims its first events only.
    fn load_waits_for_stash(&self) -> bool {
        self.must_stash() && self.limit().is_none()
    }

    fn is_due(&self, plan: &Plan, now: Timestamp) -> bool {
        let Some(open) = &self.open else { return false };
        let admitted = open.not_before.is_none_or(|at| at <= now);
        let full = plan.max_events.is_some_and(|most| self.collected() >= u64::from(most));
        // All that a window held was taken back: its end says so.
        let emptied = self.collected() == 0;
        self.flushed || (admitted && (full || emptied || plan.due_at <= now))
    }

    /// When the open window is due, as far as it is planned.
    pub fn deadline(&self) -> Option<Timestamp> {
        let open = self.open.as_ref()?;
        let plan = open.plan.as_ref()?;
        let at = self.due_at(open, plan);
        let slid = plan.slide.zip(self.pending.last()).map(|(slide, last)| slide.due_at(last.at));
        Some(slid.map_or(at, |slid| slid.max(at)))
    }

    fn due_at(&self, open: &Open, plan: &Plan) -> Timestamp {
        open.not_before.map_or(plan.due_at, |at| at.max(plan.due_at))
    }
}
