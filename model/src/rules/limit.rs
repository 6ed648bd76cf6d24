//! The span of a throttle or a cap (rule 13): days of the recipient's calendar, or elapsed time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::Time, tz::TimeZone};

use crate::cadence::{Cadence, slots};
use crate::settings::FrequencyLimits;

const DAY: Duration = Duration::from_hours(24);

/// The time from which a digest that counts from `from` holds no other back. A limit of whole days ends with a day of the calendar.
#[must_use]
pub fn limit_ends(from: Timestamp, length: Duration, zone: &TimeZone) -> Timestamp {
    match whole_days(length) {
        Some(days) => day_begins(from, days, zone).unwrap_or(Timestamp::MAX),
        None => from.saturating_add(signed(length)).unwrap_or(Timestamp::MAX),
    }
}

/// Digests that count from then on, or from earlier, hold nothing back at `now`; later ones do.
#[must_use]
pub fn limit_since(now: Timestamp, length: Duration, zone: &TimeZone) -> Timestamp {
    match whole_days(length) {
        Some(days) => day_begins(now, 1 - days, zone).map_or(Timestamp::MIN, just_before),
        None => now.saturating_sub(signed(length)).unwrap_or(Timestamp::MIN),
    }
}

/// A time that is earlier than [`limit_since`] in each zone.
#[must_use]
pub fn limit_since_anywhere(now: Timestamp, length: Duration) -> Timestamp {
    now.saturating_sub(signed(length.saturating_add(2 * DAY))).unwrap_or(Timestamp::MIN)
}

/// The time from which a digest counts for limits: its slot, so that one that comes late moves no later one. `limit_ended_at` is the
/// [end that counts](FrequencyLimits::counted_end) of a limit that put the digest off. `None`: the cadence has no slots, and the digest counts
/// from when it goes out.
#[must_use]
pub fn counts_from(
    cadence: &Cadence,
    due_at: Timestamp,
    limit_ended_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    // A flushed or a full window goes out before its slot.
    cadence.follows_the_calendar().then(|| limit_ended_at.map_or(due_at, |at| at.max(due_at)).min(now))
}

impl FrequencyLimits {
    /// The end of the limits that put a digest off, if it counts from there and not from its slot: because such a limit is
    /// [longer](outlasts_slot) than the time between two slots, or ended when another slot had come. Otherwise two digests of the key
    /// could follow each other at once, the late one and that of the present slot.
    #[must_use]
    pub fn counted_end(
        &self,
        cadence: &Cadence,
        due_at: Timestamp,
        ended_at: Option<Timestamp>,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        let mut lengths = self.throttle.into_iter().chain(self.cap.map(|cap| cap.within));
        ended_at.filter(|at| {
            *at >= cadence.due_at(due_at, zone) || lengths.any(|length| outlasts_slot(cadence, due_at, length, zone))
        })
    }
}

/// Reports that the limit allows no digest in each slot of the cadence, so that its end counts and not the slot.
#[must_use]
pub fn outlasts_slot(cadence: &Cadence, due_at: Timestamp, length: Duration, zone: &TimeZone) -> bool {
    cadence.follows_the_calendar() && limit_ends(due_at, length, zone) > cadence.due_at(due_at, zone)
}

/// Reports that the limit ends with a day of the calendar, at the same moment for everybody in a zone.
pub(super) fn ends_at_midnight(length: Duration) -> bool {
    whole_days(length).is_some()
}

fn whole_days(length: Duration) -> Option<i64> {
    let days = length.as_secs() / DAY.as_secs();
    let is_whole = Duration::from_secs(days * DAY.as_secs()) == length;
    i64::try_from(days).ok().filter(|_| is_whole)
}

/// The first instant of the local day that is so many days after the one of `at`.
fn day_begins(at: Timestamp, days: i64, zone: &TimeZone) -> Option<Timestamp> {
    let span = jiff::Span::new().try_days(days).ok()?;
    let day = zone.to_datetime(at).date().checked_add(span).ok()?;
    Some(slots::slot(day.to_datetime(Time::midnight()), zone))
}

/// The store keeps milliseconds.
fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(1.millisecond()).unwrap_or(Timestamp::MIN)
}

fn signed(length: Duration) -> SignedDuration {
    SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
