//! A complete Tidings in this process: a real Temporal server, worker, store and relay.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use temporalio_client::{
    Client, ClientOptions, ConnectionOptions, UntypedWorkflowHandle, Url, WorkflowDescribeOptions,
    WorkflowExecuteUpdateOptions, WorkflowExecutionStatus, WorkflowFetchHistoryOptions, WorkflowGetResultOptions,
    WorkflowHandle, WorkflowQueryOptions, errors::WorkflowUpdateError,
};
use temporalio_common::{
    HasWorkflowDefinition, UpdateDefinition,
    protos::temporal::api::{enums::v1::EventType, history::v1::HistoryEvent},
};
use tidings::registration;
use tidings_mail::{dkim::TenantSigners, render::TemplateRenderer, smtp::SmtpTimeouts};
use tidings_model::{
    Key,
    command::CommandContext,
    names,
    rules::spread::overdue_share,
    settings::{
        DeliveryStreams, DigestSettings, RelaySettings, SenderIdentity, Settings, StreamSettings, UnknownRecipients,
    },
};
use tidings_proto::v1;
use tidings_services::{StepServices, relays::RelaySet};
use tidings_store::{SqliteStore, Store};
use tidings_workflows::{Digest, DigestStage, DigestStatus, DigestSummary};

use crate::{
    proxy::Proxy,
    relay::Relay,
    server::{DevServer, run_handle},
    signals::update_json,
    wait::eventually,
    worker::Running,
};

const MINUTE: Duration = Duration::from_mins(1);

/// Settings with these cadences for `activity` and `alerts`. Recipients need no import.
///
/// # Panics
/// When the words are not a cadence.
#[must_use]
pub fn settings(activity: &str, alerts: &str) -> Settings {
    let digest = |template: &str, words: &str| {
        DigestSettings::new(template, words.parse().unwrap_or_else(|error| panic!("{error}")))
    };
    let sender = SenderIdentity {
        name: "Tidings".to_owned(),
        address: "digest@tidings.example".parse().expect("an address"),
        reply_to: None,
        domain: "tidings.example".to_owned(),
    };
    let digests =
        [("activity", activity), ("alerts", alerts)].map(|(name, words)| (name.to_owned(), digest(name, words)));
    let bulk = StreamSettings::new(&["default"], sender.clone());
    let streams = DeliveryStreams { bulk, transactional: StreamSettings::new(&["default"], sender) };
    Settings {
        digests: BTreeMap::from(digests),
        unknown_recipients: UnknownRecipients::Invent,
        ..Settings::new(streams)
    }
}

/// Activities on a store. They use this relay unless the settings name others.
///
/// # Errors
/// When the relay's URL or the embedded templates are wrong.
pub fn activities(store: Arc<dyn Store>, relay_url: &str, mut settings: Settings) -> Result<StepServices> {
    if settings.relays.is_empty() {
        settings.relays.insert("default".to_owned(), RelaySettings::new(relay_url.parse()?));
    }
    let relays = Arc::new(RelaySet::new(&settings.relays, SmtpTimeouts::default())?.for_settings(&settings));
    let (renderer, signers) = (Arc::new(TemplateRenderer::new(None)?), TenantSigners::default());
    let task_queue = names::TASK_QUEUE.to_owned();
    Ok(StepServices { store, directory: None, renderer, signers, relays, settings, task_queue })
}

/// The file of the SQLite store in `folder`.
#[must_use]
pub fn sqlite_file(folder: &std::path::Path) -> PathBuf {
    folder.join("tidings.db")
}

/// The URL of the SQLite store in `folder`.
#[must_use]
pub fn sqlite_url(folder: &std::path::Path) -> String {
    format!("sqlite://{}", sqlite_file(folder).display())
}

/// A migrated SQLite store in `folder`.
///
/// # Errors
/// When the file cannot be made.
pub async fn sqlite(folder: &std::path::Path) -> Result<Arc<SqliteStore>> {
    let store = SqliteStore::connect(&sqlite_url(folder)).await?;
    store.migrate().await?;
    Ok(Arc::new(store))
}

/// A connection of its own to the store that [`sqlite`] made in `folder`.
///
/// # Errors
/// When there is none.
pub async fn ledger(folder: &std::path::Path) -> Result<SqliteConnection> {
    Ok(SqliteConnection::connect(&sqlite_url(folder)).await?)
}

/// Runs a counting query in the store that [`sqlite`] made in `folder`.
///
/// # Errors
/// When the query is wrong.
pub async fn count(folder: &std::path::Path, query: &'static str) -> Result<i64> {
    Ok(sqlx::query_scalar(query).fetch_one(&mut ledger(folder).await?).await?)
}

/// A dev server, a store, a relay and a worker.
pub struct Env<S = SqliteStore> {
    /// Dropped first, because the worker signs off at the server.
    pub worker: Option<Running>,
    pub server: DevServer,
    pub store: Arc<S>,
    pub relay: Relay,
    pub settings: Settings,
    pub signers: TenantSigners,
    pub temporal: Client,
    pub events: tidings_client::Client,
    pub folder: TempDir,
}

impl Env {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(settings: Settings) -> Result<Self> {
        let mut env = Self::without_worker(settings).await?;
        env.start_worker()?;
        Ok(env)
    }

    /// Starts everything except the worker.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn without_worker(settings: Settings) -> Result<Self> {
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

impl<S: Store> Env<S> {
    /// Starts everything except the worker, with a given store.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn with_store(settings: Settings, store: Arc<S>, folder: TempDir) -> Result<Self> {
        let server = DevServer::start().await?;
        let temporal = server.client().await?;
        Ok(Self {
            store,
            relay: Relay::start().await?,
            events: tidings_client::Client::new(temporal.clone(), tidings_client::Config::default()),
            settings,
            signers: TenantSigners::default(),
            temporal,
            server,
            worker: None,
            folder,
        })
    }

    /// Another set of the worker's activities.
    ///
    /// # Errors
    /// When the settings name an impossible relay.
    pub fn activities(&self) -> Result<StepServices> {
        let activities = activities(self.store.clone(), &self.relay.url(), self.settings.clone())?;
        Ok(StepServices { signers: self.signers.clone(), ..activities })
    }

    /// Starts the production worker.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn start_worker(&mut self) -> Result<()> {
        let activities = self.activities()?;
        self.worker =
            Some(Running::start(self.temporal.clone(), registration::digest_worker(names::TASK_QUEUE, activities)?)?);
        Ok(())
    }

    /// Starts another production worker behind a proxy. Freezing the proxy makes the worker stand still.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn worker_behind_a_proxy(&self) -> Result<(Proxy, Running)> {
        let proxy = Proxy::start(&Url::parse(&format!("http://{}", self.server.target()))?).await?;
        let server = proxy.url(Url::parse("http://localhost")?)?;
        let connection =
            tidings_client::connect(ConnectionOptions::new(server).build(), tidings_client::CredentialSource::Fixed)
                .await?;
        let client = Client::new(connection, ClientOptions::new("default").build())?;
        let activities = self.activities()?;
        let worker = Running::start(client, registration::digest_worker(names::TASK_QUEUE, activities)?)?;
        Ok((proxy, worker))
    }

    /// Stops the worker and waits until it is gone.
    ///
    /// # Errors
    /// When it failed.
    pub fn stop_worker(&mut self) -> Result<()> {
        self.worker.take().map_or(Ok(()), Running::stop)
    }

    /// The latest run of a key.
    #[must_use]
    pub fn workflow(&self, key: &Key) -> WorkflowHandle<Client, Digest> {
        self.temporal.get_workflow_handle(key.workflow_id())
    }

    /// The complete history of the latest run.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn history(&self, key: &Key) -> Result<Vec<HistoryEvent>> {
        Ok(self.workflow(key).fetch_history(WorkflowFetchHistoryOptions::default()).into_events().await?)
    }

    /// A handle to this run of a key, or to the latest one.
    #[must_use]
    pub fn run_handle(&self, key: &Key, run: Option<&str>) -> UntypedWorkflowHandle<Client> {
        run_handle(&self.temporal, key.workflow_id(), run)
    }

    /// Queries the key's status.
    ///
    /// # Errors
    /// When no worker answers the query.
    pub async fn status(&self, key: &Key) -> Result<DigestStatus> {
        Ok(self.workflow(key).query(Digest::status, (), WorkflowQueryOptions::default()).await?)
    }

    /// Waits until the key's status is as `wanted`, and answers with the status.
    ///
    /// # Errors
    /// When that takes longer than a minute, or no worker answers the query.
    pub async fn status_when(
        &self,
        key: &Key,
        what: &str,
        wanted: impl Fn(&DigestStatus) -> bool,
    ) -> Result<DigestStatus> {
        let met = async || Ok(Some(self.status(key).await?).filter(|status| wanted(status)));
        eventually(what, MINUTE, met).await
    }

    /// Waits until the key is at this stage.
    ///
    /// # Errors
    /// As for [`Env::status_when`].
    pub async fn reaches(&self, key: &Key, stage: DigestStage) -> Result<()> {
        self.status_when(key, &stage.to_string(), |status| status.state == stage).await.map(drop)
    }

    /// Runs an update of the key's latest run, for example `Digest::flush`.
    ///
    /// # Errors
    /// When the workflow refuses the update, or the server does not answer.
    pub async fn update<U>(
        &self,
        key: &Key,
        update: U,
        input: impl Into<U::Input>,
    ) -> Result<U::Output, WorkflowUpdateError>
    where
        U: UpdateDefinition<Workflow = <Digest as HasWorkflowDefinition>::Run>,
        U::Input: Send,
        U::Output: 'static,
    {
        self.workflow(key).execute_update(update, input.into(), WorkflowExecuteUpdateOptions::default()).await
    }

    /// Runs an update by its name with JSON that any program may send.
    ///
    /// # Errors
    /// When the run refuses the update.
    pub async fn update_json(&self, key: &Key, name: &'static str, input: Value) -> Result<Value, WorkflowUpdateError> {
        update_json(&self.temporal, key.workflow_id(), name, input).await
    }

    /// The id of the latest run.
    ///
    /// # Errors
    /// When there is none, or the server does not answer.
    pub async fn run(&self, key: &Key) -> Result<String> {
        let description = self.workflow(key).describe(WorkflowDescribeOptions::default()).await?;
        Ok(description.run_id().to_owned())
    }

    /// Answers `true` if no run of the key is open.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn is_idle(&self, key: &Key) -> Result<bool> {
        Ok(self.run_status(key).await? != WorkflowExecutionStatus::Running)
    }

    /// Waits until no run of the key is open.
    ///
    /// # Errors
    /// When that takes longer than `deadline`, or the server does not answer.
    pub async fn wait_until_idle(&self, key: &Key, deadline: Duration) -> Result<()> {
        eventually("the key is idle", deadline, async || Ok(self.is_idle(key).await?.then_some(()))).await
    }

    /// The status of the key's latest run.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn run_status(&self, key: &Key) -> Result<WorkflowExecutionStatus> {
        Ok(self.workflow(key).describe(WorkflowDescribeOptions::default()).await?.status())
    }

    /// Waits until the latest run completes, and answers with its result.
    ///
    /// # Errors
    /// When it fails, is cancelled, or takes longer than a minute.
    pub async fn completed(&self, key: &Key) -> Result<DigestSummary> {
        let handle = self.workflow(key);
        let result = handle.get_result(WorkflowGetResultOptions::default());
        Ok(tokio::time::timeout(Duration::from_mins(1), result).await.context("the workflow did not complete")??)
    }
}

/// The operator `ann`, with a reason.
#[must_use]
pub fn order() -> CommandContext {
    CommandContext { by: "ann".to_owned(), why: "ticket 812".to_owned() }
}

/// Answers `true` if the history has a fired timer.
#[must_use]
pub fn has_fired(history: &[HistoryEvent]) -> bool {
    history.iter().any(|event| event.event_type() == EventType::TimerFired)
}

/// The key `acme/{digest}/{user}`.
///
/// # Panics
/// When a part is not a valid id.
#[must_use]
pub fn key(digest: &str, user: &str) -> Key {
    Key::new("acme".to_owned(), digest.to_owned(), user.to_owned()).unwrap_or_else(|error| panic!("{error}"))
}

/// A name whose workflow waits for a second at most after a pause, so that a test need not wait for a minute.
///
/// # Panics
/// When no name among a thousand is so.
#[must_use]
pub fn name_without_spread(workflow_id: impl Fn(&str) -> String) -> String {
    let mut names = (0..1000).map(|n| format!("u{n}"));
    let early = |name: &String| overdue_share(&workflow_id(name), None) <= Duration::from_secs(1);
    names.find(early).unwrap_or_else(|| panic!("every name has a larger share"))
}

/// A plain event for [`key`].
#[must_use]
pub fn event(key: &Key, event_id: &str) -> v1::Event {
    v1::Event {
        tenant: key.tenant.clone(),
        user: key.user.clone(),
        digest: key.digest_type.clone(),
        event_id: event_id.to_owned(),
        category: "comment".to_owned(),
        entity_type: "page".to_owned(),
        entity_id: "plans".to_owned(),
        actor: "Bob".to_owned(),
        occurred_at: Some(Timestamp::now().into()),
        ..v1::Event::default()
    }
}
