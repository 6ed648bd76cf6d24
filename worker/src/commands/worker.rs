//! `tidings worker`: runs until it is signalled.

use tidings_model::settings::UnknownRecipients;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{Config, worker};

/// Runs the worker until SIGTERM or Ctrl-C.
///
/// # Errors
/// The configuration cannot send, or the worker fails.
pub(crate) async fn run(config: Config) -> anyhow::Result<()> {
    Box::pin(worker::run(config.ready_to_send()?, UnknownRecipients::Wait, until_signalled()?)).await
}

/// A token that SIGTERM or Ctrl-C cancels. A second one ends the process at once.
fn until_signalled() -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    tokio::spawn(async move {
        for hurry in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if hurry {
                std::process::exit(1);
            }
            tracing::info!("shutting down: activities in progress finish first; once more to stop at once");
            token.cancel();
        }
    });
    Ok(shutdown)
}
