//! `tidings worker`: the digests' worker, until it is told to stop.

use tokio_util::sync::CancellationToken;

use crate::Config;

/// Runs the worker until `shutdown` is cancelled; activities in progress finish first.
///
/// # Errors
/// Temporal does not answer.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let _client = config.temporal.connect().await?;
    tracing::info!(
        temporal = config.temporal.address(),
        namespace = config.temporal.namespace(),
        task_queue = config.task_queue,
        "connected"
    );
    shutdown.cancelled().await;
    Ok(())
}
