//! The workers of both streams, until they are told to stop.

use std::sync::Arc;

use temporalio_sdk::{Runtime, Worker, runtime::RuntimeOptions};
use tidings_activities::{
    DigestActivities, MessageActivities, UpkeepActivities, mailer::Timeouts, relays::Relays, renderer::Renderer,
    settings::UnknownRecipients,
};
use tokio_util::sync::CancellationToken;

use crate::{Config, metrics, registration, storage::Storage, upkeep::schedule::Nightly};

/// Runs the workers until `shutdown` is cancelled; activities in progress finish first.
///
/// # Errors
/// The DKIM key is wrong, Temporal or the database do not answer, or a template is broken.
pub async fn run(
    config: Config,
    unknown_recipients: UnknownRecipients,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let settings = config.settings(unknown_recipients)?;
    for warning in config.warnings() {
        tracing::warn!(%warning, "the configuration works, but is not safe");
    }
    let _listening = match config.metrics_listen {
        Some(address) => Some(metrics::listen(address).await?),
        None => None,
    };
    let client = config.temporal.connect().await?;
    let store = Storage::connect(&config.database_url).await?.ready().await?;
    // Each worker keeps connections of its own, so that a flood of digests takes none from the messages.
    let connect = || Relays::new(&settings.relays, Timeouts::default()).map(Arc::new);
    let (bulk, transactional) = (connect()?, connect()?);
    let messages =
        MessageActivities { store: store.clone(), relays: transactional.clone(), settings: settings.clone() };
    let upkeep = UpkeepActivities { store: store.clone(), retention: config.retention.settings.clone() };
    let renderer = Renderer::new(config.templates.as_deref())?;
    let digests = DigestActivities { store, renderer, relays: bulk.clone(), settings };
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
    let worker = |options| Worker::new(&runtime, client.clone(), options);
    let mut workers = (
        worker(registration::digests(&config.task_queue, digests)?)?,
        worker(registration::transactional(&config.task_queue, messages)?)?,
        worker(registration::upkeep(&config.task_queue, upkeep)?)?,
    );
    tracing::info!(
        temporal = config.temporal.address(),
        namespace = config.temporal.namespace(),
        task_queue = config.task_queue,
        bulk = config.streams.bulk.settings.relays.join(", "),
        transactional = config.streams.transactional.settings.relays.join(", "),
        "the worker runs"
    );
    let stop = (workers.0.shutdown_handle(), workers.1.shutdown_handle(), workers.2.shutdown_handle());
    let nightly = Nightly { task_queue: &config.task_queue, at: config.retention.at };
    let running = async {
        let scheduled = async {
            nightly.see_to_it(&client).await;
            Ok(())
        };
        tokio::try_join!(workers.0.run(), workers.1.run(), workers.2.run(), scheduled)
    };
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => ended.map(drop)?,
        () = shutdown.cancelled() => {
            tracing::info!("the worker stops");
            stop.0();
            stop.1();
            stop.2();
            running.await?;
        }
    }
    tokio::join!(bulk.close(), transactional.close());
    Ok(())
}
