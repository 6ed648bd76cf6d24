//! Lines and sections of a message.

use std::time::Duration;

use tidings_model::settings::{CategorySettings, DigestCategories, SectionHeading};

use super::{problems_of, read};

const DAY: Duration = Duration::from_hours(24);

/// A digest type with these lines.
fn with(lines: &str) -> String {
    format!("[digest.a]\ncadence = \"instant\"\n{lines}")
}

#[test]
fn a_category_has_a_section_or_stands_in_that_of_another_one() {
    let lines = "[digest.a.category.change]\ntitle = \"Code\"\npriority = 2\n[digest.a.category.fix]\n\
                 section = \"change\"\n[digest.a.category.noise]\npriority = 1\nmin_count = 3\nmax_age = \"1d\"";
    let config = read(&with(lines), &[]).unwrap();
    let section = Some(SectionHeading::new("change", "Code"));
    let code = CategorySettings { section, priority: 2, ..CategorySettings::default() };
    let noise = CategorySettings { priority: 1, min_count: Some(3), max_age: Some(DAY), ..CategorySettings::default() };
    let expected = [("change", code.clone()), ("fix", code), ("noise", noise)];
    // A type without a `max_age` has the longest of its categories for those that nobody named.
    let others = CategorySettings { max_age: Some(DAY), ..CategorySettings::default() };
    assert_eq!(config.digests["a"].category, DigestCategories { others, ..DigestCategories::from_iter(expected) });
}

#[test]
fn a_mistake_is_reported_with_its_remedy() {
    let alone = "is not a category with a `title` of its own";
    for (lines, said) in [
        (
            "[digest.a.category.x]\nsection = \"y\"",
            format!("tidings.toml:4: digest.a.category.x.section = \"y\": {alone}"),
        ),
        (
            "category.x.section = \"y\"\ncategory.y.priority = 1",
            format!("digest.a.category.x.section = \"y\": {alone}"),
        ),
        (
            "category.x = { section = \"y\", title = \"X\" }\ncategory.y.title = \"Y\"",
            "tidings.toml:3: digest.a.category.x.title: comes from the section; remove this key, or `section`".into(),
        ),
        (
            "category.x.priority = 101",
            "digest.a.category.x.priority = \"101\": write a whole number from 1 to 100".into(),
        ),
        ("min_count = 0", "digest.a.min_count = \"0\": write a whole number from 1".into()),
        ("max_age = \"1\"", "digest.a.max_age = \"1\": \"1\" is not a duration".into()),
        ("items_per_line = 11", "digest.a.items_per_line = \"11\": write a whole number from 1 to 10".into()),
        ("category.x.min_count = 0", "digest.a.category.x.min_count = \"0\": write a whole number from 1".into()),
        ("category.x.max_age = \"1\"", "digest.a.category.x.max_age = \"1\": \"1\" is not a duration".into()),
        ("category.x.titel = \"X\"", "titel: no such key; did you mean \"title\"?".into()),
    ] {
        let found = problems_of(&with(lines));
        assert!(found.contains(&said), "{lines}: {found}");
    }
}

#[test]
fn the_limits_of_a_digest_type_are_those_of_every_category_without_its_own() {
    let lines = "max_age = \"30d\"\nmin_count = 2\ncategory.x.max_age = \"1d\"\ncategory.y.min_count = 1\n\
                 [tenant.acme.digest.a]\nmax_age = \"7d\"";
    let config = read(&with(lines), &[]).unwrap();
    let limits = |categories: &DigestCategories, category: &str| {
        let CategorySettings { min_count, max_age, .. } = categories.get(category);
        (*min_count, max_age.map(|age| age.as_secs() / DAY.as_secs()))
    };
    let (general, acme) = (&config.digests["a"].category, &config.tenants["acme"].digests["a"].category);
    let of_all = |categories: &DigestCategories| ["x", "y", "z"].map(|category| limits(categories, category));
    assert_eq!(of_all(general), [(Some(2), Some(1)), (Some(1), Some(30)), (Some(2), Some(30))]);
    assert_eq!(of_all(acme), [(Some(2), Some(1)), (Some(1), Some(7)), (Some(2), Some(7))]);
}

#[test]
fn a_star_does_not_stand_for_all() {
    for (lines, key, instead) in [
        (
            "[digest.a.category.\"*\"]
max_age = \"30d\"",
            "digest.a.category",
            "write `max_age` and `min_count` without a category",
        ),
        ("delay.\"*\" = \"5m\"", "digest.a.delay", "categories without a `delay` wait as `cadence` says"),
        ("categories.\"*\" = \"All\"", "digest.a.categories", "name each one that recipients may turn off"),
        (
            "[digest.\"*\"]
cadence = \"instant\"",
            "digest",
            "write a table for each digest type",
        ),
        (
            "[tenant.\"*\"]
name = \"All\"",
            "tenant",
            "the general tables apply to every tenant",
        ),
    ] {
        let found = problems_of(&with(lines));
        let said = format!(": {key}.\"*\": is not a wildcard; {instead}");
        assert!(found.contains(&said), "{lines}: {found}");
    }
}

#[test]
fn a_tenant_replaces_the_categories_that_it_names() {
    let lines = "category.x.title = \"X\"\ncategory.y.title = \"Y\"\n[tenant.acme.digest.a]\ncategory.x.title = \"Z\"";
    let config = read(&with(lines), &[]).unwrap();
    let titles = config.tenants["acme"].digests["a"].category.named.values().map(|category| category.section.clone());
    assert_eq!(titles.collect::<Vec<_>>(), [Some(SectionHeading::new("x", "Z")), Some(SectionHeading::new("y", "Y"))]);
}
