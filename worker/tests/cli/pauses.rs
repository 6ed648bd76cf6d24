//! Pauses: to the store and back, also while Temporal is away.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tidings_store::SqliteStore;

use crate::run;

const BY: [&str; 4] = ["--by", "ann", "--why", "wrong prices"];

pub(super) async fn migrated() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store =
        SqliteStore::connect(&format!("sqlite://{}/.tidings/tidings.db", folder.path().display())).await.unwrap();
    store.migrate().await.unwrap();
    fs::write(folder.path().join("tidings.toml"), "[digest.activity]\ncadence = \"daily 08:00\"\n").unwrap();
    folder
}

fn listed(folder: &TempDir, options: &[&str]) -> Vec<Value> {
    let (code, out, error) = run(folder.path(), &[&["pause", "list", "--json"], options].concat(), "");
    assert_eq!(code, 0, "{error}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_in_force_although_temporal_is_away() {
    let folder = migrated().await;
    let pause = [&["pause", "--filter", "tenant=acme and digest_type=activity", "--until", "2h"], &BY[..]].concat();
    let (code, out, error) = run(folder.path(), &pause, "");
    assert_eq!(code, 1, "{error}");
    assert!(out.contains("tenant=acme and digest_type=activity  paused by ann since "), "{out}");
    assert!(
        error.contains("stored, but workflows could not be signalled: Temporal at http://127.0.0.1:1 does not answer"),
        "{error}"
    );
    assert!(error.contains("run the command again"), "{error}");

    let pauses = listed(&folder, &[]);
    assert_eq!(pauses.len(), 1);
    let pause = &pauses[0];
    assert_eq!(
        (&pause["tenant"], &pause["digest_type"], &pause["messages"]),
        (&"acme".into(), &"activity".into(), &false.into())
    );
    assert!(pause["until"].is_string() && pause["ended"].is_null(), "{pause}");

    let (_, out, error) = run(folder.path(), &["preferences", "get", "acme/activity/ann"], "");
    assert!(out.contains("\n  next     paused by ann since ") && out.contains(": wrong prices"), "{out}{error}");

    let id = pause["id"].as_str().unwrap();
    let (_, out, _) = run(folder.path(), &[&["resume", "--id", id], &BY[..]].concat(), "");
    assert_eq!(out, "tenant=acme and digest_type=activity is resumed\n");
    assert!(listed(&folder, &[]).is_empty());
    assert_eq!(listed(&folder, &["--all"])[0]["ended"]["by"], "ann");
    let (_, out, error) = run(folder.path(), &["pause", "list"], "");
    assert_eq!((out.as_str(), error.as_str()), ("", "no pauses\n"));
    // Again, for the keys that no signal reached.
    let (code, out, _) = run(folder.path(), &[&["resume", "--id", id], &BY[..]].concat(), "");
    assert_eq!((code, out.as_str()), (1, "tenant=acme and digest_type=activity was no longer paused\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_names_the_pauses_that_still_stop_its_keys() {
    let folder = migrated().await;
    for words in ["all", "tenant=acme", "tenant=zeta", "digest_type=alrts"] {
        let (_, _, error) = run(folder.path(), &[&["pause", "--filter", words], &BY[..]].concat(), "");
        assert_eq!(error.contains("no [digest.alrts]"), words == "digest_type=alrts", "{error}");
    }
    let (_, out, error) = run(folder.path(), &[&["resume", "--filter", "tenant=acme"], &BY[..]].concat(), "");
    assert_eq!(out, "tenant=acme is resumed\n");
    assert!(error.contains("  all  paused by ann") && !error.contains("zeta"), "{error}");
    let (code, out, _) = run(folder.path(), &[&["resume", "--filter", "digest_type=activity"], &BY[..]].concat(), "");
    assert_eq!((code, out.as_str()), (0, "digest_type=activity is not paused\n"));
}

#[test]
fn words_that_pause_nothing_or_one_user_exit_with_2() {
    let folder = TempDir::new().unwrap();
    for (arguments, said) in [
        (&["pause", "--filter", "tenant=acme and user=ann"][..], "tidings digest hold TENANT/TYPE/USER"),
        (&["pause", "--filter", "tennant=acme"], "\"tennant\" selects nothing"),
        (&["pause", "--filter", "digest_type=alerts", "--messages"], "name their tenant"),
        (&["pause", "--filter", "all", "--until", "yesterday"], "is neither a time nor a span"),
        (&["pause"], "--filter"),
        (&["resume"], "--filter"),
        (&["resume", "--filter", "all", "--id", "6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2"], "cannot be used with"),
    ] {
        let (code, _, error) = run(folder.path(), &[arguments, &BY[..]].concat(), "");
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    let (code, _, error) = run(folder.path(), &["pause", "--filter", "all"], "");
    assert_eq!(code, 2);
    assert!(error.contains("--why"), "{error}");
}
