//! `tidings emit` refuses a digest type that its file lacks, and warns of what looks like a mistake.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};
use tidings_harness::cli_env::CliEnv;
use tidings_needs::needs;

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_digest_type_is_rejected_alone_and_an_untitled_event_emitted_with_a_warning() -> Result<()> {
    let cli = CliEnv::start("after 1h").await?;
    let event = |id: &str, digest: &str, payload: Value| {
        json!({"tenant": "acme", "user": "ann", "digest": digest, "event_id": id, "category": "comment",
               "occurred_at": "2026-01-31T08:00:00Z", "payload": payload})
    };
    let titled = json!({"title": "Plans"});
    let lines = [
        event("e1", "activity", json!({})),
        event("e2", "activty", titled.clone()),
        event("e3", "activity", titled.clone()),
    ];
    fs::write(cli.folder.path().join("events.ndjson"), lines.map(|line| format!("{line}\n")).concat())?;
    let output = cli.tidings().args(["emit", "events.ndjson"]).output().await?;
    let (said, warned) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert_eq!((output.status.code(), said.as_str()), (Some(1), "events: 2 accepted, 1 rejected\n"), "{warned}");
    assert!(warned.contains("line 1: warning: payload.title: is missing"), "{warned}");
    assert!(
        warned.contains("line 2: digest: is activty, a digest type that no table has; did you mean activity?"),
        "{warned}"
    );

    // A warning is no failure. A producer without digest types of its own knows none, and sends.
    fs::write(cli.folder.path().join("one.ndjson"), format!("{}\n", event("e4", "activity", json!({}))))?;
    let (code, said) = cli.ask(&["emit", "--json", "one.ndjson"]).await?;
    let first: Value = serde_json::from_str(said.lines().next().unwrap_or_default())?;
    assert_eq!(
        (code, &first["warning"]["line"], &first["warning"]["field"]),
        (0, &json!(1), &json!("payload.title")),
        "{said}"
    );
    fs::write(cli.folder.path().join("tidings.toml"), "")?;
    fs::write(cli.folder.path().join("other.ndjson"), format!("{}\n", event("e5", "other", titled)))?;
    let (code, said) = cli.ask(&["emit", "other.ndjson"]).await?;
    assert_eq!((code, said.as_str()), (0, "events: 1 accepted, 0 rejected\n"));
    Ok(())
}
