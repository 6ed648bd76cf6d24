//! `tidings recipients`: the directory and data about a person.

use std::path::PathBuf;

use serde_json::json;
use tidings_model::{
    PersonId,
    records::{ListedRecipient, Recipient, RecipientFilter, RecipientPlace},
};
use tidings_operations::move_person::MoveKind;

use crate::{
    Config,
    commands::page::{self, PageOptions},
    storage,
};

mod erase;
mod export;
mod import;
mod show;

const EXAMPLES: &str = "\
Examples:
  tidings recipients import people.csv
  tidings recipients list --tenant acme --suppressed
  tidings recipients show acme/ann
  tidings recipients export acme/ann --out ann.json
  tidings recipients erase acme/ann --why 'request of 24 November' --dry-run
  tidings recipients rename acme/ann acme/anna --why 'new login'

In a part of TENANT/USER, / is written %2F and % is written %25.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum RecipientsCommand {
    /// Add people, or replace the fields that the file has columns for; importing twice changes nothing
    #[command(after_help = "Example: tidings recipients import people.csv\n\n\
        The first line names the columns: tenant,user,address are required, \
        name,zone,locale are not. Fields without a column stay, and an empty value clears one.\n\n  tenant,user,address,name,zone,locale\n  \
        acme,ann,ann@acme.example,Ann,Europe/Berlin,de\n\n\
        Open windows of people with a changed zone follow at once.")]
    Import {
        /// CSV file (RFC 4180, UTF-8), gzipped or not; `-` is standard input
        #[arg(value_name = "FILE.csv")]
        file: PathBuf,
        /// Keys per second to signal about a changed zone
        #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
        rate: u32,
        /// Print the rejected lines and the summary as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the directory, by tenant and user
    #[command(after_help = "Examples:\n  \
        tidings recipients list --tenant acme --zone Europe/Berlin --limit 500\n  \
        tidings recipients list --tenant acme --address ann@acme.example\n\n\
        Every page but the last ends with a cursor for --after.")]
    List(RecipientListOptions),
    /// Show a person: directory entry, effective settings of each digest type, suppressions and recent digests
    #[command(after_help = "Example: tidings recipients show acme/ann --json")]
    Show(show::RecipientShowOptions),
    /// Export everything stored about a person as JSON, with addresses and messages
    #[command(after_help = "Examples:\n  \
        tidings recipients export acme/ann --out ann.json\n  \
        tidings recipients export acme/ann | jq .events")]
    Export {
        /// The person
        #[arg(value_name = "TENANT/USER")]
        person: PersonId,
        /// Write to this new file, readable only by you [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Erase a person: directory, choices, addresses, messages, texts of events, archives; suppressions still apply
    #[command(after_help = "Examples:\n  \
        tidings recipients erase acme/ann --why 'request of 24 November' --dry-run\n  \
        tidings recipients erase acme/ann --why 'request of 24 November'\n\n\
        Stop the producers first. Dropping pending events needs a running worker. After a crash, run the command again.\n\
        Events about the person that other people received stay; see docs/recipients.md.")]
    Erase(erase::EraseOptions),
    /// Rename a person: choices, consent, open windows, waiting messages and links move to the new id
    #[command(after_help = "Example: tidings recipients rename acme/ann acme/anna --why 'new login'\n\n\
        Switch the producers to the new id first. Moving pending events needs a worker. After a crash, or if producers were late, run the \
        command again.")]
    Rename(erase::MoveOptions),
    /// Merge two people: an opt-out of either applies, and of other choices the later one
    #[command(after_help = "Example: tidings recipients merge acme/ann acme/anna --why 'two accounts'\n\n\
        The first id is removed; the second keeps its address, name, zone and language. Links of both keep working.")]
    Merge(erase::MoveOptions),
}

/// Returns `false` if a line was rejected, nothing is stored about the person, or the work is incomplete.
pub(crate) async fn run(command: RecipientsCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        RecipientsCommand::Import { file, rate, json } => import::run(&file, rate, json, config).await,
        RecipientsCommand::List(options) => list(options, config).await,
        RecipientsCommand::Show(options) => show::run(options, config).await,
        RecipientsCommand::Erase(options) => erase::run(options, config).await,
        RecipientsCommand::Rename(options) => erase::move_person(MoveKind::Rename, options, config).await,
        RecipientsCommand::Merge(options) => erase::move_person(MoveKind::Merge, options, config).await,
        RecipientsCommand::Export { person, out } => export::run(&person, out.as_deref(), config).await,
    }
}

/// The filter, the page and the form of the answer.
#[derive(Debug, clap::Args)]
#[command(mut_arg("limit", |arg| arg.help("Maximum number of people")))]
pub struct RecipientListOptions {
    #[command(flatten)]
    filter: RecipientFilter,
    #[command(flatten)]
    page: PageOptions<RecipientPlace>,
    /// Also print the addresses
    #[arg(long)]
    addresses: bool,
    /// Print JSON, one line each; the last line has the cursor if another page follows
    #[arg(long)]
    json: bool,
}

async fn list(options: RecipientListOptions, config: &Config) -> anyhow::Result<bool> {
    let RecipientListOptions { filter, page, addresses, json: as_json } = options;
    let store = storage::open(&config.database_url).await?;
    let listed = store.recipients(&RecipientFilter { page: page.into(), ..filter }).await?;
    page::print_page(listed, as_json, ("recipients", "TENANT/USER  NAME  ZONE  LOCALE"), |row| {
        if as_json { in_json(row, addresses) } else { in_words(row, addresses) }
    });
    Ok(true)
}

fn in_json(ListedRecipient { recipient, suppressed }: &ListedRecipient, addresses: bool) -> String {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let mut line =
        json!({"tenant": tenant, "user": user, "name": name, "zone": zone, "locale": locale, "suppressed": suppressed});
    if addresses {
        line["address"] = json!(address);
    }
    line.to_string()
}

fn in_words(ListedRecipient { recipient, suppressed }: &ListedRecipient, addresses: bool) -> String {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let id = PersonId { tenant: tenant.clone(), user: user.clone() }.to_string();
    let suppressed = suppressed.map(|reason| format!("suppressed: {reason}")).unwrap_or_default();
    let address = if addresses { address.as_str() } else { "" };
    let parts = [id.as_str(), address, name, zone, locale, &suppressed];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
}
