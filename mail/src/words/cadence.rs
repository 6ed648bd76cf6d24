//! Cadences in a recipient's words.

use std::time::Duration;

use jiff::civil::Time;
use tidings_model::{Cadence, words};

use super::phrases::Phrases;

/// Says how often a digest comes.
#[must_use]
pub fn cadence(phrases: Phrases<'_>, cadence: &Cadence) -> String {
    let clock = |time: &Time| phrases.time(*time).into();
    match cadence {
        Cadence::Instant => phrases.say("cadence_instant"),
        Cadence::After(wait) => phrases.with("cadence_after", [("wait", duration(phrases, *wait).into())]),
        Cadence::Sliding(wait, most) => {
            let (wait, most) = (duration(phrases, *wait).into(), duration(phrases, *most).into());
            phrases.with("cadence_sliding", [("wait", wait), ("most", most)])
        }
        Cadence::Hourly(0) => phrases.say("cadence_every_hour"),
        Cadence::Hourly(minute) => phrases.with("cadence_hourly", [("minute", (*minute).into())]),
        Cadence::Daily(time) => phrases.with("cadence_daily", [("time", clock(time))]),
        Cadence::Weekdays(time) => phrases.with("cadence_weekdays", [("time", clock(time))]),
        Cadence::Weekly(day, time) => {
            let day = words::day_name(*day).into();
            phrases.with("cadence_weekly", [("day", day), ("time", clock(time))])
        }
        Cadence::Monthly(day, time) => phrases.with("cadence_monthly", [("day", (*day).into()), ("time", clock(time))]),
        Cadence::Cron(_) => phrases.say("cadence_cron"),
        Cadence::Never => phrases.say("cadence_never"),
    }
}

fn duration(phrases: Phrases<'_>, wait: Duration) -> String {
    let seconds = wait.as_secs();
    let units = [("days", 24 * 3_600), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
    let unit = units.into_iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (id, unit) = unit.unwrap_or(("seconds", 1));
    phrases.with(id, [("count", (seconds / unit).into())])
}
