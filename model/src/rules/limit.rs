//! The span of a throttle or a cap (rule 13): calendar days for the recipient, or elapsed time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::Time, tz::TimeZone};

use crate::cadence::{Cadence, slots};
use crate::settings::FrequencyLimits;

const DAY: Duration = Duration::from_hours(24);

/// When a digest that counts from `from` stops holding back others: for whole days at local midnight.
#[must_use]
pub fn limit_ends(from: Timestamp, length: Duration, zone: &TimeZone) -> Timestamp {
    match whole_days(length) {
        Some(days) => day_begins(from, days, zone).unwrap_or(Timestamp::MAX),
        None => from.saturating_add(signed(length)).unwrap_or(Timestamp::MAX),
    }
}

/// At `now`, only digests that count from later hold others back.
#[must_use]
pub fn limit_since(now: Timestamp, length: Duration, zone: &TimeZone) -> Timestamp {
    match whole_days(length) {
        Some(days) => day_begins(now, 1 - days, zone).map_or(Timestamp::MIN, just_before),
        None => now.saturating_sub(signed(length)).unwrap_or(Timestamp::MIN),
    }
}

#[must_use]
pub fn limit_since_anywhere(now: Timestamp, length: Duration) -> Timestamp {
    now.saturating_sub(signed(length.saturating_add(2 * DAY))).unwrap_or(Timestamp::MIN)
}

/// When a digest starts to count for limits: at its slot, so a late one does not delay others.
/// `limit_ended_at` is the [relevant end](FrequencyLimits::counted_end) of a limit. `None` without slots: the
/// digest counts from when it is sent.
#[must_use]
pub fn counts_from(
    cadence: &Cadence,
    due_at: Timestamp,
    limit_ended_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    cadence.follows_the_calendar().then(|| limit_ended_at.map_or(due_at, |at| at.max(due_at)).min(now))
}

impl FrequencyLimits {
    /// The end of the limits that put a digest off, if it counts from there instead of its slot: because such
    /// a limit is [longer](outlasts_slot) than the time between two slots, or ended after the next slot.
    /// Otherwise we could send two digests right after each other.
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

/// Returns `true` if the limit is too long for one digest per slot, so its end counts instead.
#[must_use]
pub fn outlasts_slot(cadence: &Cadence, due_at: Timestamp, length: Duration, zone: &TimeZone) -> bool {
    cadence.follows_the_calendar() && limit_ends(due_at, length, zone) > cadence.due_at(due_at, zone)
}

pub(super) fn ends_at_midnight(length: Duration) -> bool {
    whole_days(length).is_some()
}

fn whole_days(length: Duration) -> Option<i64> {
    let days = length.as_secs() / DAY.as_secs();
    let is_whole = Duration::from_secs(days * DAY.as_secs()) == length;
    i64::try_from(days).ok().filter(|_| is_whole)
}

fn day_begins(at: Timestamp, days: i64, zone: &TimeZone) -> Option<Timestamp> {
    let span = jiff::Span::new().try_days(days).ok()?;
    let day = zone.to_datetime(at).date().checked_add(span).ok()?;
    Some(slots::slot_instant(day.to_datetime(Time::midnight()), zone))
}

fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(1.millisecond()).unwrap_or(Timestamp::MIN)
}

fn signed(length: Duration) -> SignedDuration {
    SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
