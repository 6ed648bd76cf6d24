//! The binary as its users meet it: what it prints, and how it exits.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use tempfile::TempDir;

mod config;
mod doctor;
mod emit;
mod gateway;
mod pauses;
mod people;
mod template;
mod tokens;
mod webhooks;
mod worker;

/// Starts `tidings` in `folder`, with nothing of the surrounding configuration.
fn start(folder: &Path, arguments: &[&str]) -> Child {
    start_with(folder, arguments, &[])
}

/// The same with these environment variables.
fn start_with(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        // No server listens on that port.
        .env("TEMPORAL_ADDRESS", "127.0.0.1:1")
        .env("HOME", folder)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn tidings(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = start(folder, arguments);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Exit code, standard output, standard error.
fn run(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let output = tidings(folder, arguments, input);
    (output.status.code().unwrap(), said(&output.stdout), said(&output.stderr))
}

fn folder_with(name: &str, text: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join(name), text).unwrap();
    folder
}

#[test]
fn help_teaches_by_example() {
    let folder = TempDir::new().unwrap();
    for (arguments, example) in [
        (&["--help"][..], "tidings flush acme/activity/ann"),
        (&["emit", "--help"], "tidings emit events.ndjson.gz"),
        (&["digest", "--help"], "tidings digest drop acme/activity/ann --why 'the events were a test'"),
        (&["digest", "hold", "--help"], "tidings digest hold acme/activity/ann --why 'wrong prices' --until 2h"),
        (&["digest", "reopen", "--help"], "--why 'dropped by mistake'"),
        (&["digest", "preview", "--help"], "tidings digest preview acme/activity/ann --part html > mail.html"),
        (&["pause", "--help"], "tidings pause --filter tenant=acme --why 'ticket 812' --messages"),
        (&["resume", "--help"], "tidings resume --filter 'tenant=acme and digest_type=alerts' --why 'prices fixed'"),
        (&["pause", "list", "--help"], "tidings pause list --all --json"),
        (&["recover", "--help"], "tidings recover acme/activity/ann --why 'terminated by mistake' --dry-run"),
        (&["retract", "--help"], "tidings retract acme/activity/ann --event comment-4711"),
        (&["status", "--help"], "Example: tidings status acme/activity/ann"),
        (&["recipients", "import", "--help"], "acme,ann,ann@acme.example,Ann,Europe/Berlin,de"),
        (&["recipients", "list", "--help"], "tidings recipients list --tenant acme --zone Europe/Berlin --limit 500"),
        (&["recipients", "show", "--help"], "Example: tidings recipients show acme/ann --json"),
        (&["recipients", "export", "--help"], "tidings recipients export acme/ann | jq .events"),
        (
            &["recipients", "erase", "--help"],
            "tidings recipients erase acme/ann --why 'request of 24 November' --dry-run",
        ),
        (&["suppressions", "import", "--help"], "tidings suppressions import sendgrid-bounces.csv --tenant acme"),
        (
            &["suppressions", "add", "--help"],
            "tidings suppressions add ann@example.net --tenant acme --reason complaint",
        ),
        (&["preferences", "--help"], "tidings preferences set acme/activity/ann --cadence 'weekly mon 08:00'"),
        (&["preferences", "import", "--help"], "acme,activity,ann,weekly mon 08:00,Europe/Berlin"),
        (&["consent", "--help"], "tidings consent withdraw acme/activity/ann --by carol"),
        (&["config", "check", "--help"], "tidings config check --cadence 'weekdays 08:00' --zone Europe/Berlin"),
        (&["report", "--help"], "tidings report --by digest_type --since 7d"),
        (&["webhooks", "test", "--help"], "tidings webhooks test own --url http://127.0.0.1:8080 --json"),
        (&["dead-letters", "emit", "--help"], "tidings dead-letters emit sendgrid/9f86d081884c7d65"),
        (&["template", "preview", "--help"], "  tidings template preview activity --locale pt-BR"),
    ] {
        let (code, out, _) = run(folder.path(), arguments, "");
        assert_eq!(code, 0);
        assert!(out.contains(example), "{out}");
        assert!(!out.contains('\u{1b}'), "colours only on a terminal");
    }
}

#[test]
fn an_invalid_key_exits_with_2() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["status", "acme/ann"], "");
    assert_eq!(code, 2);
    assert!(error.contains("\"acme/ann\" is not TENANT/TYPE/USER"), "{error}");
}

#[test]
fn a_message_goes_by_one_of_the_two_streams() {
    let folder = TempDir::new().unwrap();
    let arguments =
        ["send", "--tenant", "acme", "--to", "ann", "--key", "k", "--template", "invoice", "--stream", "express"];
    let (code, out, err) = run(folder.path(), &arguments, "");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("express") && err.contains("transactional, bulk"), "{err}");
}
