//! `tidings digests`: the digests of the ledger, read without SQL.

use crate::Config;

mod list;
mod show;

const EXAMPLES: &str = "\
Examples:
  tidings digests list --overdue                    what should have gone out by now?
  tidings digests list --tenant acme --user ann     what did ann get?
  tidings digests list --outcome failed --since 2d
  tidings digests show 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52
                                                    why did it go out when it did?

A window that collects is in the ledger only if some of its events are stashed; see tidings status KEY.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Lists digests, the latest window first
    #[command(after_help = "Examples:\n  \
        tidings digests list --overdue --json\n  \
        tidings digests list --tenant acme --type alerts --outcome failed --since 2d --limit 500\n\n\
        A page that is not the last one ends with a cursor for --after.")]
    List(list::Options),
    /// Shows a digest: its events, each step that moved its time, who did what, message and attempts
    #[command(after_help = "Example: tidings digests show 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52")]
    Show(show::Options),
}

/// Carries out the command. `false`: the ledger does not know the digest.
///
/// # Errors
/// The store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::List(options) => list::run(options, config).await,
        Command::Show(options) => show::run(options, config).await,
    }
}
