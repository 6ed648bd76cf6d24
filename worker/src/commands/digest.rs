//! `tidings digest`: commands to the workflow of one key or of many. Each is a workflow update, and is audited.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use tidings_activities::operations::{key_filter::KeyFilter, reopen::name_of};
use tidings_client::{Commands, commands::Done};
use tidings_model::{
    Key,
    command::{Order, Reopened},
    job::Task,
};
use uuid::Uuid;

use crate::{
    Config,
    args::{Reason, later, login},
    client::{self, explain},
    error::Usage,
    storage,
};

pub(crate) mod answers;
mod bulk;
pub(crate) mod preview;

const EXAMPLES: &str = "\
Examples:
  tidings digest hold acme/activity/ann --why 'wrong prices in the events' --until 2h
  tidings digest release acme/activity/ann --why 'prices fixed'
  tidings digest drop acme/activity/ann --why 'the events were a test'
  tidings digest flush acme/activity/ann --why 'ticket 812'
  tidings digest retime acme/activity/ann --why 'not in the night' --at 2026-12-01T08:00:00Z

A command does nothing to a key with nothing pending, and says so. The audit trail keeps the operator, the reason and the time.
In a part of the key, / is written %2F and % is written %25.

Many keys at once:
  tidings digest hold --where 'tenant=acme and type=alerts' --why 'ticket 812' --dry-run
  tidings digest hold --where 'tenant=acme and type=alerts' --why 'ticket 812' --rate 50

--where finds keys whose workflow runs, under each name of the tenant and the type. After a failure, run the command again: completed keys do not change.";

/// The commands.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Sends pending events now; a hold, a pause, consent and suppressions still hold
    #[command(after_help = "Example: tidings digest flush --where 'type=alerts' --why 'ticket 812'")]
    Flush(Options),
    /// Collects events, but sends nothing until the hold ends
    #[command(after_help = "Example: tidings digest hold acme/activity/ann --why 'wrong prices' --until 2h")]
    Hold {
        #[command(flatten)]
        options: Options,
        /// The end of the hold: a time as in RFC 3339, or a span from now as in `2h 30m` or `14d`
        #[arg(long, value_name = "TIME", value_parser = later, allow_hyphen_values = true)]
        until: Option<Timestamp>,
    },
    /// Ends a hold; overdue events of one key go out at once, those of many keys over `spread`
    #[command(after_help = "Example: tidings digest release --where 'tenant=acme' --why 'prices fixed'")]
    Release(Options),
    /// Drops pending events and the digest in delivery; the ledger keeps the events
    #[command(after_help = "Example: tidings digest drop acme/activity/ann --why 'the events were a test'")]
    Drop(Options),
    /// Gives pending events another deadline
    #[command(after_help = "Examples:\n  \
        tidings digest retime acme/activity/ann --why 'not in the night' --at 2026-12-01T08:00:00Z\n  \
        tidings digest retime --where 'type=activity' --why 'the new cadence, at once'")]
    Retime {
        #[command(flatten)]
        options: Options,
        /// The deadline: a time as in RFC 3339, or a span from now as in `2h 30m` [default: by today's configuration and
        /// what the recipient chose]
        #[arg(long, value_name = "TIME", value_parser = later, allow_hyphen_values = true)]
        at: Option<Timestamp>,
    },
    /// Sends a digest that was dropped, failed or was left behind
    Reopen(ReopenOptions),
    /// Shows the message as it would go out now, and sends nothing
    Preview(preview::Options),
}

/// The keys, the operator and the reason.
#[derive(Debug, Args)]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER", required_unless_present = "filter", conflicts_with = "filter")]
    key: Option<Key>,
    /// Instead of one key: all with this tenant, type and user, as in `tenant=acme and type=alerts`
    #[arg(long = "where", id = "filter", value_name = "WORDS")]
    filter: Option<KeyFilter>,
    // `requires` alone is not enough: clap waives a required argument that conflicts with a given one.
    /// Only list the keys; with --where
    #[arg(long, requires = "filter", conflicts_with = "key")]
    dry_run: bool,
    /// Keys per second, at most 1000; with --where
    #[arg(long, value_name = "N", requires = "filter", conflicts_with = "key", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    #[command(flatten)]
    reason: Reason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// The digest, the operator and the reason.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    tidings digest reopen acme/activity/ann 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52 --why 'dropped by mistake'\n\n\
    `tidings digests list` has the ids. The digest goes out under its own id with the events that it has, \
    and nothing new.")]
pub struct ReopenOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// The digest: dropped, failed, unknown or ambiguous, or without an end
    digest_id: Uuid,
    #[command(flatten)]
    reason: Reason,
    /// Reopen even if the recipient may already have the message
    #[arg(long)]
    may_duplicate: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command. `false`: a key failed, or a digest is not reopened.
///
/// # Errors
/// [`Usage`] where `by` or `why` will not do; Temporal does not answer, or no worker does.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    let (options, task) = match command {
        Command::Flush(options) => (options, Task::Flush),
        Command::Hold { options, until } => (options, Task::Hold { until }),
        Command::Release(options) => (options, Task::Release),
        Command::Drop(options) => (options, Task::Drop),
        Command::Retime { options, at } => (options, Task::Retime { at }),
        Command::Reopen(options) => return reopen(options, config).await,
        Command::Preview(options) => return preview::run(options, config).await,
    };
    let Options { key, filter, dry_run, rate, reason, json } = options;
    let order = reason.order()?;
    match (key, filter) {
        (Some(key), _) => one(config, &key, &task, order, json).await,
        (None, Some(filter)) if dry_run => bulk::list(config, &filter, json).await,
        (None, Some(filter)) => bulk::run(config, &filter, &task, &order, rate, json).await,
        (None, None) => Err(Usage("name a key, or several with --where".to_owned()).into()),
    }
}

/// `tidings flush`: flushes the key, without a reason for the audit trail.
///
/// # Errors
/// Temporal does not answer, or no worker does.
pub(crate) async fn flush(config: &Config, key: &Key, as_json: bool) -> anyhow::Result<bool> {
    let order = Order { by: login(), why: "tidings flush".to_owned() };
    one(config, key, &Task::Flush, order, as_json).await
}

async fn one(config: &Config, key: &Key, task: &Task, order: Order, as_json: bool) -> anyhow::Result<bool> {
    let commands = client::commands(config).await?;
    let key = commands.open_name(&config.names, key).await?;
    send(&commands, &key, task, order, as_json).await
}

async fn reopen(options: ReopenOptions, config: &Config) -> anyhow::Result<bool> {
    let ReopenOptions { key, digest_id, reason, may_duplicate, json } = options;
    let order = reason.order()?;
    let key = if config.names.keys(&key).len() > 1 {
        name_of(&*storage::open(&config.database_url).await?, &config.names, &key, digest_id).await?
    } else {
        key
    };
    let task = Task::Reopen { digest_id: Some(digest_id), may_duplicate };
    send(&client::commands(config).await?, &key, &task, order, json).await
}

/// Sends a command to the workflow of this name and prints the answer. `false`: a digest is not reopened.
async fn send(commands: &Commands, key: &Key, task: &Task, order: Order, as_json: bool) -> anyhow::Result<bool> {
    let done = commands.digest(key).send(task, order, false).await.map_err(|error| explain(key, error))?;
    let text = if as_json { json!(done).to_string() } else { answers::in_words(key, task, &done) };
    anstream::println!("{text}");
    Ok(!matches!(done, Done::Reopened(Reopened { refused: Some(_), .. })))
}
