//! When a wait ends: the next good moment for this person (rule 56).
//!
//! The cadence only decides the first deadline. After any other wait, a digest is sent at the first moment
//! outside quiet hours and not before the cadence's time of day (if any). So it never waits for another
//! period.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time},
};

use super::deadline::{Deadline, DeadlineTiming, add_wait};
use crate::{
    cadence::{Cadence, slots},
    window::{SendMoment, WaitReason},
};

const GRACE: SignedDuration = SignedDuration::from_hours(2);

impl DeadlineTiming<'_> {
    /// The first moment outside quiet hours, and not before the cadence's time of day. Spread and quiet hours
    /// move the time of day like a slot. If this leads past midnight, it counts for the day it falls on,
    /// unless this day has its own.
    #[must_use]
    pub fn next_good_moment(&self, cadence: &Cadence, from: Timestamp) -> Deadline {
        self.moment_from(cadence, None, from)
    }

    /// When a digest due at `due_at` may be sent, if later than `from`, the end of `wait`. On the local day
    /// of `due_at`, or one starting within two hours of it, the time of day counts as reached. A deadline set
    /// before the quiet hours covering it stands (rule 16).
    #[must_use]
    pub fn put_off(&self, cadence: &Cadence, wait: WaitReason, due_at: Timestamp, from: Timestamp) -> Option<Deadline> {
        let stands = || due_at <= from && self.quiet.quiet_end(due_at, self.zone).is_some_and(|end| from < end);
        match wait.send_moment() {
            SendMoment::AtOnce => None,
            SendMoment::ByCadence if stands() => None,
            _ => {
                let due_on = self.day(add_wait(due_at, GRACE));
                Some(self.moment_from(cadence, Some(due_on), from)).filter(|moment| moment.at > from)
            }
        }
    }

    /// Ignores the time of day up to the end of `due_on`.
    fn moment_from(&self, cadence: &Cadence, due_on: Option<Date>, from: Timestamp) -> Deadline {
        let (at, quiet) = self.first_end(from).map_or((from, None), |(end, step)| (end, Some(step)));
        let is_later_day = due_on.is_none_or(|due_on| due_on < self.day(at));
        let time = if is_later_day { cadence.time_of_day() } else { None };
        let opens = time.and_then(|time| Some((time, self.opens_after(at, time)?)));
        match (opens, quiet) {
            (Some((time, opens)), quiet) => {
                let quiet = quiet.map(|step| step + "; ").unwrap_or_default();
                Deadline { at: opens, why: format!("{quiet}not before {} -> {opens:.0}", time.strftime("%H:%M")) }
            }
            (None, Some(step)) => Deadline { at, why: format!("{step} -> {at:.0}") },
            (None, None) => Deadline { at, why: String::new() },
        }
    }

    /// The opening time of the local day of `at`, or of the next one with an opening. `None` if it is over.
    fn opens_after(&self, at: Timestamp, time: Time) -> Option<Timestamp> {
        let mut days = std::iter::successors(Some(self.day(at)), |day| day.tomorrow().ok());
        days.find_map(|day| self.day_opening(day, time)).filter(|opens| *opens > at)
    }

    /// The day's own slot if it falls on this day, or else an earlier day's slot moved here by quiet hours
    /// and the spread.
    fn day_opening(&self, day: Date, time: Time) -> Option<Timestamp> {
        let own = Some(self.slot_of(day, time)).filter(|slot| self.day(*slot) == day);
        let before = day.yesterday().unwrap_or(day);
        let earlier = || {
            let days = std::iter::successors(Some(before), |day| day.yesterday().ok());
            let slots = days.map(|day| self.slot_of(day, time)).take_while(|slot| self.day(*slot) >= before);
            slots.filter(|slot| self.day(*slot) == day).min()
        };
        own.or_else(earlier)
    }

    fn slot_of(&self, day: Date, time: Time) -> Timestamp {
        let slot = slots::slot_instant(day.to_datetime(time), self.zone);
        let slot = self.offset.map_or(slot, |offset| add_wait(slot, offset));
        self.first_end(slot).map_or(slot, |(end, _)| end)
    }

    fn day(&self, at: Timestamp) -> Date {
        self.zone.to_datetime(at).date()
    }
}

#[cfg(test)]
mod tests;
