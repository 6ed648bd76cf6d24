//! What an operator's commands do to the state.

use jiff::Timestamp;
use uuid::Uuid;

use super::State;
use crate::{
    command::{Dropped, Flushed, Held, Hold, Order, Released},
    contract::Note,
};

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
        let plan = self.open.as_ref().and_then(|open| open.plan.as_ref());
        let due_at = if self.flushed { Some(now) } else { plan.map(|plan| self.due_at(plan)) };
        Released { held, events: self.collected(), due_at }
    }

    /// Ends the digest on its way and the pending events, in no mail. Closing them writes the audit entry.
    pub fn discard(&mut self, order: Order) -> Dropped {
        let dropped = Dropped { events: self.collected(), delivering: self.on_its_way() };
        if dropped != Dropped::default() {
            self.dropping = Some(order);
        }
        dropped
    }

    /// Commands end with what they were about: with nothing pending and nothing on its way there is nothing to hold or
    /// to drop.
    pub fn tidy(&mut self) {
        if self.delivering.is_none() && self.open.is_none() && self.pending.is_empty() {
            self.dropping = None;
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

    fn on_its_way(&self) -> Option<Uuid> {
        self.delivering.as_ref().map(|digest| digest.window.digest_id)
    }

    fn note(&mut self, action: &str, Order { by, why }: Order, at: Timestamp) {
        self.notes.push(Note { at, by, action: action.to_owned(), why });
    }
}
