//! Former names: the key `was` in a table.

use std::collections::BTreeMap;

use toml::Spanned;

use super::{
    checks::{Checks, SpannedList},
    keys::{ConfigValue, RawList, text_list, unless_empty},
};

/// Maps each former name to the current one, for all tables `[KIND.NAME]`. A former name must be unambiguous:
/// no other table has it, and it is listed only once. Returns `None` if one is wrong.
pub(super) fn check_former<'a>(
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

pub(super) fn with_former<T>(
    tables: &BTreeMap<String, Spanned<T>>,
    was: fn(&T) -> &RawList,
) -> impl Iterator<Item = (&str, Option<&SpannedList>)> {
    tables.iter().map(move |(name, raw)| (name.as_str(), was(raw.as_ref()).as_ref()))
}

/// Rejects `was` in a tenant's override, because the general table should have it.
pub(super) fn refuse(table: &str, was: Option<&SpannedList>, instead: &str, checks: &mut Checks<'_>) {
    if let Some(was) = was {
        checks.report_at(was, format!("{table}.was"), format!("is the same for every tenant; write it in {instead}"));
    }
}

pub(crate) fn former_names(former: &BTreeMap<String, String>, today: &str) -> Option<ConfigValue> {
    let was = former.iter().filter(|(_, name)| *name == today);
    unless_empty(text_list(was.map(|(former, _)| former)))
}
