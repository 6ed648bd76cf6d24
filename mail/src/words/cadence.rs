//! Cadences in a recipient's words.

use std::time::Duration;

use jiff::civil::{Time, Weekday};
use tidings_model::{
    Cadence,
    cadence::{DayRange, WeekTimes},
    words,
};

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
        Cadence::Weekdays(days, time) => {
            let days: Vec<_> = days.unwrap_or(DayRange::MONDAY_TO_FRIDAY).days().collect();
            on_days(phrases, &days, &[*time])
        }
        Cadence::Weekly(day, time) => on_days(phrases, &[*day], &[*time]),
        Cadence::Monthly(day, time) => phrases.with("cadence_monthly", [("day", (*day).into()), ("time", clock(time))]),
        Cadence::Cron(cron) => match cron.week_times() {
            Some(WeekTimes { days, times }) => on_days(phrases, &days, &times),
            None => phrases.say("cadence_cron"),
        },
        Cadence::Never => phrases.say("cadence_never"),
    }
}

/// Says these times of these days of every week.
fn on_days(phrases: Phrases<'_>, on: &[Weekday], at: &[Time]) -> String {
    let times: Vec<_> = at.iter().map(|time| phrases.time(*time)).collect();
    let times = phrases.list(&times.iter().map(String::as_str).collect::<Vec<_>>());
    let time = ("time", times.into());
    match (on, DayRange::covering(on)) {
        ([_, _, _, _, _, _, _], _) => phrases.with("cadence_daily", [time]),
        ([day], _) => phrases.with("cadence_weekly", [("day", words::day_name(*day).into()), time]),
        (_, Some(DayRange::MONDAY_TO_FRIDAY)) => phrases.with("cadence_weekdays", [time]),
        _ => phrases.with("cadence_days", [("days", days(phrases, on).into()), time]),
    }
}

/// Names days of the week: `Sunday to Thursday`, or `Monday and Wednesday`.
#[must_use]
pub fn days(phrases: Phrases<'_>, days: &[Weekday]) -> String {
    let range = DayRange::covering(days);
    if let Some(DayRange { first, last }) = range.filter(|_| days.len() > 2) {
        let named = |day| phrases.weekday(day).into();
        return phrases.with("days_range", [("first", named(first)), ("last", named(last))]);
    }
    let in_order = range.map_or_else(|| days.to_vec(), |range| range.days().collect());
    let names: Vec<_> = in_order.into_iter().map(|day| phrases.weekday(day)).collect();
    phrases.list(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn duration(phrases: Phrases<'_>, wait: Duration) -> String {
    let seconds = wait.as_secs();
    let units = [("days", 24 * 3_600), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
    let unit = units.into_iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (id, unit) = unit.unwrap_or(("seconds", 1));
    phrases.with(id, [("count", (seconds / unit).into())])
}
