//! Summed counts, as templates see them: by name, and in words with a tone that the layout has a colour for.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{clean, view::NAME_CHARS, words};

/// A count in words.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// `2 critical`, `1 warning`.
    pub label: String,
    /// How it feels.
    pub tone: Tone,
}

/// How a count feels, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Bad,
    Warn,
    Plain,
    Good,
}

impl Tone {
    /// By the count's name.
    fn of(name: &str) -> Self {
        match name {
            "critical" | "failed" | "failure" | "failures" | "error" | "errors" | "down" | "fatal" => Self::Bad,
            "warning" | "warnings" | "degraded" | "unstable" | "flaky" | "skipped" => Self::Warn,
            "passed" | "resolved" | "recovered" | "fixed" => Self::Good,
            _ => Self::Plain,
        }
    }
}

/// Those of `counts` that are not zero, in words, by tone and then by name.
pub(super) fn sums(counts: &BTreeMap<String, i64>) -> Vec<Sum> {
    let mut sums: Vec<_> = counts
        .iter()
        .filter(|(_, n)| **n != 0)
        .map(|(name, n)| Sum {
            label: words::tally(&clean::text(name, NAME_CHARS), i128::from(*n)),
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

    #[test]
    fn the_worst_comes_first_and_nothing_is_not_mentioned() {
        let counts = [("passed", 40), ("files", 3), ("flaky", 0), ("warnings", 1), ("critical", 2)];
        let counts = counts.map(|(name, n)| (name.to_owned(), n)).into();
        let labels: Vec<_> = sums(&counts).into_iter().map(|sum| sum.label).collect();
        assert_eq!(labels, ["2 critical", "1 warning", "3 files", "40 passed"]);
    }
}
