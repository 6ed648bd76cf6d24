//! The binary as its users meet it: what it prints, and how it exits.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;
use tidings_activities::store::{Sqlite, Store as _};

/// Runs `tidings` in `folder`, with nothing of the surrounding configuration.
fn tidings(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        // Nobody listens there.
        .env("TEMPORAL_ADDRESS", "127.0.0.1:1")
        .env("HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
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
        (&["recover", "--help"], "tidings recover acme/activity/ann --why 'terminated by mistake' --dry-run"),
        (&["retract", "--help"], "tidings retract acme/activity/ann --event comment-4711"),
        (&["status", "--help"], "Example: tidings status acme/activity/ann"),
        (&["recipients", "import", "--help"], "acme,ann,ann@acme.example,Ann,Europe/Berlin,de"),
        (&["preferences", "--help"], "tidings preferences set acme/activity/ann --cadence 'weekly mon 08:00'"),
        (&["preferences", "import", "--help"], "acme,activity,ann,weekly mon 08:00,Europe/Berlin"),
        (&["consent", "--help"], "tidings consent withdraw acme/activity/ann --by carol"),
        (&["config", "check", "--help"], "tidings config check --cadence 'weekdays 08:00' --zone Europe/Berlin"),
        (&["template", "preview", "--help"], "Example: tidings template preview activity --out preview"),
    ] {
        let (code, out, _) = run(folder.path(), arguments, "");
        assert_eq!(code, 0);
        assert!(out.contains(example), "{out}");
        assert!(!out.contains('\u{1b}'), "colours only on a terminal");
    }
}

#[test]
fn config_check_prints_what_is_in_force_without_passwords() {
    let text = "smtp_url = \"smtps://u:hunter2@relay.example\"\n[mail]\nfrom = \"digest@acme.example\"\n\
                [digest.activity]\ncadence = \"daily 08:00\"";
    let folder = folder_with("tidings.toml", text);
    let (code, out, _) = run(folder.path(), &["config", "check"], "");
    assert_eq!(code, 0);
    assert!(
        out.contains("[digest.activity]\ncadence = \"daily 08:00\"\nzone = \"UTC\"\ntemplate = \"activity\""),
        "{out}"
    );
    assert!(!out.contains("hunter2"), "{out}");

    let (code, out, _) = run(folder.path(), &["config", "check", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["digest"]["activity"]["max_items"]), (0, &50.into()));
}

#[test]
fn config_check_shows_spread_and_quiet_hours_in_the_words_of_the_file() {
    let keys = "spread = \"15m\"\nquiet = [\"22:00-07:00\", \"sat-sun 00:00-24:00\"]";
    let folder = folder_with("tidings.toml", &format!("[digest.activity]\ncadence = \"hourly\"\n{keys}"));
    let (code, out, _) = run(folder.path(), &["config", "check", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let activity = &json["digest"]["activity"];
    assert_eq!((code, &activity["spread"]), (0, &"15m".into()));
    assert_eq!(activity["quiet"], serde_json::json!(["22:00-07:00", "sat-sun 00:00-24:00"]));
}

#[test]
fn a_cadence_is_explained_with_its_next_three_slots_whatever_the_configuration_says() {
    let folder = folder_with("tidings.toml", "wrong");
    let check = ["config", "check", "--cadence", "weekdays 08:00", "--zone", "Asia/Tokyo"];
    let (code, out, error) = run(folder.path(), &check, "");
    assert_eq!((code, out.lines().count()), (0, 4), "{error}");
    assert!(out.starts_with("weekdays 08:00: Monday to Friday at 08:00, in Asia/Tokyo\n"), "{out}");
    assert!(out.lines().skip(1).all(|line| line.contains(" 08:00:00 JST  ") && line.ends_with("T23:00:00Z")), "{out}");

    let (code, out, _) = run(folder.path(), &[&check[..], &["--json"]].concat(), "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["cadence"], &json["zone"]), (0, &"weekdays 08:00".into(), &"Asia/Tokyo".into()));
    assert_eq!(json["slots"].as_array().unwrap().len(), 3);
}

#[test]
fn a_cadence_or_zone_that_is_none_exits_with_2_and_names_the_word() {
    let folder = TempDir::new().unwrap();
    for (arguments, said) in [
        (&["--cadence", "weekly moon 08:00"][..], "cadence \"weekly moon 08:00\": \"moon\" is not a day; write mon"),
        (
            &["--cadence", "hourly", "--zone", "Europe/Berln"],
            "--zone \"Europe/Berln\": is no IANA time zone; did you mean",
        ),
        (&["--zone", "Europe/Berlin"], "--cadence <WORDS>"),
    ] {
        let (code, out, error) = run(folder.path(), &[&["config", "check"], arguments].concat(), "");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_wrong_configuration_exits_with_2_and_says_where() {
    let folder = folder_with("tidings.toml", "[digest.activity]\ncadence = \"dayly 08:00\"");
    let (code, out, error) = run(folder.path(), &["config", "check"], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        error.contains("tidings.toml:2: digest.activity.cadence = \"dayly 08:00\": \"dayly\" is not a cadence"),
        "{error}"
    );
}

#[test]
fn the_default_sender_is_no_sender_for_a_relay_elsewhere() {
    let folder = folder_with("tidings.toml", "smtp_url = \"smtps://u:hunter2@relay.example\"");
    for command in [&["worker"][..], &["config", "check"]] {
        let (code, out, error) = run(folder.path(), command, "");
        assert_eq!((code, out.as_str()), (2, ""), "{command:?}");
        let said = "default: mail.from = \"Tidings <digest@localhost>\": is nobody, and mail goes to \
                    smtps://relay.example:465; set it, for example to \"Acme <digest@acme.example>\"";
        assert!(error.contains(said), "{error}");
    }
    // To this machine, and for whoever sends nothing, it will do.
    let (_, _, error) = run(folder.path(), &["status", "acme/activity/ann"], "");
    assert!(error.contains("TEMPORAL_ADDRESS"), "{error}");
    fs::remove_file(folder.path().join("tidings.toml")).unwrap();
    let (code, out, _) = run(folder.path(), &["config", "check"], "");
    assert_eq!(code, 0);
    assert!(out.contains("from = \"Tidings <digest@localhost>\""), "{out}");
}

#[test]
fn a_template_that_does_not_exist_is_a_wrong_configuration() {
    let folder = folder_with("tidings.toml", "[digest.builds]\ncadence = \"instant\"");
    let (code, _, error) = run(folder.path(), &["config", "check"], "");
    assert_eq!(code, 2);
    assert!(
        error.contains("digest.builds.template = \"builds\": there is no such template; there are: activity"),
        "{error}"
    );
}

#[test]
fn config_check_prints_the_record_by_which_receivers_verify_and_never_the_key() {
    let key = include_str!("../../tests/data/dkim/ed25519.pem");
    let text = "[mail]\nfrom = \"digest@acme.example\"\n[mail.dkim]\nselector = \"s1\"\nkey_file = \"k.pem\"";
    let folder = folder_with("tidings.toml", text);
    let path = folder.path().join("k.pem");
    fs::write(&path, key).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, out, error) = run(folder.path(), &["config", "check"], "");
    assert_eq!(code, 0, "{error}");
    let expected = "[mail.dkim]\nselector = \"s1\"\ndomain = \"acme.example\"\nkey_file = \"k.pem\"\n\
        algorithm = \"ed25519-sha256\"\n\n[mail.dkim.dns]\nname = \"s1._domainkey.acme.example\"\ntype = \"TXT\"\n\
        value = \"v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\"\n";
    assert!(out.contains(expected), "{out}");
    assert!(error.contains("tidings.toml:5: mail.dkim.key_file = \"k.pem\": may be read by every user"), "{error}");
    let secret = key.lines().nth(2).unwrap();
    assert!(secret.starts_with("MC4") && !out.contains(secret) && !error.contains(secret));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let (code, out, error) = run(folder.path(), &["config", "check", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["mail"]["dkim"]["dns"]["name"]), (0, &"s1._domainkey.acme.example".into()));
    assert!(!error.contains("k.pem"), "{error}");
}

#[test]
fn a_key_that_does_not_serve_is_said_beside_all_else_and_stops_the_worker_before_it_connects() {
    let text = "[mail]\nfrom = \"digest@acme.example\"\n[mail.dkim]\nselector = \"s1\"\nkey_file = \"k.pem\"\n\
        [digest.builds]\ncadence = \"instant\"";
    let folder = folder_with("tidings.toml", text);
    let (code, _, error) = run(folder.path(), &["config", "check"], "");
    assert_eq!(code, 2);
    assert!(error.contains("there is no such template") && error.contains("\"k.pem\": cannot be read"), "{error}");
    let (code, _, error) = run(folder.path(), &["worker"], "");
    assert_eq!(code, 2);
    assert!(error.contains("tidings.toml:5: mail.dkim.key_file = \"k.pem\": cannot be read"), "{error}");
}

#[test]
fn a_file_that_was_named_must_exist() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["--config", "other.toml", "config", "check"], "");
    assert_eq!(code, 2);
    assert!(error.contains("other.toml: No such file"), "{error}");
}

#[test]
fn emit_needs_no_server_to_refuse_and_names_line_field_and_limit() {
    let folder = TempDir::new().unwrap();
    let long =
        format!("{{\"tenant\": \"a\", \"user\": \"b\", \"digest\": \"c\", \"event_id\": \"{}\"}}", "x".repeat(256));
    let input = format!("{{}}\n\n{long}\nnot json\n");
    let (code, out, error) = run(folder.path(), &["emit"], &input);
    assert_eq!((code, out.as_str()), (1, "events: 0 accepted, 3 rejected\n"));
    assert!(error.contains("line 1: tenant: is required"), "{error}");
    assert!(error.contains("line 3: event_id: has 256 bytes, the limit is 255"), "{error}");
    assert!(error.contains("line 4: "), "{error}");

    let (code, out, _) = run(folder.path(), &["emit", "--json", "-"], &input);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, lines.len()), (1, 4));
    assert_eq!((&lines[1]["rejected"]["line"], &lines[1]["rejected"]["field"]), (&3.into(), &"event_id".into()));
    assert_eq!(lines[3], serde_json::json!({"accepted": 0, "rejected": 3}));
}

#[test]
fn an_event_that_is_right_needs_a_server_and_the_error_says_which() {
    let folder = TempDir::new().unwrap();
    let event = ["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"];
    let (code, _, error) = run(folder.path(), &event, "");
    assert_eq!(code, 1);
    assert!(error.contains("Temporal at http://127.0.0.1:1 does not answer (Connection refused"), "{error}");
    assert!(error.contains("TEMPORAL_ADDRESS"), "{error}");
}

#[test]
fn a_single_event_needs_its_whole_key() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["emit", "--category", "comment", "--tenant", "acme"], "");
    assert_eq!(code, 2);
    assert!(error.contains("--user <USER>") && error.contains("--digest <TYPE>"), "{error}");
}

#[test]
fn a_key_that_is_none_exits_with_2() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["status", "acme/ann"], "");
    assert_eq!(code, 2);
    assert!(error.contains("\"acme/ann\" is not TENANT/TYPE/USER"), "{error}");
}

#[test]
fn recipients_need_a_migrated_database_and_the_error_says_how() {
    let folder = folder_with("people.csv", "tenant,user,address\nacme,ann,ann@acme.example\n");
    let (code, _, error) = run(folder.path(), &["recipients", "import", "people.csv"], "");
    assert_eq!(code, 1);
    assert!(error.contains("tidings migrate"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recipients_go_to_the_store_and_importing_twice_changes_nothing() {
    let csv = "tenant,user,address,name,zone\nacme,ann,ann@acme.example,Ann,Europe/Berlin\nacme,bob,nowhere,,\n";
    let folder = folder_with("people.csv", csv);
    let store = Sqlite::connect(&format!("sqlite://{}/.tidings/tidings.db", folder.path().display())).await.unwrap();
    store.migrate().await.unwrap();
    for _ in 0..2 {
        let (code, out, error) = run(folder.path(), &["recipients", "import", "people.csv"], "");
        assert_eq!((code, out.as_str()), (1, "recipients: 1 accepted, 1 rejected\n"), "{error}");
        assert!(error.contains("line 3: address: \"nowhere\" is no address"), "{error}");
        let key = "acme/activity/ann".parse().unwrap();
        let ann = store.facts(&key).await.unwrap().recipient.unwrap();
        assert_eq!((ann.address.as_str(), ann.zone.as_str()), ("ann@acme.example", "Europe/Berlin"));
    }
}

const CHOICES: &str = "[digest.activity]\ncadence = \"daily 08:00\"\nchoices = [\"instant\", \"daily\", \"weekly mon 08:00\"]\n\
                       [tenant.acme]\nzone = \"Europe/Berlin\"\nquiet = [\"22:00-07:00\"]";

/// A folder with digest types to choose for, and its store.
async fn choosing() -> (TempDir, Sqlite) {
    let folder = folder_with("tidings.toml", CHOICES);
    let store = Sqlite::connect(&format!("sqlite://{}/.tidings/tidings.db", folder.path().display())).await.unwrap();
    store.migrate().await.unwrap();
    (folder, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_are_merged_shown_with_what_is_in_force_and_audited_while_temporal_is_away() {
    let (folder, store) = choosing().await;
    let key = "acme/activity/ann".parse().unwrap();
    let set = ["preferences", "set", "acme/activity/ann", "--by", "carol"];
    let (code, out, error) = run(folder.path(), &[&set[..], &["--at", "18:30", "--off", "share"]].concat(), "");
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("cadence  daily 18:30  (chosen; the default is daily 08:00)"), "{out}");
    assert!(error.contains("warning: Temporal at http://127.0.0.1:1 does not answer"), "{error}");
    assert!(error.contains("it was written down"), "{error}");

    let (_, out, _) = run(
        folder.path(),
        &[&set[..], &["--cadence", "weekly mon 08:00", "--clear", "at", "--quiet", "none"]].concat(),
        "",
    );
    for said in [
        "acme/activity/ann: revision 2, changed ",
        "\n  cadence  weekly mon 08:00  (chosen; the default is daily 08:00)",
        "\n  zone     Europe/Berlin  (the default)",
        "\n  off      share",
        "\n  choices  instant, daily, weekly mon 08:00",
        "\n  next     Mon ",
    ] {
        assert!(out.contains(said), "{said}: {out}");
    }
    let chosen = store.facts(&key).await.unwrap().preferences;
    assert_eq!((chosen.at, chosen.quiet), (None, Some(Vec::new())));
    let (_, _, error) = run(folder.path(), &[&set[..], &["--off", "share"]].concat(), "");
    assert_eq!(error, "nothing changed\n");

    let (code, out, _) = run(folder.path(), &["preferences", "get", "acme/activity/ann", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["revision"], &json["chosen"]["cadence"]), (0, &2.into(), &"weekly mon 08:00".into()));
    assert_eq!(json["default"]["quiet"], serde_json::json!(["22:00-07:00"]));
    assert!(json["in_force"]["next"]["due_at"].is_string(), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_that_will_not_do_exits_with_2_names_what_would_and_changes_nothing() {
    let (folder, store) = choosing().await;
    let set = ["preferences", "set", "acme/activity/ann"];
    for (arguments, said) in [
        (
            &["--cadence", "hourly"][..],
            "cadence: \"hourly\" is not offered; choose among \"instant\", \"daily\", \"weekly",
        ),
        (&["--zone", "Europe/Berln"], "zone: \"Europe/Berln\" is no IANA time zone"),
        (&["--cadence", "instant", "--at", "09:00"], "at: \"09:00\" means nothing to \"instant\""),
        (&["--pause-until", "2001-01-01T00:00:00Z"], "'--pause-until <TIME>': is in the past"),
        (&["--pause-until", "soon"], "is neither a time nor a span"),
        (&["--off", "share", "--by", "ann@acme.example"], "--by: is an address"),
        (&[], "--cadence"),
    ] {
        let (code, out, error) = run(folder.path(), &[&set[..], arguments].concat(), "");
        assert_eq!((code, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(said), "{error}");
    }
    let (code, _, error) = run(folder.path(), &["preferences", "get", "acme/alerts/ann"], "");
    assert_eq!(code, 2);
    assert!(error.contains("digest type \"alerts\" is not configured"), "{error}");
    assert_eq!(store.facts(&"acme/activity/ann".parse().unwrap()).await.unwrap().revision, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_are_imported_line_by_line_and_twice_changes_nothing() {
    let (folder, store) = choosing().await;
    let csv = "user,tenant,digest,cadence,zone,quiet,off,paused_until\n\
               ann,acme,activity,weekly mon 08:00,Asia/Tokyo,22:00-07:00; sat-sun 00:00-24:00,share;like,2126-01-01T00:00:00Z\n\
               bob,acme,activity,hourly,,,,\ncy,acme,alerts,,,,,\ndan,acme,activity,,,,,tomorrow\n,acme,activity,,,,,\n";
    fs::write(folder.path().join("people.csv"), csv).unwrap();
    for _ in 0..2 {
        let (code, out, error) = run(folder.path(), &["preferences", "import", "people.csv"], "");
        assert_eq!((code, out.as_str()), (1, "preferences: 1 accepted, 4 rejected\n"), "{error}");
        for said in [
            "line 3: cadence: \"hourly\" is not offered",
            "line 4: digest: digest type \"alerts\" is not configured",
            "line 5: paused_until: \"tomorrow\" is no time",
            "line 6: user: is required",
        ] {
            assert!(error.contains(said), "{error}");
        }
        let facts = store.facts(&"acme/activity/ann".parse().unwrap()).await.unwrap();
        assert_eq!((facts.revision, facts.preferences.quiet.unwrap().len()), (1, 2));
        assert_eq!(facts.preferences.off.into_iter().collect::<Vec<_>>(), ["like", "share"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_is_withdrawn_and_granted_again() {
    let (folder, _store) = choosing().await;
    for (command, said) in [("get", "wanted"), ("withdraw", "not wanted"), ("get", "not wanted"), ("grant", "wanted")] {
        let (code, out, error) = run(folder.path(), &["consent", command, "acme/activity/ann"], "");
        assert_eq!(code, 0, "{error}");
        assert!(out.starts_with(&format!("acme/activity/ann: {said}")), "{out}");
    }
    let (_, out, _) = run(folder.path(), &["consent", "get", "acme/activity/ann", "--json"], "");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap()["consent"], true);
    let (code, _, error) = run(folder.path(), &["consent", "withdraw", "acme/alerts/ann"], "");
    assert_eq!(code, 2, "{error}");
}

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
    assert!(error.contains("there is no template \"nope\"; there are: activity"), "{error}");
}
