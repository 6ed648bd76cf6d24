//! What an upgrade, and the way back, rely on: state and tables of a later version are taken by an earlier one, and the other
//! way round. `./dev upgrade` shows the rest.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use temporalio_common::protos::temporal::api::common::v1::Payload;
use tidings_tests::{checker, outside::Outside, stage::key};
use tidings_workflows::Carried;

/// The state that a recorded run handed to the next one.
fn recorded() -> Result<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/histories/continued_as_new.json");
    let history: Value = serde_json::from_slice(&fs::read(path)?)?;
    let events = history["events"].as_array().context("events")?;
    let last = events.last().and_then(|event| find(event, "WorkflowExecutionContinuedAsNewEventAttributes"));
    let data = last.and_then(|last| last["input"]["payloads"][0]["data"].as_str()).context("a state")?;
    Ok(serde_json::from_slice(&BASE64_STANDARD.decode(data)?)?)
}

fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).or_else(|| value.as_object()?.values().find_map(|value| find(value, name)))
}

/// How many events of a state are taken over.
fn carried(state: &Value) -> usize {
    let payload = Payload { data: state.to_string().into_bytes(), ..Payload::default() };
    Carried::read(&[payload]).into_events().len()
}

#[test]
fn what_a_later_version_adds_to_the_state_is_left_out() -> Result<()> {
    let mut state = recorded()?;
    assert_eq!(carried(&state), 1);
    for place in ["", "/open", "/open/window", "/open/plan", "/pending/0", "/pending/0/event", "/summary"] {
        state.pointer_mut(place).with_context(|| place.to_owned())?["later"] = json!({"since": 2});
    }
    assert_eq!(carried(&state), 1);
    Ok(())
}

#[test]
fn only_what_every_version_wrote_is_required_of_the_state() -> Result<()> {
    let recorded = recorded()?;
    let mut required = BTreeSet::new();
    for name in recorded.as_object().context("an object")?.keys().filter(|name| *name != "pending") {
        let mut state = recorded.clone();
        state.as_object_mut().context("an object")?.remove(name);
        if carried(&state) == 0 {
            required.insert(name.clone());
        }
    }
    assert_eq!(required, BTreeSet::from(["first_run_id", "windows"].map(str::to_owned)));
    Ok(())
}

/// Why a word or a kind of value that an earlier version does not know must not be written before it is gone.
#[test]
fn a_state_that_cannot_be_read_counts_as_none() -> Result<()> {
    let unknown_word = json!({"digest_id": uuid::Uuid::nil(), "outcome": "postponed"});
    for (place, value) in [("/summary/last", unknown_word), ("/windows", json!("1")), ("/open/runs", json!({}))] {
        let mut state = recorded()?;
        *state.pointer_mut(place).with_context(|| place.to_owned())? = value;
        assert_eq!(carried(&state), 0, "{place}");
    }
    Ok(())
}

/// What a later migration may do: a table, and columns with a default.
async fn migrate_further(outside: &Outside) -> Result<()> {
    let mut ledger = SqliteConnection::connect(&format!("sqlite://{}", outside.ledger().display())).await?;
    let mut statements = "CREATE TABLE later (id INTEGER PRIMARY KEY);\n".to_owned();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'
                  AND name NOT LIKE 'sqlite%'";
    for (table,) in sqlx::query_as::<_, (String,)>(tables).fetch_all(&mut ledger).await? {
        statements += &format!("ALTER TABLE {table} ADD COLUMN later TEXT NOT NULL DEFAULT '';\n");
    }
    statements += "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                   SELECT MAX(version) + 1, 'later', TRUE, x'00', 0 FROM _sqlx_migrations;";
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut ledger).await?;
    Ok(ledger.close().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_on_the_tables_of_a_later_version_and_only_migrate_refuses_them() -> Result<()> {
    let mut outside = Outside::start("after 1s").await?;
    let ann = key("activity", "ann");
    outside.import(&BTreeSet::from([ann.clone()])).await?;
    migrate_further(&outside).await?;
    outside.start_worker()?;
    let line = json!({"tenant": ann.tenant, "digest": ann.digest_type, "user": ann.user, "event_id": "e1",
                      "category": "comment", "occurred_at": jiff::Timestamp::now()});
    let events = outside.folder.path().join("events.ndjson");
    fs::write(&events, format!("{line}\n"))?;
    outside.emit(&events).await?;
    outside.settled(&BTreeSet::from([ann.clone()]), std::time::Duration::from_secs(60)).await?;
    let verdict = outside.check(&checker::acknowledged(&ann, "e1"))?;
    assert_eq!((verdict.code, verdict.mails), (Some(0), 1), "{:?}", verdict.violations);
    let refused = outside.run(&["migrate"]).await.unwrap_err().to_string();
    println!("{refused}");
    assert!(refused.contains("migration 2 was previously applied"), "{refused}");
    Ok(())
}
