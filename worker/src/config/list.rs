//! Lists in `tidings.toml`, whose entries each have a place of their own.

use toml::Spanned;

use super::problem::Checks;

/// A list whose entries are checked one by one.
pub(super) type SpannedList = Spanned<Vec<Spanned<String>>>;

/// Parses every entry and reports each wrong one; `None` if any was wrong.
pub(super) fn parse_each<T>(
    key: &str,
    raw: &SpannedList,
    checks: &mut Checks<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<Vec<T>> {
    let entries: Vec<_> = raw.as_ref().iter().map(|entry| checks.value(key, Some(entry), &parse)).collect();
    entries.into_iter().collect()
}
