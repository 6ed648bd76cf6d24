//! Suggestions for a misspelt name.

use tidings_model::nearest;

/// Returns `; did you mean "..."?` for the nearest name, or an empty string.
pub(super) fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(word, names).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}
