//! `tidings config check`, and what a wrong configuration stops.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;

use crate::{folder_with, run, start_with};

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
    assert_eq!((code, &json["digest"]["activity"]["lines_per_message"]), (0, &50.into()));
}

#[test]
fn config_check_shows_spread_and_quiet_hours_as_written() {
    let keys = "spread = \"15m\"\nquiet = [\"22:00-07:00\", \"sat-sun 00:00-24:00\"]";
    let folder = folder_with("tidings.toml", &format!("[digest.activity]\ncadence = \"hourly\"\n{keys}"));
    let (code, out, _) = run(folder.path(), &["config", "check", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let activity = &json["digest"]["activity"];
    assert_eq!((code, &activity["spread"]), (0, &"15m".into()));
    assert_eq!(activity["quiet"], serde_json::json!(["22:00-07:00", "sat-sun 00:00-24:00"]));
}

#[test]
fn a_cadence_is_explained_with_three_slots_without_a_configuration() {
    let folder = folder_with("tidings.toml", "wrong");
    let check = ["config", "check", "--cadence", "weekdays 08:00", "--zone", "Asia/Tokyo"];
    let (code, out, error) = run(folder.path(), &check, "");
    assert_eq!((code, out.lines().count()), (0, 4), "{error}");
    assert!(
        out.starts_with(
            "weekdays 08:00: on the recipient's working days, here Monday to Friday, at 08:00, in Asia/Tokyo\n"
        ),
        "{out}"
    );
    assert!(out.lines().skip(1).all(|line| line.contains(" 08:00:00 JST  ") && line.ends_with("T23:00:00Z")), "{out}");

    let (_, out, _) = run(folder.path(), &[&check[..], &["--locale", "ar-EG"]].concat(), "");
    assert!(out.starts_with("weekdays sun-thu 08:00: Sunday to Thursday at 08:00, in Asia/Tokyo\n"), "{out}");

    let (code, out, _) = run(folder.path(), &[&check[..], &["--json"]].concat(), "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["cadence"], &json["zone"]), (0, &"weekdays 08:00".into(), &"Asia/Tokyo".into()));
    assert_eq!(json["slots"].as_array().unwrap().len(), 3);
}

#[test]
fn an_invalid_cadence_or_zone_exits_with_2_and_is_named() {
    let folder = TempDir::new().unwrap();
    for (arguments, said) in [
        (&["--cadence", "weekly moon 08:00"][..], "cadence \"weekly moon 08:00\": \"moon\" is not a day; write mon"),
        (
            &["--cadence", "hourly", "--zone", "Europe/Berln"],
            "--zone \"Europe/Berln\": is not an IANA time zone; did you mean",
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
        let said = "default: mail.from = \"Tidings <digest@localhost>\": is not a real address, and messages go to \
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
        error.contains("digest.builds.template = \"builds\": there is no such template; choose one of: activity"),
        "{error}"
    );
}

#[test]
fn config_check_prints_the_dkim_record_and_never_the_key() {
    let key = include_str!("../../../tests/data/dkim/ed25519.pem");
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
    assert!(error.contains("tidings.toml:5: mail.dkim.key_file = \"k.pem\": can be read by every user"), "{error}");
    let secret = key.lines().nth(2).unwrap();
    assert!(secret.starts_with("MC4") && !out.contains(secret) && !error.contains(secret));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let (code, out, error) = run(folder.path(), &["config", "check", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["mail"]["dkim"]["dns"]["name"]), (0, &"s1._domainkey.acme.example".into()));
    assert!(!error.contains("can be read") && error.contains("k.pem\": is an Ed25519 key"), "{error}");
}

#[test]
fn an_unusable_dkim_key_is_reported_and_stops_the_worker() {
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
fn a_tenants_settings_are_shown_with_their_origins() {
    let text = "[mail]\nfrom = \"Tidings <digest@tidings.example>\"\n[digest.activity]\ncadence = \"daily 08:00\"\n\
                [tenant.acme]\nname = \"Acme\"\ncolour = \"#1f56c8\"\n[tenant.acme.mail]\n\
                from = \"Acme <news@acme.example>\"\n[tenant.acme.digest.activity]\ncategories.comment = \"Comments\"";
    let folder = folder_with("tidings.toml", text);
    let (code, out, error) = run(folder.path(), &["config", "check", "--tenant", "acme"], "");
    assert_eq!(code, 0, "{error}");
    for line in [
        "\n[brand]\ncolour = \"#1f56c8\"  # tenant.acme.colour, tidings.toml:7\n",
        "\n[stream.bulk]\ndomain = \"acme.example\"  # tenant.acme.mail.from, tidings.toml:9\n",
        "\nfrom = \"Acme <news@acme.example>\"  # tenant.acme.mail.from, tidings.toml:9\n",
        "\nrelays = [\"default\"]  # default\n",
        "\ncadence = \"daily 08:00\"  # digest.activity.cadence, tidings.toml:4\n",
        "\ncategories.comment = \"Comments\"  # tenant.acme.digest.activity.categories.comment, tidings.toml:11\n",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }

    let (code, out, _) = run(folder.path(), &["config", "check", "--tenant", "acme", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let from = serde_json::json!({
        "value": "Acme <news@acme.example>", "key": "tenant.acme.mail.from", "place": "tidings.toml:9",
    });
    assert_eq!((code, &json["tenant"], &json["stream"]["bulk"]["from"]), (0, &"acme".into(), &from));
    assert_eq!(json["digest"]["activity"]["lines_per_message"], serde_json::json!({"value": 50}));

    let (code, out, error) = run(folder.path(), &["config", "check", "--tenant", "acne"], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        error.contains("there is no [tenant.acne], so that the general settings apply; there are: acme"),
        "{error}"
    );

    let (_, out, _) = run(folder.path(), &["config", "check"], "");
    assert!(out.contains("[tenant.acme.stream.bulk]\nrelays = [\"default\"]\n"), "{out}");
}

#[test]
fn a_file_that_was_named_must_exist() {
    let folder = TempDir::new().unwrap();
    let (code, _, error) = run(folder.path(), &["--config", "other.toml", "config", "check"], "");
    assert_eq!(code, 2);
    assert!(error.contains("other.toml: No such file"), "{error}");
}

#[test]
fn the_start_refuses_what_config_check_refuses_to_leave_in_clear() {
    let listening = |key: &str| format!("[gateway]\npublic_url = \"http://localhost:1\"\n{key}");
    let config = |text: &str| folder_with("tidings.toml", text);
    for (folder, address, said) in [
        (
            config(&listening("api_listen = \"0.0.0.0:0\"")),
            "127.0.0.1:1",
            "add gateway.api_tls = \"none\" if you accept that",
        ),
        (config("metrics_listen = \"0.0.0.0:0\""), "127.0.0.1:1", "add metrics_tls = \"none\" if you accept that"),
        (config(""), "192.0.2.7:7233", "http://192.0.2.7:7233/ is not this machine"),
    ] {
        for command in [&["config", "check"][..], &["worker"], &["gateway"], &["emit"]] {
            let child = start_with(folder.path(), command, &[("TEMPORAL_ADDRESS", address)]);
            let output = child.wait_with_output().unwrap();
            let error = crate::said(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
            assert!(error.contains(said), "{command:?}: {error}");
        }
    }
    let in_words = config(&listening("api_listen = \"0.0.0.0:0\"\napi_tls = \"none\""));
    let keys = "A".repeat(43);
    let words = [("TEMPORAL_ADDRESS", "192.0.2.7:7233"), ("TEMPORAL_TLS", "false"), ("TIDINGS_LINK_KEYS", &keys)];
    let output = start_with(in_words.path(), &["config", "check"], &words).wait_with_output().unwrap();
    let (out, error) = (crate::said(&output.stdout), crate::said(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{error}");
    for line in ["temporal = \"http://192.0.2.7:7233, in clear by TEMPORAL_TLS=false\"", "in clear by gateway.api_tls"]
    {
        assert!(out.contains(line), "{out}");
    }
}

#[test]
fn a_file_with_a_byte_order_mark_is_read_and_utf_16_is_named() {
    let folder = folder_with("tidings.toml", "\u{feff}task_queue = \"mail\"\n");
    let (code, out, error) = run(folder.path(), &["config", "check"], "");
    assert!(code == 0 && out.contains("task_queue = \"mail\""), "{out}{error}");
    fs::write(folder.path().join("tidings.toml"), b"\xff\xfet\0a\0").unwrap();
    let (code, _, error) = run(folder.path(), &["config", "check"], "");
    assert!(code == 2 && error.contains("is UTF-16; save it as UTF-8"), "{error}");
}

#[test]
fn the_zone_data_in_use_is_shown_and_a_tzdir_without_any_is_named() {
    let folder = folder_with("tidings.toml", "");
    let check = |arguments: &[&str]| {
        let missing = [("TZDIR", "/nowhere/zoneinfo")];
        let output = start_with(folder.path(), arguments, &missing).wait_with_output().unwrap();
        (output.status.code(), crate::said(&output.stdout), crate::said(&output.stderr))
    };
    let (code, out, error) = check(&["config", "check"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("[zone_data]\nrelease = \"20"), "{out}");
    assert!(error.contains("warning: TZDIR: /nowhere/zoneinfo has no zone data; it is ignored"), "{error}");
    let (code, out, error) = check(&["config", "check", "--cadence", "daily 08:00", "--zone", "Asia/Calcutta"]);
    assert!(code == Some(0) && out.contains("in Asia/Kolkata"), "{out}{error}");
}
