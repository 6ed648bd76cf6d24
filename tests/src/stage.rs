//! A whole Tidings in this process: real Temporal server, real worker, real store, real relay.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use temporalio_client::Client;
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tidings_activities::{
    DigestActivities,
    mailer::{Limits, Mailer, Timeouts},
    renderer::Renderer,
    settings::{DigestSettings, Sender, Settings, UnknownRecipients},
    store::{Sqlite, Store},
};
use tokio::time::Instant;

use crate::relay::Relay;


/// Settings with `activity` and `alerts` at these cadences, for recipients whom nobody needs to import.
#[must_use]
pub fn settings(activity: &str, alerts: &str) -> Settings {
    let digest = |template: &str, words: &str| DigestSettings {
        cadence: words.parse().unwrap_or_else(|error| panic!("{error}")),
        zone: None,
        template: template.to_owned(),
        max_items: 50,
        max_events: None,
        more_url: None,
    };
    let sender = Sender {
        name: "Tidings".to_owned(),
        address: "digest@tidings.example".to_owned(),
        reply_to: None,
        domain: "tidings.example".to_owned(),
    };
    let digests = [("activity", activity), ("alerts", alerts)].map(|(name, words)| (name.to_owned(), digest(name, words)));
    Settings { digests: BTreeMap::from(digests), sender, unknown_recipients: UnknownRecipients::Invent }
}

/// Activities on a store and a relay.
///
/// # Errors
/// When the relay's URL or the embedded templates are wrong.
pub fn activities(store: Arc<dyn Store>, relay_url: &str, settings: Settings) -> Result<DigestActivities> {
    let mailer = Mailer::new(relay_url.parse()?, Limits::default(), Timeouts::default())?;
    Ok(DigestActivities { store, renderer: Renderer::new(None)?, mailer, settings })
}

/// A migrated SQLite store in `folder`.
///
/// # Errors
/// When the file cannot be made.
pub async fn sqlite(folder: &std::path::Path) -> Result<Arc<Sqlite>> {
    let store = Sqlite::connect(&format!("sqlite://{}", folder.join("tidings.db").display())).await?;
    store.migrate().await?;
    Ok(Arc::new(store))
}

/// A worker on a thread of its own: [`Worker::run`] is not `Send`.
pub struct Running {
    stop: Box<dyn Fn() + Send>,
    thread: Option<thread::JoinHandle<Result<()>>>,
}

impl Running {
    /// Starts a worker and returns when it can be stopped.
    ///
    /// # Errors
    /// When the worker cannot be made.
    pub fn start(client: Client, options: WorkerOptions) -> Result<Self> {
        let (ready, started) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || -> Result<()> {
            let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            tokio.block_on(async {
                let runtime = Runtime::from_current_tokio(temporalio_sdk::runtime::RuntimeOptions::default())?;
                let mut worker = Worker::new(&runtime, client, options)?;
                ready.send(worker.shutdown_handle()).ok();
                Ok(worker.run().await?)
            })
        });
        let stop = started.recv().context("the worker did not start")?;
        Ok(Self { stop: Box::new(stop), thread: Some(thread) })
    }

    /// Stops the worker and waits for it.
    ///
    /// # Errors
    /// When it failed.
    pub fn stop(mut self) -> Result<()> {
        (self.stop)();
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(|_| anyhow::anyhow!("the worker panicked"))?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Polls until `met` answers with something.
///
/// # Errors
/// When that takes longer than `deadline`.
pub async fn eventually<T>(what: &str, deadline: Duration, mut met: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(value) = met().await? {
            return Ok(value);
        }
        ensure!(started.elapsed() < deadline, "still not after {deadline:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the relay has taken at least `count` mails.
///
/// # Errors
/// When that takes longer than `deadline`.
pub async fn mails(relay: &Relay, count: usize, deadline: Duration) -> Result<()> {
    eventually(&format!("{count} mails"), deadline, async || Ok((relay.mails().len() >= count).then_some(()))).await
}
