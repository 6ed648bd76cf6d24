//! The command line.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{
    Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use clap_complete::Shell;
use tidings_model::{
    Key,
    changed_names::{NamePlace, current_name},
};

use crate::{
    commands::{
        audit, bounces, config, consent, copy, dead_letters, digest, doctor, emit, gateway, inbox, keys, messages,
        migrate, pauses, preferences, recipients, recover, relays, report, retention, retract, runs, send, stats,
        status, subscriptions, suppressions, template, tenants, tokens, webhooks, worker,
    },
    config::{Config, DEFAULT_PATH},
    dev,
    error::{UsageError, exit_code, in_words},
    log,
};

const EXAMPLES: &str = "\
Examples:
  tidings dev                                   everything on this machine, with an inbox in the browser
  tidings emit --tenant acme --user ann --digest activity \\
               --category comment --title 'Bob replied to you'
  tidings status acme/activity/ann              what is pending, and when it goes out
  tidings flush acme/activity/ann               send it now

For production:
  tidings config check                          is tidings.toml right?
  tidings migrate                               prepare the database and Temporal
  tidings recipients import people.csv          add recipients
  tidings worker                                run
  tidings stats                                 is all well?

Exit codes: 0 ok; 1 failed, partly rejected, or a check found problems; 2 wrong usage or configuration; 3 digests overdue or
runs in trouble (stats); 75 try again later (bounces).";

/// The commands as `--help` shows them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Try", &["dev", "emit", "retract", "send", "template"]),
    (
        "Run",
        &[
            "config",
            "migrate",
            "worker",
            "gateway",
            "retention",
            "inbox",
            "copy",
            "tokens",
            "keys",
            "completions",
            "man",
        ],
    ),
    ("Look", &["doctor", "stats", "status", "report", "runs", "audit"]),
    ("Act", &["flush", "digest", "messages", "pause", "resume", "dead-letters", "recover"]),
    ("People", &["recipients", "preferences", "consent", "tenants"]),
    ("Relays and webhooks", &["relays", "suppressions", "bounces", "webhooks", "subscriptions"]),
];

const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

/// Runs the program. Its exit codes are in `EXAMPLES`.
///
/// This is not in the binary because rustc compiles the futures of all commands again in each crate that
/// polls them, a fifth of a release build.
///
/// # Panics
/// If the system cannot start threads.
#[must_use]
#[tokio::main]
pub async fn main() -> ExitCode {
    let matches = grouped_command().try_get_matches();
    let arguments = matches.and_then(|matches| CliArguments::from_arg_matches(&matches));
    let arguments = arguments.unwrap_or_else(|error| name_successor(error, env::args().skip(1)).exit());
    if let Err(error) = log::start(&arguments.log) {
        return report_failure(&error, None);
    }
    let file = arguments.configuration_note();
    match Box::pin(arguments.run()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => report_failure(&error, Some(&file)),
    }
}

/// Returns the command with its subcommands in [`GROUPS`], which clap cannot do.
fn grouped_command() -> Command {
    let command = CliArguments::command();
    let (header, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut groups = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail, here and below.
        let _ = write!(groups, "\n\n{header}{title}:{header:#}");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) = (subcommand.get_name(), subcommand.get_about().cloned().unwrap_or_default());
            let _ = write!(groups, "\n  {literal}{name:<15}{literal:#}{}", about.ansi());
        }
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}{groups}\n\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// Adds today's name to the error about a former command, or about a former flag of the command in `arguments`.
fn name_successor(mut error: clap::Error, arguments: impl Iterator<Item = String>) -> clap::Error {
    let (place, kind) = match error.kind() {
        ErrorKind::InvalidSubcommand => (NamePlace::Command, ContextKind::InvalidSubcommand),
        ErrorKind::UnknownArgument => (NamePlace::Flag, ContextKind::InvalidArg),
        _ => return error,
    };
    let Some(ContextValue::String(former)) = error.get(kind) else { return error };
    let flag = former.split('=').next().unwrap_or_default().trim_start_matches('-');
    if let Some(name) = current_name(place, flag)
        && (place == NamePlace::Command || has_flag(arguments, name))
    {
        let (dashes, former) = (if place == NamePlace::Flag { "--" } else { "" }, former.clone());
        let tip = format!("'{former}' is called '{dashes}{name}' now");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

/// Returns `true` if the command that `arguments` choose has the flag `--name`.
fn has_flag(arguments: impl Iterator<Item = String>, name: &str) -> bool {
    let program = CliArguments::command();
    let command = arguments.fold(&program, |command, word| command.find_subcommand(word).unwrap_or(command));
    command.get_arguments().any(|argument| argument.get_long() == Some(name))
}

/// Prints the error, and which file decided about it if the caller should change the command.
fn report_failure(error: &anyhow::Error, file: Option<&str>) -> ExitCode {
    anstream::eprintln!("{RED}error:{RED:#} {}", in_words(error));
    if let Some(file) = file.filter(|_| error.chain().any(|cause| cause.is::<UsageError>())) {
        anstream::eprintln!("{file}");
    }
    exit_code(error)
}

/// Durable digest email on Temporal.
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
    /// Run everything on this machine, with an inbox in the browser
    #[command(after_help = "Example: tidings dev")]
    Dev(dev::DevArgs),
    /// Run the worker that makes and sends the digests
    #[command(after_help = worker::EXAMPLES)]
    Worker(worker::WorkerArgs),
    /// Serve recipients and the API over HTTP
    #[command(after_help = gateway::EXAMPLES)]
    Gateway {
        #[command(subcommand)]
        command: Option<gateway::GatewayCommand>,
    },
    /// Emit events: NDJSON, gzipped or not, or one event from its fields
    Emit(Box<emit::EmitCommandOptions>),
    /// Withdraw events, even before they arrive
    Retract(retract::RetractOptions),
    /// Show what needs attention: overdue digests, runs in trouble, bounces, backlog
    #[command(after_help = stats::EXAMPLES)]
    Stats(stats::StatsOptions),
    /// Check the configuration, the database, Temporal, the relays and this machine
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorOptions),
    /// Show delivery statistics: delivered, bounced, opened, with rates
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportOptions),
    /// Show a key's pending events, their deadline and its reason
    #[command(after_help = "Example: tidings status acme/activity/ann\n\n\
        In a part of the key, / is written %2F and % is written %25. In JSON, `null` means that nothing is pending.")]
    Status(KeyOptions),
    /// Send what is pending for a key now; short for `tidings digest flush`
    #[command(after_help = "Example: tidings flush acme/activity/ann\n\n\
        In a part of the key, / is written %2F and % is written %25.")]
    Flush(KeyOptions),
    /// List, show, flush, hold, release, drop, retime, reopen and preview digests
    #[command(subcommand)]
    Digest(digest::DigestCommand),
    /// List and show signals and webhooks that could not be read; emit them again
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLettersCommand),
    /// List who did what, when and why, latest first
    Audit(audit::AuditOptions),
    /// Pause a tenant, a digest type or both: events collect, nothing is sent
    Pause(pauses::PauseCommand),
    /// End a pause; what is overdue goes out, spread over time
    Resume(pauses::ResumeOptions),
    /// Send one email, from a template or from ready parts
    Send(Box<send::SendOptions>),
    /// List, show, retry and cancel emails
    #[command(subcommand)]
    Messages(messages::MessagesCommand),
    /// Recover the events of runs that were terminated, timed out or failed
    Recover(recover::RecoverOptions),
    /// List runs in Temporal that wait for an operator, each with the command to run
    #[command(subcommand, after_help = runs::EXAMPLES)]
    Runs(runs::RunsCommand),
    /// Import, list, show, export, rename, merge and erase recipients
    #[command(subcommand)]
    Recipients(recipients::RecipientsCommand),
    /// End tenants
    #[command(subcommand)]
    Tenants(tenants::TenantsCommand),
    /// Show and change what a recipient chose for a digest type
    #[command(subcommand)]
    Preferences(preferences::PreferencesCommand),
    /// Show and record whether a recipient wants a digest type
    #[command(subcommand)]
    Consent(consent::ConsentCommand),
    /// List and test relays; open and close their circuit breakers
    #[command(subcommand)]
    Relays(relays::RelaysCommand),
    /// List, add, import and lift suppressed addresses
    #[command(subcommand)]
    Suppressions(suppressions::SuppressionsCommand),
    /// Delete old data according to [retention]
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    /// Read bounces and complaints that came back by mail
    #[command(subcommand)]
    Bounces(bounces::BouncesCommand),
    /// Test the webhooks of relays
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// List and test subscriptions to webhook events; replay events
    #[command(subcommand)]
    Subscriptions(subscriptions::SubscriptionsCommand),
    /// Prepare the database and Temporal; run this before every upgrade
    #[command(after_help = "Example: tidings migrate")]
    Migrate(migrate::MigrateOptions),
    /// Copy a SQLite file into a PostgreSQL database, with everything stopped
    #[command(after_help = copy::EXAMPLES)]
    Copy(copy::CopyOptions),
    /// Forward events that the API accepted to Temporal again
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
    /// Create, list and revoke API tokens
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Generate keys that sign tokens and links
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Check the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// List, preview and check templates
    #[command(subcommand)]
    Template(template::TemplateCommand),
    /// Print completions for a shell
    #[command(after_help = "Example: tidings completions bash > /etc/bash_completion.d/tidings")]
    Completions {
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the man pages to a folder: one for each command
    #[command(after_help = "Example: tidings man /usr/local/share/man/man1")]
    Man {
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct KeyOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Print JSON
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
            CliCommand::Doctor(options) => doctor::run(options, load).await,
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
            CliCommand::Completions { shell } => {
                clap_complete::generate(shell, &mut grouped_command(), "tidings", &mut std::io::stdout());
                Ok(true)
            }
            CliCommand::Man { folder } => {
                fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
                let written = clap_mangen::generate_to(CliArguments::command(), &folder);
                written.with_context(|| format!("cannot write to {}", folder.display())).map(|()| true)
            }
        }
    }

    /// Says which file a command has read. Whoever misses a digest type may be in another folder.
    fn configuration_note(&self) -> String {
        let folder = env::current_dir().unwrap_or_default();
        let file = folder.join(self.config.as_deref().unwrap_or_else(|| Path::new(DEFAULT_PATH)));
        if self.config.is_some() || file.exists() {
            format!("configuration: {}", file.display())
        } else {
            format!("configuration: none, because {} has no {DEFAULT_PATH}", folder.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory as _, Parser as _};

    use super::GROUPS;

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
    fn an_error_names_the_successor_of_a_former_flag_that_the_command_has() {
        let error = |line: &'static str| {
            let error = super::CliArguments::try_parse_from(line.split(' ')).unwrap_err();
            super::name_successor(error, line.split(' ').map(str::to_owned)).to_string()
        };
        let flush = error("tidings digest flush --where tenant=acme");
        assert!(flush.contains("'--where' is called '--filter' now"), "{flush}");
        let stats = error("tidings stats --where tenant=acme");
        assert!(!stats.contains("--filter"), "{stats}");
    }

    #[test]
    fn each_command_is_in_one_group_and_fits_a_line() {
        let command = super::CliArguments::command();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let known: BTreeSet<_> = command.get_subcommands().map(Command::get_name).collect();
        assert_eq!((grouped.len(), grouped.into_iter().collect::<BTreeSet<_>>()), (known.len(), known));
        let help = super::grouped_command().render_help().to_string();
        let groups = help.split("\nOptions:").next().unwrap();
        assert!(groups.contains("\nLook:\n  doctor         Check the configuration"), "{help}");
        let long: Vec<_> = groups.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{long:?}");
    }

    /// Calls `check` with each command that has none below it, or can run without.
    fn each_leaf(command: &Command, path: &str, check: &mut impl FnMut(&str, &Command)) {
        let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
        if !command.has_subcommands() || !command.is_subcommand_required_set() {
            check(&path, command);
        }
        for below in command.get_subcommands() {
            each_leaf(below, &path, check);
        }
    }

    #[test]
    fn each_command_has_an_example_and_json() {
        // These serve until a signal, or print a file in a format of its own.
        let no_json = [
            "dev",
            "worker",
            "gateway",
            "gateway openapi",
            "recipients export",
            "template preview",
            "completions",
            "man",
        ];
        each_leaf(&super::CliArguments::command(), "", &mut |path, command| {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains("Example") && examples.contains(path), "{path} has no example");
            let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
            let name = path.trim_start_matches("tidings ");
            assert_eq!(has_json, !no_json.contains(&name), "{path} --json");
        });
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::CliArguments::command().debug_assert();
    }
}
