//! Suggestions for a misspelt name.

use crate::limits;

/// Returns the known name that the word most resembles, if any comes close.
#[must_use]
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word comes close to no name, and to compare takes length times length.
    if word.len() > limits::ID_BYTES {
        return None;
    }
    let likeness = |name: &str| strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase());
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
