//! The next slots of a cadence, for `tidings config check --cadence`.

use std::fmt;

use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use tidings_model::{Cadence, when};

/// The number of slots shown.
const SHOWN: usize = 3;

/// A cadence in words, and its next slots.
#[derive(Debug, Serialize)]
pub(crate) struct NextSlots {
    cadence: String,
    explanation: String,
    zone: String,
    /// Empty for a cadence without slots: `instant`, `after` and `never` follow the events.
    slots: Vec<Slot>,
}

#[derive(Debug, Serialize)]
struct Slot {
    local: String,
    utc: Timestamp,
}

impl NextSlots {
    pub fn new(cadence: &Cadence, zone: &TimeZone, now: Timestamp) -> Self {
        let slot = |at: Timestamp| Slot { local: when::local(at, zone.clone()), utc: at };
        let next = |at: &Timestamp| Some(cadence.due_at(*at, zone));
        let count = if cadence.follows_the_calendar() { SHOWN } else { 0 };
        Self {
            cadence: cadence.to_string(),
            explanation: cadence.explain(),
            zone: zone.iana_name().unwrap_or("UTC").to_owned(),
            slots: std::iter::successors(next(&now), next).take(count).map(slot).collect(),
        }
    }
}

impl fmt::Display for NextSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cadence, explanation, zone, slots } = self;
        let zone = if slots.is_empty() { String::new() } else { format!(", in {zone}") };
        write!(f, "{cadence}: {}{zone}", explanation.trim_end_matches('.'))?;
        slots.iter().try_for_each(|slot| write!(f, "\n  {}  {}", slot.local, slot.utc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(words: &str, zone: &str, now: &str) -> NextSlots {
        NextSlots::new(&words.parse().unwrap(), &TimeZone::get(zone).unwrap(), now.parse().unwrap())
    }

    #[test]
    fn the_next_three_slots_are_shown_in_the_zone_and_in_utc() {
        let slots = slots("daily 08:00", "Europe/Berlin", "2026-10-23T06:00:00Z");
        assert_eq!(
            slots.to_string(),
            "daily 08:00: every day at 08:00, in Europe/Berlin
  Sat 2026-10-24 08:00:00 CEST  2026-10-24T06:00:00Z
  Sun 2026-10-25 08:00:00 CET  2026-10-25T07:00:00Z
  Mon 2026-10-26 08:00:00 CET  2026-10-26T07:00:00Z"
        );
    }

    #[test]
    fn a_cadence_without_slots_is_explained_without_a_zone() {
        let slots = slots("after 15m", "Europe/Berlin", "2026-10-23T06:00:00Z");
        assert_eq!(slots.to_string(), "after 15m: 15m after the first event");
    }
}
