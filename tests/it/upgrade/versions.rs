//! Compatibility of versions: an earlier version takes state and tables of a later one, and the other way round. `./dev
//! upgrade` tests the rest.

use std::{collections::BTreeSet, fmt::Write as _, fs, time::Duration};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sqlx::Connection as _;
use temporalio_client::WorkflowExecutionStatus;
use temporalio_common::{
    data_converters::RawValue,
    error::ApplicationFailure,
    protos::temporal::api::{
        common::v1::{Payload, Payloads},
        history::v1::{HistoryEvent, WorkflowExecutionStartedEventAttributes as Started, history_event::Attributes},
    },
};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkerOptions, WorkflowContext, WorkflowContextView, WorkflowResult,
};
use tidings_harness::{
    checker,
    cli_env::CliEnv,
    env::{Env, event, key, ledger, settings},
    wait::eventually,
    worker::Running,
};
use tidings_model::names;
use tidings_needs::needs;
use tidings_workflows::{RunInput, UnreadableState};

const MINUTE: Duration = Duration::from_mins(1);

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

/// The number of events taken from a state, by the first run or by a run that another one `continued`.
fn carried(state: &Value, continued: bool) -> Result<usize, UnreadableState> {
    let payload = Payload { data: state.to_string().into_bytes(), ..Payload::default() };
    let before = if continued { "a run" } else { "" };
    let input = Some(Payloads { payloads: vec![payload] });
    let started = Started { input, continued_execution_run_id: before.to_owned(), ..Started::default() };
    RunInput::from_started_event(started).map(|told| told.events.len())
}

#[test]
fn state_fields_of_a_later_version_are_ignored() -> Result<()> {
    let mut state = recorded()?;
    assert_eq!(carried(&state, true), Ok(1));
    for place in ["", "/open", "/open/window", "/open/plan", "/pending/0", "/pending/0/event", "/summary"] {
        state.pointer_mut(place).with_context(|| place.to_owned())?["later"] = json!({"since": 2});
    }
    assert_eq!(carried(&state, true), Ok(1));
    Ok(())
}

#[test]
fn only_state_fields_that_every_version_wrote_are_required() -> Result<()> {
    let recorded = recorded()?;
    let mut required = BTreeSet::new();
    for name in recorded.as_object().context("an object")?.keys().filter(|name| *name != "pending") {
        let mut state = recorded.clone();
        state.as_object_mut().context("an object")?.remove(name);
        if carried(&state, true).is_err() {
            required.insert(name.clone());
        }
    }
    assert_eq!(required, BTreeSet::from(["first_run_id", "windows"].map(str::to_owned)));
    Ok(())
}

/// States that this version cannot read: an unknown word, and values of another type.
fn later() -> Result<Vec<Value>> {
    let unknown_word = json!({"digest_id": uuid::Uuid::nil(), "outcome": "postponed"});
    let changes = [("/summary/last", unknown_word), ("/windows", json!("1")), ("/open/runs", json!({}))];
    changes
        .into_iter()
        .map(|(place, value)| {
            let mut state = recorded()?;
            *state.pointer_mut(place).with_context(|| place.to_owned())? = value;
            Ok(state)
        })
        .collect()
}

#[test]
fn an_unreadable_state_is_an_error_and_a_producers_argument_is_not() -> Result<()> {
    for state in later()? {
        let problem = carried(&state, true).unwrap_err().to_string();
        assert!(problem.contains("a later version of the worker wrote it"), "{problem}");
        assert_eq!(carried(&state, false), Ok(0), "{state}");
    }
    Ok(())
}

/// The digest workflow of a later version. After a signal it hands over what this version cannot read; after another one, which
/// needs no more than to have read it, it ends.
#[workflow]
struct Later {
    continued: bool,
    signals: u32,
}

#[workflow_methods]
impl Later {
    #[init]
    fn new(ctx: &WorkflowContextView, _: RawValue) -> Self {
        Self { continued: ctx.continued_from_run_id().is_some(), signals: 0 }
    }

    #[run(name = "digest")]
    async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        ctx.wait_condition(|w| w.signals > 0).await?;
        if !ctx.state(|w| w.continued) {
            let state = later().map_err(|error| ApplicationFailure::non_retryable(error.to_string()))?;
            let payloads = state.first().map(|state| Payload { data: state.to_string().into(), ..Payload::default() });
            ctx.continue_as_new(RawValue::new(payloads.into_iter().collect()), ContinueAsNewOptions::default())?;
        }
        Ok(())
    }

    #[signal(name = "events")]
    fn events(&mut self, _: &mut SyncWorkflowContext<Self>, _: RawValue) {
        self.signals += 1;
    }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_later_state_waits_for_a_worker_that_can_read_it() -> Result<()> {
    let mut env = Env::without_worker(settings("after 1s", "after 1d")).await?;
    let ann = key("activity", "ann");
    let later = || anyhow::Ok(WorkerOptions::new(names::TASK_QUEUE).register_workflow::<Later>()?.build());

    let worker = Running::start(env.temporal.clone(), later()?)?;
    env.events.emit(event(&ann, "e1")).await?;
    let first = env.run(&ann).await?;
    let next = async || Ok((env.run(&ann).await? != first).then_some(()));
    eventually("it continues as new", MINUTE, next).await?;
    worker.stop()?;

    env.start_worker()?;
    env.events.emit(event(&ann, "e2")).await?;
    let failed =
        eventually("the workflow task fails", MINUTE, async || Ok(task_failure(&env.history(&ann).await?))).await?;
    assert!(failed.contains("a later version of the worker wrote it") && !failed.contains("postponed"), "{failed}");
    env.stop_worker()?;
    assert!(!env.is_idle(&ann).await?);

    let worker = Running::start(env.temporal.clone(), later()?)?;
    let ended = async || Ok(env.is_idle(&ann).await?.then_some(()));
    eventually("a worker that can read it goes on", MINUTE, ended).await?;
    assert_eq!(env.run_status(&ann).await?, WorkflowExecutionStatus::Completed);
    worker.stop()
}

fn task_failure(history: &[HistoryEvent]) -> Option<String> {
    history.iter().find_map(|event| match &event.attributes {
        Some(Attributes::WorkflowTaskFailedEventAttributes(failed)) => Some(failed.failure.clone()?.message),
        _ => None,
    })
}

/// Migrates as a later version may: a table, and columns with a default.
async fn migrate_further(cli: &CliEnv) -> Result<()> {
    let mut ledger = ledger(cli.folder.path()).await?;
    let mut statements = "CREATE TABLE later (id INTEGER PRIMARY KEY);\n".to_owned();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'
                  AND name NOT LIKE 'sqlite%'";
    for (table,) in sqlx::query_as::<_, (String,)>(tables).fetch_all(&mut ledger).await? {
        writeln!(statements, "ALTER TABLE {table} ADD COLUMN later TEXT NOT NULL DEFAULT '';")?;
    }
    statements += "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                   SELECT MAX(version) + 1, 'later', TRUE, x'00', 0 FROM _sqlx_migrations;";
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut ledger).await?;
    Ok(ledger.close().await?)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_accepts_newer_tables_and_migrate_refuses_them() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    let ann = key("activity", "ann");
    cli.import(&BTreeSet::from([ann.clone()])).await?;
    migrate_further(&cli).await?;
    cli.start_worker()?;
    let line = json!({"tenant": ann.tenant, "digest": ann.digest_type, "user": ann.user, "event_id": "e1",
                      "category": "comment", "occurred_at": jiff::Timestamp::now()});
    let events = cli.folder.path().join("events.ndjson");
    fs::write(&events, format!("{line}\n"))?;
    cli.emit(&events).await?;
    cli.settled(&BTreeSet::from([ann.clone()]), MINUTE).await?;
    let verdict = cli.check(&checker::acknowledged(&ann, "e1"))?;
    assert_eq!((verdict.code, verdict.mails), (Some(0), 1), "{:?}", verdict.violations);
    let refused = cli.run(&["migrate"]).await.unwrap_err().to_string();
    println!("{refused}");
    assert!(refused.contains("a later version of Tidings migrated the database (migration "), "{refused}");
    Ok(())
}
