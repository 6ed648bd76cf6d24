//! The digests' worker, until it is told to stop.

use std::sync::Arc;

use temporalio_sdk::{Runtime, Worker, runtime::RuntimeOptions};
use tidings_activities::{
    DigestActivities, mailer::Timeouts, relays::Relays, renderer::Renderer, settings::UnknownRecipients,
};
use tokio_util::sync::CancellationToken;

use crate::{Config, registration, storage::Storage};

/// Runs the worker until `shutdown` is cancelled; activities in progress finish first.
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
    let client = config.temporal.connect().await?;
    let store = Storage::connect(&config.database_url).await?.ready().await?;
    let relays = Arc::new(Relays::new(&settings.relays, Timeouts::default())?);
    let activities = DigestActivities {
        store,
        renderer: Renderer::new(config.templates.as_deref())?,
        relays: relays.clone(),
        settings,
    };
    let options = registration::digests(&config.task_queue, activities)?;
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
    let mut worker = Worker::new(&runtime, client, options)?;
    tracing::info!(
        temporal = config.temporal.address(),
        namespace = config.temporal.namespace(),
        task_queue = config.task_queue,
        relays = config.streams.bulk.settings.relays.join(", "),
        "the worker runs"
    );
    let stop = worker.shutdown_handle();
    let running = worker.run();
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => ended?,
        () = shutdown.cancelled() => {
            tracing::info!("the worker stops");
            stop();
            running.await?;
        }
    }
    relays.close().await;
    Ok(())
}
