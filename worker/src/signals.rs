//! Unix signals.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that SIGTERM or Ctrl-C cancels. A second signal exits immediately. `finish` names the work
/// that finishes first, for the log.
///
/// SIGHUP, e.g. from a closed terminal, logrotate or an operator who changed the file, only logs a warning. We
/// read the file once, because queues, pools and subscriptions are built from it.
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
                    tracing::warn!("SIGHUP ignored: restart the process to read a changed file; SIGTERM stops it after {finish} in progress");
                    continue;
                }
            }
            if token.is_cancelled() {
                std::process::exit(1);
            }
            tracing::info!("shutting down: waiting for {finish} in progress; send the signal again to stop at once");
            token.cancel();
        }
    });
    Ok(shutdown)
}
