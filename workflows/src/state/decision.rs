//! What the digest workflow does next: a pure function of (state, now).

use jiff::Timestamp;

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

    /// A window is planned, so that everybody sees when it would be due. Nothing else begins.
    fn on_hold(&self, until: Timestamp) -> Decision {
        let unplanned = self.open.as_ref().map_or(!self.pending.is_empty(), |open| open.plan.is_none());
        if self.delivering.is_none() && unplanned {
            return Decision::Plan;
        }
        self.chore().unwrap_or(Decision::Wait(until))
    }

    /// What keeps the state small while there is nothing else to do.
    fn chore(&self) -> Option<Decision> {
        if !self.letters.is_empty() {
            Some(Decision::Bury)
        } else if !self.notes.is_empty() {
            Some(Decision::Audit)
        } else if self.must_stash() {
            Some(Decision::Stash)
        } else {
            None
        }
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
        self.flushed || (admitted && (full || plan.due_at <= now))
    }

    pub(super) fn due_at(&self, plan: &Plan) -> Timestamp {
        let not_before = self.open.as_ref().and_then(|open| open.not_before);
        not_before.map_or(plan.due_at, |at| at.max(plan.due_at))
    }
}
