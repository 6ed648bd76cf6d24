//! A gateway in a process of its own, over a new database of PostgreSQL.

use std::{
    fs::{self, OpenOptions},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tidings_harness::{
    cli_env::{binary, command},
    http,
    port::Port,
    postgres,
    wait::eventually,
};
use tidings_store::{PostgresStore, Store};
use tokio::process::Child;

/// The address of no server, for a gateway without Temporal.
pub const AWAY: &str = "127.0.0.1:1";
/// Made for benches.
pub const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
pub const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
/// The relay with a webhook.
pub const RELAY: &str = "own";
/// The variable with the secret of the webhook.
const SECRET_VARIABLE: &str = "OWN_WEBHOOK";
/// Time limit for the start of the process.
const START: Duration = Duration::from_secs(30);

/// A gateway, killed when it is dropped.
pub struct Served {
    process: Option<Child>,
    binary: PathBuf,
    folder: TempDir,
    public: Port,
    api: Port,
    database: String,
    pub store: Arc<dyn Store>,
}

impl Served {
    /// Starts a gateway for the Temporal server at this address.
    ///
    /// # Errors
    /// When the binary was not built, or PostgreSQL is missing.
    pub async fn start(temporal: &str) -> Result<Self> {
        let database = postgres::database().await.context("this bench measures PostgreSQL")?;
        let store = PostgresStore::connect(&database).await?;
        store.migrate().await?;
        let (folder, public, api) = (TempDir::new()?, Port::take()?, Port::take()?);
        let config = format!(
            "database_url = \"{database}\"\nlink_keys_file = \"keys\"\n[gateway]\nlisten = \"127.0.0.1:{public}\"\n\
             public_url = \"http://localhost:{public}\"\napi_listen = \"127.0.0.1:{api}\"\n[relay.{RELAY}]\n\
             url = \"smtp://127.0.0.1:1\"\nwebhook_secret_env = \"{SECRET_VARIABLE}\"\n[stream.bulk]\n\
             relays = [\"{RELAY}\"]\n[stream.transactional]\nrelays = [\"{RELAY}\"]\n[digest.activity]\n\
             cadence = \"daily 08:00\"\ntitle = \"Activity\"\n[digest.alerts]\ncadence = \"after 5m\"\ntitle = \"Alerts\"\n",
            public = public.number,
            api = api.number
        );
        fs::write(folder.path().join("tidings.toml"), config)?;
        fs::write(folder.path().join("keys"), KEYS)?;
        let store = Arc::new(store);
        let mut served = Self { process: None, binary: binary()?, folder, public, api, database, store };
        served.restart(temporal).await?;
        Ok(served)
    }

    /// Kills the gateway, and starts another one over the same database.
    ///
    /// # Errors
    /// When it does not start. The error has the log.
    pub async fn restart(&mut self, temporal: &str) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill().await?;
        }
        let path = self.folder.path().join("log");
        let log = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut command = command(&self.binary, self.folder.path(), temporal);
        command.arg("gateway").env(SECRET_VARIABLE, SECRET).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn()?);
        let answers = async || {
            let answer = http::request(self.public.number, "GET /livez HTTP/1.1\r\n", "").await;
            Ok(answer.is_ok_and(|(status, _)| status == 200).then_some(()))
        };
        let started = eventually("the gateway answers", START, answers).await;
        started.with_context(|| fs::read_to_string(path).unwrap_or_default())
    }

    /// The port of the public listener.
    pub const fn public(&self) -> u16 {
        self.public.number
    }

    /// The port of the api.
    pub const fn api(&self) -> u16 {
        self.api.number
    }

    /// Makes a token that may emit events.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn token(&self) -> Result<String> {
        let create = ["tokens", "create", "--tenant", "acme", "--scope", "events:write", "--by", "bench"];
        Ok(self.run(&create).await?.trim().to_owned())
    }

    /// Adds recipients of `acme` with these users.
    ///
    /// # Errors
    /// When the command fails.
    pub async fn import(&self, users: impl Iterator<Item = String>) -> Result<()> {
        let rows = users.map(|user| format!("acme,{user},{user}@example.net\n"));
        let table = format!("tenant,user,address\n{}", rows.collect::<String>());
        fs::write(self.folder.path().join("people.csv"), table)?;
        self.run(&["recipients", "import", "people.csv"]).await.map(drop)
    }

    /// The number that a query of the database answers.
    ///
    /// # Errors
    /// When the query is wrong.
    pub async fn number(&self, query: &'static str) -> Result<i64> {
        let mut database = PgConnection::connect(&self.database).await?;
        Ok(sqlx::query_scalar(query).fetch_one(&mut database).await?)
    }

    async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = command(&self.binary, self.folder.path(), AWAY).args(arguments).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tidings {}: {}: {said}", arguments[0], output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}
