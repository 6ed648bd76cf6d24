//! The signals that end a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that SIGTERM or Ctrl-C cancels. A second one ends the process at once. `finish` names what ends first.
///
/// # Errors
/// The system refuses to deliver signals.
pub(crate) fn until_signalled(finish: &'static str) -> anyhow::Result<CancellationToken> {
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
            tracing::info!("shutting down: {finish} in progress finish first; once more to stop at once");
            token.cancel();
        }
    });
    Ok(shutdown)
}
