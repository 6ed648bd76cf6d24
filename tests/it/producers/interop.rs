//! Producers that are not Rust: what they send, by the commands of docs/events.md, is the same event to the workflow.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use temporalio_client::{Client as Temporal, UntypedWorkflow, WorkflowFetchHistoryOptions};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use tidings_harness::{python::python, server::DevServer};
use tidings_model::{Event, Key, Retract, decode::DecodedSignal};
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_workflows::InboundSignal;

const EVENT: &str = r#"{
    "tenant": "acme", "digest": "activity", "user": "any", "event_id": "event-1", "category": "comment",
    "entity_type": "document", "entity_id": "42", "actor": "Ann", "occurred_at": "2026-01-31T08:00:00.5Z",
    "counts": {"critical": 2}, "urgent": true,
    "payload": {"title": "Plan <1>", "url": "https://example.com/42", "rank": 3}
}"#;

const RETRACT: &str = r#"{
    "tenant": "acme", "digest": "activity", "user": "any", "category": "comment", "entity_type": "document",
    "entity_id": "42", "occurred_at": "2026-01-31T08:00:00.5Z"
}"#;

fn expected_retract() -> Result<Retract> {
    Ok(Retract::from_wire(serde_json::from_str(RETRACT)?, None)?.1)
}

fn expected() -> Result<Event> {
    Ok(Event::from_wire(serde_json::from_str::<v1::Event>(EVENT)?, None)?.1)
}

/// The first signal of the user's digest.
async fn received(temporal: &Temporal, user: &str) -> Result<DecodedSignal> {
    let key = Key::new("acme".into(), "activity".into(), user.into())?;
    let handle = temporal.get_workflow_handle::<UntypedWorkflow>(key.workflow_id());
    let mut history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
    while let Some(event) = history.next().await {
        if let Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) = event?.attributes {
            return Ok(InboundSignal::from(signal.input.unwrap_or_default().payloads).for_key(&key, 0));
        }
    }
    anyhow::bail!("{user} has no signal")
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} does not start"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[needs(temporal, python)]
#[tokio::test]
async fn the_python_sdk_sends_the_same_events_and_retracts() -> Result<()> {
    let python = python()?;
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg(folder.join("interop/send.py")).arg(server.target()).arg(folder.join("../proto"));
    let users = run(&mut command)?;
    assert_eq!(users.lines().count(), 13);
    for user in users.lines() {
        let sorted = received(&temporal, user).await?;
        assert_eq!(sorted.dead_letters, [], "{user}");
        if user.starts_with("retract-") {
            assert_eq!((sorted.events, sorted.retracts), (vec![], vec![expected_retract()?]), "{user}");
        } else {
            assert_eq!((sorted.events, sorted.retracts), (vec![expected()?], vec![]), "{user}");
        }
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn the_temporal_cli_sends_the_same_retract() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let cli = env::var_os("TEMPORAL_CLI").unwrap_or_else(|| "temporal".into());
    let mut command = Command::new(cli);
    command
        .args(["workflow", "signal-with-start", "--address", &server.target()])
        .args(["--type", "digest", "--task-queue", "tidings", "--workflow-id", "digest/acme/activity/cli"])
        .args(["--id-reuse-policy", "AllowDuplicate", "--id-conflict-policy", "UseExisting", "--signal-name", "events"])
        .args(["--signal-input", &format!(r#"{{"retracts": [{}]}}"#, RETRACT.replace("\"any\"", "\"cli\""))]);
    run(&mut command)?;
    let sorted = received(&temporal, "cli").await?;
    assert_eq!((sorted.retracts, sorted.dead_letters), (vec![expected_retract()?], vec![]));
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn the_temporal_cli_sends_the_same_event() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let event = EVENT.replace("\"any\"", "\"cli\"");
    let cli = env::var_os("TEMPORAL_CLI").unwrap_or_else(|| "temporal".into());
    let mut command = Command::new(cli);
    command
        .args(["workflow", "signal-with-start", "--address", &server.target()])
        .args(["--type", "digest", "--task-queue", "tidings", "--workflow-id", "digest/acme/activity/cli"])
        .args(["--id-reuse-policy", "AllowDuplicate", "--id-conflict-policy", "UseExisting"])
        .args(["--search-attribute", "TidingsTenant=\"acme\"", "--search-attribute", "TidingsDigestType=\"activity\""])
        .args(["--signal-name", "events", "--signal-input", &event]);
    run(&mut command)?;
    let sorted = received(&temporal, "cli").await?;
    assert_eq!((sorted.events, sorted.dead_letters), (vec![expected()?], vec![]));
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn an_unreadable_signal_becomes_a_dead_letter() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let cli = env::var_os("TEMPORAL_CLI").unwrap_or_else(|| "temporal".into());
    let mut command = Command::new(cli);
    command
        .args(["workflow", "signal-with-start", "--address", &server.target()])
        .args(["--type", "digest", "--task-queue", "tidings", "--workflow-id", "digest/acme/activity/cli"])
        .args([
            "--signal-name",
            "events",
            "--signal-input",
            "not JSON",
            "--signal-input-meta",
            "encoding=binary/plain",
        ]);
    run(&mut command)?;
    let sorted = received(&temporal, "cli").await?;
    assert!(sorted.events.is_empty());
    assert_eq!((sorted.dead_letters[0].encoding.as_str(), sorted.dead_letters[0].size), ("binary/plain", 8));
    Ok(())
}
