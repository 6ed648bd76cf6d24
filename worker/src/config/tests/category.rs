//! Lines and sections of a message.

use std::time::Duration;

use tidings_model::settings::{CategorySettings, Section};

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
    let section = Some(Section::new("change", "Code"));
    let code = CategorySettings { section, priority: 2, ..CategorySettings::default() };
    let noise = CategorySettings { priority: 1, min_count: Some(3), max_age: Some(DAY), ..CategorySettings::default() };
    let expected = [("change", code.clone()), ("fix", code), ("noise", noise)];
    assert_eq!(config.digests["a"].category, expected.map(|(name, category)| (name.to_owned(), category)).into());
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
            "tidings.toml:3: digest.a.category.x.title: is that of the section; remove this key, or `section`".into(),
        ),
        (
            "category.x.priority = 101",
            "digest.a.category.x.priority = \"101\": write a whole number from 1 to 100".into(),
        ),
        ("max_lines = 11", "digest.a.max_lines = \"11\": write a whole number from 1 to 10".into()),
        ("category.x.min_count = 0", "digest.a.category.x.min_count = \"0\": write a whole number from 1".into()),
        ("category.x.max_age = \"1\"", "digest.a.category.x.max_age = \"1\": \"1\" is not a duration".into()),
        ("category.x.titel = \"X\"", "titel: no such key; did you mean \"title\"?".into()),
    ] {
        let found = problems_of(&with(lines));
        assert!(found.contains(&said), "{lines}: {found}");
    }
}

#[test]
fn a_tenant_replaces_the_categories_that_it_names() {
    let lines = "category.x.title = \"X\"\ncategory.y.title = \"Y\"\n[tenant.acme.digest.a]\ncategory.x.title = \"Z\"";
    let config = read(&with(lines), &[]).unwrap();
    let titles = config.tenants["acme"].digests["a"].category.values().map(|category| category.section.clone());
    assert_eq!(titles.collect::<Vec<_>>(), [Some(Section::new("x", "Z")), Some(Section::new("y", "Y"))]);
}
