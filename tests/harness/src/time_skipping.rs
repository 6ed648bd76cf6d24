//! A worker on Temporal's time-skipping server, which simulates weeks in seconds.

use std::{
    env,
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use tempfile::TempDir;
use temporalio_client::{
    Client, ClientOptions, ConnectionOptions, Url, WorkflowGetResultOptions, WorkflowQueryOptions, tonic::IntoRequest,
};
use temporalio_common::protos::temporal::api::testservice::v1::{
    LockTimeSkippingRequest, SleepRequest, UnlockTimeSkippingRequest,
};
use tidings::registration;
use tidings_client::CredentialSource;
use tidings_model::{Key, names, settings::Settings};
use tidings_store::{SqliteStore, Store};
use tidings_workflows::{Digest, DigestStatus, DigestSummary};
use uuid::Uuid;

use crate::{
    env::{activities, count, sqlite},
    port::Port,
    relay::Relay,
    signals::{json_events, signal},
    wait::eventually,
    worker::Running,
};

/// The time-skipping server. Its clock jumps while only timers are left.
pub struct TimeSkippingServer {
    pub client: Client,
    process: Child,
    _port: Port,
}

impl TimeSkippingServer {
    /// Starts the server with a stopped clock.
    ///
    /// # Errors
    /// When `TEMPORAL_TEST_SERVER` does not name a test server.
    pub async fn start() -> Result<Self> {
        let port = Port::take()?;
        let binary = env::var_os("TEMPORAL_TEST_SERVER").unwrap_or_else(|| "temporal-test-server".into());
        let process = Command::new(&binary).arg(port.number.to_string()).spawn().context("set TEMPORAL_TEST_SERVER")?;
        let client = eventually("the test server is ready", Duration::from_mins(1), async || {
            let url = Url::parse(&format!("http://127.0.0.1:{}", port.number))?;
            let connection =
                tidings_client::connect(ConnectionOptions::new(url).build(), CredentialSource::Fixed).await;
            Ok(connection.ok().map(|connection| Client::new(connection, ClientOptions::new("default").build())))
        })
        .await??;
        Ok(Self { client, process, _port: port })
    }

    /// The server's clock.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn now(&self) -> Result<Timestamp> {
        let answer = self.client.connection().test_service().get_current_time(().into_request()).await?;
        let now = answer.into_inner().time.context("the server has no clock")?;
        Ok(Timestamp::new(now.seconds, now.nanos)?)
    }

    /// Lets time pass until `then`, unless `then` has passed already.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn sleep_until(&self, then: Timestamp) -> Result<()> {
        let left = then.duration_since(self.now().await?);
        if left.is_positive() { self.sleep(left.try_into()?).await } else { Ok(()) }
    }

    /// Lets `length` pass on the server's clock.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn sleep(&self, length: Duration) -> Result<()> {
        let request = SleepRequest { duration: Some(length.try_into()?) };
        self.client.connection().test_service().unlock_time_skipping_with_sleep(request.into_request()).await?;
        Ok(())
    }
}

impl Drop for TimeSkippingServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A worker on a time-skipping server, with a store and a relay.
pub struct TimeSkipping<S = SqliteStore> {
    pub server: TimeSkippingServer,
    pub store: Arc<S>,
    pub relay: Relay,
    _worker: Running,
    folder: TempDir,
}

impl TimeSkipping {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(settings: Settings) -> Result<Self> {
        let folder = TempDir::new()?;
        Self::with_store(settings, sqlite(folder.path()).await?, folder).await
    }

    /// Runs a counting query in the ledger.
    ///
    /// # Errors
    /// When the query is wrong.
    pub async fn count(&self, query: &'static str) -> Result<i64> {
        count(self.folder.path(), query).await
    }
}

impl<S: Store> TimeSkipping<S> {
    /// Starts everything with a given store.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn with_store(settings: Settings, store: Arc<S>, folder: TempDir) -> Result<Self> {
        let relay = Relay::start().await?;
        let server = TimeSkippingServer::start().await?;
        let activities = activities(store.clone(), &relay.url(), settings)?;
        let options = registration::digest_worker(names::TASK_QUEUE, activities)?;
        let worker = Running::start(server.client.clone(), options)?;
        Ok(Self { server, store, relay, _worker: worker, folder })
    }

    /// Emits an event of the category `comment`.
    ///
    /// # Errors
    /// When the server does not take it.
    pub async fn emit(&self, key: &Key, event_id: &str) -> Result<()> {
        self.emit_of(key, event_id, "comment").await
    }

    /// Emits an event.
    ///
    /// # Errors
    /// When the server does not take it.
    pub async fn emit_of(&self, key: &Key, event_id: &str, category: &str) -> Result<()> {
        let json = format!(r#"{{"event_id":"{event_id}","category":"{category}","occurred_at":1767225600}}"#);
        signal(&self.server.client, key, json_events([json.as_str()])).await
    }

    /// The start of each attempt to deliver a message.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn attempts(&self, message: Uuid) -> Result<Vec<Timestamp>> {
        Ok(self.store.attempts(message).await?.into_iter().map(|attempt| attempt.begun_at).collect())
    }

    /// The status of a key whose window is planned. Asks until then.
    ///
    /// # Errors
    /// When that takes longer than a minute of real time.
    pub async fn planned(&self, key: &Key) -> Result<DigestStatus> {
        self.status_when(key, "the window is planned", |status| status.due_at.is_some()).await
    }

    /// The status of a key once it is as `wanted`.
    ///
    /// # Errors
    /// When that takes longer than a minute of real time.
    pub async fn status_when(
        &self,
        key: &Key,
        what: &str,
        wanted: impl Fn(&DigestStatus) -> bool,
    ) -> Result<DigestStatus> {
        let workflow = self.server.client.get_workflow_handle::<Digest>(key.workflow_id());
        eventually(what, Duration::from_mins(1), async || {
            let status = workflow.query(Digest::status, (), WorkflowQueryOptions::default()).await?;
            Ok(Some(status).filter(|status| wanted(status)))
        })
        .await
    }

    /// Lets time pass until the key is idle.
    ///
    /// # Errors
    /// When that takes longer than a minute of real time.
    pub async fn completed(&self, key: &Key) -> Result<DigestSummary> {
        let unlock = UnlockTimeSkippingRequest {}.into_request();
        self.server.client.connection().test_service().unlock_time_skipping(unlock).await?;
        let handle = self.server.client.get_workflow_handle::<Digest>(key.workflow_id());
        let result = handle.get_result(WorkflowGetResultOptions::default());
        let summary = tokio::time::timeout(Duration::from_mins(1), result).await.context("it did not complete")??;
        let lock = LockTimeSkippingRequest {}.into_request();
        self.server.client.connection().test_service().lock_time_skipping(lock).await?;
        Ok(summary)
    }
}
