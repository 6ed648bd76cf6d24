//! `tidings consent`: a recipient's consent to a digest type.

use jiff::Timestamp;
use serde_json::json;
use tidings_activities::choices;
use tidings_model::Key;

use crate::{
    Config,
    args::OptionalReason,
    preference_store::{PreferenceStore, usage},
};

const EXAMPLES: &str = "\
Examples:
  tidings consent get acme/activity/ann
  tidings consent withdraw acme/activity/ann --by carol --why 'wrote to support'
  tidings consent grant acme/activity/ann

In a part of the key, / is written %2F and % is written %25.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Shows if the recipient wants this digest
    #[command(after_help = "Example: tidings consent get acme/activity/ann --json")]
    Get(Asked),
    /// Withdraws consent; pending events end as skipped
    #[command(after_help = "Example: tidings consent withdraw acme/activity/ann --why 'wrote to support'")]
    Withdraw {
        #[command(flatten)]
        asked: Asked,
        #[command(flatten)]
        reason: OptionalReason,
    },
    /// Grants consent again
    #[command(after_help = "Example: tidings consent grant acme/activity/ann --why 'wrote to support'")]
    Grant {
        #[command(flatten)]
        asked: Asked,
        #[command(flatten)]
        reason: OptionalReason,
    },
}

/// The key and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Asked {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command.
///
/// # Errors
/// [`Usage`](crate::error::Usage) where the digest type does not exist or `by` will not do; the store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::Get(asked) => show(&PreferenceStore::open(config).await?, &asked).await,
        Command::Withdraw { asked, reason } => record(&asked, false, reason, config).await,
        Command::Grant { asked, reason } => record(&asked, true, reason, config).await,
    }
}

async fn record(asked: &Asked, wanted: bool, reason: OptionalReason, config: &Config) -> anyhow::Result<bool> {
    let order = reason.order(if wanted { "tidings consent grant" } else { "tidings consent withdraw" })?;
    let mut preferences = PreferenceStore::open(config).await?;
    let now = Timestamp::now();
    choices::consent(&*preferences.store, &preferences.settings, &asked.key, wanted, &order, now)
        .await
        .map_err(usage)?;
    preferences.tell(&asked.key).await;
    show(&preferences, asked).await
}

async fn show(preferences: &PreferenceStore<'_>, Asked { key, json }: &Asked) -> anyhow::Result<bool> {
    let facts = preferences.store.facts(key).await?;
    let suppressed = facts.suppressed.map(|reason| format!("; but the address is suppressed: {reason}"));
    let text = match (*json, facts.consent) {
        (true, consent) => json!({ "key": key, "consent": consent }).to_string(),
        (false, true) => format!("{key}: wanted{}", suppressed.unwrap_or_default()),
        (false, false) => format!("{key}: not wanted; no mail of it goes out"),
    };
    anstream::println!("{text}");
    Ok(true)
}
