//! The real Temporal dev server on a database file, which survives stops and restarts.

use std::{
    env,
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use temporalio_client::{
    Client, ClientOptions, ConnectionOptions, GrpcCompression, NamespacedClient, UntypedWorkflowHandle, Url,
    WorkflowCountOptions, WorkflowExecutionInfo,
};
use tidings_client::CredentialSource;
use tidings_model::names;

use crate::{port::Port, process::signal};

/// Time limit for a server's start. An idle machine needs about a second.
const READY: Duration = Duration::from_mins(1);

/// A server for one test. It is killed when it is dropped.
pub struct DevServer {
    port: Port,
    database: PathBuf,
    process: Option<Child>,
    /// A dynamic setting of the server, as `limit.historySize.error=1000000`.
    setting: Option<&'static str>,
    /// Holds the database of [`DevServer::start`].
    directory: Option<TempDir>,
}

impl DevServer {
    /// Starts a server on a free port, with a database that is deleted afterwards.
    ///
    /// # Errors
    /// When the CLI does not start, or the server is not ready in time.
    pub async fn start() -> Result<Self> {
        Self::start_set(None).await
    }

    /// Starts such a server with a dynamic setting, as `limit.historySize.error=1000000`.
    ///
    /// # Errors
    /// When the CLI does not start, or the server is not ready in time.
    pub async fn start_set(setting: Option<&'static str>) -> Result<Self> {
        let directory = TempDir::new()?;
        let mut server = Self::new(&directory.path().join("temporal.db"))?;
        server.setting = setting;
        server.restart().await?;
        server.directory = Some(directory);
        Ok(server)
    }

    /// Starts a server on a free port, with a database that stays.
    ///
    /// # Errors
    /// When the CLI does not start, or the server is not ready in time.
    pub async fn start_with(database: &Path) -> Result<Self> {
        let mut server = Self::new(database)?;
        server.restart().await?;
        Ok(server)
    }

    fn new(database: &Path) -> Result<Self> {
        Ok(Self { port: Port::take()?, database: database.to_owned(), process: None, setting: None, directory: None })
    }

    /// Kills the server (SIGKILL), as a crash would.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Kills the server (SIGKILL) and deletes its database. [`Self::restart`] starts an empty one.
    ///
    /// # Errors
    /// When a file cannot be deleted.
    pub fn lose(&mut self) -> Result<()> {
        self.stop();
        for suffix in ["", "-wal", "-shm"] {
            let mut file = self.database.clone().into_os_string();
            file.push(suffix);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Pauses the server with its connections open (SIGSTOP).
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        signal(self.pid()?, "STOP")
    }

    /// Resumes the server (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn go_on(&self) -> Result<()> {
        signal(self.pid()?, "CONT")
    }

    /// The server's process id.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context("the dev server does not run")?.id())
    }

    /// Starts the server again, on the same port and database; returns when it is ready.
    ///
    /// # Errors
    /// When the CLI does not start, or the server is not ready in time.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop();
        let log = File::create(self.database.with_extension("log"))?;
        let cli = env::var_os("TEMPORAL_CLI").unwrap_or_else(|| "temporal".into());
        let process = Command::new(&cli)
            .args(["server", "start-dev", "--headless", "--log-level", "warn", "--port", &self.port.number.to_string()])
            .arg("--db-filename")
            .arg(&self.database)
            .args(["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"])
            .arg(format!("--search-attribute={}=Keyword", names::TENANT_ATTRIBUTE))
            .arg(format!("--search-attribute={}=Keyword", names::DIGEST_TYPE_ATTRIBUTE))
            .args(self.setting.map(|setting| format!("--dynamic-config-value={setting}")))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start; set TEMPORAL_CLI to Temporal's CLI", cli.display()))?;
        self.process = Some(process);
        self.ready().await
    }

    /// `127.0.0.1:PORT`, as `TEMPORAL_ADDRESS` takes it.
    #[must_use]
    pub fn target(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// A new connection to the namespace `default`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn client(&self) -> Result<Client> {
        connect(&self.target()).await
    }

    /// Waits until namespace and search attributes answer.
    async fn ready(&mut self) -> Result<()> {
        let query = format!("{} = 'nobody'", names::TENANT_ATTRIBUTE);
        let deadline = Instant::now() + READY;
        while Instant::now() < deadline {
            if let Some(status) = self.process.as_mut().map(Child::try_wait).transpose()?.flatten() {
                let log = fs::read_to_string(self.database.with_extension("log"))?;
                bail!("the dev server ended with {status}: {log}");
            }
            if let Ok(client) = self.client().await
                && client.count_workflows(&query, WorkflowCountOptions::default()).await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the dev server on port {} was not ready within {READY:?}", self.port.number)
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A new connection to the namespace `default` of the server at this address, `127.0.0.1:PORT`.
///
/// # Errors
/// When the server does not answer.
pub async fn connect(target: &str) -> Result<Client> {
    let url = Url::parse(&format!("http://{target}"))?;
    let connection = tidings_client::connect(
        ConnectionOptions::new(url).grpc_compression(GrpcCompression::None).build(),
        CredentialSource::Fixed,
    )
    .await?;
    Ok(Client::new(connection, ClientOptions::new("default").build())?)
}

/// A handle to this run of any workflow, or to the latest one.
#[must_use]
pub fn run_handle(temporal: &Client, workflow_id: String, run: Option<&str>) -> UntypedWorkflowHandle<Client> {
    let namespace = temporal.namespace();
    let execution =
        WorkflowExecutionInfo::builder().namespace(namespace).workflow_id(workflow_id).maybe_run_id(run).build();
    execution.bind_untyped(temporal.clone())
}
