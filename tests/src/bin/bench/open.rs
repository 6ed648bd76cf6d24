//! What do open windows cost that wait for their time: a worker's memory, and the answer to a status query?

use std::{
    env, fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use tempfile::TempDir;
use temporalio_client::{Client as Temporal, WorkflowQueryOptions};
use temporalio_sdk::{Runtime, Worker, runtime::RuntimeOptions};
use tidings::registration;
use tidings_client::{Client, Config};
use tidings_tests::{
    server::{DevServer, connect},
    stage::{activities, event, eventually, key, settings, sqlite},
};
use tidings_workflows::{Digest, names};

use crate::{
    Rounds,
    figure::{Figure, Target, count, percentile},
    sink::Sink,
};

/// Windows stay open for longer than a measurement.
const CADENCE: &str = "after 6h";
const AT_ONCE: usize = 100;
/// Queries of a measurement, of windows all over.
const QUERIES: usize = 500;
const PATIENCE: Duration = Duration::from_mins(20);
const MEBIBYTE: f64 = 1_048_576.0;

/// A worker's memory and the status query with so many open windows; compared with a worker that has none.
#[derive(Args)]
pub struct Open {
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
    windows: Vec<usize>,
}

/// The role of a child process: a worker alone, so that its memory is its own.
#[derive(Args)]
pub struct Alone {
    address: String,
    folder: PathBuf,
    sink: String,
}

impl Open {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for windows in self.windows.iter().copied() {
            let of = |what: &str| format!("{windows} windows, {what}");
            let mut memory = Figure::new(of("memory"), "MiB").against("without windows").target(Target::AtMost(512.0));
            let mut middle = Figure::new(of("a status query, median"), "ms").against("of one window");
            let mut slow = Figure::new(of("a status query, p99"), "ms").against("of one window");
            for round in 0..rounds.count {
                let (server, folder, sink) = (DevServer::start().await?, TempDir::new()?, Sink::start().await?);
                sqlite(folder.path()).await?;
                let temporal = server.client().await?;
                let worker = Worked(
                    Command::new(env::current_exe()?)
                        .args(["open-worker", &server.target()])
                        .arg(folder.path())
                        .arg(&sink.url)
                        .stdin(Stdio::null())
                        .spawn()?,
                );
                rounds.say(round, &format!("{windows} windows open"));
                let client = Client::new(temporal.clone(), Config::default());
                open(&client, &temporal, 0..1).await?;
                let (alone, one) = (worker.memory()?, queries(&temporal, 1).await?);
                open(&client, &temporal, 1..windows).await?;
                memory.push_both(worker.memory()?, alone);
                rounds.say(round, &format!("{windows} windows are asked for their status"));
                let many = queries(&temporal, windows).await?;
                middle.push_both(percentile(&many, 50), percentile(&one, 50));
                slow.push_both(percentile(&many, 99), percentile(&one, 99));
            }
            figures.extend([memory, middle, slow]);
        }
        Ok(figures)
    }
}

/// Opens windows, and waits until the worker has planned the last ones.
async fn open(client: &Client, temporal: &Temporal, users: std::ops::Range<usize>) -> Result<()> {
    let last = users.clone().rev().take(AT_ONCE);
    let emit = |n: usize| client.emit(event(&key("activity", &format!("user-{n}")), "e1"));
    stream::iter(users).map(emit).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    for n in last {
        // A query waits behind the plans of the others, and may be given up.
        let planned = async || Ok(status(temporal, n).await.unwrap_or_default().then_some(()));
        eventually("the window is planned", PATIENCE, planned).await?;
    }
    Ok(())
}

/// Milliseconds of each query, of windows all over.
async fn queries(temporal: &Temporal, windows: usize) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for n in 0..QUERIES {
        let asked = Instant::now();
        status(temporal, (n * 7_919) % windows).await?;
        took.push(asked.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(took)
}

/// Asks for a window's status: whether it has a deadline.
async fn status(temporal: &Temporal, n: usize) -> Result<bool> {
    let workflow = temporal.get_workflow_handle::<Digest>(key("activity", &format!("user-{n}")).workflow_id());
    Ok(workflow.query(Digest::status, (), WorkflowQueryOptions::default()).await?.due_at.is_some())
}

/// A worker's process, killed when it is dropped.
struct Worked(Child);

impl Worked {
    /// Resident, in MiB.
    fn memory(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).context("needs /proc")?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        let kilobytes = kilobytes.context("no VmRSS")?.trim().parse::<usize>()?;
        Ok(count(kilobytes) * 1_024.0 / MEBIBYTE)
    }
}

impl Drop for Worked {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Alone {
    pub async fn run(&self) -> Result<()> {
        let temporal = connect(&self.address).await?;
        let activities = activities(sqlite(&self.folder).await?, &self.sink, settings(CADENCE, CADENCE))?;
        let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
        Ok(Worker::new(&runtime, temporal, registration::digests(names::TASK_QUEUE, activities)?)?.run().await?)
    }
}
