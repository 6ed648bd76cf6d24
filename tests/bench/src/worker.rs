//! A complete Tidings whose worker is a process of its own, so that its memory can be measured.

use std::{
    env,
    ops::Range,
    process::{self, Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use temporalio_client::{Client as Temporal, WorkflowHandle, WorkflowQueryOptions};
use tidings::{recycle, registration, sdk};
use tidings_client::{Client, Config};
use tidings_harness::{
    env::{activities, event, key, settings},
    server::{DevServer, connect},
    wait::eventually,
};
use tidings_model::names;
use tidings_workflows::Digest;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    ledger::{self, Ledger},
    process::{cpu, resident},
    sink::Sink,
};

/// The processes in the order of [`Tidings::cpu`]. Client and sink are in the bench's own.
pub const PROCESSES: [&str; 4] = ["the worker", "the server", "client and sink", "the database"];

/// Windows that open at the same time.
const AT_ONCE: usize = 100;
/// Time limit for planning the windows. The dev server takes half an hour for 100,000.
const PATIENCE: Duration = Duration::from_hours(1);
/// Time limit between two emails. The server gives up on a task after ten seconds.
const STALLED: Duration = Duration::from_mins(2);
/// Interval between two progress messages.
const LOOK: Duration = Duration::from_secs(1);

/// A server, a ledger, a sink and a worker, once it is started.
pub struct Tidings {
    /// Dropped first.
    worker: Option<Process>,
    pub temporal: Temporal,
    pub events: Client,
    pub sink: Sink,
    pub ledger: Ledger,
    pub server: DevServer,
    cadence: String,
    spread: Duration,
}

/// The role of a child process.
#[derive(Args)]
pub struct Alone {
    address: String,
    database: String,
    sink: String,
    cadence: String,
    /// Seconds.
    spread: u64,
}

impl Tidings {
    /// Starts everything except the worker, with SQLite.
    pub async fn start(cadence: &str, spread: Duration) -> Result<Self> {
        Self::with(Ledger::sqlite().await?, cadence, spread).await
    }

    /// Starts everything except the worker.
    pub async fn with(ledger: Ledger, cadence: &str, spread: Duration) -> Result<Self> {
        let (server, sink) = (DevServer::start().await?, Sink::start().await?);
        let temporal = server.client().await?;
        let events = Client::new(temporal.clone(), Config::default());
        Ok(Self { worker: None, temporal, events, sink, ledger, server, cadence: cadence.to_owned(), spread })
    }

    pub fn start_worker(&mut self) -> Result<()> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["worker", &self.server.target(), &self.ledger.url()]);
        command.args([&self.sink.url, &self.cadence, &self.spread.as_secs().to_string()]);
        self.worker = Some(Process(command.stdin(Stdio::null()).spawn()?));
        Ok(())
    }

    /// Kills the worker (SIGKILL).
    pub fn kill_worker(&mut self) {
        self.worker = None;
    }

    /// The worker's resident memory, in MiB.
    pub fn memory(&self) -> Result<f64> {
        resident(self.pid()?, "VmRSS")
    }

    /// The worker's peak of resident memory, in MiB.
    pub fn peak_memory(&self) -> Result<f64> {
        resident(self.pid()?, "VmHWM")
    }

    /// The dev server's resident memory, in MiB.
    pub fn server_memory(&self) -> Result<f64> {
        resident(self.server.pid()?, "VmRSS")
    }

    /// The CPU time so far of each of the [`PROCESSES`]. SQLite has none of its own.
    pub fn cpu(&self) -> Result<Vec<Duration>> {
        let processes = [cpu(self.pid()?)?, cpu(self.server.pid()?)?, cpu(process::id())?];
        Ok(processes.into_iter().chain(self.ledger.cpu()?).collect())
    }

    fn pid(&self) -> Result<u32> {
        Ok(self.worker.as_ref().context("no worker runs")?.0.id())
    }

    /// Opens a window with one event for each of these users, and waits until the worker has planned the last ones.
    pub async fn open(&self, users: Range<usize>) -> Result<()> {
        let last = users.clone().rev().take(AT_ONCE);
        let emit = |n: usize| self.events.emit(event(&key("activity", &user(n)), "e1"));
        stream::iter(users).map(emit).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        for n in last {
            // A query waits behind the plans of other windows and may time out.
            let planned = async || Ok(self.planned(n).await.unwrap_or_default().then_some(()));
            eventually("the window is planned", PATIENCE, planned).await?;
        }
        Ok(())
    }

    /// Queries a window and answers `true` if it has a deadline.
    pub async fn planned(&self, n: usize) -> Result<bool> {
        Ok(self.workflow(n).query(Digest::status, (), WorkflowQueryOptions::default()).await?.due_at.is_some())
    }

    /// The latest run of the user's key.
    pub fn workflow(&self, n: usize) -> WorkflowHandle<Temporal, Digest> {
        self.temporal.get_workflow_handle(key("activity", &user(n)).workflow_id())
    }

    /// Waits until the sink has accepted this number of emails, and reports progress every second.
    pub async fn sent(&self, mails: usize, mut say: impl FnMut(usize)) -> Result<()> {
        let mut accepted = self.sink.accepted();
        loop {
            let before = *accepted.borrow_and_update();
            say(before);
            if before >= mails {
                return Ok(());
            }
            let moved = timeout(STALLED, accepted.wait_for(|now| *now > before)).await.is_ok();
            ensure!(moved, "{before} of {mails} mails are sent, and none in the last {STALLED:?}");
            // Waits until the next progress message, or until all emails are there.
            let _ = timeout(LOOK, accepted.wait_for(|now| *now >= mails)).await;
        }
    }
}

/// The user of the window with this number.
pub fn user(n: usize) -> String {
    format!("user-{n}")
}

/// A child process, killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Alone {
    pub async fn run(&self) -> Result<()> {
        let temporal = connect(&self.address).await?;
        let mut settings = settings(&self.cadence, &self.cadence);
        for digest in settings.digests.values_mut() {
            digest.spread = Some(Duration::from_secs(self.spread)).filter(|spread| !spread.is_zero());
        }
        let activities = activities(ledger::open(&self.database).await?, &self.sink, settings)?;
        let runtime = sdk::runtime()?;
        let options = registration::digest_worker(names::TASK_QUEUE, activities)?;
        // Until it is killed.
        let shutdown = CancellationToken::new();
        recycle::run(&runtime, &temporal, &options, recycle::ACTIVITIES, &shutdown).await.map(drop)
    }
}
