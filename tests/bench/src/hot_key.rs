//! Measures the lateness of a timer while ten processes emit to its workflow at the full speed of their clients. Also
//! checks that every acknowledged id is in the histories of the chain of runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
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
use tidings_harness::server::DevServer;
use tidings_model::Key;
use tidings_workflows::InboundSignal;

use crate::{
    figure::{Figure, Target, count, percentile},
    rounds::Rounds,
};

const TASK_QUEUE: &str = "hot-key";
const TICK: Duration = Duration::from_secs(1);
/// Signals of one run.
const ROLL_AFTER: u32 = 1_000;

/// Time limit for the last signal to show in the history after the last acknowledgement.
const SETTLED: Duration = Duration::from_mins(1);

/// A window under the highest load: it ticks, takes signals and stores nothing.
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
    fn events(&mut self, _: &mut SyncWorkflowContext<Self>, inbound: InboundSignal) {
        self.signals += u32::from(inbound.for_key(&key_or_panic(), 0).dead_letters.is_empty());
    }
}

fn key_or_panic() -> Key {
    Key::new("acme".into(), "activity".into(), "hot".into()).expect("a valid key")
}

/// The result that an emitting process prints on its last line.
#[derive(Serialize, Deserialize)]
struct Report {
    process: usize,
    /// The number of acknowledged ids of each emitter. Ids count from 0.
    acknowledged: Vec<usize>,
    /// Milliseconds from `emit` to its acknowledgement.
    took: Vec<f64>,
}

/// A key that ten processes emit to; compared with one emitter that waits for each answer
#[derive(Args)]
pub struct HotKey {
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    #[arg(long, default_value_t = 10)]
    processes: usize,
    /// Emitters of each process; each waits for its answer
    #[arg(long, default_value_t = 10)]
    emitters: usize,
}

/// The role of a child process.
#[derive(Args)]
pub struct Emitter {
    process: usize,
    seconds: u64,
    emitters: usize,
}

impl HotKey {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let late = |what: &str| Figure::new(what, "ms").against("one emitter");
        let mut middle = late("a timer is late, median");
        let mut slow = late("a timer is late, p99");
        let mut first = Figure::new("a run's first task after its start, p99", "ms");
        let mut took = Figure::new("emit to acknowledgement, p99", "ms");
        let mut signals = Figure::new("signals", "per second");
        let mut events = Figure::new("events", "per second");
        let mut history = Figure::new("the longest history of a run", "events").target(Target::AtMost(10_000.0));
        for round in 0..rounds.count {
            rounds.say(round, "one emitter");
            let (_, idle) = self.round(1, 1).await?;
            rounds.say(round, &format!("{} processes emit", self.processes));
            let (reports, seen) = self.round(self.processes, self.emitters).await?;
            middle.push_both(percentile(&seen.lateness, 50), percentile(&idle.lateness, 50));
            slow.push_both(percentile(&seen.lateness, 99), percentile(&idle.lateness, 99));
            first.push(percentile(&seen.first_task, 99));
            took.push(percentile(&reports.iter().flat_map(|report| report.took.clone()).collect::<Vec<_>>(), 99));
            signals.push(count(seen.signals) / Duration::from_secs(self.seconds).as_secs_f64());
            events.push(count(seen.ids.len()) / Duration::from_secs(self.seconds).as_secs_f64());
            history.push(count(seen.longest_history));
        }
        Ok(vec![middle, slow, first, took, signals, events, history])
    }

    async fn round(&self, processes: usize, emitters: usize) -> Result<(Vec<Report>, Seen)> {
        let server = DevServer::start().await?;
        let temporal = server.client().await?;
        let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
        let options = WorkerOptions::new(TASK_QUEUE).register_workflow::<Probe>()?.build();
        let mut worker = Worker::new(&runtime, temporal.clone(), options)?;
        let shut_down = worker.shutdown_handle();
        let experiment = async {
            let judged = match run_emitters(&server.target(), self.seconds, processes, emitters).await {
                Ok(reports) => judge(&temporal, &reports).await.map(|seen| (reports, seen)),
                Err(error) => Err(error),
            };
            shut_down();
            judged
        };
        let (ran, judged) = tokio::join!(worker.run(), experiment);
        ran?;
        judged
    }
}

async fn run_emitters(target: &str, seconds: u64, processes: usize, emitters: usize) -> Result<Vec<Report>> {
    try_join_all((0..processes).map(|process| async move {
        let child = Command::new(env::current_exe()?)
            .args(["hot-key-emitter", &process.to_string(), &seconds.to_string(), &emitters.to_string()])
            .env("TEMPORAL_ADDRESS", target)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await??;
        ensure!(output.status.success(), "emitter {process} ended with {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }))
    .await
}

impl Emitter {
    pub async fn run(&self) -> Result<()> {
        let client = Client::connect(Config { task_queue: TASK_QUEUE.into(), ..Config::default() }).await?;
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let runs = (0..self.emitters).map(|emitter| emit_one_by_one(&client, self.process, emitter, until));
        let mut report = Report { process: self.process, acknowledged: Vec::new(), took: Vec::new() };
        for (acknowledged, took) in try_join_all(runs).await? {
            report.acknowledged.push(acknowledged);
            report.took.extend(took);
        }
        println!("{}", serde_json::to_string(&report)?);
        Ok(())
    }
}

async fn emit_one_by_one(client: &Client, process: usize, emitter: usize, until: Instant) -> Result<(usize, Vec<f64>)> {
    let (mut acknowledged, mut took) = (0, Vec::new());
    while Instant::now() < until {
        let started = Instant::now();
        match client.emit(event(&id(process, emitter, acknowledged))).await {
            Ok(()) => {
                acknowledged += 1;
                took.push(started.elapsed().as_secs_f64() * 1_000.0);
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => bail!(error),
        }
    }
    Ok((acknowledged, took))
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

/// The result of reading the histories of the chain of runs.
#[derive(Default)]
struct Seen {
    runs: usize,
    signals: usize,
    longest_history: usize,
    ids: BTreeSet<String>,
    /// Milliseconds from a timer's due time to the end of the workflow task that saw it fire.
    lateness: Vec<f64>,
    /// Milliseconds from a run's start to the end of its first workflow task.
    first_task: Vec<f64>,
}

async fn judge(temporal: &Temporal, reports: &[Report]) -> Result<Seen> {
    let acknowledged: Vec<_> = reports.iter().flat_map(acknowledged_ids).collect();
    let deadline = Instant::now() + SETTLED;
    loop {
        let seen = read_chain(temporal).await?;
        let missing = acknowledged.iter().filter(|id| !seen.ids.contains(*id)).count();
        // A signal that arrives during a workflow task enters the history only when the task ends.
        if missing == 0 {
            return Ok(seen);
        }
        ensure!(Instant::now() < deadline, "{missing} of {} acknowledged events are lost", acknowledged.len());
    }
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
                let sorted = InboundSignal::from(signal.input.unwrap_or_default().payloads).for_key(&key_or_panic(), 0);
                seen.ids.extend(sorted.events.into_iter().map(|event| event.event_id));
            }
            Some(Attributes::TimerStartedEventAttributes(timer)) => {
                due.insert(event.event_id, at + timer.start_to_fire_timeout.map_or(0, |t| t.seconds * 1000));
            }
            Some(Attributes::TimerFiredEventAttributes(timer)) => {
                fired.extend(due.remove(&timer.started_event_id));
            }
            Some(Attributes::TimerCanceledEventAttributes(timer)) => {
                // The timer is due and has not fired yet, which counts as late.
                fired.extend(due.remove(&timer.started_event_id).filter(|due| *due < at));
            }
            Some(Attributes::WorkflowTaskCompletedEventAttributes(_)) => {
                seen.lateness.extend(fired.drain(..).map(|due| milliseconds(at - due)));
                seen.first_task.extend(started.take().map(|started| milliseconds(at - started)));
            }
            Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_)) => {
                seen.lateness.extend(due.values().filter(|due| **due < at).map(|due| milliseconds(at - due)));
            }
            _ => {}
        }
    }
    seen.runs += 1;
    seen.longest_history = seen.longest_history.max(length);
    Ok(previous)
}

fn milliseconds(count: i64) -> f64 {
    f64::from(i32::try_from(count).unwrap_or(i32::MAX))
}
