//! `tidings relays`: the state of the relays, a test of one, and its breaker.

use jiff::Timestamp;
use serde_json::json;
use tidings_activities::relays::{BreakerCommand, ExplainedRefusal, RelayView};
use tidings_model::{RelaysToday, breaker};

use crate::{Config, args::OptionalReason, config::Relay, error::Usage, storage};

mod test;

/// Refusals that are explained.
const REFUSALS: u32 = 10;

const EXAMPLES: &str = "\
Examples:
  tidings relays list
  tidings relays show ses
  tidings relays test ses
  tidings relays test ses --to ann@acme.example
  tidings relays open ses --why 'they are moving, ticket 812'
  tidings relays close ses --why 'the new password is in place'
  tidings relays close ses --tenant acme --why 'their list is clean now'

A relay whose breaker is open gets no messages. They go to the next relay of the stream, or wait. Tidings opens breakers by
itself, and tries the relay again with one message at a time; see docs/delivery.md.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Lists the relays with their streams and breakers
    #[command(after_help = "Example: tidings relays list --json")]
    List {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows a relay, and explains its latest refusals: whom each was about, and what to do
    #[command(after_help = "Example: tidings relays show ses --json")]
    Show {
        /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of `smtp_url`
        #[arg(value_name = "NAME")]
        name: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Connects, starts TLS, logs in and sends NOOP; changes nothing
    #[command(after_help = "Examples:\n  \
        tidings relays test ses\n  \
        tidings relays test ses --to ann@acme.example")]
    Test(test::Options),
    /// Opens a relay's breaker: the relay gets no messages, or none of a tenant, until you close the breaker
    #[command(after_help = "Examples:\n  \
        tidings relays open ses --why 'they are moving, ticket 812'\n  \
        tidings relays open ses --tenant acme --why 'they bought a list'")]
    Open(Options),
    /// Closes a relay's breaker: the relay gets messages again, and waiting ones go out within five minutes
    #[command(after_help = "Example: tidings relays close ses --why 'the new password is in place'")]
    Close(Options),
}

/// The relay, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The relay: [relay.NAME] of tidings.toml, or `default` for the one of `smtp_url`
    #[arg(value_name = "NAME")]
    name: String,
    /// Only the mail of this tenant; it needs a table [tenant.NAME]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
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
        Command::Show { name, json } => show(&name, config, json).await,
        Command::Test(options) => test::run(options, config).await,
        Command::Open(options) => change(BreakerCommand::Open, options, config).await,
        Command::Close(options) => change(BreakerCommand::Close, options, config).await,
    }
}

async fn list(config: &Config, json: bool) -> anyhow::Result<bool> {
    let settings = config.unsigned();
    let breakers = storage::open(&config.database_url).await?.breakers().await?;
    let breakers = RelaysToday::of(&settings).breakers(breakers);
    let relays = config.named_relays().map(|(name, relay)| (name.as_str(), address(relay)));
    let relays = RelayView::all(relays, &settings, &breakers, Timestamp::now());
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&relays)?);
    } else {
        for relay in &relays {
            anstream::println!("{relay}");
        }
    }
    Ok(true)
}

async fn show(name: &str, config: &Config, json: bool) -> anyhow::Result<bool> {
    let settings = config.unsigned();
    let today = RelaysToday::of(&settings);
    let name = today.name_of(name);
    let relay = named(config, name)?;
    let store = storage::open(&config.database_url).await?;
    let (breakers, refusals) = (store.breakers().await?, store.refusals(name, REFUSALS).await?);
    let breakers = today.breakers(breakers);
    let relays = RelayView::all([(name, address(relay))], &settings, &breakers, Timestamp::now());
    let refusals: Vec<_> = refusals.into_iter().filter_map(ExplainedRefusal::new).collect();
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&json!({"relay": relays, "refusals": refusals}))?);
        return Ok(true);
    }
    for relay in &relays {
        anstream::println!("{relay}");
    }
    match refusals.len() {
        0 => anstream::println!("no refusals in the ledger"),
        count => anstream::println!("the latest {count} refusals:"),
    }
    for refusal in &refusals {
        anstream::println!("{refusal}");
    }
    Ok(true)
}

async fn change(
    command: BreakerCommand,
    Options { name, tenant, reason, json }: Options,
    config: &Config,
) -> anyhow::Result<bool> {
    let settings = config.unsigned();
    let today = RelaysToday::of(&settings);
    let name = today.name_of(&name);
    let relay = named(config, name)?;
    if let Some(tenant) = &tenant {
        config.tenant(tenant).map_err(|problem| Usage(format!("--tenant {tenant:?}: {problem}")))?;
    }
    let typed = match command {
        BreakerCommand::Open => "tidings relays open",
        BreakerCommand::Close => "tidings relays close",
    };
    let order = reason.order(typed)?;
    let store = storage::open(&config.database_url).await?;
    let (of, now) = (breaker::name(name, tenant.as_deref()), Timestamp::now());
    let breaker = command.carry_out(&*store, &of, &order.by, &order.why, now).await?;
    let shown = RelayView::new(name, tenant.as_deref(), address(relay), &settings, breaker, now);
    let said = if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() };
    anstream::println!("{said}");
    Ok(true)
}

/// The address without its password, or the reason why there is none.
fn address(relay: &Relay) -> String {
    match relay.settings() {
        Ok(settings) => settings.relay.to_string(),
        Err(problem) => format!("{} {}", problem.value, problem.problem),
    }
}

fn named<'a>(config: &'a Config, name: &str) -> Result<&'a Relay, Usage> {
    let found = config.named_relays().find(|(known, _)| *known == name).map(|(_, relay)| relay);
    found.ok_or_else(|| {
        let names: Vec<_> = config.named_relays().map(|(name, _)| name.as_str()).collect();
        Usage(format!("there is no relay {name:?} by which mail goes; there are: {}", names.join(", ")))
    })
}
