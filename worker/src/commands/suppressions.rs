//! `tidings suppressions`: suppressed addresses.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json;
use tidings_model::{
    AddressError, EmailAddress,
    records::{AuditEntry, Suppression, SuppressionFilter, SuppressionPlace, SuppressionReason},
};
use tidings_operations::rows::InputRow;
use tidings_store::Store;

use crate::{
    Config,
    args::{self, OptionalReason},
    commands::page::{self, PageOptions},
    error::UsageError,
    line_input::{self, LineRejection, LineReport},
    phrases::local,
    storage,
};

mod format;

use format::ListFormat;

/// The action in the audit trail.
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
pub enum SuppressionsCommand {
    /// List suppressed addresses, latest first
    #[command(
        after_help = "Example: tidings suppressions list --tenant acme --json",
        mut_arg("limit", |arg| arg.help("Maximum number of addresses"))
    )]
    List {
        #[command(flatten)]
        filter: SuppressionFilter,
        #[command(flatten)]
        page: PageOptions<SuppressionPlace>,
        /// Print JSON, one line each; the last line has the cursor if another page follows
        #[arg(long)]
        json: bool,
    },
    /// Suppress an address; repeating it changes nothing
    #[command(after_help = "Example: tidings suppressions add ann@example.net --tenant acme --reason complaint \
        --why 'wrote to support, ticket 812'")]
    Add(SuppressionAddOptions),
    /// Import a provider's suppression list; importing twice changes nothing
    #[command(after_help = format::HELP)]
    Import(ImportOptions),
    /// Let a tenant send to an address again; a new bounce or complaint suppresses it again
    #[command(after_help = "Examples:\n  \
        tidings suppressions lift acme ann@example.net --why 'the mailbox works again, ticket 812'\n  \
        tidings suppressions lift acme ann@example.net --reason soft_bounces")]
    Lift(SuppressionLiftOptions),
}

/// The suppression, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct SuppressionLiftOptions {
    /// The tenant
    #[arg(value_name = "TENANT")]
    tenant: String,
    /// The address, in any case
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Only for this reason [default: all of them]
    #[arg(long = "reason", value_name = "REASON")]
    only: Option<SuppressionReason>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The address, the suppression, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct SuppressionAddOptions {
    /// The address
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The tenant that must not mail the address
    #[arg(long, value_name = "TENANT", value_parser = args::parse_tenant)]
    tenant: String,
    /// A bounce stops all messages; complaint and unsubscribed stop those of the stream bulk
    #[arg(long = "reason", value_name = "REASON")]
    suppressed: SuppressionReason,
    #[command(flatten)]
    reason: args::RequiredReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if nothing was lifted or a line was rejected.
pub(crate) async fn run(command: SuppressionsCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        SuppressionsCommand::List { filter, page, json } => {
            list(config, &SuppressionFilter { page: page.into(), ..filter }, json).await
        }
        SuppressionsCommand::Add(added) => add(config, added).await,
        SuppressionsCommand::Import(options) => import(options, config).await,
        SuppressionsCommand::Lift(options) => lift(config, options).await,
    }
}

async fn list(config: &Config, filter: &SuppressionFilter, as_json: bool) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let header = "TENANT  ADDRESS  REASON AND TIME";
    page::print_page(store.suppressions(filter).await?, as_json, ("suppressed addresses", header), |suppression| {
        let Suppression { tenant, address, reason, detail, at } = suppression;
        if as_json {
            json!(suppression).to_string()
        } else {
            format!("{tenant}  {address}  {reason} since {}: {detail}", local(*at))
        }
    });
    Ok(true)
}

async fn add(config: &Config, added: SuppressionAddOptions) -> anyhow::Result<bool> {
    let SuppressionAddOptions { address: written, tenant, suppressed: reason, reason: why, json: as_json } = added;
    let order = why.into_order()?;
    let address: EmailAddress =
        written.parse().map_err(|error: AddressError| UsageError(format!("{written:?} {error}")))?;
    let now = Timestamp::now();
    let entry = order.audit_entry(ADD, now);
    let address = address.as_written().to_owned();
    let suppression = Suppression { tenant, address, reason, detail: "added by an operator".to_owned(), at: now };
    let store = storage::open(&config.database_url).await?;
    let added = store.put_suppressions(&[suppression], &entry).await? > 0;
    let said = match (as_json, added) {
        (true, _) => json!({ "added": added }).to_string(),
        (false, true) => format!("suppressed: {reason}"),
        (false, false) => format!("already suppressed: {reason}"),
    };
    anstream::println!("{said}");
    Ok(true)
}

async fn lift(config: &Config, options: SuppressionLiftOptions) -> anyhow::Result<bool> {
    let SuppressionLiftOptions { tenant, address, only, reason, json: as_json } = options;
    let order = reason.into_order("tidings suppressions lift")?;
    let entry = order.audit_entry("suppression_lift", Timestamp::now());
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

const BATCH: usize = 500;

/// The file and what the file does not say.
#[derive(Debug, clap::Args)]
pub struct ImportOptions {
    /// CSV file or NDJSON, gzipped or not; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The tenant that must not mail the addresses
    #[arg(long, value_name = "TENANT", value_parser = args::parse_tenant)]
    tenant: String,
    /// The format of the list [default: detected from its columns]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<ListFormat>,
    /// The reason for every row, for a list without reasons
    #[arg(long = "reason", value_name = "REASON")]
    all: Option<SuppressionReason>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Print the rejected lines and the summary as JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if any line was rejected. Fails if the columns match no known format.
async fn import(options: ImportOptions, config: &Config) -> anyhow::Result<bool> {
    let ImportOptions { file, tenant, format, all, reason, json } = options;
    let order = reason.into_order("tidings suppressions import")?;
    let (bar, input) = line_input::open_input(&file)?;
    let (records, columns) = line_input::records(input)?;
    let format = ListFormat::detect_format(&columns, format)?;
    let store = storage::open(&config.database_url).await?;
    let now = Timestamp::now();
    let entry = order.audit_entry(ADD, now);
    let list = SuppressionList { tenant, format, all, now };
    let mut report = LineReport::new(json, bar);
    let mut batch = Vec::with_capacity(BATCH);
    for record in records {
        match record?.map_err(LineRejection::from).and_then(|record| list.parse_row(&record)) {
            Ok(suppression) => batch.extend(suppression),
            Err(rejection) => report.report_rejection(&rejection),
        }
        if batch.len() == BATCH {
            store_batch(&*store, &mut batch, &entry, &mut report).await?;
        }
    }
    store_batch(&*store, &mut batch, &entry, &mut report).await?;
    Ok(report.print_totals("suppressions"))
}

async fn store_batch(
    store: &dyn Store,
    batch: &mut Vec<Suppression>,
    entry: &AuditEntry,
    report: &mut LineReport,
) -> anyhow::Result<()> {
    let suppressions = std::mem::take(batch);
    store.put_suppressions(&suppressions, entry).await?;
    report.count_accepted(suppressions.len().try_into()?);
    Ok(())
}

/// Settings for every row in the list.
struct SuppressionList {
    tenant: String,
    format: ListFormat,
    all: Option<SuppressionReason>,
    now: Timestamp,
}

impl SuppressionList {
    /// Returns `None` if the row's address is not suppressed.
    fn parse_row(&self, record: &InputRow) -> Result<Option<Suppression>, LineRejection> {
        let rejected = |field: &str, problem: String| LineRejection::new(record.line, field, &problem);
        let value = |column: &str| record.value(column);
        let written = value(self.format.address());
        let address = written.parse::<EmailAddress>();
        let address = address.map_err(|error| rejected(self.format.address(), format!("{written:?} {error}")))?;
        let tenant = value("tenant");
        if self.format == ListFormat::Tidings && !tenant.is_empty() && tenant != self.tenant {
            return Err(rejected("tenant", format!("{tenant:?} differs from --tenant {:?}", self.tenant)));
        }
        let reason = self.all.map_or_else(|| self.format.parse_reason(&value), |all| Ok(Some(all)));
        let reason = reason.map_err(|(field, problem)| rejected(field, problem))?;
        let at = self.format.parse_since(&value).map_err(|(field, problem)| rejected(field, problem))?;
        Ok(reason.map(|reason| Suppression {
            tenant: self.tenant.clone(),
            address: address.as_written().to_owned(),
            reason,
            // We drop the provider's text because it may quote the address.
            detail: format!("imported from {}", self.format.name()),
            at: at.unwrap_or(self.now).min(self.now),
        }))
    }
}
