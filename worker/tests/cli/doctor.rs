//! `tidings doctor` without its servers. With them it is in tests/it/operators/doctor.rs.

use serde_json::Value;

use super::{folder_with, pauses::migrated, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_says_what_fails_what_works_and_what_to_do() {
    let folder = migrated().await;
    let (code, out, error) = run(folder.path(), &["doctor", "--json"], "");
    assert_eq!(code, 1, "{error}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(conclusion.starts_with("Failed: Temporal, relays. Working: configuration, database, machine"), "{out}");
    assert_eq!(report["ok"], false);
    let finding = |area: &str, check: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["area"] == area && finding["check"] == check).unwrap_or(&Value::Null)
    };
    let temporal = finding("temporal", "connection");
    let found = temporal["found"].as_str().unwrap();
    assert!(found.contains("http://127.0.0.1:1") && found.contains("TEMPORAL_ADDRESS"), "{temporal}");
    assert_eq!(finding("relays", "default")["remedy"], "run `tidings relays test default`", "{out}");
    assert_eq!(finding("work", "backlog")["verdict"], "skipped", "{out}");
    assert_eq!(finding("database", "query")["verdict"], "ok", "{out}");
}

#[test]
fn a_doctor_finds_a_broken_file_and_a_database_without_tables() {
    let folder = folder_with("tidings.toml", "[digest.activity]\ncadence = \"sometimes\"\n");
    let (code, out, _) = run(folder.path(), &["doctor"], "");
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("failed   configuration  file: ") && out.contains("sometimes"), "{out}");
    assert!(out.ends_with("\nFailed: configuration.\n"), "{out}");

    let folder = folder_with("tidings.toml", "[digest.activity]\ncadence = \"daily 08:00\"\n");
    let (code, out, _) = run(folder.path(), &["doctor"], "");
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("failed   database       connection: ") && out.contains("tidings migrate"), "{out}");
}
