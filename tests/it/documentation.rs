//! The documentation agrees with the repository: files that pages name, and alerts that operators watch for.

use std::{collections::BTreeSet, fs, path::Path};

use tidings_model::AlertName;
use tidings_store::REFUSALS;

const PAGES: [&str; 5] =
    ["docs/architecture.md", "docs/compatibility.md", "docs/testing.md", "CONTRIBUTING.md", "README.md"];

/// Top-level folders. They distinguish a path of the repository from other text in backticks.
const FOLDERS: [&str; 16] = [
    "proto",
    "model",
    "store",
    "mail",
    "net",
    "workflows",
    "activities",
    "operations",
    "services",
    "client",
    "gateway",
    "worker",
    "templates",
    "tests",
    "docs",
    ".ci",
];

/// The paths in backticks on a page.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let is_path = |text: &&str| {
        let (folder, rest) = text.split_once('/').unwrap_or_default();
        // Capital letters stand for a name to fill in: `tests/fuzz/corpus/TARGET`.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c);
        FOLDERS.contains(&folder) && !rest.is_empty() && text.chars().all(plain)
    };
    page.split('`').skip(1).step_by(2).filter(is_path)
}

#[test]
fn every_file_that_the_documentation_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = 0;
    let mut missing = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap();
        for path in paths(&text) {
            named += 1;
            if !root.join(path).exists() {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(named >= 50, "{named} paths on all pages");
}

/// The names in backticks in the first column of a page's table that begins with this header.
fn first_column(page: &str, header: &str) -> BTreeSet<String> {
    let rows = page.lines().map(str::trim_start).skip_while(|line| !line.starts_with(header)).skip(2);
    let cells = rows.map_while(|line| line.strip_prefix('|')?.split('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_alert_is_documented_and_every_documented_alert_exists() {
    let alerts: BTreeSet<_> = AlertName::ALL.map(|alert| alert.name().to_owned()).into();
    for page in ["docs/operations.md", "docs/getting-started.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).unwrap();
        assert_eq!(first_column(&text, "| alert | meaning"), alerts, "{page}");
    }
}

#[test]
fn every_refusal_of_the_databases_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let text = fs::read_to_string(page).unwrap();
    let cell = |codes: Vec<String>| if codes.is_empty() { String::new() } else { format!("{} ", codes.join(", ")) };
    for row in REFUSALS {
        let sqlite = cell(row.sqlite.iter().map(ToString::to_string).collect());
        let postgres = cell(row.postgres.iter().map(ToString::to_string).collect());
        let line = format!("| {} | {sqlite}| {postgres}| ", row.about);
        assert!(text.contains(&line), "docs/operations.md: {line}");
    }
}
