//! Converts local times to instants, across clock changes (rule 10).

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime, Time},
    tz::{AmbiguousOffset, TimeZone},
};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn next_daily(from: Timestamp, zone: &TimeZone, time: Time, wanted: impl Fn(Date) -> bool) -> Timestamp {
    let days = zone.to_datetime(from).date().series(jiff::Span::new().days(1));
    first_after(from, zone, days.filter(|date| wanted(*date)).map(|date| date.to_datetime(time)))
}

/// The first of these ordered local times after `from`.
///
/// They may start at the local time of `from`. Each maps to the first instant at which the clock has reached
/// it, so this keeps the order and no earlier one can come later.
pub(super) fn first_after(from: Timestamp, zone: &TimeZone, times: impl Iterator<Item = DateTime>) -> Timestamp {
    times.map(|time| slot_instant(time, zone)).find(|slot| *slot > from).unwrap_or(Timestamp::MAX)
}

/// A repeated time maps to its first occurrence, a skipped one to the first instant after the gap.
pub(crate) fn slot_instant(time: DateTime, zone: &TimeZone) -> Timestamp {
    let local = zone.to_ambiguous_timestamp(time);
    match local.offset() {
        AmbiguousOffset::Gap { .. } => {
            local.earlier().ok().and_then(|before| zone.following(before).next()).map(|gap| gap.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => local.earlier().ok(),
    }
    .unwrap_or(Timestamp::MAX)
}

/// The first instant after `from` at which the local clock shows this minute.
///
/// Each pass of a repeated hour has a slot, because an event should wait one hour at most. If clocks move by
/// less than an hour and slots would be further apart, the change itself is a slot.
pub(super) fn next_hourly(from: Timestamp, zone: &TimeZone, minute: i8) -> Timestamp {
    let next = at_minute(from, from, zone, minute);
    match zone.following(from).next().map(|change| change.timestamp()) {
        Some(change) if change <= next => {
            let nanosecond = SignedDuration::from_nanos(1);
            let after = change.checked_sub(nanosecond).map_or(next, |before| at_minute(before, change, zone, minute));
            if after > next { change } else { after }
        }
        _ => next,
    }
}

/// Uses the UTC offset in force at `clock`.
fn at_minute(from: Timestamp, clock: Timestamp, zone: &TimeZone, minute: i8) -> Timestamp {
    let local = zone.to_offset(clock).to_datetime(from);
    let this_hour = local.date().at(local.hour(), minute, 0, 0);
    let ahead = this_hour.duration_since(local);
    from.saturating_add(if ahead.is_positive() { ahead } else { ahead + HOUR }).unwrap_or(Timestamp::MAX)
}
