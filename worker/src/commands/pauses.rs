//! `tidings pause` and `tidings resume` (rule 35).
//!
//! The store is authoritative; signals only speed this up. If one is lost, the key shows the pause later, and
//! after a resume it will check the store within an hour.

use std::fmt;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::json;
use temporalio_client::Client;
use tidings_model::{
    pause::{Pause, PauseDetails, PauseEnd, PauseScope},
    settings::FormerNames,
};
use tidings_operations::{
    at_rate,
    pauses::{self, ResumeOutcome, by_id, latest_pause, parse_scope, running_workflows},
};
use tidings_services::{choices, installation::ClaimRefusal};
use uuid::Uuid;

use crate::{
    Config,
    args::{RequiredReason, parse_future_time},
    commands::page::print_list,
    error::UsageError,
    phrases::{format_count, local},
    storage,
};

const PAUSE_HELP: &str = "\
Examples:
  tidings pause --filter 'tenant=acme and digest_type=alerts' --why 'wrong prices' --until 2h
  tidings pause --filter tenant=acme --why 'ticket 812' --messages
  tidings pause --filter digest_type=alerts --why 'broken template'
  tidings pause --filter all --why 'the relay leaks addresses'

A pause covers open and future windows. Events collect, and no attempt starts; a committed attempt ends normally. Flushes
and urgent events wait, too. With --messages the tenant's single messages wait as well, bulk and transactional: codes and
invoices included. A second pause of the same --filter replaces the first.

To stop one user, hold the key: tidings digest hold KEY --why TEXT. The command signals running workflows at --rate, so each
one shows the pause at once. After a failure, run the command again.";

const RESUME_HELP: &str = "\
Examples:
  tidings resume --filter 'tenant=acme and digest_type=alerts' --why 'prices fixed'
  tidings resume --id 0192f0c1-7a55-4e0c-8f0e-2b1c93f46a52 --why 'prices fixed'

A resume ends exactly the pause of this --filter; see `tidings pause list`. Waiting keys are signalled at --rate. Each one
waits for its share of the digest type's `spread`, or of one minute, then sends what is overdue. A key that misses its signal
checks by itself within an hour. After a failure, run the command again.";

/// The scope and the terms of a pause.
#[derive(Debug, clap::Args)]
pub struct PauseOptions {
    /// The keys: `tenant=`, `digest_type=` or both joined by `and`, or `all`
    #[arg(long = "filter", value_name = "WORDS", value_parser = parse_scope)]
    scope: PauseScope,
    /// End of the pause: an RFC 3339 timestamp, or a span from now such as `2h 30m` or `14d` [default: until a resume]
    #[arg(long, value_name = "TIME", value_parser = parse_future_time, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Also pause single messages of the tenant, bulk and transactional
    #[arg(long)]
    messages: bool,
    #[command(flatten)]
    common: PauseCommonOptions,
}

/// The pause that ends.
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_HELP)]
pub struct ResumeOptions {
    /// The keys, as in the command that paused them
    #[arg(long = "filter", value_name = "WORDS", value_parser = parse_scope, required_unless_present = "id")]
    scope: Option<PauseScope>,
    /// The id of the pause, from `tidings pause list`
    #[arg(long, value_name = "ID", conflicts_with = "scope")]
    id: Option<Uuid>,
    #[command(flatten)]
    common: PauseCommonOptions,
}

#[derive(Debug, clap::Args)]
struct PauseCommonOptions {
    #[command(flatten)]
    reason: RequiredReason,
    /// Signals per second to running keys, at most 1000
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `tidings pause --filter ...`, or `tidings pause list`.
#[derive(Debug)]
pub enum PauseCommand {
    Start(PauseOptions),
    List(PausesCommand),
}

// clap's derive cannot make options with flattened parts optional beside a subcommand.
impl clap::FromArgMatches for PauseCommand {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand() {
            Some(_) => PausesCommand::from_arg_matches(matches).map(Self::List),
            None => PauseOptions::from_arg_matches(matches).map(Self::Start),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for PauseCommand {
    fn augment_args(command: clap::Command) -> clap::Command {
        <PausesCommand as clap::Subcommand>::augment_subcommands(<PauseOptions as clap::Args>::augment_args(command))
            .subcommand_required(false)
            .arg_required_else_help(false)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .after_help(PAUSE_HELP)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

#[derive(Debug, clap::Subcommand)]
pub enum PausesCommand {
    /// List the pauses in force: who, since when, until when and why
    #[command(after_help = "Examples:\n  tidings pause list\n  tidings pause list --all --json")]
    List {
        /// Include ended pauses
        #[arg(long)]
        all: bool,
        /// Print JSON, one pause a line
        #[arg(long)]
        json: bool,
    },
}

/// Returns `false` if a pause is in force but a signal failed.
pub(crate) async fn run(command: PauseCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        PauseCommand::List(PausesCommand::List { all, json }) => list(all, json, config).await,
        PauseCommand::Start(options) => pause(options, config).await,
    }
}

async fn pause(options: PauseOptions, config: &Config) -> anyhow::Result<bool> {
    let PauseOptions { scope, until, messages, common } = options;
    if messages && scope.tenant.is_none() && scope.digest_type.is_some() {
        let why = "--messages: single messages have no digest type; name their tenant, as in --filter tenant=acme";
        return Err(UsageError(why.to_owned()).into());
    }
    let order = common.reason.into_order()?;
    let paused = PauseDetails { by: order.by, why: order.why, since: Timestamp::now(), until };
    let unknown =
        scope.digest_type.as_ref().filter(|name| !config.digests.contains_key(config.names.digest_type(name)));
    if let Some(name) = unknown {
        anstream::eprintln!("note: tidings.toml has no [digest.{name}] here; the pause covers that digest type only");
    }
    let temporal = connect_if_owned(config).await?;
    let store = storage::open(&config.database_url).await?;
    let before = latest_pause(&*store, &config.names, &scope).await?;
    let pause = store.pause(&scope, messages, &paused).await?;
    if !common.json {
        anstream::println!("{}", pause_line(&pause));
    }
    let with_messages = messages || before.is_some_and(|before| before.messages);
    let woken = signal_running(temporal, &config.names, &scope, with_messages, common.rate).await;
    Ok(print_signals(&woken, common.json, &json!({"pause": pause})))
}

/// Returns `false` if the pause has ended but a signal failed.
pub(crate) async fn resume(options: ResumeOptions, config: &Config) -> anyhow::Result<bool> {
    let ResumeOptions { scope, id, common } = options;
    let order = common.reason.into_order()?;
    let temporal = connect_if_owned(config).await?;
    let store = storage::open(&config.database_url).await?;
    let entry = order.audit_entry("resume", Timestamp::now());
    let known = match (&scope, id) {
        (Some(scope), _) => latest_pause(&*store, &config.names, scope).await?,
        (None, id) => {
            let id = id.unwrap_or_default();
            let found = by_id(&*store, id).await?;
            Some(found.ok_or_else(|| UsageError(format!("there is no pause {id}; see tidings pause list --all")))?)
        }
    };
    let Some(known) = known else {
        let scope = scope.unwrap_or_default();
        anstream::println!("{}", if common.json { "null".to_owned() } else { format!("{scope} is not paused") });
        return Ok(true);
    };
    let ResumeOutcome { ended, still } = pauses::resume(&*store, &config.names, &known, &entry).await?;
    if !common.json {
        let said = if ended.is_some() { "is resumed" } else { "was no longer paused" };
        anstream::println!("{} {said}", known.scope);
        for other in &still {
            anstream::eprintln!("still in force: {}", pause_line(other));
        }
    }
    let woken = signal_running(temporal, &config.names, &known.scope, known.messages, common.rate).await;
    Ok(print_signals(&woken, common.json, &json!({"ended": ended, "still": still})))
}

async fn list(all: bool, json: bool, config: &Config) -> anyhow::Result<bool> {
    let pauses = storage::open(&config.database_url).await?.pauses(all, Timestamp::now()).await?;
    let header = format!("{:<36}  KEYS  OPERATOR, TIME: REASON", "PAUSE");
    print_list(
        &pauses,
        json,
        ("pauses", &header),
        |pause| {
            if json { json!(pause).to_string() } else { pause_line(pause) }
        },
    );
    Ok(true)
}

/// Checks who owns the namespace first (rule 50). The inner error means that Temporal is unreachable: pauses
/// should work even then.
async fn connect_if_owned(config: &Config) -> anyhow::Result<anyhow::Result<Client>> {
    match crate::installation::connect(config).await {
        Err(error) if error.is::<ClaimRefusal>() => Err(error),
        connected => Ok(connected),
    }
}

fn pause_line(pause: &Pause) -> String {
    let Pause { id, scope, messages, paused, ended } = pause;
    let messages = if *messages { ", with single messages" } else { "" };
    let ended = ended.as_ref().map(|PauseEnd { at, by, why }| format!("; ended by {by} at {}: {why}", local(*at)));
    format!("{id}  {scope}{messages}  {paused}{}", ended.unwrap_or_default())
}

#[derive(Default)]
struct SignalCounts {
    signalled: u64,
    failed: u64,
}

impl fmt::Display for SignalCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} signalled, {} failed", format_count(self.signalled, "running workflow"), self.failed)
    }
}

/// Signals running keys, and with `messages` the tenant's single messages. Ended workflows need no signal.
async fn signal_running(
    temporal: anyhow::Result<Client>,
    names: &FormerNames,
    scope: &PauseScope,
    messages: bool,
    rate: u32,
) -> anyhow::Result<SignalCounts> {
    let temporal = &temporal?;
    let ids = running_workflows(temporal, names, scope, messages)
        .await
        .context("cannot list the running workflows in Temporal")?;
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} signals, {eta} left")?;
    let bar = ProgressBar::new(ids.len() as u64).with_style(style);
    let mut woken = SignalCounts::default();
    let send = |id: String| async move { (choices::signal_workflow(temporal, id.clone()).await, id) };
    at_rate(ids, rate, send, |(answer, id)| {
        match answer {
            Ok(()) => woken.signalled += 1,
            Err(error) => {
                woken.failed += 1;
                bar.suspend(|| anstream::eprintln!("{id} was not signalled: {error:#}"));
            }
        }
        bar.inc(1);
    })
    .await;
    bar.finish_and_clear();
    Ok(woken)
}

/// Returns `false` if a signal failed.
fn print_signals(woken: &anyhow::Result<SignalCounts>, as_json: bool, answer: &serde_json::Value) -> bool {
    match woken {
        Ok(woken) if as_json => {
            let mut answer = answer.clone();
            answer["signalled"] = json!(woken.signalled);
            answer["failed"] = json!(woken.failed);
            anstream::println!("{answer}");
        }
        Ok(woken) => anstream::println!("{woken}"),
        Err(error) => {
            if as_json {
                anstream::println!("{answer}");
            }
            anstream::eprintln!("stored, but workflows could not be signalled: {error:#}; run the command again");
        }
    }
    woken.as_ref().is_ok_and(|woken| woken.failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_one_line_for_people_and_one_object_for_machines() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pause = Pause {
            id: Uuid::nil(),
            scope: PauseScope { tenant: Some("acme".into()), digest_type: None },
            messages: true,
            paused: PauseDetails { by: "ann".into(), why: "wrong prices".into(), since: at(0), until: None },
            ended: Some(PauseEnd { at: at(60), by: "carol".into(), why: "prices fixed".into() }),
        };
        assert_eq!(
            pause_line(&pause),
            format!(
                "00000000-0000-0000-0000-000000000000  tenant=acme, with single messages  paused by ann since \
                 1970-01-01T00:00:00Z: wrong prices; ended by carol at {}: prices fixed",
                local(at(60))
            )
        );
        assert_eq!(
            json!(pause).to_string(),
            r#"{"by":"ann","digest_type":null,"ended":{"at":"1970-01-01T00:01:00Z","by":"carol","why":"prices fixed"},"id":"00000000-0000-0000-0000-000000000000","messages":true,"since":"1970-01-01T00:00:00Z","tenant":"acme","why":"wrong prices"}"#
        );
    }
}
