//! `tidings suppressions import`: the suppressed addresses of another provider.

use std::path::PathBuf;

use jiff::Timestamp;
use tidings_activities::operations::rows::Row;
use tidings_model::{
    EmailAddress,
    records::{AuditEntry, Reason, Suppression},
};
use tidings_store::Store;

use super::format::Format;
use crate::{
    Config,
    args::{self, OptionalReason, one_of},
    line_input::{self, Rejection, Report},
    storage,
};

/// Suppressions that go to the store together.
const BATCH: usize = 500;

/// The file and what the file does not say.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// CSV file or NDJSON, gzipped or not; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The tenant that must not mail the addresses
    #[arg(long, value_name = "TENANT", value_parser = args::tenant)]
    tenant: String,
    /// The origin of the list [default: the columns say it]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The reason of every row, for a list that does not say it
    #[arg(long = "reason", value_name = "REASON", value_parser = one_of(Reason::ALL, Reason::name))]
    all: Option<Reason>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Print the rejected lines and the summary as JSON
    #[arg(long)]
    json: bool,
}

/// Imports all of the file that is right. `false`: something was not.
///
/// # Errors
/// The file cannot be read or has no known columns, or the store does not answer.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { file, tenant, format, all, reason, json } = options;
    let order = reason.order("tidings suppressions import")?;
    let (bar, input) = line_input::open(&file)?;
    let (records, columns) = line_input::records(input)?;
    let format = Format::of(&columns, format)?;
    let store = storage::open(&config.database_url).await?;
    let now = Timestamp::now();
    let entry = order.entry(super::ADD, now);
    let list = List { tenant, format, all, now };
    let mut report = Report::new(json, bar);
    let mut batch = Vec::with_capacity(BATCH);
    for record in records {
        match record?.map_err(Rejection::from).and_then(|record| list.suppression(&record)) {
            Ok(suppression) => batch.extend(suppression),
            Err(rejection) => report.rejected(&rejection),
        }
        if batch.len() == BATCH {
            put(&*store, &mut batch, &entry, &mut report).await?;
        }
    }
    put(&*store, &mut batch, &entry, &mut report).await?;
    Ok(report.end("suppressions"))
}

async fn put(
    store: &dyn Store,
    batch: &mut Vec<Suppression>,
    entry: &AuditEntry,
    report: &mut Report,
) -> anyhow::Result<()> {
    let suppressions = std::mem::take(batch);
    store.put_suppressions(&suppressions, entry).await?;
    report.accepted(suppressions.len().try_into()?);
    Ok(())
}

/// The list, and the facts that hold for every row.
struct List {
    tenant: String,
    format: Format,
    all: Option<Reason>,
    now: Timestamp,
}

impl List {
    /// The suppression of a row; `None`: the address is not suppressed.
    fn suppression(&self, record: &Row) -> Result<Option<Suppression>, Rejection> {
        let rejected = |field: &str, problem: String| Rejection::new(record.line, field, &problem);
        let value = |column: &str| record.value(column);
        let written = value(self.format.address());
        let address = written.parse::<EmailAddress>();
        let address = address.map_err(|error| rejected(self.format.address(), format!("{written:?} {error}")))?;
        let tenant = value("tenant");
        if self.format == Format::Tidings && !tenant.is_empty() && tenant != self.tenant {
            return Err(rejected("tenant", format!("{tenant:?} is another tenant than --tenant {:?}", self.tenant)));
        }
        let reason = self.all.map_or_else(|| self.format.reason(&value), |all| Ok(Some(all)));
        let reason = reason.map_err(|(field, problem)| rejected(field, problem))?;
        let at = self.format.since(&value).map_err(|(field, problem)| rejected(field, problem))?;
        Ok(reason.map(|reason| Suppression {
            tenant: self.tenant.clone(),
            address: address.written().to_owned(),
            reason,
            // The provider's text may quote the address.
            detail: format!("imported from {}", self.format.name()),
            at: at.unwrap_or(self.now).min(self.now),
        }))
    }
}
