//! Keeps promises after a change of zone, time or cadence (rule 15): a window keeps its deadline if the new
//! slot is much later, and no day, week or month gets two digests.

use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

use crate::{
    Cadence,
    records::KeyFacts,
    rules::{
        deadline::{Deadline, DeadlineTiming},
        effective::EffectiveSettings,
    },
    step::Plan,
    time_zone,
    zone::is_same_zone,
};

/// A new slot replaces the old deadline if it is at most this much later.
const TOLERANCE: SignedDuration = SignedDuration::from_hours(24);
const HOUR: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RetimeDecision {
    Moves,
    /// The new deadline counts, but the old promise stays, so several small changes cannot add up to a long
    /// wait.
    MovesWithin(Timestamp),
    Stays(Deadline),
}

/// Decides between the deadline in `before` and the new schedule's. If the recipient chose a less frequent
/// cadence, the events should wait for it.
pub(super) fn decide_retiming(
    before: &Plan,
    effective: &EffectiveSettings,
    timing: &DeadlineTiming<'_>,
    new: Timestamp,
) -> RetimeDecision {
    let cadence = before.basis.as_ref().and_then(|basis| basis.cadence.parse::<Cadence>().ok());
    // The plan comes from a version without `basis`, or nothing was promised.
    let Some(cadence) = cadence.filter(|cadence| *cadence != Cadence::Never) else { return RetimeDecision::Moves };
    let distance = |cadence| usual_distance(cadence, &effective.zone, before.due_at);
    let (wanted, had) = (distance(&effective.cadence), distance(&cadence));
    if wanted > had {
        return RetimeDecision::Moves;
    }
    let promised = before.promised_at.unwrap_or(before.due_at);
    if new.duration_since(promised) > TOLERANCE {
        let (at, why) = (before.due_at, before.why.clone());
        let stays = match timing.quiet_until(at) {
            Some((end, step)) => Deadline { at: end, why: format!("{why}; {step} -> {end:.0}") },
            None => Deadline { at, why },
        };
        if stays.at < new {
            return RetimeDecision::Stays(stays);
        }
    }
    if wanted == had { RetimeDecision::MovesWithin(promised) } else { RetimeDecision::Moves }
}

fn usual_distance(cadence: &Cadence, zone: &TimeZone, from: Timestamp) -> SignedDuration {
    let lasting = |wait| SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    match cadence {
        Cadence::Instant => SignedDuration::ZERO,
        Cadence::After(wait) | Cadence::Sliding(_, wait) => lasting(*wait),
        Cadence::Hourly(..) => HOUR,
        Cadence::Daily(..) => HOUR * 24,
        Cadence::Weekdays(..) => HOUR * (7 * 24 / 5),
        Cadence::Weekly(..) => HOUR * (7 * 24),
        Cadence::Monthly(..) => HOUR * (30 * 24),
        Cadence::Cron(_) => {
            let slot = cadence.due_at(from, zone);
            cadence.due_at(slot, zone).duration_since(slot)
        }
        Cadence::Never => SignedDuration::MAX,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CalendarPeriod {
    Day,
    Week,
    Month,
}

impl CalendarPeriod {
    const fn of(cadence: &Cadence) -> Option<Self> {
        match cadence {
            Cadence::Daily(..) | Cadence::Weekdays(..) => Some(Self::Day),
            Cadence::Weekly(..) => Some(Self::Week),
            Cadence::Monthly(..) => Some(Self::Month),
            _ => None,
        }
    }

    fn start(self, day: Date) -> Date {
        match self {
            Self::Day => day,
            Self::Week => day.saturating_sub(i64::from(day.weekday().to_monday_zero_offset()).days()),
            Self::Month => day.first_of_month(),
        }
    }

    const fn reach(self) -> i32 {
        match self {
            Self::Day => 5,
            Self::Week => 8,
            Self::Month => 32,
        }
    }
}

/// When the cadence starts to count: after the slots of a day, week or month with a digest by another
/// schedule. A more frequent schedule does not use up the period: after a daily digest, a weekly one may
/// follow.
pub(super) fn after_served(
    cadence: &Cadence,
    facts: &KeyFacts,
    effective: &EffectiveSettings,
    mut from: Timestamp,
) -> Timestamp {
    let zone = &effective.zone;
    let Some((period, served)) = CalendarPeriod::of(cadence).zip(served_slot(cadence, facts, effective)) else {
        return from;
    };
    let has_digest = |slot: Timestamp| {
        let day = zone.to_datetime(slot).date();
        // Across the date line, the digest may fall on another day than in the zone where it was sent.
        period.start(day) <= period.start(served.day) || day == zone.to_datetime(served.slot).date()
    };
    loop {
        let slot = cadence.due_at(from, zone);
        if slot == Timestamp::MAX || !has_digest(slot) {
            return from;
        }
        from = slot;
    }
}

struct ServedSlot {
    slot: Timestamp,
    /// In the zone used at that time.
    day: Date,
}

/// The last digest's slot, if it followed another schedule with the same or a longer period. Urgent and
/// flushed digests do not use up their slot.
fn served_slot(cadence: &Cadence, facts: &KeyFacts, effective: &EffectiveSettings) -> Option<ServedSlot> {
    let last = facts.last_schedule.as_ref()?;
    let (last_cadence, last_zone) = (last.cadence.parse::<Cadence>().ok()?, time_zone(&last.zone).ok()?);
    if last_cadence == *cadence && is_same_zone(&last.zone, &effective.zone_name) {
        return None;
    }
    let last_period = CalendarPeriod::of(&last_cadence).filter(|last| Some(*last) >= CalendarPeriod::of(cadence))?;
    let from = last.at.saturating_sub(HOUR * 24 * last_period.reach()).ok()?;
    let next = |from: &Timestamp| Some(last_cadence.due_at(*from, &last_zone));
    let slots = std::iter::successors(next(&from), next).take_while(|slot| *slot <= last.at);
    let slot = slots.take(40).last()?;
    Some(ServedSlot { slot, day: last_zone.to_datetime(slot).date() })
}
