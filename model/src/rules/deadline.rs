//! From a cadence to a deadline: first the cadence's slot or slide (rules 8 and 9), then the spread (rule 11),
//! then quiet hours (rule 12).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    Cadence, Key, QuietHours, SlidingDeadline,
    rules::{
        effective::EffectiveSettings,
        spread::{overdue_share, spread_share},
    },
    settings::DigestSettings,
    words,
};

/// Give up after this many deferrals: with an unlucky spread, every quiet period leads into the next one. The
/// email is then sent right when quiet hours end.
const DEFERRALS: usize = 14;

#[derive(Debug)]
pub struct DeadlineTiming<'a> {
    pub quiet: &'a QuietHours,
    /// The key's offset within the spread, for every window.
    pub offset: Option<SignedDuration>,
    /// Offset when many keys are sent together outside a slot, e.g. after a pause. Below a minute without a
    /// configured spread.
    pub overdue_offset: SignedDuration,
    pub zone: &'a TimeZone,
    pub zone_name: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Deadline {
    pub at: Timestamp,
    pub why: String,
}

impl<'a> DeadlineTiming<'a> {
    #[must_use]
    pub fn new(settings: &DigestSettings, key: &Key, effective: &'a EffectiveSettings) -> Self {
        let signed = |share: Duration| SignedDuration::try_from(share).unwrap_or(SignedDuration::ZERO);
        let id = key.workflow_id();
        Self {
            quiet: &effective.quiet,
            offset: settings.spread.map(|spread| signed(spread_share(&id, spread))),
            overdue_offset: signed(overdue_share(&id, settings.spread)),
            zone: &effective.zone,
            zone_name: &effective.zone_name,
        }
    }

    /// The deadline of a window opened at `opened_at`. `words` explains a cadence other than the configured
    /// one.
    #[must_use]
    pub fn cadence_deadline(&self, cadence: &Cadence, words: Option<String>, opened_at: Timestamp) -> Deadline {
        let at = cadence.due_at(opened_at, self.zone);
        let calendar = cadence.follows_the_calendar();
        let zone = if calendar { format!(" {}", self.zone_name) } else { String::new() };
        let words = words.unwrap_or_else(|| format!("{cadence}{zone}"));
        self.apply_steps(&words, at, calendar)
    }

    #[must_use]
    pub fn sliding_deadline(&self, slide: SlidingDeadline, last_at: Timestamp) -> Deadline {
        let at = slide.due_at(last_at);
        let words = if at == slide.until {
            "events keep coming, and this is the longest that the first may wait".to_owned()
        } else {
            format!("{} after the latest event", words::format_duration(slide.by))
        };
        self.apply_steps(&words, at, false)
    }

    fn apply_steps(&self, words: &str, mut at: Timestamp, calendar: bool) -> Deadline {
        let mut why = format!("{words} -> {at:.0}");
        let mut moved = false;
        if let Some(offset) = self.offset.filter(|_| calendar) {
            at = add_wait(at, offset);
            why = format!("{why}; spread +{}", short(offset));
            moved = true;
        }
        if let Some((end, step)) = self.quiet_until(at) {
            at = end;
            why = format!("{why}; {step}");
            moved = true;
        }
        if moved {
            why = format!("{why} -> {at:.0}");
        }
        Deadline { at, why }
    }

    /// The end of quiet hours plus the spread, repeated if this is quiet again. `None` if `at` is not quiet.
    pub(super) fn quiet_until(&self, at: Timestamp) -> Option<(Timestamp, String)> {
        let first = self.quiet.quiet_end(at, self.zone)?;
        let ends = |end: &Timestamp| self.quiet.quiet_end(self.spread(*end), self.zone);
        let mut deferrals = std::iter::successors(Some(first), ends);
        let last = deferrals.by_ref().take(DEFERRALS).last().unwrap_or(first);
        let end = if deferrals.next().is_some() { last } else { self.spread(last) };
        Some((end, format!("quiet until {}", self.clock(last, at))))
    }

    /// The first end of quiet hours, plus the spread unless this is quiet again. `None` if `at` is not quiet.
    pub(super) fn first_end(&self, at: Timestamp) -> Option<(Timestamp, String)> {
        let end = self.quiet.quiet_end(at, self.zone)?;
        let is_quiet = self.quiet.quiet_end(self.spread(end), self.zone).is_some();
        let words = format!("quiet until {}", self.clock(end, at));
        Some((if is_quiet { end } else { self.spread(end) }, words))
    }

    fn spread(&self, at: Timestamp) -> Timestamp {
        self.offset.map_or(at, |offset| add_wait(at, offset))
    }

    fn clock(&self, at: Timestamp, from: Timestamp) -> String {
        let (at, from) = (self.zone.to_datetime(at), self.zone.to_datetime(from));
        at.strftime(if at.date() == from.date() { "%H:%M" } else { "%a %H:%M" }).to_string()
    }
}

pub(super) fn add_wait(at: Timestamp, wait: SignedDuration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

fn short(wait: SignedDuration) -> String {
    let seconds = wait.as_secs();
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}"));
    let text: String = parts.collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
