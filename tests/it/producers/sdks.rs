//! The programs of docs/producers.md, each with the SDK that the page names. `./dev test` runs those in Python and TypeScript, and
//! `./dev check --interop`, which sets the feature `interop`, runs all.

use std::{env, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tempfile::TempDir;
use temporalio_client::{Client as Temporal, UntypedWorkflow, WorkflowFetchHistoryOptions, WorkflowTerminateOptions};
use temporalio_common::protos::temporal::api::history::v1::{
    WorkflowExecutionStartedEventAttributes as Started, history_event::Attributes,
};
use tidings_harness::{python::python, server::DevServer};
use tidings_model::{Event, Key, names};
use tidings_needs::needs;
use tidings_workflows::InboundSignal;
use tokio::process::Command;

const PAGE: &str = include_str!("../../../docs/producers.md");
/// The page's user has a plain id. This one has what each language's own escaping gets wrong.
const USER: &str = "Zoë *~!'()+/%41";
/// A first run of Go compiles its SDK.
const LONGEST_RUN: Duration = Duration::from_mins(10);

/// The program of the page in this language, for [`USER`].
fn program(language: &str) -> Result<String> {
    let fence = format!("```{language}\n");
    let mut blocks = PAGE.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    let (Some(block), None) = (blocks.next(), blocks.next()) else { bail!("not one block of {language} on the page") };
    let program = block.replace("\"ann\"", &format!("\"{USER}\""));
    ensure!(program != block, "no user in the block of {language}");
    Ok(program)
}

/// Runs a program in its folder until it ends well.
async fn run(server: &DevServer, folder: &Path, command: &[&str]) -> Result<()> {
    let mut program = Command::new(command[0]);
    program.args(&command[1..]).current_dir(folder).env("TEMPORAL_ADDRESS", server.target()).kill_on_drop(true);
    let output = tokio::time::timeout(LONGEST_RUN, program.output()).await?.context("it does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(())
}

/// The start of the latest run of a key, and the events of its signals.
async fn latest_run(temporal: &Temporal, key: &Key) -> Result<(Started, Vec<Event>)> {
    let handle = temporal.get_workflow_handle::<UntypedWorkflow>(key.workflow_id());
    let history: Vec<_> = handle.fetch_history(WorkflowFetchHistoryOptions::default()).try_collect().await?;
    let (mut started, mut events) = (None, Vec::new());
    for event in history {
        match event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => started = Some(start),
            Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) => {
                assert_eq!(signal.signal_name, names::SIGNAL);
                let decoded = InboundSignal::from(signal.input.unwrap_or_default().payloads).for_key(key, 0);
                assert_eq!((decoded.retracts, decoded.dead_letters), (vec![], vec![]));
                events.extend(decoded.events);
            }
            _ => {}
        }
    }
    Ok((started.context("no start")?, events))
}

/// Runs a program twice while a run is open, and once more after that run has ended.
async fn hands_over_one_event(folder: &TempDir, file: &str, source: &str, command: &[&str]) -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    fs::write(folder.path().join(file), source)?;
    let began = Timestamp::now();
    let key = Key::new("acme".into(), "activity".into(), USER.into())?;
    for _ in 0..2 {
        run(&server, folder.path(), command).await?;
    }
    let (started, events) = latest_run(&temporal, &key).await?;
    assert_eq!(events.len(), 2, "both calls reach one run");
    for event in &events {
        assert_eq!((event.event_id.as_str(), event.category.as_str()), ("comment-4711", "comment"));
        assert_eq!(serde_json::to_value(&event.payload)?, json!({"title": "Bob replied to you"}));
        let sent_now = began - SignedDuration::from_secs(1)..=Timestamp::now();
        assert!(sent_now.contains(&event.occurred_at), "{}", event.occurred_at);
    }
    assert_eq!(started.workflow_type.map(|kind| kind.name).as_deref(), Some(names::WORKFLOW_TYPE));
    assert_eq!(started.task_queue.map(|queue| queue.name).as_deref(), Some(names::TASK_QUEUE));
    let times = [started.workflow_execution_timeout, started.workflow_run_timeout, started.first_workflow_task_backoff];
    assert!(times.into_iter().flatten().all(|time| (time.seconds, time.nanos) == (0, 0)), "{times:?}");
    assert_eq!((started.input.unwrap_or_default().payloads, started.retry_policy), (vec![], None));
    assert_eq!(started.cron_schedule, "");

    let handle = temporal.get_workflow_handle::<UntypedWorkflow>(key.workflow_id());
    handle.terminate(WorkflowTerminateOptions::default()).await?;
    run(&server, folder.path(), command).await?;
    assert_eq!(latest_run(&temporal, &key).await?.1.len(), 1, "the next call starts the next run");
    Ok(())
}

/// The program that a variable names, or else the one on the PATH.
fn tool(variable: &str, name: &str) -> String {
    env::var(variable).unwrap_or_else(|_| name.to_owned())
}

#[needs(temporal, python)]
#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_python_hands_over_one_event() -> Result<()> {
    let python = python()?.into_string().ok().context("a path in UTF-8")?;
    // The native threads of temporalio 1.35.0 may still run when the interpreter ends, which then aborts, as the page says.
    let source = program("python")? + "os._exit(0)\n";
    hands_over_one_event(&TempDir::new()?, "producer.py", &source, &[&python, "producer.py"]).await
}

#[needs(temporal, node, typescript_sdk)]
#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_typescript_hands_over_one_event() -> Result<()> {
    let folder = TempDir::new()?;
    let packages = env::var("TIDINGS_TEST_TYPESCRIPT_SDK").context("TIDINGS_TEST_TYPESCRIPT_SDK is not set")?;
    std::os::unix::fs::symlink(Path::new(&packages).join("node_modules"), folder.path().join("node_modules"))?;
    let node = tool("TIDINGS_TEST_NODE", "node");
    hands_over_one_event(&folder, "producer.mjs", &program("ts")?, &[&node, "producer.mjs"]).await
}

#[cfg(feature = "interop")]
#[needs(temporal, go)]
#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_go_hands_over_one_event() -> Result<()> {
    let folder = TempDir::new()?;
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/sdks/go");
    for file in ["go.mod", "go.sum"] {
        fs::copy(pinned.join(file), folder.path().join(file))?;
    }
    let go = tool("TIDINGS_TEST_GO", "go");
    hands_over_one_event(&folder, "main.go", &program("go")?, &[&go, "run", "."]).await
}

#[cfg(feature = "interop")]
#[needs(temporal, java_sdk)]
#[tokio::test(flavor = "multi_thread")]
async fn the_program_in_java_hands_over_one_event() -> Result<()> {
    let classpath = env::var("TIDINGS_TEST_JAVA_SDK").context("TIDINGS_TEST_JAVA_SDK is not set")?;
    let classpath = fs::read_to_string(classpath)?;
    let command = ["java", "-cp", classpath.trim(), "Producer.java"];
    hands_over_one_event(&TempDir::new()?, "Producer.java", &program("java")?, &command).await
}
