//! Categories, from `[digest.NAME.category.CATEGORY]`.

use std::collections::BTreeMap;

use tidings_model::{
    settings::{CategorySettings, DigestCategories, DigestSettings, SectionHeading},
    words,
};

use super::{
    checks::{Checks, name, whole},
    former,
    keys::{
        ConfigTable, ConfigValue, RawList, RawNumber, RawText, TableEntry, TableKeys as _, ToConfigValue as _,
        ToTable as _, table,
    },
    problem::ConfigProblem,
};

const HIGHEST: u32 = 100;

table! {
    /// The keys of `[digest.NAME.category.CATEGORY]`.
    pub(super) struct RawCategory for category: CategorySettings, read() {
        was: apart(RawList), shown None;
        title: apart(RawText), shown category.section.as_ref().and_then(|section| section.title.show());
        section: apart(RawText), shown None;
        priority: apart(RawNumber);
        min_count: number(whole(u32::MAX));
        max_age: text(words::parse_duration);
    }
}

impl TableEntry for RawCategory {
    /// Keeps the former names from `base` if this entry has none.
    fn over(self, base: &Self) -> Self {
        Self { was: self.was.or_else(|| base.was.clone()), ..self }
    }

    /// The first key's place; empty without keys.
    fn place(&self, checks: &Checks<'_>) -> String {
        let origins = self.origins("", checks);
        let keys = ["title", "section", "max_age", "priority", "min_count", "was"];
        keys.into_iter().find_map(|key| origins.get(key)).map(|origin| origin.place.clone()).unwrap_or_default()
    }
}

/// Leaves out entries under former names.
pub(super) fn current_entries<'a, T: Clone>(
    entries: &'a BTreeMap<String, T>,
    digest: &'a DigestSettings,
) -> impl Iterator<Item = (String, T)> + 'a {
    let todays = entries.iter().filter(|(name, _)| !digest.former_categories.contains_key(*name));
    todays.map(|(name, value)| (name.clone(), value.clone()))
}

pub(super) fn show(digest: &DigestSettings) -> Option<ConfigValue> {
    let categories = current_entries(&digest.category.named, digest).map(|(name, category)| {
        let mut shown = category.to_table();
        shown.insert_first("was", former::former_names(&digest.former_categories, &name));
        (name, ConfigValue::Table(shown))
    });
    categories.collect::<ConfigTable>().unless_empty()
}

/// Maps former names to today's. Returns `None` if one is wrong.
pub(super) fn check_former_names(
    table: &str,
    all: &BTreeMap<String, RawCategory>,
    checks: &mut Checks<'_>,
) -> Option<BTreeMap<String, String>> {
    former::check_former(table, all.iter().map(|(name, raw)| (name.as_str(), raw.was.as_ref())), checks)
}

/// Adds the values under former names, too.
pub(super) fn under_any_name<T: Clone>(
    mut values: BTreeMap<String, T>,
    former: &BTreeMap<String, String>,
) -> BTreeMap<String, T> {
    for (name, today) in former {
        if let Some(value) = values.get(today).cloned() {
            values.insert(name.clone(), value);
        }
    }
    values
}

/// Missing keys come from `others`. If the type has no `max_age`, the longest in a table also applies to
/// categories without one: if some have a limit, nobody will expect years-old events in the rest. Returns
/// `None` if a value is wrong.
pub(super) fn check(
    table: &str,
    all: &BTreeMap<String, RawCategory>,
    others: CategorySettings,
    checks: &mut Checks<'_>,
) -> Option<DigestCategories> {
    let mut checked = Vec::new();
    for (name, raw) in all {
        let place = raw.place(checks);
        checks.report_star(table, name, place, "write `max_age` and `min_count` without a category");
        let own = check_one(&format!("{table}.{name}"), name, raw, all, checks).map(|own| CategorySettings {
            min_count: own.min_count.or(others.min_count),
            max_age: own.max_age.or(others.max_age),
            ..own
        });
        checked.push(own.map(|own| (name.clone(), own)));
    }
    let named: BTreeMap<_, CategorySettings> = checked.into_iter().collect::<Option<_>>()?;
    let longest = named.values().filter_map(|category| category.max_age).max();
    let others = CategorySettings { max_age: others.max_age.or(longest), ..others };
    Some(DigestCategories { named, others })
}

fn check_one(
    table: &str,
    category: &str,
    raw: &RawCategory,
    all: &BTreeMap<String, RawCategory>,
    checks: &mut Checks<'_>,
) -> Option<CategorySettings> {
    let (section, priority) = resolve_section(table, category, raw, all, checks)?;
    let mut category = CategorySettings { section, priority, ..CategorySettings::default() };
    raw.read(table, &mut category, checks);
    Some(category)
}

/// With `section`, heading and priority come from this other category.
fn resolve_section(
    table: &str,
    category: &str,
    raw: &RawCategory,
    all: &BTreeMap<String, RawCategory>,
    checks: &mut Checks<'_>,
) -> Option<(Option<SectionHeading>, u32)> {
    let Some(section) = &raw.section else { return Some(own_place(table, category, raw, checks)) };
    let title = raw.title.as_ref().map(|title| ("title", checks.place_of(title)));
    let priority = raw.priority.as_ref().map(|priority| ("priority", checks.place_of(priority)));
    for (key, place) in title.into_iter().chain(priority) {
        let problem = "comes from the section; remove this key, or `section`";
        checks.report(ConfigProblem::new(place, format!("{table}.{key}"), problem));
    }
    let head = checks.text(&format!("{table}.section"), Some(section), |name| match all.get(name) {
        Some(head) if head.title.is_some() && head.section.is_none() => Ok(name.to_owned()),
        _ => Err("is not a category with a `title` of its own".to_owned()),
    })?;
    Some(own_place(table, &head, all.get(&head)?, checks))
}

fn own_place(table: &str, category: &str, raw: &RawCategory, checks: &mut Checks<'_>) -> (Option<SectionHeading>, u32) {
    let title = checks.text(&format!("{table}.title"), raw.title.as_ref(), name);
    let priority = checks.number(&format!("{table}.priority"), raw.priority.as_ref(), whole(HIGHEST));
    (title.map(|title| SectionHeading::new(category, &title)), priority.unwrap_or_default())
}
