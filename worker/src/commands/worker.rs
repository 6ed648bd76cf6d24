//! `tidings worker`: runs until it is signalled.

use tidings_model::settings::UnknownRecipients;

use crate::{Config, signals::until_signalled, worker};

/// Runs the worker until SIGTERM or Ctrl-C.
///
/// # Errors
/// The configuration cannot send, or the worker fails.
pub(crate) async fn run(config: Config) -> anyhow::Result<()> {
    Box::pin(worker::run(config.ready_to_send()?, UnknownRecipients::Wait, until_signalled("activities")?)).await
}
