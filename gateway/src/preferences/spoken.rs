//! Cadences and times in a recipient's words.

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use tidings_mail::words::{Phrases, cadence, days};
use tidings_model::{Cadence, CadenceKind, cadence::DayRange};

use super::often::Often;

/// Says an entry of the list to a recipient with these working days. `default` is the digest type's cadence, and `present` the one in
/// force.
pub(super) fn often(
    phrases: Phrases<'_>,
    often: &Often,
    default: &Cadence,
    present: &Cadence,
    working_days: DayRange,
) -> String {
    let cadence = |said: &Cadence| cadence(phrases, &said.clone().on_working_days(|| working_days));
    let with = |id, said: &Cadence| phrases.with(id, [("cadence", cadence(said).into())]);
    match often {
        Often::Default => with("often_default", default),
        Often::Kept => with("often_kept", present),
        Often::Kind(CadenceKind::Weekdays) if working_days != DayRange::MONDAY_TO_FRIDAY => {
            capitalized(&days(phrases, &working_days.days().collect::<Vec<_>>()))
        }
        Often::Kind(kind) => phrases.say(&format!("often_{kind}")),
        Often::Exactly(said) => capitalized(&cadence(said)),
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

#[cfg(test)]
mod tests {
    use tidings_mail::words::Words;

    use super::*;

    #[test]
    fn an_entry_says_the_working_days_of_the_recipient() {
        let words = Words::new(None).unwrap();
        let phrases = words.choose(["en-GB"]);
        let (default, sliding) = ("weekdays 08:00".parse().unwrap(), "sliding 5m max 1h".parse().unwrap());
        for (entry, days, said) in [
            ("weekdays", "mon-fri", "Monday to Friday"),
            ("weekdays", "sun-thu", "Sunday to Thursday"),
            ("default", "sun-thu", "As usual: Sunday to Thursday at 08:00"),
            ("default", "mon-fri", "As usual: Monday to Friday at 08:00"),
            ("=weekdays 09:00", "sun-thu", "Sunday to Thursday at 09:00"),
            ("=weekdays mon-fri 09:00", "sun-thu", "Monday to Friday at 09:00"),
            ("=cron 0 8 * * sat,sun", "sun-thu", "Saturday and Sunday at 08:00"),
        ] {
            let entry = Often::read(entry).unwrap();
            assert_eq!(often(phrases, &entry, &default, &sliding, days.parse().unwrap()), said);
        }
    }
}
