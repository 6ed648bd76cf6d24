//! The command line.

use std::{path::PathBuf, process::ExitCode};

use clap::{
    Args, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use tidings_model::{
    Key,
    changed_names::{NamePlace, current_name},
};

use crate::{
    commands::{
        audit, bounces, config, consent, copy, dead_letters, digest, emit, gateway, inbox, keys, messages, migrate,
        pauses, preferences, recipients, recover, relays, report, retention, retract, runs, send, stats, status,
        subscriptions, suppressions, template, tenants, tokens, webhooks, worker,
    },
    config::Config,
    dev,
    error::{exit_code, in_words},
    log,
};

const EXAMPLES: &str = "\
Examples:
  tidings dev                                   everything on this machine, with an inbox in the browser
  tidings emit --tenant acme --user ann --digest activity \\
               --category comment --title 'Bob replied to you'
  tidings status acme/activity/ann              what is pending, and when it goes out
  tidings flush acme/activity/ann               send it now
  tidings digest hold acme/activity/ann --why 'wrong prices'
  tidings pause --filter 'tenant=acme and type=alerts' --why 'wrong prices'
                                                stop a tenant, a digest type or both
  tidings send --tenant acme --to ann --key welcome-ann --template welcome
                                                one e-mail, at once

For production:
  tidings config check                          is tidings.toml right?
  tidings config check --cadence 'daily 08:00' --zone Europe/Berlin
                                                when would that be?
  tidings migrate                               prepare database and Temporal
  tidings recipients import people.csv          add recipients
  tidings worker                                run
  tidings gateway                               serve the links of messages
  tidings preferences set acme/activity/ann --cadence 'weekly mon 08:00'

Exit codes: 0 ok, 1 failed or partly rejected, 2 wrong usage or configuration.";

const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

/// Runs the program. Exit codes: 0 ok, 1 failed or partly rejected, 2 wrong usage or configuration, 3 overdue
/// digests or runs in trouble (`stats`), 75 try again later (`bounces`).
///
/// This is not in the binary because rustc compiles the futures of all commands again in each crate that
/// polls them, a fifth of a release build.
///
/// # Panics
/// If the system cannot start threads.
#[must_use]
#[tokio::main]
pub async fn main() -> ExitCode {
    let arguments = CliArguments::try_parse().unwrap_or_else(|error| name_successor(error).exit());
    if let Err(error) = log::start(&arguments.log) {
        return report_failure(&error);
    }
    match Box::pin(arguments.run()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => report_failure(&error),
    }
}

/// Adds today's name to the error about a former command or flag.
fn name_successor(mut error: clap::Error) -> clap::Error {
    let (place, kind) = match error.kind() {
        ErrorKind::InvalidSubcommand => (NamePlace::Command, ContextKind::InvalidSubcommand),
        ErrorKind::UnknownArgument => (NamePlace::Flag, ContextKind::InvalidArg),
        _ => return error,
    };
    let Some(ContextValue::String(former)) = error.get(kind) else { return error };
    let flag = former.split('=').next().unwrap_or_default().trim_start_matches('-');
    if let Some(name) = current_name(place, flag) {
        let (dashes, former) = (if place == NamePlace::Flag { "--" } else { "" }, former.clone());
        let tip = format!("'{former}' is called '{dashes}{name}' now");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

fn report_failure(error: &anyhow::Error) -> ExitCode {
    anstream::eprintln!("{RED}error:{RED:#} {}", in_words(error));
    exit_code(error)
}

/// Durable digest e-mail on Temporal.
#[derive(Debug, Parser)]
#[command(name = "tidings", bin_name = "tidings", version, about, after_help = EXAMPLES, propagate_version = true)]
struct CliArguments {
    #[command(subcommand)]
    command: CliCommand,
    /// The configuration file [default: tidings.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "TIDINGS_CONFIG")]
    config: Option<PathBuf>,
    /// The options of the log.
    #[command(flatten)]
    log: log::LogArgs,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Runs everything on this machine, with an inbox in the browser
    Dev(dev::DevArgs),
    /// Runs the worker that makes and sends the digests
    #[command(after_help = worker::EXAMPLES)]
    Worker(worker::WorkerArgs),
    /// Serves recipients over HTTP: links in messages, health
    #[command(after_help = gateway::EXAMPLES)]
    Gateway {
        #[command(subcommand)]
        command: Option<gateway::GatewayCommand>,
    },
    /// Emits events: NDJSON, gzipped or not, or one event from its fields
    Emit(Box<emit::EmitCommandOptions>),
    /// Takes events back, before or after they arrive
    Retract(retract::RetractOptions),
    /// Counts open, undelivered and overdue digests, outcomes, bounces and the backlog
    #[command(after_help = stats::EXAMPLES)]
    Stats(stats::StatsOptions),
    /// Counts what became of messages: delivered, bounced, opened, with rates
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportOptions),
    /// Shows a key's pending events, their deadline and its reason
    #[command(after_help = "Example: tidings status acme/activity/ann\n\n\
        In a part of the key, / is written %2F and % is written %25. In JSON, `null` means that nothing is pending.")]
    Status(KeyOptions),
    /// Sends what is pending for a key now; short for `tidings digest flush`
    #[command(after_help = "Example: tidings flush acme/activity/ann\n\n\
        In a part of the key, / is written %2F and % is written %25.")]
    Flush(KeyOptions),
    /// Lists and shows digests; flushes, holds, releases, drops, retimes, reopens and previews one key or many
    #[command(subcommand)]
    Digest(digest::DigestCommand),
    /// Lists and shows signals and webhooks that could not be read, and emits them again
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLettersCommand),
    /// Lists who did what, when and why, the latest first
    Audit(audit::AuditOptions),
    /// Stops a tenant, a digest type or both: events collect, nothing goes out; lists pauses
    Pause(pauses::PauseCommand),
    /// Ends a pause; what is overdue goes out, spread over time
    Resume(pauses::ResumeOptions),
    /// Sends one e-mail, from a template or from ready parts
    Send(Box<send::SendOptions>),
    /// Lists, shows, retries and cancels e-mails
    #[command(subcommand)]
    Messages(messages::MessagesCommand),
    /// Recovers the events of runs that were terminated, timed out or failed
    Recover(recover::RecoverOptions),
    /// Lists runs in Temporal that wait for an operator, each with the command to run
    #[command(subcommand, after_help = runs::EXAMPLES)]
    Runs(runs::RunsCommand),
    /// Imports, lists, shows, exports, renames, merges and erases recipients
    #[command(subcommand)]
    Recipients(recipients::RecipientsCommand),
    /// Ends tenants
    #[command(subcommand)]
    Tenants(tenants::TenantsCommand),
    /// Reads and changes what a recipient chose for a digest type
    #[command(subcommand)]
    Preferences(preferences::PreferencesCommand),
    /// Records if a recipient wants a digest type
    #[command(subcommand)]
    Consent(consent::ConsentCommand),
    /// Lists, tests, opens and closes relays
    #[command(subcommand)]
    Relays(relays::RelaysCommand),
    /// Lists, adds, imports and lifts suppressed addresses
    #[command(subcommand)]
    Suppressions(suppressions::SuppressionsCommand),
    /// Deletes old data according to [retention]
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    /// Reads bounces and complaints that came back by mail
    #[command(subcommand)]
    Bounces(bounces::BouncesCommand),
    /// Tests the webhooks of relays
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Lists, tests and replays the services that get notices
    #[command(subcommand)]
    Subscriptions(subscriptions::SubscriptionsCommand),
    /// Prepares the database and Temporal; run this command before every upgrade
    Migrate(migrate::MigrateOptions),
    /// Copies a SQLite file into a PostgreSQL database, while workers and gateways stand
    #[command(after_help = copy::EXAMPLES)]
    Copy(copy::CopyOptions),
    /// Hands events that the api accepted to Temporal again
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
    /// Makes, lists and revokes tokens of the api
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Makes keys that sign tokens
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Checks the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Lists, previews and checks templates
    #[command(subcommand)]
    Template(template::TemplateCommand),
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

impl CliArguments {
    /// Returns `false` if the command failed in part or a check found problems.
    ///
    /// # Errors
    /// The caller should correct [`crate::error::UsageError`] and [`crate::config::Error`]; others are failures.
    pub async fn run(self) -> anyhow::Result<bool> {
        let load = || Config::load(self.config.as_deref());
        match self.command {
            CliCommand::Dev(args) => Box::pin(dev::run(args, self.config.as_deref())).await.map(|()| true),
            CliCommand::Worker(args) => Box::pin(worker::run(&args, load()?)).await.map(|()| true),
            CliCommand::Gateway { command } => Box::pin(gateway::run(command, load)).await.map(|()| true),
            CliCommand::Emit(options) => emit::run(*options, &load()?).await,
            CliCommand::Retract(options) => retract::run(options, &load()?).await,
            CliCommand::Status(asked) => status::run(&load()?, &asked.key, asked.json).await,
            CliCommand::Stats(options) => stats::run(options, &load()?).await,
            CliCommand::Report(options) => report::run(options, &load()?).await,
            CliCommand::Flush(asked) => digest::flush(&load()?, &asked.key, asked.json).await,
            CliCommand::Digest(command) => digest::run(command, &load()?).await,
            CliCommand::DeadLetters(command) => dead_letters::run(command, &load()?).await,
            CliCommand::Audit(options) => audit::run(options, &load()?).await,
            CliCommand::Pause(command) => pauses::run(command, &load()?).await,
            CliCommand::Resume(options) => pauses::resume(options, &load()?).await,
            CliCommand::Send(options) => send::run(*options, &load()?.ready_to_send()?).await,
            CliCommand::Messages(command) => messages::run(command, &load()?).await,
            CliCommand::Recover(options) => recover::run(options, &load()?).await,
            CliCommand::Runs(command) => runs::run(command, &load()?).await,
            CliCommand::Recipients(command) => recipients::run(command, &load()?).await,
            CliCommand::Tenants(command) => tenants::run(command, &load()?).await,
            CliCommand::Preferences(command) => preferences::run(command, &load()?).await,
            CliCommand::Consent(command) => consent::run(command, &load()?).await,
            CliCommand::Relays(command) => relays::run(command, &load()?).await,
            CliCommand::Suppressions(command) => suppressions::run(command, &load()?).await,
            CliCommand::Retention(command) => retention::run(command, &load()?).await,
            CliCommand::Migrate(options) => migrate::run(&options, &load()?).await.map(|()| true),
            CliCommand::Copy(options) => copy::run(options, &load()?).await.map(|()| true),
            CliCommand::Bounces(command) => bounces::run(command, load).await,
            CliCommand::Inbox(command) => inbox::run(command, &load()?).await,
            CliCommand::Tokens(command) => tokens::run(command, &load()?).await,
            CliCommand::Webhooks(command) => webhooks::run(command, &load()?).await,
            CliCommand::Subscriptions(command) => subscriptions::run(command, &load()?).await,
            CliCommand::Keys(command) => keys::run(&command),
            CliCommand::Config(command) => config::run(&command, load).await,
            CliCommand::Template(command) => template::run(command, &load()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    /// Reports if the command line parses.
    fn parses(words: &str) -> bool {
        super::CliArguments::try_parse_from(words.split(' ')).is_ok()
    }

    #[test]
    fn options_for_many_keys_are_refused_with_one_key() {
        for command in ["flush", "hold", "release", "drop", "retime"] {
            let one = format!("tidings digest {command} acme/activity/ann --why test");
            let many = format!("tidings digest {command} --filter tenant=acme --why test");
            assert!(parses(&one) && parses(&many), "{command}");
            for flag in ["--dry-run", "--rate 5"] {
                assert!(!parses(&format!("{one} {flag}")), "{command} {flag}");
                assert!(parses(&format!("{many} {flag}")), "{command} {flag}");
            }
            for rate in ["0", "1001", "4294967295", "-1"] {
                assert!(!parses(&format!("{many} --rate {rate}")), "{command} --rate {rate}");
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::CliArguments::command().debug_assert();
    }
}
