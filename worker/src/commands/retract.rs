//! `tidings retract`: withdraws events, before or after they arrive.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_model::{
    Key, Retract,
    records::{RetractEffect, RetractReach},
    when,
};
use tidings_operations::digest::take_back;
use tidings_proto::v1;
use tokio::time::timeout;

use crate::{Config, client, error::UsageError, storage};

const EXAMPLES: &str = "\
Examples:
  tidings retract acme/activity/ann --event comment-4711
  tidings retract acme/activity/ann --category comment --entity-type document --entity-id 42
  tidings retract acme/alerts/ann --category alarm --until 2026-01-31T08:00:00Z

Withdrawn events appear in no message, even if they arrive later. A message that waits for `undo` or for its relay is rendered
again without them. The output shows this, or that a message with one of them was already sent. Retracting twice changes nothing.";

/// Ledger timeout. Temporal has the retract by then.
const LEDGER_TIME: Duration = Duration::from_secs(5);

/// The events to withdraw.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RetractOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// The event with this id
    #[arg(long, value_name = "ID", required_unless_present = "category")]
    #[arg(conflicts_with_all = ["category", "entity_type", "entity_id", "until"])]
    event: Option<String>,
    /// All events of this category about one entity
    #[arg(long)]
    category: Option<String>,
    /// The type of the entity; without it, only events about no entity
    #[arg(long, value_name = "TYPE", requires = "category")]
    entity_type: Option<String>,
    /// The id of the entity
    #[arg(long, value_name = "ID", requires = "category")]
    entity_id: Option<String>,
    /// Only events that occurred until then [default: now]
    #[arg(long, value_name = "TIME", requires = "category", value_parser = when::parse_time)]
    until: Option<Timestamp>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: RetractOptions, config: &Config) -> anyhow::Result<bool> {
    let (key, as_json) = (config.names.key_today(&options.key), options.json);
    let now = Timestamp::now();
    let wire = RetractOptions { key: key.clone(), ..options }.into_wire(now);
    let (_, retract) = Retract::from_wire(wire.clone(), None).map_err(|error| UsageError(error.to_string()))?;
    client::connect(config).await?.retract(wire.clone()).await?;
    let reached = look_up_reach(config, &key, &retract, now).await;
    let text = if as_json { in_json(&wire, reached).to_string() } else { in_words(&key, &retract, reached) };
    anstream::println!("{text}");
    Ok(true)
}

/// Returns `None` if the ledger is unreachable or too slow.
async fn look_up_reach(config: &Config, key: &Key, retract: &Retract, now: Timestamp) -> Option<RetractEffect> {
    let looked = async {
        let store = storage::open(&config.database_url).await?;
        let retracts = [(key.clone(), retract.clone())];
        Ok::<_, anyhow::Error>(take_back(&*store, &retracts, now).await?.pop())
    };
    match timeout(LEDGER_TIME, looked).await {
        Ok(Ok(reached)) => reached,
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot look up the effect of the retract in the ledger; Temporal has the retract");
            None
        }
        Err(_) => {
            tracing::warn!("the ledger did not report the effect of the retract in time; Temporal has the retract");
            None
        }
    }
}

fn in_json(wire: &v1::Retract, reached: Option<RetractEffect>) -> Value {
    let mut json = json!(wire);
    if let Some(RetractEffect { reach, digest }) = reached {
        json["reached"] = json!(reach);
        if let Some((digest_id, claimed_at)) = digest {
            json["digest_id"] = json!(digest_id);
            json["claimed_at"] = json!(claimed_at);
        }
    }
    json
}

impl RetractOptions {
    fn into_wire(self, now: Timestamp) -> v1::Retract {
        let Key { tenant, digest_type, user } = self.key;
        let occurred_at = self.category.as_ref().map(|_| self.until.unwrap_or(now).into());
        v1::Retract {
            tenant,
            digest: digest_type,
            user,
            event_id: self.event.unwrap_or_default(),
            category: self.category.unwrap_or_default(),
            entity_type: self.entity_type.unwrap_or_default(),
            entity_id: self.entity_id.unwrap_or_default(),
            occurred_at,
        }
    }
}

fn in_words(key: &Key, retract: &Retract, reached: Option<RetractEffect>) -> String {
    let what = match retract {
        Retract::Event(id) | Retract::EventUntil { event_id: id, .. } => format!("event {id} is"),
        Retract::Entity { category, entity_type, entity_id, until } => {
            let entity = [entity_type, entity_id].into_iter().filter(|part| !part.is_empty());
            let about: Vec<_> = entity.map(String::as_str).collect();
            let about = if about.is_empty() { "no entity".to_owned() } else { about.join(" ") };
            format!("every {category} about {about} until {until:.0} is")
        }
    };
    let reached = match reached {
        None => ", unless its email was sent".to_owned(),
        Some(RetractEffect { digest: None, .. }) => "; no email has it".to_owned(),
        Some(RetractEffect { reach: RetractReach::Sent, digest: Some((id, _)) }) => {
            format!(", too late for digest {id}: its email was sent, or may have been")
        }
        Some(RetractEffect { digest: Some((id, _)), .. }) => format!("; digest {id} waits and is rendered again"),
    };
    format!("{key}: {what} withdrawn{reached}")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use uuid::Uuid;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        options: RetractOptions,
    }

    fn said(arguments: &[&str]) -> Option<String> {
        let line = ["retract", "acme/activity/ann"].iter().chain(arguments);
        let wire = Command::try_parse_from(line).ok()?.options.into_wire(Timestamp::UNIX_EPOCH);
        let (key, retract) = Retract::from_wire(wire, None).unwrap();
        Some(in_words(&key, &retract, None))
    }

    #[test]
    fn the_answer_says_what_the_retract_reached() {
        let (key, retract) = ("acme/activity/ann".parse().unwrap(), Retract::Event("e1".into()));
        let digest = Some((Uuid::nil(), None));
        for (reached, says) in [
            (None, "unless its email was sent"),
            (Some(RetractEffect::PENDING), "no email has it"),
            (Some(RetractEffect { reach: RetractReach::Waiting, digest }), "waits and is rendered again"),
            (Some(RetractEffect { reach: RetractReach::Sent, digest }), "too late for digest"),
        ] {
            let words = in_words(&key, &retract, reached);
            assert!(words.contains(says), "{words}");
        }
    }

    #[test]
    fn a_retract_covers_an_event_or_a_category_until_a_time() {
        for (arguments, says) in [
            (&["--event", "e1"][..], "acme/activity/ann: event e1 is withdrawn"),
            (&["--category", "comment"], "every comment about no entity until 1970-01-01T00:00:00Z is withdrawn"),
            (
                &["--category", "comment", "--entity-type", "page", "--entity-id", "7"],
                "every comment about page 7 until",
            ),
            (&["--category", "comment", "--until", "2026-01-31T08:00:00Z"], "until 2026-01-31T08:00:00Z is withdrawn"),
        ] {
            let words = said(arguments).unwrap();
            assert!(words.contains(says), "{words}");
        }
        for wrong in [
            &[][..],
            &["--event", "e1", "--category", "comment"],
            &["--event", "e1", "--until", "2026-01-31T08:00:00Z"],
            &["--entity-id", "7"],
            &["--category", "comment", "--until", "yesterday"],
        ] {
            assert_eq!(said(wrong), None, "{wrong:?}");
        }
    }
}
