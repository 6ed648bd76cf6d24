//! What an operator's commands do to the state.

use jiff::Timestamp;
use tidings_model::{
    command::{Dropped, Due, Flushed, Held, Hold, Order, Released, Reopen, Reopened, Retime, Retimed},
    contract::Note,
};
use uuid::Uuid;

use super::State;

impl State {
    /// Makes the pending events due, as soon as no digest is on its way and no hold stops them.
    pub fn flush(&mut self, order: Order, now: Timestamp) -> Flushed {
        let events = self.collected();
        self.flushed = events > 0;
        if self.flushed {
            self.note("flush", order, now);
        }
        Flushed { events, behind: self.on_its_way(), held: self.held_until(now).is_some() }
    }

    /// Starts nothing that ends in a mail until the hold ends; events go on collecting.
    pub fn hold(&mut self, hold: Hold, now: Timestamp) -> Held {
        let held = Held { events: self.collected(), delivering: self.on_its_way() };
        if held != Held::default() {
            let until = hold.until.map(|until| format!(" (until {until:.0})")).unwrap_or_default();
            let Order { by, why } = hold.order.clone();
            self.note("hold", Order { by, why: why + &until }, now);
            self.hold = Some(hold);
        }
        held
    }

    /// Ends a hold. What is overdue goes out.
    pub fn release(&mut self, order: Order, now: Timestamp) -> Released {
        let held = self.held_until(now).is_some();
        self.hold = None;
        if held {
            self.note("release", order, now);
        }
        let due_at = if self.flushed { Some(now) } else { self.deadline() };
        Released { held, events: self.collected(), due_at }
    }

    /// Ends the digest on its way and the pending events, in no mail. Closing them writes the audit entry.
    pub fn discard(&mut self, order: Order) -> Dropped {
        let dropped = Dropped { events: self.collected(), delivering: self.on_its_way() };
        if dropped != Dropped::default() {
            self.dropping = Some(order);
            self.dropping_events = Some(self.pending.len());
            self.hold = None;
            self.flushed = false;
        }
        dropped
    }

    /// Gives the open window another deadline: this one, or the one that today's configuration and choices make, which is
    /// then still to be planned.
    pub fn retime(&mut self, Retime { order, at }: Retime, now: Timestamp) -> Retimed {
        let was = self.deadline();
        let (Some(_), Some(open)) = (was, &mut self.open) else { return self.retimed(was) };
        match (at, &mut open.plan) {
            (Some(at), Some(plan)) => {
                let moved = format!("due at {at:.0}, was {:.0}", plan.due_at);
                plan.due_at = at;
                plan.why = format!("retimed by {}: {} -> {at:.0}", order.by, order.why);
                plan.slide = None;
                open.window.due_at = at;
                open.why.clone_from(&plan.why);
                open.not_before = None;
                self.note("retime", Order { why: format!("{}: {moved}", order.why), ..order }, now);
            }
            _ => self.retiming = Some(order),
        }
        self.retimed(was)
    }

    /// What became of a `retime`.
    pub fn retimed(&self, was: Option<Timestamp>) -> Retimed {
        Retimed { events: self.collected(), was, due_at: self.deadline(), why: self.why() }
    }

    /// What a claim would take now.
    pub fn due(&self) -> Option<Due> {
        let open = self.open.as_ref()?;
        let events = self.pending.head(self.pending.page_len(usize::MAX));
        let more = self.collected() - open.stashed - events.len() as u64;
        Some(Due { window: open.window.clone(), events, more })
    }

    /// Takes a digest up again, unless there is one on its way; `Some`: why not.
    pub fn reopen(&mut self, reopen: Reopen, now: Timestamp) -> Option<Reopened> {
        let refused = |why: String| Some(Reopened { events: 0, refused: Some(why) });
        if let Some(digest) = self.on_its_way().or_else(|| self.reopening.as_ref().map(|other| other.digest_id)) {
            return refused(format!("digest {digest} is on its way; try again when it is delivered or given up"));
        }
        // A workflow task that was lost may have claimed the window that is still to be opened.
        if self.window(now).is_some_and(|window| window.digest_id == reopen.digest_id) {
            return refused("it collects still; a flush sends it".to_owned());
        }
        if self.winds_down() {
            return refused("the workflow is being cancelled; try again when that is done".to_owned());
        }
        self.reopening = Some(reopen);
        None
    }

    /// The recipient chose something else: the open window's deadline follows.
    pub fn change(&mut self) {
        self.changed = self.open.is_some() || !self.pending.is_empty();
    }

    /// Commands end with what they were about: with nothing pending and nothing on its way there is nothing to hold or
    /// to drop.
    pub fn tidy(&mut self, now: Timestamp) {
        let idle = self.delivering.is_none() && self.open.is_none() && self.pending.is_empty();
        self.idle_since = self.idle_since.or(Some(now)).filter(|_| idle);
        if self.open.is_none() || self.cancelled {
            self.retiming = None;
            self.changed = false;
            self.unanswered = false;
        }
        let dropped = self.delivering.is_none() && self.open.is_none() && self.dropping_events == Some(0);
        if idle || dropped {
            self.dropping = None;
            self.dropping_events = None;
        }
        if idle {
            self.hold = None;
            self.flushed = false;
        }
    }

    /// When the hold ends, while there is one.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let hold = self.hold.as_ref()?;
        Some(hold.until.unwrap_or(Timestamp::MAX)).filter(|until| *until > now)
    }

    /// Whether everything that there is comes to its end without a mail.
    pub const fn winds_down(&self) -> bool {
        self.cancelled || self.dropping.is_some()
    }

    /// How many of the pending events come to their end with what winds down.
    pub(super) fn doomed(&self) -> usize {
        self.dropping_events.filter(|_| !self.cancelled).unwrap_or(usize::MAX)
    }

    pub(super) fn on_its_way(&self) -> Option<Uuid> {
        self.delivering.as_ref().map(|digest| digest.window.digest_id)
    }

    pub(super) fn note(&mut self, action: &str, Order { by, why }: Order, at: Timestamp) {
        self.notes.push(Note { at, by, action: action.to_owned(), why });
    }
}
