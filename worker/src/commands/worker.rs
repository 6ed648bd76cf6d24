//! `tidings worker`: runs until it is signalled.

use tidings_model::settings::UnknownRecipients;

use crate::{Config, registration::PatchMode, signals::until_signalled, worker};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tidings worker                  run until SIGTERM or Ctrl-C
  tidings worker --hold-patches   replace a worker of an earlier version, and keep the way back open";

#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Order the steps of each digest as earlier versions do, so their workers can continue it. Use this while you
    /// replace workers of an earlier version, and restart without it when no earlier worker will run again
    #[arg(long)]
    hold_patches: bool,
}

pub(crate) async fn run(args: &WorkerArgs, config: Config) -> anyhow::Result<()> {
    let patches = if args.hold_patches { PatchMode::Held } else { PatchMode::Active };
    let shutdown = until_signalled("activities")?;
    Box::pin(worker::run(config.ready_to_send()?, UnknownRecipients::Wait, patches, shutdown)).await
}
