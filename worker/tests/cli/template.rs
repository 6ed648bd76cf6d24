//! `tidings template`.

use std::fs;

use tempfile::TempDir;

use crate::run;

#[test]
fn a_preview_shows_subject_and_text_or_writes_the_parts() {
    let folder = TempDir::new().unwrap();
    let (code, out, _) = run(folder.path(), &["template", "preview", "activity"], "");
    assert_eq!(code, 0);
    assert!(out.lines().count() > 5, "{out}");
    let (code, out, _) = run(folder.path(), &["template", "preview", "activity", "--out", "mail"], "");
    assert_eq!((code, out.lines().count()), (0, 3));
    assert!(fs::read_to_string(folder.path().join("mail/body.html")).unwrap().contains("<html"));
}

#[test]
fn an_unknown_template_is_an_error_that_names_those_there_are() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["template", "preview", "nope"], "");
    assert_eq!(code, 1);
    assert!(error.contains("unknown template \"nope\"; available: activity"), "{error}");
}

#[test]
fn a_preview_speaks_the_language_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let (code, out, _) = run(folder.path(), &["template", "preview", "activity", "--locale", "de-AT"], "");
    assert!(code == 0 && out.contains("12 Änderungen in crates/cli"), "{out}");
}

#[test]
fn a_check_names_the_faults_of_words() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("own/words")).unwrap();
    fs::write(folder.path().join("own/words/de.ftl"), "updates = { $number } Neuigkeiten\nupdtes = Neues\n").unwrap();
    let settings = "templates = \"own\"\n[mail]\nfrom = \"Acme <digest@acme.example>\"\n";
    fs::write(folder.path().join("tidings.toml"), settings).unwrap();
    let (code, _, error) = run(folder.path(), &["template", "check"], "");
    assert_eq!(code, 1, "{error}");
    for fault in ["words/de.ftl: `updates` has $number, and is given $count", "words/de.ftl: `updtes` is said nowhere"]
    {
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn a_check_covers_the_words_of_tenants() {
    let folder = TempDir::new().unwrap();
    for tenant in ["acme", "acne"] {
        fs::create_dir_all(folder.path().join("own/words").join(tenant)).unwrap();
    }
    fs::write(folder.path().join("own/words/acme/de.ftl"), "save = Merken\nupdtes = Neues\n").unwrap();
    let settings =
        "templates = \"own\"\n[mail]\nfrom = \"Acme <digest@acme.example>\"\n[tenant.acme]\nname = \"Acme\"\n";
    fs::write(folder.path().join("tidings.toml"), settings).unwrap();
    let (code, _, error) = run(folder.path(), &["template", "check"], "");
    let nobodys = "words/acne: there is no [tenant.acne] in tidings.toml; add the table, or rename the folder; did you mean \"acme\"?";
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("words/acme/de.ftl: `updtes` is said nowhere") && error.contains(nobodys), "{error}");
    let (code, _, error) = run(folder.path(), &["config", "check"], "");
    assert!(code == 2 && error.contains(nobodys), "{error}");
}

#[test]
fn a_check_warns_of_what_clients_do_not_support_and_succeeds() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("own")).unwrap();
    fs::write(folder.path().join("own/parts.html"), "<p>\n<b style=\"display: flex\">{{ x }}</b></p>").unwrap();
    let settings = "templates = \"own\"\n[mail]\nfrom = \"Acme <digest@acme.example>\"\n";
    fs::write(folder.path().join("tidings.toml"), settings).unwrap();
    let (code, _, error) = run(folder.path(), &["template", "check"], "");
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("own/parts.html:2: `display: flex` is not supported by "), "{error}");
    assert_eq!(error.lines().count(), 1, "the shipped templates have no warnings: {error}");
}
