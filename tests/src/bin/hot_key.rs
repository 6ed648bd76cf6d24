//! How late is a timer while ten processes emit to its workflow as fast as their clients let them? Also checks that
//! every acknowledged id is in the histories of the chain of runs. `./dev bench hot-key [SECONDS] [PROCESSES] [EMITTERS]`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, future::try_join_all};
use serde::{Deserialize, Serialize};
use temporalio_client::{
    Client as Temporal, UntypedWorkflow, WorkflowExecutionInfo, WorkflowFetchHistoryOptions, WorkflowHandle,
};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ContinueAsNewOptions, Runtime, SyncWorkflowContext, TimerOptions, Worker, WorkerOptions, WorkflowContext,
    WorkflowResult, runtime::RuntimeOptions, workflows::select,
};
use tidings_client::{Client, Config, v1};
use tidings_tests::server::DevServer;
use tidings_workflows::{Inbound, Key};

const TASK_QUEUE: &str = "hot-key";
const TICK: Duration = Duration::from_secs(1);
/// Signals of one run.
const ROLL_AFTER: u32 = 1_000;

/// How long after the last acknowledgement the last signal may take to show in the history.
const SETTLED: Duration = Duration::from_mins(1);

/// A window as hot as can be: ticks, takes signals, keeps nothing.
#[workflow]
#[derive(Default)]
struct Probe {
    signals: u32,
}

#[workflow_methods]
impl Probe {
    #[run(name = "digest")]
    async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        loop {
            if ctx.continue_as_new_suggested() || ctx.state(|probe| probe.signals >= ROLL_AFTER) {
                ctx.continue_as_new((), ContinueAsNewOptions::default())?;
            }
            let token = ctx.cancellation_token().child_token();
            let mut tick = ctx.timer(TimerOptions::builder(TICK).cancellation_token(token.clone()).build());
            let waiting = ctx.clone();
            let mut full = waiting.wait_condition(|probe| probe.signals >= ROLL_AFTER);
            select! { _ = tick => {}, _ = full => token.cancel() }
        }
    }

    #[signal(name = "events")]
    fn events(&mut self, _: &mut SyncWorkflowContext<Self>, inbound: Inbound) {
        self.signals += u32::from(inbound.for_key(&key_or_panic(), 0).refused.is_empty());
    }
}

fn key_or_panic() -> Key {
    Key::new("acme".into(), "activity".into(), "hot".into()).expect("a valid key")
}

/// What one emitting process reports on its last line.
#[derive(Serialize, Deserialize)]
struct Report {
    process: usize,
    /// For each emitter, how many of its ids, counted from 0, were acknowledged.
    acknowledged: Vec<usize>,
    errors: usize,
    /// Milliseconds from `emit` to its acknowledgement, sorted.
    took: Vec<i64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |arg| arg.parse::<usize>());
    if args.first().is_some_and(|role| role == "emit") {
        return emit(number(1, 0)?, number(2, 0)?, number(3, 0)?).await;
    }
    let (seconds, processes, emitters) = (number(0, 600)?, number(1, 10)?, number(2, 10)?);
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
    let options = WorkerOptions::new(TASK_QUEUE).register_workflow::<Probe>()?.build();
    let mut worker = Worker::new(&runtime, temporal.clone(), options)?;
    let shut_down = worker.shutdown_handle();
    let experiment = async {
        let judged = match run_emitters(&server.target(), seconds, processes, emitters).await {
            Ok(reports) => judge(&temporal, &reports, seconds).await,
            Err(error) => Err(error),
        };
        shut_down();
        judged
    };
    let (ran, judged) = tokio::join!(worker.run(), experiment);
    ran?;
    judged
}

async fn run_emitters(target: &str, seconds: usize, processes: usize, emitters: usize) -> Result<Vec<Report>> {
    try_join_all((0..processes).map(|process| async move {
        let child = Command::new(env::current_exe()?)
            .args(["emit", &process.to_string(), &seconds.to_string(), &emitters.to_string()])
            .env("TEMPORAL_ADDRESS", target)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await??;
        ensure!(output.status.success(), "emitter {process} ended with {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }))
    .await
}

/// The role of a child process.
async fn emit(process: usize, seconds: usize, emitters: usize) -> Result<()> {
    let client = Client::connect(Config { task_queue: TASK_QUEUE.into(), ..Config::default() }).await?;
    let until = Instant::now() + Duration::from_secs(seconds as u64);
    let runs = (0..emitters).map(|emitter| emit_one_by_one(&client, process, emitter, until));
    let mut report = Report { process, acknowledged: Vec::new(), errors: 0, took: Vec::new() };
    for (acknowledged, errors, took) in try_join_all(runs).await? {
        report.acknowledged.push(acknowledged);
        report.errors += errors;
        report.took.extend(took);
    }
    report.took.sort_unstable();
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

async fn emit_one_by_one(
    client: &Client,
    process: usize,
    emitter: usize,
    until: Instant,
) -> Result<(usize, usize, Vec<i64>)> {
    let (mut acknowledged, mut errors, mut took) = (0, 0, Vec::new());
    while Instant::now() < until {
        let started = Instant::now();
        match client.emit(event(&id(process, emitter, acknowledged))).await {
            Ok(()) => {
                acknowledged += 1;
                took.push(i64::try_from(started.elapsed().as_millis())?);
            }
            Err(error) if error.is_retryable() => errors += 1,
            Err(error) => bail!(error),
        }
    }
    Ok((acknowledged, errors, took))
}

fn id(process: usize, emitter: usize, number: usize) -> String {
    format!("{process}-{emitter}-{number}")
}

fn event(id: &str) -> v1::Event {
    v1::Event {
        tenant: "acme".into(),
        user: "hot".into(),
        digest: "activity".into(),
        event_id: id.into(),
        category: "comment".into(),
        occurred_at: Some(jiff::Timestamp::now().into()),
        ..v1::Event::default()
    }
}

/// What the histories of the chain of runs say.
#[derive(Default)]
struct Seen {
    runs: usize,
    signals: usize,
    longest_history: usize,
    ids: BTreeSet<String>,
    /// Milliseconds from a timer's due time to the end of the workflow task that saw it fire.
    lateness: Vec<i64>,
    /// Milliseconds from a run's start to the end of its first workflow task.
    first_task: Vec<i64>,
}

async fn judge(temporal: &Temporal, reports: &[Report], seconds: usize) -> Result<()> {
    let acknowledged: Vec<_> = reports.iter().flat_map(acknowledged_ids).collect();
    let deadline = Instant::now() + SETTLED;
    let (seen, missing) = loop {
        let seen = read_chain(temporal).await?;
        let missing = acknowledged.iter().filter(|id| !seen.ids.contains(*id)).count();
        // A signal that arrives during a workflow task enters the history only when the task ends.
        if missing == 0 || Instant::now() > deadline {
            break (seen, missing);
        }
    };
    let took: Vec<_> = reports.iter().flat_map(|report| report.took.iter().copied()).collect();
    println!("runs {}, longest history {} events", seen.runs, seen.longest_history);
    println!("signals {}, {}/s", seen.signals, seen.signals / seconds.max(1));
    println!(
        "acknowledged {}, missing {missing}, errors {}",
        acknowledged.len(),
        reports.iter().map(|r| r.errors).sum::<usize>()
    );
    println!("timer lateness ms {}", quantiles(seen.lateness));
    println!("first task of a run ms {}", quantiles(seen.first_task));
    println!("emit to acknowledgement ms {}", quantiles(took));
    ensure!(missing == 0, "{missing} acknowledged events are lost");
    Ok(())
}

fn acknowledged_ids(report: &Report) -> impl Iterator<Item = String> {
    let process = report.process;
    let emitters = report.acknowledged.iter().enumerate();
    emitters.flat_map(move |(emitter, count)| (0..*count).map(move |number| id(process, emitter, number)))
}

async fn read_chain(temporal: &Temporal) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut run = Some(String::new());
    while let Some(run_id) = run.take() {
        let info = WorkflowExecutionInfo::builder()
            .namespace("default")
            .workflow_id(key_or_panic().workflow_id())
            .maybe_run_id(Some(run_id).filter(|id| !id.is_empty()))
            .build();
        run = read_run(&WorkflowHandle::new(temporal.clone(), info), &mut seen).await?;
    }
    Ok(seen)
}

/// Reads one run; returns the run before it.
async fn read_run(handle: &WorkflowHandle<Temporal, UntypedWorkflow>, seen: &mut Seen) -> Result<Option<String>> {
    let mut history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
    let (mut due, mut fired, mut previous, mut started) = (BTreeMap::new(), Vec::new(), None, None);
    let mut length = 0;
    while let Some(event) = history.next().await {
        let event = event?;
        let at = event.event_time.map(|at| at.seconds * 1000 + i64::from(at.nanos / 1_000_000)).context("no time")?;
        length += 1;
        match event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => {
                started = Some(at);
                previous = Some(start.continued_execution_run_id).filter(|id| !id.is_empty());
            }
            Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) => {
                seen.signals += 1;
                let sorted = Inbound::from(signal.input.unwrap_or_default().payloads).for_key(&key_or_panic(), 0);
                seen.ids.extend(sorted.events.into_iter().map(|event| event.event_id));
            }
            Some(Attributes::TimerStartedEventAttributes(timer)) => {
                due.insert(event.event_id, at + timer.start_to_fire_timeout.map_or(0, |t| t.seconds * 1000));
            }
            Some(Attributes::TimerFiredEventAttributes(timer)) => {
                fired.extend(due.remove(&timer.started_event_id));
            }
            Some(Attributes::TimerCanceledEventAttributes(timer)) => {
                // Due already and not yet fired: late all the same.
                fired.extend(due.remove(&timer.started_event_id).filter(|due| *due < at));
            }
            Some(Attributes::WorkflowTaskCompletedEventAttributes(_)) => {
                seen.lateness.extend(fired.drain(..).map(|due| at - due));
                seen.first_task.extend(started.take().map(|started| at - started));
            }
            Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_)) => {
                seen.lateness.extend(due.values().filter(|due| **due < at).map(|due| at - due));
            }
            _ => {}
        }
    }
    seen.runs += 1;
    seen.longest_history = seen.longest_history.max(length);
    Ok(previous)
}

fn quantiles(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    let at = |q: usize| values.get((values.len().max(1) - 1) * q / 100).copied().unwrap_or_default();
    format!("p50 {}, p99 {}, max {} of {}", at(50), at(99), at(100), values.len())
}
