//! Summed counts as templates receive them: by name, and as text with a tone that has a colour in the layout.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{clean, clean::NAME_CHARS, words};
use crate::words::Phrases;

/// A count as text.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// `2 critical`, `1 warning`.
    pub label: String,
    /// The tone of the count.
    pub tone: Tone,
}

/// The tone of a count, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Bad,
    Warn,
    Plain,
    Good,
}

impl Tone {
    /// Derives the tone from the name of the count.
    fn of(name: &str) -> Self {
        match name {
            "critical" | "failed" | "failure" | "failures" | "error" | "errors" | "down" | "fatal" => Self::Bad,
            "warning" | "warnings" | "degraded" | "unstable" | "flaky" | "skipped" => Self::Warn,
            "passed" | "resolved" | "recovered" | "fixed" => Self::Good,
            _ => Self::Plain,
        }
    }
}

/// Returns the counts that are not zero as text, ordered by tone and then by name.
pub(super) fn sums(phrases: Phrases<'_>, counts: &BTreeMap<String, i64>) -> Vec<Sum> {
    let mut sums: Vec<_> = counts
        .iter()
        .filter(|(_, n)| **n != 0)
        .map(|(name, n)| Sum {
            label: words::tally(phrases, &clean::text(name, NAME_CHARS), i128::from(*n)),
            tone: Tone::of(name),
        })
        .collect();
    // Stable: the names are in order already.
    sums.sort_by_key(|sum| sum.tone);
    sums
}

/// Counts, serialized with clean names.
pub(super) struct Counts<'a>(pub &'a BTreeMap<String, i64>);

impl Serialize for Counts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, n)| (clean::text(name, NAME_CHARS), n)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Words;

    #[test]
    fn the_worst_comes_first_and_nothing_is_not_mentioned() {
        let counts = [("passed", 40), ("files", 3), ("flaky", 0), ("warnings", 1), ("critical", 2)];
        let counts = counts.map(|(name, n)| (name.to_owned(), n)).into();
        let words = Words::new(None).unwrap();
        let labels: Vec<_> = sums(words.choose([]), &counts).into_iter().map(|sum| sum.label).collect();
        assert_eq!(labels, ["2 critical", "1 warning", "3 files", "40 passed"]);
    }
}
