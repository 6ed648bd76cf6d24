//! `tidings consent`: a recipient's consent to a digest type.

use anyhow::bail;
use jiff::Timestamp;
use serde_json::json;
use tidings_model::{Key, UnsubscribeLink, records::SuppressionReason};
use tidings_services::{
    choices,
    unsubscribe::{of_today, unsubscribe},
};

use crate::{
    Config,
    args::OptionalReason,
    error::UsageError,
    preference_store::{PreferenceStore, to_usage_error},
};

const EXAMPLES: &str = "\
Examples:
  tidings consent get acme/activity/ann
  tidings consent withdraw acme/activity/ann --by carol --why 'wrote to support'
  tidings consent grant acme/activity/ann
  tidings consent withdraw --token AWZ1ASNFZ4mrXe-BI0Vni...

In a part of the key, / is written %2F and % is written %25.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum ConsentCommand {
    /// Show whether the recipient wants this digest
    #[command(after_help = "Example: tidings consent get acme/activity/ann --json")]
    Get(ConsentOptions),
    /// Withdraw consent; pending events end as skipped
    #[command(after_help = "Examples:\n  \
        tidings consent withdraw acme/activity/ann --why 'wrote to support'\n  \
        tidings consent withdraw --token AWZ1ASNFZ4mrXe-BI0Vni...\n\n\
        With --token, the command does what a click on an unsubscribe link does, for your own page (gateway.unsubscribe_url). \
        The link of a single message suppresses its address for bulk messages. The audit trail names the recipient and the message.")]
    Withdraw {
        /// The key
        #[arg(value_name = "TENANT/TYPE/USER", required_unless_present = "token", conflicts_with = "token")]
        key: Option<Key>,
        /// The token of an unsubscribe link
        #[arg(long, conflicts_with_all = ["by", "why"])]
        token: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reason: OptionalReason,
    },
    /// Grant consent again
    #[command(after_help = "Example: tidings consent grant acme/activity/ann --why 'wrote to support'")]
    Grant {
        #[command(flatten)]
        asked: ConsentOptions,
        #[command(flatten)]
        reason: OptionalReason,
    },
}

/// The key and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct ConsentOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: ConsentCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        ConsentCommand::Get(asked) => show(&PreferenceStore::open(config).await?, &asked).await,
        ConsentCommand::Withdraw { key: Some(key), json, reason, .. } => {
            record(&ConsentOptions { key, json }, false, reason, config).await
        }
        ConsentCommand::Withdraw { token, json, .. } => click(&token.unwrap_or_default(), json, config).await,
        ConsentCommand::Grant { asked, reason } => record(&asked, true, reason, config).await,
    }
}

/// Has the effect of a click on this link.
async fn click(token: &str, json: bool, config: &Config) -> anyhow::Result<bool> {
    if let Some(unreadable) = config.link_keys.problem() {
        bail!("{unreadable}");
    }
    let link = config.link_keys.keys().and_then(|keys| UnsubscribeLink::from_token(keys, token));
    let unsigned = "--token: is not an unsubscribe token signed by a key in TIDINGS_LINK_KEYS or link_keys_file";
    let link = link.ok_or_else(|| UsageError(unsigned.to_owned()))?;
    let mut preferences = PreferenceStore::open(config).await?;
    let Some(link) = of_today(&*preferences.store, link).await? else {
        bail!("--token: belongs to an erased recipient; nothing changed");
    };
    unsubscribe(&*preferences.store, &link, Timestamp::now()).await?;
    match link {
        UnsubscribeLink::Unsubscribe { key, .. } => {
            preferences.notify_workflows(&key).await;
            show(&preferences, &ConsentOptions { key, json }).await
        }
        UnsubscribeLink::Suppress { tenant, .. } => {
            let text = if json {
                json!({ "tenant": tenant, "suppressed": SuppressionReason::Unsubscribed.name() }).to_string()
            } else {
                format!("{tenant}: address suppressed for bulk messages")
            };
            anstream::println!("{text}");
            Ok(true)
        }
    }
}

async fn record(asked: &ConsentOptions, wanted: bool, reason: OptionalReason, config: &Config) -> anyhow::Result<bool> {
    let order = reason.into_order(if wanted { "tidings consent grant" } else { "tidings consent withdraw" })?;
    let mut preferences = PreferenceStore::open(config).await?;
    let now = Timestamp::now();
    choices::set_consent(&*preferences.store, &preferences.settings, &asked.key, wanted, &order, now)
        .await
        .map_err(to_usage_error)?;
    preferences.notify_workflows(&asked.key).await;
    show(&preferences, asked).await
}

async fn show(
    preferences: &PreferenceStore<'_>,
    ConsentOptions { key, json }: &ConsentOptions,
) -> anyhow::Result<bool> {
    let facts = preferences.store.facts(key).await?;
    let suppressed = facts.suppressed.map(|reason| format!("; but the address is suppressed: {reason}"));
    let text = match (*json, facts.consent) {
        (true, consent) => json!({ "key": key, "consent": consent }).to_string(),
        (false, true) => format!("{key}: wanted{}", suppressed.unwrap_or_default()),
        (false, false) => format!("{key}: not wanted; no email is sent"),
    };
    anstream::println!("{text}");
    Ok(true)
}
