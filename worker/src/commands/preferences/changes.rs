//! The changes of `tidings preferences set`.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tidings_model::records::Preferences;

use crate::args::later;

/// For `--quiet`: no quiet times, whatever the digest type has.
pub(super) const NONE: &str = "none";

/// Flag by flag. What is not named stays.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Changes {
    /// The cadence, as tidings.toml writes it: `daily 08:00`
    #[arg(long, value_name = "WORDS")]
    cadence: Option<String>,
    /// IANA time zone, over the directory's
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// The time of day of `daily`, `weekdays`, `weekly` and `monthly`
    #[arg(long, value_name = "HH:MM")]
    at: Option<String>,
    /// A quiet time that replaces the digest type's; `none` for no quiet times. Repeat the option for several
    #[arg(long, value_name = "WORDS")]
    quiet: Vec<String>,
    /// A category to leave out. Repeat the option for several
    #[arg(long, value_name = "CATEGORY")]
    off: Vec<String>,
    /// A category to include again. Repeat the option for several
    #[arg(long, value_name = "CATEGORY")]
    on: Vec<String>,
    /// Pauses all messages until then: a time as in RFC 3339, or a span from now as in `14d`
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pause_until: Option<Timestamp>,
    /// Ends the pause
    #[arg(long, conflicts_with = "pause_until")]
    resume: bool,
    /// A setting to reset to the configuration. Repeat the option for several
    #[arg(long, value_name = "FIELD", value_enum)]
    clear: Vec<Field>,
}

/// A setting that `--clear` resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Field {
    Cadence,
    Zone,
    At,
    Quiet,
    Off,
    Pause,
}

impl Changes {
    /// Applies the changes. A pause that is over is removed in any case.
    pub fn over(self, mut chosen: Preferences, now: Timestamp) -> Preferences {
        for field in &self.clear {
            match field {
                Field::Cadence => chosen.cadence = None,
                Field::Zone => chosen.zone = None,
                Field::At => chosen.at = None,
                Field::Quiet => chosen.quiet = None,
                Field::Off => chosen.off.clear(),
                Field::Pause => chosen.paused_until = None,
            }
        }
        chosen.off.extend(self.off);
        chosen.off.retain(|category| !self.on.contains(category));
        let kept = chosen.paused_until.filter(|until| *until > now && !self.resume);
        Preferences {
            cadence: self.cadence.or(chosen.cadence),
            zone: self.zone.or(chosen.zone),
            at: self.at.or(chosen.at),
            quiet: quiet(self.quiet).or(chosen.quiet),
            off: chosen.off,
            paused_until: self.pause_until.or(kept),
        }
    }
}

fn pause(text: &str) -> Result<Timestamp, String> {
    // A span from now has fractions that the recipient did not choose.
    let until = later(text)?;
    Ok(Timestamp::from_second(until.as_second()).unwrap_or(until))
}

/// `None`: nothing is said about it. `none` alone is no quiet time at all.
pub(super) fn quiet(words: Vec<String>) -> Option<Vec<String>> {
    match words.as_slice() {
        [] => None,
        [none] if none == NONE => Some(Vec::new()),
        _ => Some(words),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_pause_ends_at_a_time_or_after_a_span_with_days() {
        let days = |days: i64| Timestamp::now() + SignedDuration::from_hours(24 * days);
        let until = pause("14d").unwrap();
        assert!(days(13) < until && until < days(15) && until.subsec_nanosecond() == 0, "{until}");
        assert!(pause("2h 30m").unwrap() < days(1));
        assert_eq!(pause("2126-12-01T08:00:00Z").unwrap().to_string(), "2126-12-01T08:00:00Z");
        assert_eq!(pause("9999-12-31T23:59:59Z").unwrap().to_string(), "9999-12-30T22:00:00Z");
        assert!(pause("soon").is_err() && pause("2001-01-01T00:00:00Z").is_err());
    }

    #[test]
    fn a_change_clears_before_it_sets_and_keeps_the_rest() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now + SignedDuration::from_hours(1);
        let chosen = Preferences {
            cadence: Some("daily 08:00".into()),
            zone: Some("Asia/Tokyo".into()),
            quiet: Some(words(&["22:00-07:00"])),
            off: ["share".to_owned(), "like".to_owned()].into(),
            paused_until: Some(later),
            ..Preferences::default()
        };
        assert_eq!(Changes::default().over(chosen.clone(), now), chosen);
        let changes = Changes {
            cadence: Some("hourly".into()),
            quiet: words(&["none"]),
            off: words(&["mention"]),
            on: words(&["like", "nothing"]),
            resume: true,
            clear: vec![Field::Zone, Field::Cadence],
            ..Changes::default()
        };
        let expected = Preferences {
            cadence: Some("hourly".into()),
            quiet: Some(Vec::new()),
            off: ["share".to_owned(), "mention".to_owned()].into(),
            ..Preferences::default()
        };
        assert_eq!(changes.over(chosen.clone(), now), expected);
        assert_eq!(Changes::default().over(chosen, later).paused_until, None, "a pause that is over");
    }
}
