//! The command line: what can be asked, and who answers.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tidings_model::Key;

use crate::{
    commands::{
        config, consent, digest, emit, flush, messages, migrate, preferences, recipients, recover, relays, retract,
        send, status, suppressions, template, upkeep, worker,
    },
    config::Config,
    dev, log,
};

const EXAMPLES: &str = "\
Examples:
  tidings dev                                   everything on this machine, with an inbox in the browser
  tidings emit --tenant acme --user ann --digest activity \\
               --category comment --title 'Bob replied to you'
  tidings status acme/activity/ann              what is pending, and when it goes out
  tidings flush acme/activity/ann               send it now
  tidings digest hold acme/activity/ann --why 'wrong prices'
  tidings send --tenant acme --to ann --key welcome-ann --template welcome
                                                one e-mail, at once

For production:
  tidings config check                          is tidings.toml right?
  tidings config check --cadence 'daily 08:00' --zone Europe/Berlin
                                                when would that be?
  tidings migrate                               prepare database and Temporal
  tidings recipients import people.csv          who gets mail
  tidings worker                                run
  tidings preferences set acme/activity/ann --cadence 'weekly mon 08:00'

Exit codes: 0 ok, 1 failed or partly rejected, 2 wrong usage or configuration.";

/// Durable digest e-mail on Temporal.
#[derive(Debug, Parser)]
#[command(name = "tidings", bin_name = "tidings", version, about, after_help = EXAMPLES, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The configuration file [default: tidings.toml, where it exists]
    #[arg(long, global = true, value_name = "FILE", env = "TIDINGS_CONFIG")]
    config: Option<PathBuf>,
    /// What to log, and how.
    #[command(flatten)]
    pub log: log::Log,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs everything on this machine, with an inbox in the browser
    Dev(dev::Args),
    /// Runs the worker that makes and sends the digests
    Worker,
    /// Hands events to Tidings: NDJSON, gzipped or not, or one event from its fields
    Emit(Box<emit::Options>),
    /// Takes events back, before or after they arrive
    Retract(retract::Options),
    /// Says what is pending for a key, when it goes out, and why then
    #[command(after_help = "Example: tidings status acme/activity/ann\n\n\
        In a part of the key, / is written %2F and % is written %25. In JSON, `null` says that nothing is pending.")]
    Status(KeyOptions),
    /// Sends what is pending for a key now; short for `tidings digest flush`
    #[command(after_help = "Example: tidings flush acme/activity/ann\n\n\
        In a part of the key, / is written %2F and % is written %25.")]
    Flush(KeyOptions),
    /// What an operator tells a key, or many: flush, hold, release, drop, retime, reopen, preview
    #[command(subcommand)]
    Digest(digest::Command),
    /// Sends one e-mail, from a template or from ready parts
    Send(Box<send::Options>),
    /// What became of each e-mail: list, show, retry, cancel
    #[command(subcommand)]
    Messages(messages::Command),
    /// Takes up what a terminated run left behind
    Recover(recover::Options),
    /// The directory of those who get mail
    #[command(subcommand)]
    Recipients(recipients::Command),
    /// What recipients chose for a digest type
    #[command(subcommand)]
    Preferences(preferences::Command),
    /// Whether recipients want a digest type at all
    #[command(subcommand)]
    Consent(consent::Command),
    /// The relays that mail goes by
    #[command(subcommand)]
    Relays(relays::Command),
    /// The addresses that must not be mailed
    #[command(subcommand)]
    Suppressions(suppressions::Command),
    /// What is deleted when it is too old
    #[command(subcommand)]
    Upkeep(upkeep::Command),
    /// Prepares the database and Temporal; run it before every upgrade
    Migrate,
    /// The configuration
    #[command(subcommand)]
    Config(config::Command),
    /// The templates of the mails
    #[command(subcommand)]
    Template(template::Command),
}

#[derive(Debug, Args)]
struct KeyOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Does what was asked. `false`: it was done in part, or what was checked is not right.
    ///
    /// # Errors
    /// [`crate::error::Usage`] and [`crate::config::Error`] where the caller must change something; all else is a failure.
    pub async fn run(self) -> anyhow::Result<bool> {
        let load = || Config::load(self.config.as_deref());
        match self.command {
            Command::Dev(args) => dev::run(args, self.config.as_deref()).await.map(|()| true),
            Command::Worker => worker::run(load()?).await.map(|()| true),
            Command::Emit(options) => emit::run(*options, &load()?).await,
            Command::Retract(options) => retract::run(options, &load()?).await,
            Command::Status(asked) => status::run(&load()?, &asked.key, asked.json).await,
            Command::Flush(asked) => flush::run(&load()?, &asked.key, asked.json).await,
            Command::Digest(command) => digest::run(command, &load()?).await,
            Command::Send(options) => send::run(*options, &load()?.ready_to_send()?).await,
            Command::Messages(command) => messages::run(command, &load()?).await,
            Command::Recover(options) => recover::run(options, &load()?).await,
            Command::Recipients(command) => recipients::run(command, &load()?).await,
            Command::Preferences(command) => preferences::run(command, &load()?).await,
            Command::Consent(command) => consent::run(command, &load()?).await,
            Command::Relays(command) => relays::run(command, &load()?).await,
            Command::Suppressions(command) => suppressions::run(command, &load()?).await,
            Command::Upkeep(command) => upkeep::run(command, &load()?).await,
            Command::Migrate => migrate::run(&load()?).await.map(|()| true),
            Command::Config(command) => config::run(&command, load),
            Command::Template(command) => template::run(command, &load()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    /// Whether the command line is understood.
    fn understood(words: &str) -> bool {
        super::Arguments::try_parse_from(words.split(' ')).is_ok()
    }

    #[test]
    fn what_is_for_many_keys_is_refused_beside_one() {
        for command in ["flush", "hold", "release", "drop", "retime"] {
            let one = format!("tidings digest {command} acme/activity/ann --why test");
            let many = format!("tidings digest {command} --where tenant=acme --why test");
            assert!(understood(&one) && understood(&many), "{command}");
            for flag in ["--dry-run", "--rate 5"] {
                assert!(!understood(&format!("{one} {flag}")), "{command} {flag}");
                assert!(understood(&format!("{many} {flag}")), "{command} {flag}");
            }
            for rate in ["0", "1001", "4294967295", "-1"] {
                assert!(!understood(&format!("{many} --rate {rate}")), "{command} --rate {rate}");
            }
        }
    }

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        super::Arguments::command().debug_assert();
    }
}
