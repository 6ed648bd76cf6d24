//! `tidings dead-letters`: signals that could not be decoded and webhooks that could not be used, read without SQL and emitted
//! again.

use crate::Config;

mod emit;
mod lines;
mod list;
mod show;
mod webhook;

const EXAMPLES: &str = "\
Examples:
  tidings dead-letters list --tenant acme --since 2d
  tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1
  tidings dead-letters emit 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --why 'sent to the wrong key'
  tidings dead-letters emit sendgrid/9f86d081884c7d65 --why 'read by the new version'

A letter of a webhook is read again by the running version. A letter of events goes to the keys that its events name. Correct a malformed event by hand:
  tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --payload > event.json
  tidings emit event.json";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Lists dead letters, the latest first
    #[command(after_help = "Examples:\n  \
        tidings dead-letters list --tenant acme --type activity --user ann\n  \
        tidings dead-letters list --since 2d --json\n  \
        tidings dead-letters list --source webhook\n\n\
        A letter of a webhook names no tenant: --tenant, --type and --user leave it out. A page that is not the last one ends with a cursor for --after.\n\n\
        After the last page stands how many notices each subscription did not get: they are dead letters of `tidings subscriptions`.")]
    List(list::Options),
    /// Shows a dead letter: its reason, size and hash, and what `emit` would do
    #[command(after_help = "Examples:\n  \
        tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1\n  \
        tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --payload | jq .\n  \
        tidings dead-letters show sendgrid/9f86d081884c7d65")]
    Show(show::Options),
    /// Emits the events and retracts of a dead letter, or records the events of a webhook's, once
    #[command(after_help = "Example:\n  \
        tidings dead-letters emit 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --why 'sent to the wrong key'\n  \
        tidings dead-letters emit sendgrid/9f86d081884c7d65 --why 'read by the new version'\n\n\
        After an error or a crash, run the command again: an event counts once by its event_id.")]
    Emit(emit::Options),
}

/// Carries out the command. `false`: there is no such letter, or the letter was not emitted.
///
/// # Errors
/// The store or Temporal does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::List(options) => list::run(options, config).await,
        Command::Show(options) => show::run(options, config).await,
        Command::Emit(options) => emit::run(options, config).await,
    }
}
