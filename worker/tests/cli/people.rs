//! Recipients, preferences and consent: to the store, and from it.

use std::{fs, os::unix::fs::PermissionsExt as _};

use jiff::Timestamp;
use tempfile::TempDir;
use tidings_model::records::{Recipient, Suppression, SuppressionReason};
use tidings_store::{SqliteStore, archive::Archive, prelude::*};

use crate::{folder_with, run};

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
    let store =
        SqliteStore::connect(&format!("sqlite://{}/.tidings/tidings.db", folder.path().display())).await.unwrap();
    store.migrate().await.unwrap();
    for _ in 0..2 {
        let (code, out, error) = run(folder.path(), &["recipients", "import", "people.csv"], "");
        assert_eq!((code, out.as_str()), (1, "recipients: 1 accepted, 1 rejected\n"), "{error}");
        assert!(error.contains("line 3: address: \"nowhere\" is not an address"), "{error}");
        let key = "acme/activity/ann".parse().unwrap();
        let ann = store.facts(&key).await.unwrap().recipient.unwrap();
        assert_eq!((ann.address.as_str(), ann.zone.as_str()), ("ann@acme.example", "Europe/Berlin"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_column_leaves_it_and_says_who_is_not_in_it() {
    let all = "tenant,user,address,name,zone,locale\nacme,ann,ann@acme.example,Ann,Asia/Tokyo,ja\nacme,bo,bo@acme.example,,,\n";
    let folder = folder_with("people.csv", all);
    let store =
        SqliteStore::connect(&format!("sqlite://{}/.tidings/tidings.db", folder.path().display())).await.unwrap();
    store.migrate().await.unwrap();
    let import = ["recipients", "import", "people.csv"];
    assert_eq!(run(folder.path(), &import, "").1, "recipients: 2 accepted, 0 rejected\n");
    fs::write(folder.path().join("people.csv"), "tenant,user,address,locale\nacme,ann,new@acme.example,\n").unwrap();
    let (code, out, error) = run(folder.path(), &import, "");
    assert_eq!(code, 0, "{error}");
    assert_eq!(out, "recipients: 1 accepted, 0 rejected\nnot in the file, and unchanged: 1 of acme\n");
    let (_, out, _) = run(folder.path(), &[&import[..], &["--json"]].concat(), "");
    assert!(out.contains(r#"{"not_in_file":1,"tenant":"acme"}"#), "{out}");
    // Rows that are wrong are in the file: Bo, whom the directory has, and Zoe, whom it has not.
    let wrong = "tenant,user,address,locale\nacme,ann,new@acme.example,\nacme,bo,at acme,\nacme,zoe,at acme,\n";
    fs::write(folder.path().join("people.csv"), wrong).unwrap();
    let (code, out, _) = run(folder.path(), &import, "");
    assert_eq!((code, out.as_str()), (1, "recipients: 1 accepted, 2 rejected\n"));
    let facts = store.facts(&"acme/activity/ann".parse().unwrap()).await.unwrap();
    let ann = facts.recipient.unwrap();
    let parts = [ann.address.as_str(), ann.name.as_str(), ann.zone.as_str(), ann.locale.as_str()];
    assert_eq!((parts, facts.revision), (["new@acme.example", "Ann", "Asia/Tokyo", ""], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_is_listed_in_pages_with_addresses_only_on_request() {
    let (folder, store) = choosing().await;
    let person = |user: &str, zone: &str| Recipient {
        tenant: "acme".into(),
        user: user.into(),
        address: format!("{user}@acme.example"),
        name: "Name".into(),
        zone: zone.into(),
        locale: String::new(),
    };
    let people = [person("ann", "Europe/Berlin"), person("b/o", "")];
    store.put_recipients(&people, Timestamp::now()).await.unwrap();
    let list = ["recipients", "list", "--tenant", "acme"];
    let (code, out, more) = run(folder.path(), &[&list[..], &["--limit", "1"]].concat(), "");
    assert_eq!((code, out.as_str()), (0, "acme/ann  Name  Europe/Berlin\n"), "{more}");
    let cursor = more.trim_end().strip_prefix("more: --after ").unwrap();
    let (_, out, more) = run(folder.path(), &[&list[..], &["--after", cursor, "--addresses"]].concat(), "");
    assert_eq!((out.as_str(), more.as_str()), ("acme/b%2Fo  b/o@acme.example  Name\n", ""));
    let (_, out, _) = run(folder.path(), &[&list[..], &["--limit", "1", "--json"]].concat(), "");
    let ann = r#"{"locale":"","name":"Name","suppressed":null,"tenant":"acme","user":"ann","zone":"Europe/Berlin"}"#;
    assert_eq!(out, format!("{ann}\n{{\"next\":\"{cursor}\"}}\n"));
    let (code, _, error) = run(folder.path(), &[&list[..], &["--after", "ann"]].concat(), "");
    assert_eq!(code, 2);
    assert!(error.contains("is not a cursor of this listing; use the text that ended the previous page"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_shown_without_and_exported_with_addresses() {
    let (folder, store) = choosing().await;
    fs::write(folder.path().join("people.csv"), "tenant,user,address\nacme,ann,ann@acme.example\n").unwrap();
    assert_eq!(run(folder.path(), &["recipients", "import", "people.csv"], "").0, 0);
    assert_eq!(run(folder.path(), &["preferences", "set", "acme/activity/ann", "--off", "share"], "").0, 0);
    let suppression = Suppression {
        tenant: "acme".into(),
        address: "ann@acme.example".into(),
        reason: SuppressionReason::Complaint,
        detail: "said so".into(),
        at: Timestamp::UNIX_EPOCH,
    };
    store.suppress(&suppression).await.unwrap();
    let (code, out, error) = run(folder.path(), &["recipients", "show", "acme/ann"], "");
    assert_eq!(code, 0, "{error}");
    for said in
        ["acme/ann: in the directory", "suppressed complaint since", "acme/activity/ann: revision 1", "consent  given"]
    {
        assert!(out.contains(said), "{said}: {out}");
    }
    let (_, json, _) = run(folder.path(), &["recipients", "show", "acme/ann", "--json"], "");
    assert!(!out.contains("ann@") && !json.contains("ann@"), "{out}{json}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["digest_types"][0]["preferences"]["chosen"]["off"], serde_json::json!(["share"]));
    let (_, out, _) = run(folder.path(), &["recipients", "show", "acme/ann", "--addresses"], "");
    assert!(out.contains("acme/ann: ann@acme.example"), "{out}");

    let export = ["recipients", "export", "acme/ann", "--out", "ann.json"];
    let (code, _, error) = run(folder.path(), &export, "");
    assert_eq!((code, error.contains("cannot be reached: open windows: Temporal at")), (1, true), "{error}");
    let file = folder.path().join("ann.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let json: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(json["recipient"]["address"], "ann@acme.example");
    assert_eq!((&json["preferences"][0]["revision"], &json["audit"][0]["action"]), (&1.into(), &"preferences".into()));
    assert_eq!(json["events"], serde_json::json!([]));
    assert_eq!((&json["windows"], &json["archived"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert!(json["unreachable"][0].as_str().unwrap().starts_with("open windows: "), "{json}");
    let (code, _, error) = run(folder.path(), &export, "");
    assert_eq!((code, error.contains("ann.json exists; name a new file")), (2, true), "{error}");

    for command in ["show", "export"] {
        let (code, out, error) = run(folder.path(), &["recipients", command, "acme/nobody"], "");
        assert_eq!((code, out.as_str()), (1, ""), "{error}");
        assert!(error.contains("nothing is held about acme/nobody; see tidings recipients list"), "{error}");
        let (code, _, error) = run(folder.path(), &["recipients", command, "acme/activity/ann"], "");
        assert_eq!((code, error.contains("is not TENANT/USER")), (2, true), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_other_providers_are_imported_once() {
    let (folder, store) = choosing().await;
    let file = "status,reason,email,created\n5.1.1,\"550 no, such user ann@acme.example\",Ann@acme.example,1795161600\n\
                4.2.2,full,bo@acme.example,1795161600\n,550 no,nowhere,1795161600\n";
    let import = ["suppressions", "import", "-", "--tenant", "acme"];
    for _ in 0..2 {
        let (code, out, error) = run(folder.path(), &import, file);
        assert_eq!((code, out.as_str()), (1, "suppressions: 1 accepted, 2 rejected\n"), "{error}");
        assert!(error.contains("line 3: status: \"4.2.2\" is a temporary failure"), "{error}");
        assert!(error.contains("line 4: email: \"nowhere\" is not an address"), "{error}");
    }
    let (_, out, _) = run(folder.path(), &["suppressions", "list", "--tenant", "acme"], "");
    assert_eq!(out, "acme  ann@acme.example  hard_bounce since Fri 2026-11-20 08:00:00 UTC: imported from sendgrid\n");
    // The list of Tidings itself comes back, from NDJSON.
    let (_, listed, _) = run(folder.path(), &["suppressions", "list", "--tenant", "acme", "--json"], "");
    let (code, out, error) = run(folder.path(), &import, &listed);
    assert_eq!((code, out.as_str()), (0, "suppressions: 1 accepted, 0 rejected\n"), "{error}");
    let reports = "email,created\ncarol@acme.example,1795161600\n";
    let (code, _, error) = run(folder.path(), &import, reports);
    assert_eq!((code, error.contains("name one with --reason")), (1, true), "{error}");
    let (code, _, error) = run(folder.path(), &[&import[..], &["--reason", "complaint"]].concat(), reports);
    assert_eq!(code, 0, "{error}");
    assert_eq!(store.suppression_reasons("acme", "carol@acme.example").await.unwrap(), [SuppressionReason::Complaint]);
    let (code, _, error) = run(folder.path(), &import, "mail,reason\n");
    assert_eq!((code, error.contains("no format has the columns mail,reason")), (2, true), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_suppressed_by_hand() {
    let (folder, store) = choosing().await;
    let add = [
        "suppressions",
        "add",
        "Ann@acme.example",
        "--tenant",
        "acme",
        "--reason",
        "unsubscribed",
        "--why",
        "letter",
        "--by",
        "carol",
    ];
    for said in ["suppressed: unsubscribed\n", "already suppressed: unsubscribed\n"] {
        let (code, out, error) = run(folder.path(), &add, "");
        assert_eq!((code, out.as_str()), (0, said), "{error}");
    }
    assert_eq!(store.suppression_reasons("acme", "ann@acme.example").await.unwrap(), [SuppressionReason::Unsubscribed]);
    for (arguments, said) in [
        (&["nowhere", "--tenant", "acme", "--reason", "complaint", "--why", "x"][..], "\"nowhere\" is not an address"),
        (&["a@b.example", "--tenant", "acme", "--reason", "complaint"], "--why <TEXT>"),
        (&["a@b.example", "--tenant", "acme", "--reason", "bounce", "--why", "x"], "possible values: hard_bounce"),
    ] {
        let (code, _, error) =
            run(folder.path(), &[&["suppressions", "add", "--by", "carol"][..], arguments].concat(), "");
        assert_eq!((code, error.contains(said)), (2, true), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_an_erasure_counts_and_an_erasure_needs_temporal() {
    let (folder, store) = choosing().await;
    fs::write(folder.path().join("people.csv"), "tenant,user,address\nacme,ann,ann@acme.example\n").unwrap();
    assert_eq!(run(folder.path(), &["recipients", "import", "people.csv"], "").0, 0);
    let erase = ["recipients", "erase", "acme/ann", "--why", "request 812", "--by", "carol"];
    let (code, out, error) = run(folder.path(), &[&erase[..], &["--dry-run"]].concat(), "");
    assert_eq!((code, out.as_str()), (0, "acme/ann: would be erased:\n  recipients: 1\n"), "{error}");
    for (arguments, code, said) in [
        (&[][..], 2, "--yes: is required, because there is no terminal to ask on"),
        (&["--yes"], 1, "Temporal at http://127.0.0.1:1 does not answer"),
    ] {
        let (found, out, error) = run(folder.path(), &[&erase[..], arguments].concat(), "");
        assert_eq!((found, out.as_str(), error.contains(said)), (code, "", true), "{error}");
    }
    let key = "acme/activity/ann".parse().unwrap();
    assert!(store.facts(&key).await.unwrap().recipient.is_some(), "nothing was erased");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_names_the_folder_of_an_archive_that_is_away_until_it_is_forgotten() {
    let (folder, store) = choosing().await;
    let archive = Archive::new(folder.path().join("old"));
    let file = archive.folder().join("2026-08-23/events-033000-00.ndjson.gz");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "").unwrap();
    store.remember_archive(&archive, Timestamp::now()).await.unwrap();
    // The place where its disk is mounted is left.
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
    let erase = ["recipients", "erase", "acme/ann", "--why", "request 812", "--by", "carol", "--dry-run"];
    let (code, _, error) = run(folder.path(), &erase, "");
    let named = format!("{} (files 2026-08-23/events-033000-00.ndjson.gz to ", archive.absolute_path());
    assert_eq!((code, error.contains(&named)), (1, true), "{error}");
    let forget = ["retention", "forget-archive", "old", "--why", "its files were deleted", "--by", "carol"];
    for expected in [0, 1] {
        let (code, _, error) = run(folder.path(), &forget, "");
        assert_eq!(code, expected, "{error}");
    }
    assert_eq!(run(folder.path(), &erase, "").0, 0);
}

const CHOICES: &str = "[digest.activity]\ncadence = \"daily 08:00\"\nchoices = [\"instant\", \"daily\", \"weekly mon 08:00\"]\n\
                       [tenant.acme]\nzone = \"Europe/Berlin\"\nquiet = [\"22:00-07:00\"]";

/// A folder with digest types to choose for, and its store.
async fn choosing() -> (TempDir, SqliteStore) {
    let folder = folder_with("tidings.toml", CHOICES);
    let store =
        SqliteStore::connect(&format!("sqlite://{}/.tidings/tidings.db", folder.path().display())).await.unwrap();
    store.migrate().await.unwrap();
    (folder, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_are_merged_and_audited_while_temporal_is_away() {
    let (folder, store) = choosing().await;
    let key = "acme/activity/ann".parse().unwrap();
    let set = ["preferences", "set", "acme/activity/ann", "--by", "carol"];
    let (code, out, error) = run(folder.path(), &[&set[..], &["--at", "18:30", "--off", "share"]].concat(), "");
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("cadence  daily 18:30  (chosen; the default is daily 08:00)"), "{out}");
    assert!(error.contains("warning: Temporal at http://127.0.0.1:1 does not answer"), "{error}");
    assert!(error.contains("the change is stored"), "{error}");

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
async fn a_change_of_an_older_revision_is_refused_with_the_current_values() {
    let (folder, store) = choosing().await;
    let set = ["preferences", "set", "acme/activity/ann", "--revision"];
    let (code, _, error) = run(folder.path(), &[&set[..], &["0", "--off", "share"]].concat(), "");
    assert_eq!(code, 0, "{error}");
    let (code, out, error) = run(folder.path(), &[&set[..], &["0", "--off", "like", "--json"]].concat(), "");
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("they have revision 1 now. Read them below, then repeat with --revision 1"), "{error}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["revision"], &json["chosen"]["off"]), (&1.into(), &serde_json::json!(["share"])));
    let (code, _, error) = run(folder.path(), &[&set[..], &["1", "--off", "like"]].concat(), "");
    assert_eq!(code, 0, "{error}");
    let facts = store.facts(&"acme/activity/ann".parse().unwrap()).await.unwrap();
    assert_eq!((facts.revision, facts.preferences.off.len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_preference_exits_with_2_and_changes_nothing() {
    let (folder, store) = choosing().await;
    let set = ["preferences", "set", "acme/activity/ann"];
    for (arguments, said) in [
        (
            &["--cadence", "hourly"][..],
            "cadence: \"hourly\" is not offered; choose among \"instant\", \"daily\", \"weekly",
        ),
        (&["--zone", "Europe/Berln"], "zone: \"Europe/Berln\" is not an IANA time zone"),
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
    let csv = "user,tenant,digest_type,cadence,zone,quiet,off,paused_until\n\
               ann,acme,activity,weekly mon 08:00,Asia/Tokyo,22:00-07:00; sat-sun 00:00-24:00,share;like,2126-01-01T00:00:00Z\n\
               bob,acme,activity,hourly,,,,\ncy,acme,alerts,,,,,\ndan,acme,activity,,,,,tomorrow\n,acme,activity,,,,,\n";
    fs::write(folder.path().join("people.csv"), csv).unwrap();
    for _ in 0..2 {
        let (code, out, error) = run(folder.path(), &["preferences", "import", "people.csv"], "");
        assert_eq!((code, out.as_str()), (1, "preferences: 1 accepted, 4 rejected\n"), "{error}");
        for said in [
            "line 3: cadence: \"hourly\" is not offered",
            "line 4: digest_type: digest type \"alerts\" is not configured",
            "line 5: paused_until: \"tomorrow\" is not a time",
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
