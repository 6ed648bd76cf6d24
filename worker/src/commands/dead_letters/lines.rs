//! Lines of a dead letter in words.

use std::fmt::Write as _;

pub(super) const BOLD: anstyle::Style = anstyle::Style::new().bold();

/// Adds a line with a name. A value that is empty has none.
pub(super) fn line(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name:<9} {value}");
    }
}
