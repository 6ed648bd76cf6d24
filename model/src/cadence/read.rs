//! The cadence grammar: parsing and printing.

use std::{fmt, str::FromStr};

use super::{
    Cadence,
    cron::CronSchedule,
    words::{day_name, format_duration, parse_day, parse_duration, parse_number, parse_time},
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cadence {text:?}: {problem}")]
pub struct ParseError {
    text: String,
    problem: String,
}

impl ParseError {
    /// The fault and its remedy, without the full text.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

closed_set! {
    pub enum CadenceKind {
        Instant = "instant",
        After = "after",
        Sliding = "sliding",
        Hourly = "hourly",
        Daily = "daily",
        Weekdays = "weekdays",
        Weekly = "weekly",
        Monthly = "monthly",
        Cron = "cron",
        Never = "never",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CadenceField {
    Time,
    Weekday,
    Date,
}

impl CadenceKind {
    /// `None` for `never` and kinds only operators can write.
    #[must_use]
    pub const fn fields(self) -> Option<&'static [CadenceField]> {
        match self {
            Self::Instant | Self::Hourly => Some(&[]),
            Self::Daily | Self::Weekdays => Some(&[CadenceField::Time]),
            Self::Weekly => Some(&[CadenceField::Weekday, CadenceField::Time]),
            Self::Monthly => Some(&[CadenceField::Date, CadenceField::Time]),
            Self::After | Self::Sliding | Self::Cron | Self::Never => None,
        }
    }

    const fn example(self) -> (&'static str, &'static str) {
        match self {
            Self::Instant => ("instant", " alone"),
            Self::After => ("after 60s", ", with s, m, h or d"),
            Self::Sliding => ("sliding 5m max 1h", ", with s, m, h or d"),
            Self::Hourly => ("hourly", " or \"hourly at :30\""),
            Self::Daily => ("daily 08:00", ""),
            Self::Weekdays => ("weekdays 08:00", " or \"weekdays sun-thu 08:00\""),
            Self::Weekly => ("weekly mon 08:00", ""),
            Self::Monthly => ("monthly 1 08:00", ""),
            Self::Cron => ("cron 0 9,17 * * mon-fri", ""),
            Self::Never => ("never", " alone"),
        }
    }
}

impl Cadence {
    #[must_use]
    pub const fn kind(&self) -> CadenceKind {
        match self {
            Self::Instant => CadenceKind::Instant,
            Self::After(_) => CadenceKind::After,
            Self::Sliding(..) => CadenceKind::Sliding,
            Self::Hourly(_) => CadenceKind::Hourly,
            Self::Daily(_) => CadenceKind::Daily,
            Self::Weekdays(..) => CadenceKind::Weekdays,
            Self::Weekly(..) => CadenceKind::Weekly,
            Self::Monthly(..) => CadenceKind::Monthly,
            Self::Cron(_) => CadenceKind::Cron,
            Self::Never => CadenceKind::Never,
        }
    }

    /// E.g. `08:00`, `mon` or `1`. `None` if this kind does not have the field.
    #[must_use]
    pub fn field_text(&self, field: CadenceField) -> Option<String> {
        match (field, self) {
            (CadenceField::Time, _) => self.configured_time().map(|time| time.strftime("%H:%M").to_string()),
            (CadenceField::Weekday, Self::Weekly(day, _)) => Some(day_name(*day).to_owned()),
            (CadenceField::Date, Self::Monthly(day, _)) => Some(day.to_string()),
            _ => None,
        }
    }
}

impl FromStr for Cadence {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        parse_cadence(&words).map_err(|problem| ParseError { text: text.to_owned(), problem })
    }
}

fn parse_cadence(words: &[&str]) -> Result<Cadence, String> {
    use CadenceKind as Kind;
    let [word, rest @ ..] = words else { return Err("is empty; write for example \"daily 08:00\"".to_owned()) };
    let kind = Kind::named(word).ok_or_else(|| {
        let [examples @ .., last] = Kind::ALL.map(|kind| format!("{:?}", kind.example().0));
        format!("{word:?} is not a cadence; write {} or {last}", examples.join(", "))
    })?;
    Ok(match (kind, rest) {
        (Kind::Instant, []) => Cadence::Instant,
        (Kind::After, [wait]) => Cadence::After(parse_duration(wait)?),
        (Kind::Sliding, [by, "max", max]) => parse_sliding(by, max)?,
        (Kind::Hourly, []) => Cadence::Hourly(0),
        (Kind::Hourly, ["at", at]) => Cadence::Hourly(parse_minute(at)?),
        (Kind::Daily, [at]) => Cadence::Daily(parse_time(at)?),
        (Kind::Weekdays, [at]) => Cadence::Weekdays(None, parse_time(at)?),
        (Kind::Weekdays, [days, at]) => Cadence::Weekdays(Some(days.parse()?), parse_time(at)?),
        (Kind::Weekly, [on, at]) => Cadence::Weekly(parse_day(on)?, parse_time(at)?),
        (Kind::Monthly, [on, at]) => Cadence::Monthly(day_of_month(on)?, parse_time(at)?),
        (Kind::Cron, fields) => Cadence::Cron(CronSchedule::parse(fields)?),
        (Kind::Never, []) => Cadence::Never,
        (kind, rest) => {
            let (example, more) = kind.example();
            let problem = match rest {
                [] => "is not all".to_owned(),
                rest => format!("cannot be followed by {:?}", rest.join(" ")),
            };
            return Err(format!("{word:?} {problem}; write {example:?}{more}"));
        }
    })
}

fn parse_sliding(by: &str, max: &str) -> Result<Cadence, String> {
    let (by, longest) = (parse_duration(by)?, parse_duration(max)?);
    if by > longest {
        return Err(format!(
            "{max:?} is shorter than {:?}; write for example \"sliding 5m max 1h\"",
            format_duration(by)
        ));
    }
    Ok(Cadence::Sliding(by, longest))
}

/// Parses `:30`.
fn parse_minute(word: &str) -> Result<i8, String> {
    let digits = word.strip_prefix(':').filter(|digits| digits.len() == 2);
    digits
        .and_then(parse_number)
        .filter(|minute| *minute < 60)
        .ok_or_else(|| format!("{word:?} is not a minute of the hour; write for example \":30\""))
}

fn day_of_month(word: &str) -> Result<i8, String> {
    parse_number(word).filter(|day| (1..=31).contains(day)).ok_or_else(|| {
        format!("{word:?} is not a day of the month; write 1 to 31, where 31 is the last day of every month")
    })
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self {
            Self::After(wait) => write!(f, " {}", format_duration(*wait))?,
            Self::Sliding(by, max) => write!(f, " {} max {}", format_duration(*by), format_duration(*max))?,
            Self::Hourly(minute @ 1..) => write!(f, " at :{minute:02}")?,
            Self::Weekdays(Some(days), _) => write!(f, " {days}")?,
            Self::Cron(cron) => write!(f, " {cron}")?,
            _ => {}
        }
        let fields = self.kind().fields().unwrap_or_default();
        fields.iter().filter_map(|field| self.field_text(*field)).try_for_each(|word| write!(f, " {word}"))
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
