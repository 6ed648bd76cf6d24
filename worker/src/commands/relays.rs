//! `tidings relays`: how the relays are, whether one can be reached, and leaving one alone.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_activities::relays::Order;
use tidings_model::breaker::Breaker;
use tidings_store::Store;

use crate::{Config, Storage, args::OptionalReason, config::Relay, error::Usage};

mod test;
mod view;

use view::Shown;

const EXAMPLES: &str = "\
Examples:
  tidings relays list
  tidings relays test ses
  tidings relays test ses --to ann@acme.example
  tidings relays open ses --why 'they are moving, ticket 812'
  tidings relays close ses --why 'the new password is in place'

An open relay is left alone: mail goes by the next relay of its stream, or waits. Tidings opens relays by itself and tries
them again with one message at a time; docs/delivery.md says when.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Lists the relays, whose mail goes by them, and which are left alone and why
    #[command(after_help = "Example: tidings relays list --json")]
    List {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Connects, makes it private, logs in and says NOOP; changes nothing
    #[command(after_help = "Examples:\n  \
        tidings relays test ses\n  \
        tidings relays test ses --to ann@acme.example")]
    Test(test::Options),
    /// Leaves a relay alone until somebody closes it
    #[command(after_help = "Example: tidings relays open ses --why 'they are moving, ticket 812'")]
    Open(Options),
    /// Uses a relay again at once; what waits for it goes within five minutes
    #[command(after_help = "Example: tidings relays close ses --why 'the new password is in place'")]
    Close(Options),
}

/// Which relay, who and why.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of smtp_url
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    reason: OptionalReason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command. `false`: the test failed.
///
/// # Errors
/// [`Usage`] where there is no such relay; the store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::List { json } => list(config, json).await,
        Command::Test(options) => test::run(options, config).await,
        Command::Open(options) => order(Order::Open, options, config).await,
        Command::Close(options) => order(Order::Close, options, config).await,
    }
}

async fn list(config: &Config, json: bool) -> anyhow::Result<bool> {
    let mut breakers = store(config).await?.breakers().await?;
    let now = Timestamp::now();
    let relays = config.named_relays().map(|(name, relay)| {
        let breaker = breakers.remove(name).unwrap_or_default().breaker;
        Shown::new(name, relay, breaker, config, now)
    });
    let relays: Vec<_> = relays.collect();
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&relays)?);
    } else {
        relays.iter().for_each(|relay| anstream::println!("{relay}"));
    }
    Ok(true)
}

async fn order(order: Order, Options { name, reason, json }: Options, config: &Config) -> anyhow::Result<bool> {
    let relay = named(config, &name)?;
    let command = match order {
        Order::Open => "tidings relays open",
        Order::Close => "tidings relays close",
    };
    let asked = reason.order(command)?;
    let now = Timestamp::now();
    let breaker: Breaker = order.carry_out(&*store(config).await?, &name, &asked.by, &asked.why, now).await?;
    let shown = Shown::new(&name, relay, breaker, config, now);
    let said = if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() };
    anstream::println!("{said}");
    Ok(true)
}

async fn store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    Storage::connect(&config.database_url).await?.ready().await
}

fn named<'a>(config: &'a Config, name: &str) -> Result<&'a Relay, Usage> {
    let found = config.named_relays().find(|(known, _)| *known == name).map(|(_, relay)| relay);
    found.ok_or_else(|| {
        let names: Vec<_> = config.named_relays().map(|(name, _)| name.as_str()).collect();
        Usage(format!("there is no relay {name:?} by which mail goes; there are: {}", names.join(", ")))
    })
}
