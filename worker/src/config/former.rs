//! `was`: the names that a table had before.

use std::collections::BTreeMap;

use toml::Spanned;

use super::{
    checks::{Checks, SpannedList},
    keys::{List, Shown, texts, unless_empty},
};

/// Checks the former names of all tables `[KIND.NAME]`, and returns today's name by former one; `None` if one is wrong. A former name
/// must mean one thing: it is neither that of another table nor in two lists.
pub(super) fn check<'a>(
    kind: &str,
    tables: impl Iterator<Item = (&'a str, Option<&'a SpannedList>)>,
    checks: &mut Checks<'_>,
) -> Option<BTreeMap<String, String>> {
    let tables: Vec<_> = tables.collect();
    let mut former: BTreeMap<String, String> = BTreeMap::new();
    let mut is_right = true;
    for (today, was) in &tables {
        for name in was.iter().flat_map(|was| was.as_ref()) {
            let refused = |text: &str| match former.get(text) {
                _ if text.is_empty() => Some("is empty; write the name that the table had".to_owned()),
                _ if text == *today => Some("is the name that the table has; remove it".to_owned()),
                _ if tables.iter().any(|(other, _)| *other == text) => {
                    Some(format!("is the name of another table, [{kind}.{text}]; remove one of them"))
                }
                Some(other) => Some(format!("was the name of [{kind}.{other}] already; remove one of them")),
                None => None,
            };
            let checked = checks.text(&format!("{kind}.{today}.was"), Some(name), |text| {
                refused(text).map_or_else(|| Ok(text.to_owned()), Err)
            });
            match checked {
                Some(name) => drop(former.insert(name, (*today).to_owned())),
                None => is_right = false,
            }
        }
    }
    is_right.then_some(former)
}

/// Tables with the names that they had before.
pub(super) fn of<T>(
    tables: &BTreeMap<String, Spanned<T>>,
    was: fn(&T) -> &List,
) -> impl Iterator<Item = (&str, Option<&SpannedList>)> {
    tables.iter().map(move |(name, raw)| (name.as_str(), was(raw.as_ref()).as_ref()))
}

/// Refuses former names in a table that only overrides one of another name.
pub(super) fn refuse(table: &str, was: Option<&SpannedList>, instead: &str, checks: &mut Checks<'_>) {
    if let Some(was) = was {
        checks.fault(was, format!("{table}.was"), format!("is the same for every tenant; write it in {instead}"));
    }
}

/// The names that `today` had before, if there are any.
pub(crate) fn was(former: &BTreeMap<String, String>, today: &str) -> Option<Shown> {
    let was = former.iter().filter(|(_, name)| *name == today);
    unless_empty(texts(was.map(|(former, _)| former)))
}
