//! The documentation agrees with the repository: files that pages name, and alerts that operators watch for.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

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

/// The files with product code: not those that only test or simulate.
fn product_files(folder: &Path, found: &mut Vec<PathBuf>) {
    const NO_PRODUCT: [&str; 4] = ["tests", "tests.rs", "conformance", "simulation"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if NO_PRODUCT.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            product_files(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The numbers that a text cites as `rule 3` or `rules 3, 41 and 42`.
fn cited_rules(text: &str) -> BTreeSet<u32> {
    let after = text.split("rule").skip(1).map(|rest| rest.trim_start_matches('s'));
    let numbers = |rest: &str| -> Vec<u32> {
        let words = rest.split([' ', ',', ')', '.', ':']).filter(|word| !word.is_empty());
        words.filter(|word| *word != "and").map_while(|word| word.parse().ok()).collect()
    };
    after.flat_map(numbers).collect()
}

/// The table of architecture.md: each rule with the files whose first comment cites it.
fn rule_table(root: &Path) -> String {
    let mut files = Vec::new();
    for folder in FOLDERS.into_iter().filter(|folder| root.join(folder).join("src").exists()) {
        product_files(&root.join(folder).join("src"), &mut files);
    }
    files.sort();
    let mut citing: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let header = text.lines().map_while(|line| line.strip_prefix("//!")).collect::<Vec<_>>().concat();
        for rule in cited_rules(&header) {
            citing.entry(rule).or_default().push(format!("`{}`", file.strip_prefix(root).unwrap().display()));
        }
    }
    let rules = fs::read_to_string(root.join("docs/rules.md")).unwrap();
    let mut table = "| rule | decided in |\n|---|---|\n".to_owned();
    for section in rules.split("<a id=\"rule-").skip(1) {
        let statement = section.split("**").nth(1).unwrap().replace('\n', " ");
        let (number, statement) = statement.split_once(". ").unwrap();
        let number: u32 = number.parse().unwrap();
        let files = match number {
            UPGRADES => "`tests/it/upgrade/replay.rs`".to_owned(),
            _ => citing.get(&number).unwrap_or_else(|| panic!("no first comment cites rule {number}")).join(", "),
        };
        let statement = statement.trim_end_matches('.');
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| [{number}](rules.md#rule-{number}) {statement} | {files} |");
    }
    table
}

/// Rule 34 is about tests: recorded histories replay.
const UPGRADES: u32 = 34;

#[test]
fn the_table_of_rules_names_the_files_that_cite_them() {
    const BEGIN: &str = "<!-- `TIDINGS_RECORD=1 ./dev test --test it -- table_of_rules` writes this table -->\n\n";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let page = root.join("docs/architecture.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (current, after) = rest.split_once("\n\n").unwrap();
    let table = rule_table(&root);
    if env::var_os("TIDINGS_RECORD").is_some() {
        fs::write(page, format!("{before}{BEGIN}{table}\n{after}")).unwrap();
    } else {
        assert_eq!(format!("{current}\n"), table, "write it with TIDINGS_RECORD=1");
    }
}
