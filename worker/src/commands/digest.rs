//! `tidings digest`: commands to the workflow of one key or of many. Each is a workflow update, and is audited.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use tidings_activities::operations::key_filter::KeyFilter;
use tidings_client::commands::Deed;
use tidings_model::{
    Key,
    command::{Hold, Order, Release, Retime},
};

use crate::{
    Config,
    args::{Reason, later},
    client::{self, explain},
    error::Usage,
};

pub(crate) mod answers;
mod bulk;
pub(crate) mod preview;
pub(crate) mod reopen;

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
    Reopen(reopen::Options),
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

/// Carries out the command. `false`: a key failed.
///
/// # Errors
/// [`Usage`] where `by` or `why` will not do; Temporal does not answer, or no worker does.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::Flush(options) => options.carry_out(config, Deed::Flush).await,
        Command::Hold { options, until } => options.carry_out(config, |order| Deed::Hold(Hold { order, until })).await,
        Command::Release(options) => {
            let spread = options.filter.is_some();
            options.carry_out(config, |order| Deed::Release(Release { order, spread })).await
        }
        Command::Drop(options) => options.carry_out(config, Deed::Drop).await,
        Command::Retime { options, at } => options.carry_out(config, |order| Deed::Retime(Retime { order, at })).await,
        Command::Reopen(options) => reopen::run(options, config).await,
        Command::Preview(options) => preview::run(options, config).await,
    }
}

impl Options {
    async fn carry_out(self, config: &Config, deed: impl FnOnce(Order) -> Deed) -> anyhow::Result<bool> {
        let deed = deed(self.reason.order()?);
        match (&self.key, &self.filter) {
            (Some(key), _) => one(config, key, &deed, self.json).await,
            (None, Some(filter)) if self.dry_run => bulk::list(config, filter, self.json).await,
            (None, Some(filter)) => bulk::run(config, filter, &deed, self.rate, self.json).await,
            (None, None) => Err(Usage("name a key, or several with --where".to_owned()).into()),
        }
    }
}

/// Sends a command to one key and prints the answer.
///
/// # Errors
/// Temporal or the worker does not answer, or the workflow refuses the command.
pub(crate) async fn one(config: &Config, key: &Key, deed: &Deed, as_json: bool) -> anyhow::Result<bool> {
    let commands = client::commands(config).await?;
    let key = commands.open_name(&config.names, key).await?;
    let done = deed.send(commands.digest(&key)).await.map_err(|error| explain(&key, error))?;
    let text = if as_json { json!(done).to_string() } else { answers::in_words(&key, deed, &done) };
    anstream::println!("{text}");
    Ok(true)
}
