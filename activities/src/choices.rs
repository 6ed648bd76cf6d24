//! What recipients may choose: cadences, by kind or to the letter.

use std::{fmt, str::FromStr};

use tidings_workflows::{Cadence, ParseError};

/// The first words of all cadences. Recipients choose among all but the last, unless somebody says otherwise: its
/// schedules are an operator's tool.
const KINDS: [&str; 8] = ["instant", "after", "hourly", "daily", "weekdays", "weekly", "never", "cron"];

/// The cadences that a digest type offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices(Vec<Choice>);

/// One entry: `daily` is every cadence of that kind, `weekly mon 08:00` that one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Every cadence that begins with this word.
    Kind(&'static str),
    /// This one.
    Whole(Cadence),
}

impl Choices {
    /// Those of `tidings.toml`.
    #[must_use]
    pub const fn new(choices: Vec<Choice>) -> Self {
        Self(choices)
    }

    /// Whether a recipient may have this cadence.
    #[must_use]
    pub fn allows(&self, cadence: &Cadence) -> bool {
        let words = cadence.to_string();
        let kind = words.split(' ').next();
        self.0.iter().any(|choice| match choice {
            Choice::Kind(word) => kind == Some(word),
            Choice::Whole(whole) => whole == cadence,
        })
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[Choice] {
        &self.0
    }
}

/// Every kind but `cron`.
impl Default for Choices {
    fn default() -> Self {
        Self(KINDS.into_iter().filter(|kind| *kind != "cron").map(Choice::Kind).collect())
    }
}

impl FromStr for Choice {
    type Err = ParseError;

    /// # Errors
    /// The text is neither the first word of a cadence nor a whole one.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match KINDS.into_iter().find(|kind| *kind == text.trim()) {
            Some(kind) => Ok(Self::Kind(kind)),
            None => text.parse().map(Self::Whole),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(word) => f.write_str(word),
            Self::Whole(cadence) => cadence.fmt(f),
        }
    }
}

/// `"instant", "weekly mon 08:00"`.
impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, choice) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}\"{choice}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
