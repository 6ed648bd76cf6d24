//! The end of a wait: the next good moment for this person (rule 56).
//!
//! A cadence makes the first deadline. Whatever puts a digest off after that ends here: at the first moment that is not quiet and, for a
//! cadence with a time of day, not before that time on that local day. So nothing that is due waits for another period.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time},
};

use super::deadline::{Deadline, Timing, later};
use crate::{
    cadence::{Cadence, slots},
    window::{Goes, Wait},
};

/// After a deadline that is shortly before midnight.
const GRACE: SignedDuration = SignedDuration::from_hours(2);

impl Timing<'_> {
    /// The first moment from `from` on that is not quiet and, for a cadence with a time of day, not before that time on that local day. A time
    /// of day is spread and put off by quiet hours as a slot is; where that leads it past midnight, it counts for the day that it comes on,
    /// unless that day's own comes there.
    #[must_use]
    pub fn next_good_moment(&self, cadence: &Cadence, from: Timestamp) -> Deadline {
        self.moment(cadence, None, from)
    }

    /// The time at which a digest may go that was due at `due_at`, if that is later than `from`, at which `wait` ends. On the local day of
    /// `due_at`, and on one that begins within two hours after it, the time of day has come. A deadline that a quiet time covers was set before
    /// these quiet hours were, and stands (rule 16).
    #[must_use]
    pub fn put_off(&self, cadence: &Cadence, wait: Wait, due_at: Timestamp, from: Timestamp) -> Option<Deadline> {
        let stands = || due_at <= from && self.quiet.until(due_at, self.zone).is_some_and(|end| from < end);
        match wait.goes() {
            Goes::AtOnce => None,
            Goes::ByCadence if stands() => None,
            _ => {
                let due_on = self.day(later(due_at, GRACE));
                Some(self.moment(cadence, Some(due_on), from)).filter(|moment| moment.at > from)
            }
        }
    }

    /// Until the end of the day `due_on` no time of day counts.
    fn moment(&self, cadence: &Cadence, due_on: Option<Date>, from: Timestamp) -> Deadline {
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

    /// The time at which the local day of `at`, or else the next one, opens; `None`: it has.
    fn opens_after(&self, at: Timestamp, time: Time) -> Option<Timestamp> {
        let mut days = std::iter::successors(Some(self.day(at)), |day| day.tomorrow().ok());
        days.find_map(|day| self.opening(day, time)).filter(|opens| *opens > at)
    }

    /// The day's own slot, if it comes on this day. Quiet hours and the spread may lead it past midnight: then the one of an earlier day
    /// that they led to this one.
    fn opening(&self, day: Date, time: Time) -> Option<Timestamp> {
        let own = Some(self.slot_of(day, time)).filter(|slot| self.day(*slot) == day);
        let before = day.yesterday().unwrap_or(day);
        let earlier = || {
            let days = std::iter::successors(Some(before), |day| day.yesterday().ok());
            let slots = days.map(|day| self.slot_of(day, time)).take_while(|slot| self.day(*slot) >= before);
            slots.filter(|slot| self.day(*slot) == day).min()
        };
        own.or_else(earlier)
    }

    /// A day's slot, spread and put off by quiet hours.
    fn slot_of(&self, day: Date, time: Time) -> Timestamp {
        let slot = slots::slot(day.to_datetime(time), self.zone);
        let slot = self.offset.map_or(slot, |offset| later(slot, offset));
        self.first_end(slot).map_or(slot, |(end, _)| end)
    }

    fn day(&self, at: Timestamp) -> Date {
        self.zone.to_datetime(at).date()
    }
}

#[cfg(test)]
mod tests;
