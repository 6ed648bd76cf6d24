//! `tidings inbox`: forwards accepted API events to Temporal again.

use jiff::Timestamp;
use serde_json::json;
use tidings_model::when;

use crate::{Config, phrases::format_count, storage};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum InboxCommand {
    /// Forward events to Temporal again; events already in the ledger change nothing
    #[command(after_help = "Examples:\n  \
        tidings inbox replay --since 2h\n  \
        tidings inbox replay --since 2026-11-24T08:00:00Z --tenant acme\n\n\
        Use this after Temporal was restored from a backup. The inbox keeps forwarded events for `inbox.keep`, 3 days\n\
        by default. A gateway must be running.")]
    Replay {
        /// Events that arrived since: an RFC 3339 timestamp, or an age such as `2h`
        #[arg(long, value_name = "TIME", value_parser = when::parse_past)]
        since: Timestamp,
        /// Only events of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// It is safe to run this again.
pub(crate) async fn run(command: InboxCommand, config: &Config) -> anyhow::Result<bool> {
    let InboxCommand::Replay { since, tenant, json: as_json } = command;
    let store = storage::open(&config.database_url).await?;
    let replayed = store.replay_inbox(tenant.as_deref(), since, Timestamp::now()).await?;
    if as_json {
        anstream::println!("{}", json!({ "replayed": replayed }));
    } else {
        anstream::println!("{} will be forwarded again", format_count(replayed, "event"));
    }
    Ok(true)
}
