//! `tidings suppressions`: lists suppressed addresses, adds and imports them, and lifts a suppression.

use jiff::Timestamp;
use serde_json::json;
use tidings_model::{
    AddressError, EmailAddress,
    records::{Cursor, Page, Reason, Suppression, SuppressionFilter, SuppressionPlace},
};

use crate::{
    Config,
    args::{self, OptionalReason, one_of},
    commands::page,
    error::Usage,
    storage,
};

mod format;
mod import;

/// The action in the audit trail, before the reason.
const ADD: &str = "suppression_add";

const EXAMPLES: &str = "\
Examples:
  tidings suppressions list --tenant acme
  tidings suppressions list --address ann@example.net
  tidings suppressions add ann@example.net --tenant acme --reason complaint --why 'wrote to support, ticket 812'
  tidings suppressions import bounces.csv --tenant acme
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
        #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Continues after the page that ended with this cursor
        #[arg(long, value_name = "CURSOR")]
        after: Option<Cursor<SuppressionPlace>>,
        /// Answer in JSON, one line each; the last line has the cursor, if another page follows
        #[arg(long)]
        json: bool,
    },
    /// Suppresses an address; doing so twice changes nothing
    #[command(after_help = "Example: tidings suppressions add ann@example.net --tenant acme --reason complaint \
        --why 'wrote to support, ticket 812'")]
    Add(Added),
    /// Suppresses the addresses of another provider's list; importing twice changes nothing
    #[command(after_help = format::HELP)]
    Import(import::Options),
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
    #[arg(long = "reason", value_name = "REASON", value_parser = one_of(Reason::ALL, Reason::name))]
    only: Option<Reason>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// The address, the suppression, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct Added {
    /// The address
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The tenant that must not mail the address
    #[arg(long, value_name = "TENANT", value_parser = args::tenant)]
    tenant: String,
    /// A bounce stops all messages; complaint and unsubscribed stop those of the stream bulk
    #[arg(long = "reason", value_name = "REASON", value_parser = one_of(Reason::ALL, Reason::name))]
    suppressed: Reason,
    #[command(flatten)]
    reason: args::Reason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command. `false`: there was nothing to lift, or a line was refused.
///
/// # Errors
/// [`Usage`](crate::error::Usage) where `by` or `why` will not do; the store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::List { tenant, address, limit, after, json } => {
            let page = Page { limit, after };
            list(config, &SuppressionFilter { tenant, address, page }, json).await
        }
        Command::Add(added) => add(config, added).await,
        Command::Import(options) => import::run(options, config).await,
        Command::Lift(options) => lift(config, options).await,
    }
}

async fn list(config: &Config, filter: &SuppressionFilter, as_json: bool) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    page::print(store.suppressions(filter).await?, as_json, |suppression| {
        let Suppression { tenant, address, reason, detail, at } = suppression;
        if as_json {
            json!(suppression).to_string()
        } else {
            format!("{tenant}  {address}  {reason} since {at:.0}: {detail}")
        }
    });
    Ok(true)
}

async fn add(config: &Config, added: Added) -> anyhow::Result<bool> {
    let Added { address: written, tenant, suppressed: reason, reason: why, json: as_json } = added;
    let order = why.order()?;
    let address: EmailAddress = written.parse().map_err(|error: AddressError| Usage(format!("{written:?} {error}")))?;
    let now = Timestamp::now();
    let entry = order.entry(ADD, now);
    let address = address.written().to_owned();
    let suppression = Suppression { tenant, address, reason, detail: "added by an operator".to_owned(), at: now };
    let store = storage::open(&config.database_url).await?;
    let added = store.put_suppressions(&[suppression], &entry).await? > 0;
    let said = match (as_json, added) {
        (true, _) => json!({ "added": added }).to_string(),
        (false, true) => format!("suppressed: {reason}"),
        (false, false) => format!("it was suppressed as {reason} already"),
    };
    anstream::println!("{said}");
    Ok(true)
}

async fn lift(config: &Config, options: Options) -> anyhow::Result<bool> {
    let Options { tenant, address, only, reason, json: as_json } = options;
    let order = reason.order("tidings suppressions lift")?;
    let entry = order.entry("suppression_lift", Timestamp::now());
    let store = storage::open(&config.database_url).await?;
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
