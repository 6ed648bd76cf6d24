//! `tidings suppressions`: lists suppressed addresses and lifts a suppression.

use clap::builder::PossibleValuesParser;
use jiff::Timestamp;
use serde_json::json;
use tidings_model::records::{AuditEntry, Suppression, SuppressionFilter};

use crate::{Config, Storage, args::OptionalReason};

const EXAMPLES: &str = "\
Examples:
  tidings suppressions list --tenant acme
  tidings suppressions list --address ann@example.net
  tidings suppressions lift acme ann@example.net --why 'the mailbox works again, ticket 812'

hard_bounce and soft_bounces stop all messages; complaint and unsubscribed stop those of the stream bulk. For consent, see
tidings consent.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Lists suppressed addresses, the latest first
    #[command(after_help = "Example: tidings suppressions list --tenant acme --json")]
    List {
        /// Only addresses of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Only this address, in any case
        #[arg(long, value_name = "ADDRESS")]
        address: Option<String>,
        /// The largest number of addresses
        #[arg(long, value_name = "N", default_value = "50")]
        limit: u32,
        /// Answer in JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Lets a tenant send to an address again; a new bounce or complaint suppresses the address again
    #[command(after_help = "Examples:\n  \
        tidings suppressions lift acme ann@example.net --why 'the mailbox works again, ticket 812'\n  \
        tidings suppressions lift acme ann@example.net --reason soft_bounces")]
    Lift(Options),
}

/// The suppression, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The tenant
    #[arg(value_name = "TENANT")]
    tenant: String,
    /// The address, in any case
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Only for this reason [default: all of them]
    #[arg(long = "reason", value_name = "REASON", value_parser = PossibleValuesParser::new(tidings_model::records::Reason::ALL.map(tidings_model::records::Reason::name)))]
    only: Option<String>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command. `false`: there was nothing to lift.
///
/// # Errors
/// [`Usage`](crate::error::Usage) where `by` or `why` will not do; the store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::List { tenant, address, limit, json } => {
            list(config, &SuppressionFilter { tenant, address, limit }, json).await
        }
        Command::Lift(options) => lift(config, options).await,
    }
}

async fn list(config: &Config, filter: &SuppressionFilter, as_json: bool) -> anyhow::Result<bool> {
    let store = Storage::connect(&config.database_url).await?.ready().await?;
    for suppression in store.suppressions(filter).await? {
        let Suppression { tenant, address, reason, detail, at } = &suppression;
        let line = if as_json {
            json!(suppression).to_string()
        } else {
            format!("{tenant}  {address}  {reason} since {at:.0}: {detail}")
        };
        anstream::println!("{line}");
    }
    Ok(true)
}

async fn lift(config: &Config, options: Options) -> anyhow::Result<bool> {
    let Options { tenant, address, only, reason, json: as_json } = options;
    let order = reason.order("tidings suppressions lift")?;
    let only = tidings_model::records::Reason::ALL.into_iter().find(|known| Some(known.name()) == only.as_deref());
    let action = "suppression_lift".to_owned();
    let entry = AuditEntry { at: Timestamp::now(), actor: order.by, action, why: order.why };
    let store = Storage::connect(&config.database_url).await?.ready().await?;
    let lifted = store.lift(&tenant, &address, only, &entry).await?;
    let names: Vec<_> = lifted.iter().map(|reason| reason.name()).collect();
    let said = match as_json {
        true => json!({ "lifted": names }).to_string(),
        false if lifted.is_empty() => "there was nothing to lift".to_owned(),
        false => format!("lifted: {}", names.join(", ")),
    };
    anstream::println!("{said}");
    Ok(!lifted.is_empty())
}
