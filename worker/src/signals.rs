//! The signals that a running process hears.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that SIGTERM or Ctrl-C cancels. A second one ends the process at once. `finish` names what ends first.
///
/// SIGHUP ends nothing, as of a terminal that is closed, of logrotate, or of an operator who changed the file. The file is read at the
/// start only: queues, pools and subscriptions are made of it.
///
/// # Errors
/// The system refuses to deliver signals.
pub(crate) fn until_signalled(finish: &'static str) -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {
                    tracing::warn!("SIGHUP changes nothing: restart the process to read a changed file; SIGTERM ends it, and {finish} in progress finish");
                    continue;
                }
            }
            if token.is_cancelled() {
                std::process::exit(1);
            }
            tracing::info!("shutting down: {finish} in progress finish first; once more to stop at once");
            token.cancel();
        }
    });
    Ok(shutdown)
}
