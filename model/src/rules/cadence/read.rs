//! The grammar of cadences: what is read, and what is written back.

use std::{fmt, str::FromStr};

use super::{
    Cadence,
    cron::Cron,
    words::{day, day_name, duration, number, time, written},
};

/// Why some words are no cadence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cadence {text:?}: {problem}")]
pub struct ParseError {
    text: String,
    problem: String,
}

impl ParseError {
    /// The fault and the remedy, without the full text.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Each cadence's first word, with an example of the whole.
const EXAMPLES: [(&str, &str); 10] = [
    ("instant", "\"instant\" alone"),
    ("after", "\"after 60s\", with s, m, h or d"),
    ("sliding", "\"sliding 5m max 1h\", with s, m, h or d"),
    ("hourly", "\"hourly\" or \"hourly at :30\""),
    ("daily", "\"daily 08:00\""),
    ("weekdays", "\"weekdays 08:00\" or \"weekdays sun-thu 08:00\""),
    ("weekly", "\"weekly mon 08:00\""),
    ("monthly", "\"monthly 1 08:00\""),
    ("cron", "\"cron 0 9,17 * * mon-fri\""),
    ("never", "\"never\" alone"),
];

impl FromStr for Cadence {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let cadence = match text.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            ["instant"] => Ok(Self::Instant),
            ["after", wait] => duration(wait).map(Self::After),
            ["sliding", by, "max", max] => sliding(by, max),
            ["hourly"] => Ok(Self::Hourly(0)),
            ["hourly", "at", at] => minute(at).map(Self::Hourly),
            ["daily", at] => time(at).map(Self::Daily),
            ["weekdays", at] => time(at).map(|at| Self::Weekdays(None, at)),
            ["weekdays", days, at] => days.parse().and_then(|days| Ok(Self::Weekdays(Some(days), time(at)?))),
            ["weekly", on, at] => day(on).and_then(|day| Ok(Self::Weekly(day, time(at)?))),
            ["monthly", on, at] => day_of_month(on).and_then(|day| Ok(Self::Monthly(day, time(at)?))),
            ["cron", fields @ ..] => Cron::parse(fields).map(Self::Cron),
            ["never"] => Ok(Self::Never),
            [] => Err("is empty; write for example \"daily 08:00\"".to_owned()),
            [word, rest @ ..] => Err(unknown(word, rest)),
        };
        cadence.map_err(|problem| ParseError { text: text.to_owned(), problem })
    }
}

fn unknown(word: &str, rest: &[&str]) -> String {
    match EXAMPLES.iter().find(|(known, _)| *known == word) {
        Some((_, example)) if rest.is_empty() => format!("{word:?} is not all; write {example}"),
        Some((_, example)) => format!("{word:?} cannot be followed by {:?}; write {example}", rest.join(" ")),
        None => format!(
            "{word:?} is not a cadence; write \"instant\", \"after 60s\", \"sliding 5m max 1h\", \"hourly\", \
             \"daily 08:00\", \"weekdays 08:00\", \"weekly mon 08:00\", \"monthly 1 08:00\", \"cron 0 9,17 * * mon-fri\" or \"never\""
        ),
    }
}

fn sliding(by: &str, max: &str) -> Result<Cadence, String> {
    let (by, longest) = (duration(by)?, duration(max)?);
    if by > longest {
        return Err(format!("{max:?} is shorter than {:?}; write for example \"sliding 5m max 1h\"", written(by)));
    }
    Ok(Cadence::Sliding(by, longest))
}

/// `:30`.
fn minute(word: &str) -> Result<i8, String> {
    let digits = word.strip_prefix(':').filter(|digits| digits.len() == 2);
    digits
        .and_then(number)
        .filter(|minute| *minute < 60)
        .ok_or_else(|| format!("{word:?} is not a minute of the hour; write for example \":30\""))
}

/// `1` to `31`.
fn day_of_month(word: &str) -> Result<i8, String> {
    number(word).filter(|day| (1..=31).contains(day)).ok_or_else(|| {
        format!("{word:?} is not a day of the month; write 1 to 31, where 31 is the last day of every month")
    })
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant => f.write_str("instant"),
            Self::After(wait) => write!(f, "after {}", written(*wait)),
            Self::Sliding(by, max) => write!(f, "sliding {} max {}", written(*by), written(*max)),
            Self::Hourly(0) => f.write_str("hourly"),
            Self::Hourly(minute) => write!(f, "hourly at :{minute:02}"),
            Self::Daily(time) => write!(f, "daily {}", time.strftime("%H:%M")),
            Self::Weekdays(None, time) => write!(f, "weekdays {}", time.strftime("%H:%M")),
            Self::Weekdays(Some(days), time) => write!(f, "weekdays {days} {}", time.strftime("%H:%M")),
            Self::Weekly(day, time) => write!(f, "weekly {} {}", day_name(*day), time.strftime("%H:%M")),
            Self::Monthly(day, time) => write!(f, "monthly {day} {}", time.strftime("%H:%M")),
            Self::Cron(cron) => write!(f, "cron {cron}"),
            Self::Never => f.write_str("never"),
        }
    }
}

impl TryFrom<String> for Cadence {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl From<Cadence> for String {
    fn from(cadence: Cadence) -> Self {
        cadence.to_string()
    }
}
