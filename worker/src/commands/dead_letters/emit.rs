//! `tidings dead-letters emit`: a dead letter's events reach their keys after all.

use serde_json::json;
use tidings_activities::operations::dead_letters::{self, Error, LetterId, Sent};
use tidings_model::{command::Order, records::DeadLetterId};

use super::webhook;
use crate::{Config, args::Reason, client, phrases::counted, storage};

/// The letter, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The letter
    #[arg(value_name = "ID")]
    id: LetterId,
    #[command(flatten)]
    reason: Reason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Emits the letter. `false`: there is no such letter, it was emitted before, or it cannot be emitted.
///
/// # Errors
/// `by` or `why` will not do, or the store or Temporal does not answer.
pub(super) async fn run(Options { id, reason, json: as_json }: Options, config: &Config) -> anyhow::Result<bool> {
    let order = reason.order()?;
    match id {
        LetterId::Events(id) => emit(&id, &order, as_json, config).await,
        LetterId::Webhook(id) => webhook::emit(&id, &order, as_json, config).await,
    }
}

async fn emit(id: &DeadLetterId, order: &Order, as_json: bool, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let client = client::connect(config).await?;
    match dead_letters::emit(&*store, &client, id, order).await {
        Ok(sent) => {
            let text = if as_json {
                json!(sent.of(id)).to_string()
            } else {
                let Sent { events, retracts, keys } = sent;
                let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
                let (events, retracts) = (counted(events as u64, "event"), counted(retracts as u64, "retract"));
                format!("dead letter {id}: emitted {events} and {retracts} to {}", keys.join(", "))
            };
            anstream::println!("{text}");
            Ok(true)
        }
        Err(refused @ (Error::Unknown(_) | Error::Emitted { .. } | Error::Refused { .. })) => {
            anstream::eprintln!("{refused}");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
