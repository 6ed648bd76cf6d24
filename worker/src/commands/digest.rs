//! `tidings digest`: what an operator tells the workflow of a key, or of many. Each command is a workflow update, and is
//! audited.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tidings_model::{
    Key,
    command::{Hold, Order, Retime},
};
use tidings_workflows::Digest;
use uuid::Uuid;

use crate::{
    Config,
    args::{Reason, later},
    error::Usage,
    key_workflow::query,
};

mod answers;
mod bulk;
mod key_filter;
mod preview;
pub(crate) mod reopen;
mod update;

use key_filter::Selection;
pub(crate) use update::Deed;

const EXAMPLES: &str = "\
Examples:
  tidings digest hold acme/activity/ann --why 'wrong prices in the events' --until 2h
  tidings digest release acme/activity/ann --why 'prices mended'
  tidings digest drop acme/activity/ann --why 'the events were a test'
  tidings digest flush acme/activity/ann --why 'ticket 812'
  tidings digest retime acme/activity/ann --why 'not in the night' --at 2026-12-01T08:00:00Z

On a key with nothing pending they say so, and do nothing. The audit trail keeps who, why and when.
In a part of the key, / is written %2F and % is written %25.

Many keys at once:
  tidings digest hold --where 'tenant=acme and type=alerts' --why 'ticket 812' --dry-run
  tidings digest hold --where 'tenant=acme and type=alerts' --why 'ticket 812' --rate 50

They are the keys whose workflow runs. Run it again after a failure: what was done changes nothing.";

/// The commands.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Sends what is pending now; a hold, a pause, consent and suppressions still hold
    #[command(after_help = "Example: tidings digest flush --where 'type=alerts' --why 'ticket 812'")]
    Flush(Options),
    /// Collects events, but starts nothing that ends in a mail
    #[command(after_help = "Example: tidings digest hold acme/activity/ann --why 'wrong prices' --until 2h")]
    Hold {
        #[command(flatten)]
        options: Options,
        /// The hold ends by itself then: a time as in RFC 3339, or a span from now as in `2h 30m` or `14d`
        #[arg(long, value_name = "TIME", value_parser = later, allow_hyphen_values = true)]
        until: Option<Timestamp>,
    },
    /// Ends a hold; what is overdue goes out
    #[command(after_help = "Example: tidings digest release --where 'tenant=acme' --why 'prices mended'")]
    Release(Options),
    /// Ends what is pending and what is on its way without a mail; the ledger keeps the events
    #[command(after_help = "Example: tidings digest drop acme/activity/ann --why 'the events were a test'")]
    Drop(Options),
    /// Gives what is pending another deadline
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
    /// Sends a digest after all that was dropped, failed or was left behind
    Reopen(reopen::Options),
    /// Shows the mail as it would go out now, and sends nothing
    Preview(preview::Options),
}

/// Which keys, who and why.
#[derive(Debug, Args)]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER", required_unless_present = "selection", conflicts_with = "selection")]
    key: Option<Key>,
    /// Instead of one key: all with this tenant, type and user, as in `tenant=acme and type=alerts`
    #[arg(long = "where", id = "selection", value_name = "WORDS")]
    selection: Option<Selection>,
    // `requires` would not do: clap waives it where what is required conflicts with what is there.
    /// Only say which keys these are; with --where
    #[arg(long, requires = "selection", conflicts_with = "key")]
    dry_run: bool,
    /// Keys per second, at most 1000; with --where
    #[arg(long, value_name = "N", requires = "selection", conflicts_with = "key", default_value = "10")]
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
        Command::Release(options) => options.carry_out(config, Deed::Release).await,
        Command::Drop(options) => options.carry_out(config, Deed::Drop).await,
        Command::Retime { options, at } => options.carry_out(config, |order| Deed::Retime(Retime { order, at })).await,
        Command::Reopen(options) => reopen::run(options, config).await,
        Command::Preview(options) => preview::run(options, config).await,
    }
}

impl Options {
    async fn carry_out(self, config: &Config, deed: impl FnOnce(Order) -> Deed) -> anyhow::Result<bool> {
        let deed = deed(self.reason.order()?);
        match (&self.key, &self.selection) {
            (Some(key), _) => one(config, key, &deed, self.json).await,
            (None, Some(selection)) if self.dry_run => bulk::list(config, selection, self.json).await,
            (None, Some(selection)) => bulk::run(config, selection, &deed, self.rate, self.json).await,
            (None, None) => Err(Usage("name a key, or several with --where".to_owned()).into()),
        }
    }
}

/// `tidings messages cancel` of a digest's message.
///
/// # Errors
/// [`Usage`] where `by` or `why` will not do, or where the key has not this digest on its way: a drop would end what it has.
/// Temporal does not answer, or no worker does.
pub(crate) async fn drop_digest(
    config: &Config,
    key: &Key,
    id: Uuid,
    reason: Reason,
    as_json: bool,
) -> anyhow::Result<bool> {
    let status = query(config, key, Digest::status).await?;
    if status.and_then(|status| status.delivering).is_none_or(|digest| digest.digest_id != id) {
        let why = format!(
            "digest {id} is not on its way, see tidings status {key}; after a terminated run, tidings recover {key}"
        );
        return Err(Usage(why).into());
    }
    one(config, key, &Deed::Drop(reason.order()?), as_json).await
}

pub(crate) async fn one(config: &Config, key: &Key, deed: &Deed, as_json: bool) -> anyhow::Result<bool> {
    let answer = deed.tell(config, &config.temporal.connect().await?, key).await?;
    let text = if as_json { answer.json.to_string() } else { answer.words };
    anstream::println!("{text}");
    Ok(true)
}
