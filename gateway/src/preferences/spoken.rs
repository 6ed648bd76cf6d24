//! Cadences and times in a recipient's words.

use std::time::Duration;

use jiff::{Timestamp, ToSpan as _, civil::Time, tz::TimeZone};
use tidings_mail::words::Phrases;
use tidings_model::{Cadence, words};

use super::often::Often;

/// Says a cadence.
pub(super) fn cadence(phrases: Phrases<'_>, cadence: &Cadence) -> String {
    let clock = |time: &Time| time.strftime("%H:%M").to_string().into();
    match cadence {
        Cadence::Instant => phrases.say("cadence_instant"),
        Cadence::After(wait) => phrases.with("cadence_after", [("wait", duration(phrases, *wait).into())]),
        Cadence::Sliding(wait, most) => {
            let (wait, most) = (duration(phrases, *wait).into(), duration(phrases, *most).into());
            phrases.with("cadence_sliding", [("wait", wait), ("most", most)])
        }
        Cadence::Hourly(0) => phrases.say("often_hourly"),
        Cadence::Hourly(minute) => phrases.with("cadence_hourly", [("minute", (*minute).into())]),
        Cadence::Daily(time) => phrases.with("cadence_daily", [("time", clock(time))]),
        Cadence::Weekdays(time) => phrases.with("cadence_weekdays", [("time", clock(time))]),
        Cadence::Weekly(day, time) => {
            let day = phrases.say(words::day_name(*day)).into();
            phrases.with("cadence_weekly", [("day", day), ("time", clock(time))])
        }
        Cadence::Cron(_) => phrases.say("cadence_cron"),
        Cadence::Never => phrases.say("cadence_never"),
    }
}

/// Says an entry of the list. `default` is the digest type's cadence, and `present` the one in force.
pub(super) fn often(phrases: Phrases<'_>, often: &Often, default: &Cadence, present: &Cadence) -> String {
    let with = |id, said: &Cadence| phrases.with(id, [("cadence", cadence(phrases, said).into())]);
    match often {
        Often::Default => with("often_default", default),
        Often::Kept => with("often_kept", present),
        Often::Instant => phrases.say("often_instant"),
        Often::Hourly => phrases.say("often_hourly"),
        Often::Daily => phrases.say("often_daily"),
        Often::Weekdays => phrases.say("often_weekdays"),
        Often::Weekly => phrases.say("often_weekly"),
        Often::Exactly(said) => capitalized(&cadence(phrases, said)),
    }
}

/// Says a time: `tomorrow, Wed 25 Nov 08:00 (Europe/Berlin)`.
pub(super) fn when(phrases: Phrases<'_>, at: Timestamp, zone: &TimeZone, zone_name: &str, now: Timestamp) -> String {
    let (at, now) = (zone.to_datetime(at), zone.to_datetime(now));
    let weekday = words::day_name(at.weekday());
    let date = phrases.with(
        "date",
        [
            ("weekday", phrases.say(&format!("{weekday}_short")).into()),
            ("day", at.day().to_string().into()),
            ("month", phrases.say(&format!("month_{}", at.month())).into()),
        ],
    );
    let day = if at.date() == now.date() {
        phrases.with("today", [("date", date.into())])
    } else if now.date().saturating_add(1.day()) == at.date() {
        phrases.with("tomorrow", [("date", date.into())])
    } else {
        date
    };
    let time = at.strftime("%H:%M").to_string();
    phrases.with("when", [("day", day.into()), ("time", time.into()), ("zone", zone_name.into())])
}

fn duration(phrases: Phrases<'_>, wait: Duration) -> String {
    let seconds = wait.as_secs();
    let units = [("days", 24 * 3_600), ("hours", 3_600), ("minutes", 60), ("seconds", 1)];
    let unit = units.into_iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (id, unit) = unit.unwrap_or(("seconds", 1));
    phrases.with(id, [("count", (seconds / unit).into())])
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
