//! Keys that sign tokens, from the environment and from a file.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tidings_model::settings::UnknownRecipients;

use super::{Config, problems_of, read};

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const OTHER: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

fn of_file(path: &std::path::Path) -> String {
    format!("link_keys_file = \"{}\"", path.display())
}

fn key_count(config: &Config) -> String {
    format!("{:?}", config.link_keys.keys())
}

#[test]
fn the_environment_overrides_a_file_with_one_key_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, format!("{KEY}\n{OTHER}\n")).unwrap();
    assert_eq!(key_count(&read(&of_file(&path), &[]).unwrap()), "Some(LinkKeys(2))");
    let config = read(&of_file(&path), &[("TIDINGS_LINK_KEYS", KEY)]).unwrap();
    assert_eq!((key_count(&config).as_str(), config.link_keys.file()), ("Some(LinkKeys(1))", None));
}

#[test]
fn an_unusable_file_of_keys_stops_only_what_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let problem = |config: &Config| config.settings(UnknownRecipients::Wait).unwrap_err().to_string();
    let missing = problem(&read(&of_file(&path), &[]).unwrap());
    assert!(
        missing.starts_with("tidings.toml:1: link_keys_file = ") && missing.contains("cannot be read"),
        "{missing}"
    );
    fs::write(&path, "hunter2").unwrap();
    let wrong = problem(&read(&of_file(&path), &[]).unwrap());
    assert!(wrong.contains("`tidings keys new` prints a key") && !wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn a_key_instead_of_a_file_is_not_shown() {
    let said = problems_of(&format!("link_keys_file = \"{KEY}\""));
    assert!(said.starts_with("tidings.toml:1: link_keys_file = \"***\": is a key and not the name"), "{said}");
}

#[test]
fn a_file_of_keys_that_everybody_can_read_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, KEY).unwrap();
    for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let warnings = read(&of_file(&path), &[]).unwrap().warnings();
        assert_eq!(warnings.iter().any(|warning| warning.key == "link_keys_file"), warned, "{mode:o}: {warnings:?}");
    }
}
