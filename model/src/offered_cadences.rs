//! Cadences a recipient may choose: a whole kind or an exact one.

use std::{fmt, str::FromStr};

use crate::{Cadence, CadenceKind, ParseError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedCadences(Vec<OfferedCadence>);

/// E.g. `daily` allows every cadence of this kind, `weekly mon 08:00` only this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferedCadence {
    Kind(CadenceKind),
    Whole(Cadence),
}

impl OfferedCadences {
    #[must_use]
    pub const fn new(choices: Vec<OfferedCadence>) -> Self {
        Self(choices)
    }

    #[must_use]
    pub fn allows(&self, cadence: &Cadence) -> bool {
        self.0.iter().any(|choice| match choice {
            OfferedCadence::Kind(kind) => *kind == cadence.kind(),
            OfferedCadence::Whole(whole) => whole == cadence,
        })
    }

    #[must_use]
    pub fn entries(&self) -> &[OfferedCadence] {
        &self.0
    }
}

/// Everything except `cron`, which is for operators.
impl Default for OfferedCadences {
    fn default() -> Self {
        Self(CadenceKind::ALL.into_iter().filter(|kind| *kind != CadenceKind::Cron).map(OfferedCadence::Kind).collect())
    }
}

impl FromStr for OfferedCadence {
    type Err = ParseError;

    /// # Errors
    /// The text is neither the first word of a cadence nor a complete one.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match CadenceKind::named(text.trim()) {
            Some(kind) => Ok(Self::Kind(kind)),
            None => text.parse().map(Self::Whole),
        }
    }
}

impl fmt::Display for OfferedCadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Whole(cadence) => cadence.fmt(f),
        }
    }
}

impl fmt::Display for OfferedCadences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, choice) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}\"{choice}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CADENCES: [&str; 10] = [
        "instant",
        "after 60s",
        "sliding 5m max 1h",
        "hourly at :30",
        "daily 08:00",
        "weekdays 08:00",
        "weekly mon 08:00",
        "monthly 1 08:00",
        "never",
        "cron 0 9 * * *",
    ];

    fn choices(words: &[&str]) -> OfferedCadences {
        OfferedCadences::new(words.iter().map(|words| words.parse().unwrap()).collect())
    }

    #[test]
    fn every_kind_except_cron_is_offered_by_default() {
        for words in CADENCES {
            assert_eq!(
                OfferedCadences::default().allows(&words.parse().unwrap()),
                !words.starts_with("cron"),
                "{words}"
            );
        }
    }

    #[test]
    fn a_kind_offers_all_its_cadences_and_a_cadence_only_itself() {
        let choices = choices(&["instant", "daily", "weekly mon 08:00", "weekdays sun-thu 08:00", "cron"]);
        for (words, allowed) in [
            ("instant", true),
            ("daily 23:59", true),
            ("weekly mon 08:00", true),
            ("weekly mon 08:01", false),
            ("weekly tue 08:00", false),
            ("weekdays 08:00", false),
            ("weekdays sun-thu 08:00", true),
            ("weekdays sun-wed 08:00", false),
            ("cron 0 9 * * *", true),
            ("never", false),
        ] {
            assert_eq!(choices.allows(&words.parse().unwrap()), allowed, "{words}");
        }
        assert_eq!(choices.to_string(), r#""instant", "daily", "weekly mon 08:00", "weekdays sun-thu 08:00", "cron""#);
        assert!(!OfferedCadences::new(Vec::new()).allows(&Cadence::Instant));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        for words in ["", "dayly", "daily 25:00", "weekly mon"] {
            assert!(words.parse::<OfferedCadence>().is_err(), "{words:?}");
        }
    }
}
