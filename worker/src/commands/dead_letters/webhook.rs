//! Dead letters of webhooks: shown, and recorded after all.

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_activities::{
    choices,
    delivery_events::Received,
    operations::dead_letters::webhook::{self, Error},
};
use tidings_gateway::webhooks::{read_letter, shown_letter};
use tidings_model::{
    command::Order,
    delivery_events::{Reported, Which},
    records::{Emitted, KeptWebhookLetter, WebhookLetterId, WebhookLetterRecord},
};
use tidings_store::Store;

use super::lines::{BOLD, line};
use crate::{
    Config,
    config::Relay,
    phrases::{counted, local},
    storage,
};

/// Prints the letter with its event. `false`: there is no such letter.
pub(super) async fn show(
    store: &dyn Store,
    id: &WebhookLetterId,
    payload: bool,
    as_json: bool,
    config: &Config,
) -> anyhow::Result<bool> {
    let Some(letter) = store.webhook_letter(id).await? else { return Ok(unknown(id)) };
    let read = read(&letter, config);
    let shown = match (payload, as_json) {
        (true, _) => letter.head,
        (false, true) => json!(shown_letter(&letter, &read)).to_string(),
        (false, false) => in_words(&letter, &read),
    };
    anstream::println!("{shown}");
    Ok(true)
}

/// Records the events of the letter. `false`: there is no such letter, it was emitted before, or it still cannot be used.
pub(super) async fn emit(id: &WebhookLetterId, order: &Order, as_json: bool, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let Some(letter) = store.webhook_letter(id).await? else { return Ok(unknown(id)) };
    let events = match read(&letter, config) {
        Ok(events) => events,
        Err(why) => {
            anstream::eprintln!("dead letter {id} cannot be emitted: {why}");
            return Ok(false);
        }
    };
    match webhook::emit(&*store, &config.unsigned(), id, events, order).await {
        Ok(received) => {
            let Received { new, again, unknown, foreign, withdrawn } = &received;
            for key in withdrawn {
                let told =
                    async { anyhow::Ok(choices::tell(&crate::installation::connect(config).await?, key).await?) };
                if let Err(error) = told.await {
                    tracing::warn!(%key, %error, "the open window learns of the withdrawn consent at its deadline");
                }
            }
            let text = if as_json {
                json!({"id": id, "new": new, "again": again, "unknown": unknown, "foreign": foreign}).to_string()
            } else {
                let new = counted(*new as u64, "event");
                let foreign = if *foreign > 0 { format!(", {foreign} of another relay") } else { String::new() };
                format!(
                    "dead letter {id}: recorded {new}; {again} known before, {unknown} of unknown messages{foreign}"
                )
            };
            anstream::println!("{text}");
            Ok(true)
        }
        Err(refused @ (Error::Unknown(_) | Error::Emitted { .. })) => {
            anstream::eprintln!("{refused}");
            Ok(false)
        }
        Err(error @ Error::Store(_)) => Err(error).context("nothing was recorded; run the command again"),
    }
}

fn unknown(id: &WebhookLetterId) -> bool {
    anstream::eprintln!("there is no dead letter {id}; see tidings dead-letters list --source webhook");
    false
}

/// The events that this version reads in the letter, or the reason why it reads none, with the remedy.
fn read(letter: &KeptWebhookLetter, config: &Config) -> Result<Vec<Reported>, String> {
    read_letter(letter, config.relays.get(&letter.record.relay).map(Relay::provider), Timestamp::now())
}

fn in_words(letter: &KeptWebhookLetter, read: &Result<Vec<Reported>, String>) -> String {
    let WebhookLetterRecord { id, relay, buried_at, reason, size, sha256, emitted, .. } = &letter.record;
    let mut text = format!("{BOLD}{id}{BOLD:#}: {reason}");
    let mut add = |name: &str, value: &str| line(&mut text, name, value);
    add("webhook", relay);
    add("buried", &local(*buried_at));
    add("size", &counted(*size, "byte"));
    add("sha256", sha256);
    match (emitted, read) {
        (Some(Emitted { at, by }), _) => add("emitted", &format!("by {by} at {}", local(*at))),
        (None, Ok(events)) if events.is_empty() => add("emit", "would record nothing: the event has no consequences"),
        (None, Ok(events)) => {
            let events: Vec<_> = events.iter().map(event).collect();
            add("emit", &format!("would record {}", events.join("; ")));
        }
        (None, Err(why)) => add("emit", &format!("refuses it: {why}")),
    }
    let part: Option<Value> = serde_json::from_str(&letter.head).ok();
    let pretty = part.and_then(|part| serde_json::to_string_pretty(&part).ok());
    format!("{text}\n\n{}", pretty.as_deref().unwrap_or(&letter.head))
}

/// `bounced: 5.1.1 of message 01234567-89ab-5def-8123-456789abcdef`
fn event(event: &Reported) -> String {
    let of = event.of.first().map(|which| match which {
        Which::Id(id) => format!("message {id}"),
        Which::MessageId(id) => format!("Message-ID <{id}>"),
        Which::RelayId(id) => format!("the message that the relay names {id}"),
    });
    format!("{} of {}", event.report, of.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ID: &str = "01234567-89ab-5def-8123-456789abcdef";

    fn letter(head: &str, whole: bool) -> KeptWebhookLetter {
        let sha256 = "0123456789abcdef".repeat(4);
        KeptWebhookLetter {
            record: WebhookLetterRecord {
                id: WebhookLetterId::new("own", &sha256),
                relay: "own".to_owned(),
                buried_at: Timestamp::UNIX_EPOCH,
                reason: "kind \"opened\" is not one that Tidings knows".to_owned(),
                size: head.len() as u64,
                sha256,
                whole,
                emitted: None,
            },
            head: head.to_owned(),
        }
    }

    fn config(relay: &str) -> Config {
        let text = format!(
            "[relay.{relay}]\nurl = \"smtp://127.0.0.1\"\n[stream.bulk]\nrelays = [\"{relay}\"]\n\
             [stream.transactional]\nrelays = [\"{relay}\"]\n"
        );
        Config::read(Path::new("tidings.toml"), &text, &|_| None).unwrap()
    }

    #[test]
    fn a_letter_shows_its_event_and_what_an_emission_would_do() {
        let opened = format!("{{\"kind\":\"opened\",\"message\":\"{ID}\",\"occurred_at\":\"2026-11-21T12:00:00Z\"}}");
        for (head, whole, relay, says) in [
            (opened.as_str(), true, "own", format!("emit      would record opened of message {ID}")),
            (&opened, false, "own", "emit      refuses it: its 103 bytes were not kept as a whole".to_owned()),
            (&opened, true, "other", "emit      refuses it: [relay.own] is not in tidings.toml".to_owned()),
            ("{\"kind\":7}", true, "own", "emit      refuses it: invalid type: integer `7`".to_owned()),
            ("[]", true, "own", "emit      would record nothing".to_owned()),
        ] {
            let (letter, config) = (letter(head, whole), config(relay));
            let read = read(&letter, &config);
            let shown = in_words(&letter, &read);
            assert!(shown.contains(&says), "{shown}");
            assert!(head.starts_with('[') || shown.contains("{\n  \"kind\": "), "{shown}");
            assert_eq!(shown_letter(&letter, &read).refused.is_some(), read.is_err());
        }
    }
}
