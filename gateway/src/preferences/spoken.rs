//! Cadences and times in a recipient's words.

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use tidings_mail::words::{Phrases, cadence};
use tidings_model::Cadence;

use super::often::Often;

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
        Often::Monthly => phrases.say("often_monthly"),
        Often::Exactly(said) => capitalized(&cadence(phrases, said)),
    }
}

/// Says a time: `tomorrow, Wed, Nov 25, 8:00 AM (Europe/Berlin)`.
pub(super) fn when(phrases: Phrases<'_>, at: Timestamp, zone: &TimeZone, zone_name: &str, now: Timestamp) -> String {
    let (at, now) = (zone.to_datetime(at), zone.to_datetime(now));
    let date = phrases.day(at.date(), now.year());
    let day = if at.date() == now.date() {
        phrases.with("today", [("date", date.into())])
    } else if now.date().saturating_add(1.day()) == at.date() {
        phrases.with("tomorrow", [("date", date.into())])
    } else {
        date
    };
    let time = phrases.time(at.time());
    phrases.with("when", [("day", day.into()), ("time", time.into()), ("zone", zone_name.into())])
}

/// Says a day of the month, from `1` on. The last one is 31, whatever the month.
pub(super) fn day_of_month(phrases: Phrases<'_>, day: u8) -> String {
    if day == 31 { phrases.say("last_day") } else { phrases.number(day.into()) }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
