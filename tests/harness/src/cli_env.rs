//! Tidings as its users run it: the binary `tidings`, a real Temporal server and a relay.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use tempfile::TempDir;
use temporalio_client::{
    WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowListOptions, errors::WorkflowInteractionError,
};
use tidings_model::Key;
use tidings_workflows::Digest;
use tokio::{process::Command, time::Instant};

use crate::{
    checker::{self, Verdict},
    env::{sqlite_file, sqlite_url},
    notice_receiver::{SECRET, SECRET_ENV},
    process::{self, signal},
    relay::Relay,
    server::DevServer,
    wait::eventually,
};

/// Time for repeated tries of `tidings emit`: longer than an outage and the command's own deadline of two minutes.
const EMIT_WITHIN: Duration = Duration::from_mins(4);

/// A worker under SIGSTOP. It is killed when it is dropped.
pub struct Paused(Child);

impl Paused {
    /// Resumes the worker (SIGCONT).
    ///
    /// # Errors
    /// When it is gone.
    pub fn go_on(&self) -> Result<()> {
        signal(self.0.id(), "CONT")
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A complete Tidings of processes, which are killed when it is dropped.
pub struct CliEnv {
    pub server: DevServer,
    pub relay: Relay,
    pub folder: TempDir,
    binary: PathBuf,
    worker: Option<Child>,
}

impl CliEnv {
    /// Starts everything except the worker and migrates the database. Windows of `activity` follow `cadence`.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(cadence: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let relay = Relay::start().await?;
        let server = DevServer::start_with(&folder.path().join("temporal.db")).await?;
        let cli = Self { server, relay, folder, binary: binary()?, worker: None };
        cli.configure(cadence)?;
        cli.run(&["migrate"]).await?;
        Ok(cli)
    }

    /// Writes `tidings.toml`, with windows of `activity` that follow `cadence`.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn configure(&self, cadence: &str) -> Result<()> {
        let config = format!(
            "database_url = \"{}\"\nsmtp_url = \"{}\"\n[mail]\nfrom = \"Tidings <digest@tidings.example>\"\n\
             [digest.activity]\ncadence = \"{cadence}\"\n",
            sqlite_url(self.folder.path()),
            self.relay.url()
        );
        Ok(fs::write(self.folder.path().join("tidings.toml"), config)?)
    }

    /// Adds a line to the settings of `activity` in `tidings.toml`.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn add_setting(&self, line: &str) -> Result<()> {
        let path = self.folder.path().join("tidings.toml");
        let config = fs::read_to_string(&path)?;
        Ok(fs::write(path, format!("{config}{line}\n"))?)
    }

    /// The ledger's file.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        sqlite_file(self.folder.path())
    }

    /// Imports the users of these keys, at `USER@example.test`.
    ///
    /// # Errors
    /// When `tidings recipients import` fails.
    pub async fn import(&self, keys: &BTreeSet<Key>) -> Result<()> {
        let rows = keys.iter().map(|Key { tenant, user, .. }| format!("{tenant},{user},{user}@example.test\n"));
        let csv = format!("tenant,user,address\n{}", rows.collect::<String>());
        fs::write(self.folder.path().join("people.csv"), csv)?;
        self.run(&["recipients", "import", "people.csv"]).await.map(drop)
    }

    /// Starts `tidings worker`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_worker(&mut self) -> Result<()> {
        let tidings = self.tidings();
        self.spawn_worker(tidings)
    }

    /// Starts `tidings worker` such that [`CliEnv::limit_files`] acts like a full disk and makes writes fail. Otherwise
    /// the signal SIGXFSZ would end the worker.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_worker_with_a_disk(&mut self) -> Result<()> {
        let mut command = command(Path::new("env"), self.folder.path(), &self.server.target());
        command.arg("--ignore-signal=XFSZ").arg(&self.binary);
        self.spawn_worker(command)
    }

    fn spawn_worker(&mut self, tidings: Command) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.worker_log())?;
        let mut command = tidings.into_std();
        self.worker = Some(command.arg("worker").stdout(log.try_clone()?).stderr(log).spawn()?);
        Ok(())
    }

    /// Limits the size in bytes of every file that the worker writes, also of its log. `None` removes the limit.
    ///
    /// # Errors
    /// When no worker runs.
    pub fn limit_files(&self, bytes: Option<u64>) -> Result<()> {
        let worker = self.worker.as_ref().context("no worker runs")?;
        let soft = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        process::limit_files(worker.id(), &soft)
    }

    /// Kills the worker (SIGKILL).
    ///
    /// # Errors
    /// When no worker runs, or the worker ended by itself.
    pub fn kill_worker(&mut self) -> Result<()> {
        let mut worker = self.worker.take().context("no worker runs")?;
        if let Some(status) = worker.try_wait()? {
            bail!("the worker ended by itself with {status}: {}", fs::read_to_string(self.worker_log())?);
        }
        worker.kill()?;
        worker.wait()?;
        Ok(())
    }

    /// Pauses the worker with its connections open (SIGSTOP). Another worker may be started next to it.
    ///
    /// # Errors
    /// When no worker runs.
    pub fn pause_worker(&mut self) -> Result<Paused> {
        let paused = Paused(self.worker.take().context("no worker runs")?);
        signal(paused.0.id(), "STOP")?;
        Ok(paused)
    }

    /// Runs `tidings emit` for a file until every event is accepted; the `event_id`s make repetition safe. Answers with
    /// the acknowledged ids of all tries.
    ///
    /// # Errors
    /// When not every event is accepted in time, with the last line that `emit` said.
    pub fn emit(&self, events: &Path) -> impl Future<Output = Result<String>> + use<> {
        let acknowledged = self.acknowledged();
        let mut command = self.tidings();
        command.arg("emit").arg("--acknowledged").arg(&acknowledged).arg(events);
        async move {
            let deadline = Instant::now() + EMIT_WITHIN;
            let mut all = String::new();
            loop {
                let output = command.output().await?;
                all += &fs::read_to_string(&acknowledged)?;
                if output.status.success() {
                    return Ok(all);
                }
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or_default();
                ensure!(output.status.code() == Some(1), "tidings emit: {}: {last}", output.status);
                ensure!(Instant::now() < deadline, "tidings emit is not through: {last}");
                println!("tidings emit ended with {}, once more: {last}", output.status);
            }
        }
    }

    /// The file that `tidings emit` keeps while it runs.
    #[must_use]
    pub fn acknowledged(&self) -> PathBuf {
        self.folder.path().join("acknowledged.ndjson")
    }

    /// Runs `tidings flush` for a key.
    ///
    /// # Errors
    /// When it fails.
    pub async fn flush(&self, key: &Key) -> Result<()> {
        self.run(&["flush", &key.to_string()]).await.map(drop)
    }

    /// Answers with the exit code and the standard output of `tidings` with these arguments.
    ///
    /// # Errors
    /// When it does not start, or a signal ends it.
    pub async fn ask(&self, arguments: &[&str]) -> Result<(i32, String)> {
        let output = self.tidings().args(arguments).output().await?;
        let code = output.status.code().context("ended by a signal")?;
        Ok((code, String::from_utf8(output.stdout)?))
    }

    /// The worker's peak of resident memory, in bytes.
    ///
    /// # Errors
    /// When no worker runs, or the system has no `/proc`.
    pub fn worker_peak_memory(&self) -> Result<u64> {
        let worker = self.worker.as_ref().context("no worker runs")?;
        let status = fs::read_to_string(format!("/proc/{}/status", worker.id()))?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
        Ok(1024 * kilobytes.context("no VmHWM")?.trim().parse::<u64>()?)
    }

    /// The number of events in each run's history, latest run first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn history_lengths(&self, key: &Key) -> Result<Vec<i64>> {
        let query = format!("WorkflowId = '{}'", key.workflow_id());
        let runs = self.server.client().await?.list_workflows(query, WorkflowListOptions::default());
        Ok(runs.map_ok(|run| run.history_length()).try_collect().await?)
    }

    /// Answers `true` if no workflow of these keys is open.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn is_idle(&self, keys: &BTreeSet<Key>) -> Result<bool> {
        let temporal = self.server.client().await?;
        for key in keys {
            let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
            match workflow.describe(WorkflowDescribeOptions::default()).await {
                Ok(description) if description.status() == WorkflowExecutionStatus::Running => return Ok(false),
                Ok(_) | Err(WorkflowInteractionError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Waits until [`CliEnv::is_idle`].
    ///
    /// # Errors
    /// When that takes longer than `deadline`. The error contains the worker's log.
    pub async fn settled(&self, keys: &BTreeSet<Key>, deadline: Duration) -> Result<()> {
        let idle = async || Ok(self.is_idle(keys).await?.then_some(()));
        let settled = eventually("every key is idle", deadline, idle).await;
        settled.with_context(|| fs::read_to_string(self.worker_log()).unwrap_or_default())
    }

    /// The checker's verdict for these acknowledged ids.
    ///
    /// # Errors
    /// When it cannot run.
    pub fn check(&self, acknowledged: &str) -> Result<Verdict> {
        checker::check(acknowledged, &self.relay.mails(), &self.ledger())
    }

    /// The log of all workers, in the order of their starts.
    #[must_use]
    pub fn worker_log(&self) -> PathBuf {
        self.folder.path().join("worker.log")
    }

    /// The standard output of `tidings` with these arguments.
    ///
    /// # Errors
    /// When the command fails. The error contains the exit code and the output.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.tidings().args(arguments).output().await?;
        let [out, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        ensure!(output.status.success(), "tidings {}: {}: {said}{out}", arguments.join(" "), output.status);
        Ok(out)
    }

    /// A command `tidings` with this environment's configuration.
    #[must_use]
    pub fn tidings(&self) -> Command {
        command(&self.binary, self.folder.path(), &self.server.target())
    }
}

impl Drop for CliEnv {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            // It may have ended by itself.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// A command that runs the binary in a folder with its own `tidings.toml`, for the Temporal server at this address.
#[must_use]
pub fn command(binary: &Path, folder: &Path, temporal: &str) -> Command {
    let mut command = Command::new(binary);
    command
        .current_dir(folder)
        .env("TEMPORAL_ADDRESS", temporal)
        .env(SECRET_ENV, SECRET)
        .env_remove("TIDINGS_CONFIG")
        .env_remove("TIDINGS_DATABASE_URL")
        .env_remove("TIDINGS_SMTP_URL")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The binary `tidings` that cargo built into the folder of the running program or the folder above.
///
/// # Errors
/// When the workspace was not built.
pub fn binary() -> Result<PathBuf> {
    let asking = env::current_exe()?;
    let mut folders = asking.ancestors().skip(1).take(2).map(|folder| folder.join("tidings"));
    let found = folders.find(|binary| binary.is_file());
    found.with_context(|| format!("no tidings near {}; build the workspace with --workspace", asking.display()))
}
