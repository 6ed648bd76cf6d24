//! `tidings dead-letters`: undecodable signals and unusable webhooks.

use std::{
    fmt::Write as _,
    io::{Write as _, stdout},
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_gateway::webhooks::{read_letter, shown_letter};
use tidings_model::{
    decode::{DecodedLetter, decode_again},
    delivery_events::{CheckedDeliveryEvent, MessageReference},
    records::{
        self, DeadLetterFilter, DeadLetterRecord, KeptLetter, KeptWebhookLetter, LetterSource, WebhookLetterRecord,
    },
    subscription::{COUNTED, SubscriptionState},
    without_addresses,
};
use tidings_operations::dead_letters::{
    DeadLetterEntry, DeadLetterError, Emission, LetterCursor, LetterEmission, LetterId, WebhookEmission,
    describe_letter, emit_events, emit_webhook, list,
};
use tidings_services::choices;

use super::page::{self, PageOptions};
use crate::{
    Config,
    args::RequiredReason,
    client,
    config::RelayConfig,
    phrases::{format_count, local},
    storage,
};

const EXAMPLES: &str = "\
Examples:
  tidings dead-letters list --tenant acme --since 2d
  tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1
  tidings dead-letters emit 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --why 'sent to the wrong key'
  tidings dead-letters emit sendgrid/9f86d081884c7d65 --why 'read by the new version'

`emit` decodes a webhook dead letter again with the running version, and sends events to the keys named in them.
Correct a malformed event by hand:
  tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --payload > event.json
  tidings emit event.json";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum DeadLettersCommand {
    /// List dead letters, latest first
    #[command(after_help = "Examples:\n  \
        tidings dead-letters list --tenant acme --digest-type activity --user ann\n  \
        tidings dead-letters list --since 2d --json\n  \
        tidings dead-letters list --source webhook\n\n\
        Webhook dead letters have no tenant: --tenant, --digest-type and --user exclude them. Every page but the last ends with a cursor for --after.\n\n\
        After the last page stands how many notices each subscription did not get: they are dead letters of `tidings subscriptions`.")]
    List(DeadLetterListOptions),
    /// Show a dead letter: its reason, size and hash, and what `emit` would do
    #[command(after_help = "Examples:\n  \
        tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1\n  \
        tidings dead-letters show 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --payload | jq .\n  \
        tidings dead-letters show sendgrid/9f86d081884c7d65")]
    Show(DeadLetterShowOptions),
    /// Emit the events and retracts of a dead letter, or record those of a webhook, once
    #[command(after_help = "Example:\n  \
        tidings dead-letters emit 0192f0c1-7a55-7e0c-8f0e-2b1c93f46a52.1 --why 'sent to the wrong key'\n  \
        tidings dead-letters emit sendgrid/9f86d081884c7d65 --why 'read by the new version'\n\n\
        After an error or a crash, run the command again: an event counts once by its event_id.")]
    Emit(EmitOptions),
}

/// The filter, the page and the form of the answer.
#[derive(Debug, clap::Args)]
#[command(mut_arg("limit", |arg| arg.help("Maximum number of dead letters")))]
pub struct DeadLetterListOptions {
    /// Only dead letters from this source
    #[arg(long, value_name = "SOURCE")]
    source: Option<LetterSource>,
    #[command(flatten)]
    filter: DeadLetterFilter,
    #[command(flatten)]
    page: PageOptions<LetterCursor>,
    /// Print JSON, one line each; the last line has the cursor if another page follows
    #[arg(long)]
    json: bool,
}

/// The letter and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct DeadLetterShowOptions {
    /// The letter
    #[arg(value_name = "ID")]
    id: LetterId,
    /// Print only the kept bytes of the payload; they may contain addresses
    #[arg(long)]
    payload: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "payload")]
    json: bool,
}

/// The letter, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct EmitOptions {
    /// The letter
    #[arg(value_name = "ID")]
    id: LetterId,
    #[command(flatten)]
    reason: RequiredReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if the letter is missing or was not emitted.
pub(crate) async fn run(command: DeadLettersCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        DeadLettersCommand::List(options) => print_page(options, config).await,
        DeadLettersCommand::Show(options) => show(options, config).await,
        DeadLettersCommand::Emit(options) => emit(options, config).await,
    }
}

async fn print_page(options: DeadLetterListOptions, config: &Config) -> anyhow::Result<bool> {
    let DeadLetterListOptions { source, filter, page, json: as_json } = options;
    let store = storage::open(&config.database_url).await?;
    let listed = list(&*store, source, &filter, &page.into()).await?;
    let is_all = source.is_none() && filter.workflow_ids().is_none() && listed.next.is_none() && !as_json;
    let header = format!("{:<36}  TIME  RECEIVER  REASON", "DEAD LETTER");
    page::print_page(listed, as_json, ("dead letters", &header), |row| {
        if as_json { json!(row).to_string() } else { in_a_line(row) }
    });
    if is_all {
        let subscriptions = store.subscriptions(COUNTED).await?;
        subscriptions.iter().filter_map(undelivered_events).for_each(|line| anstream::eprintln!("{line}"));
    }
    Ok(true)
}

/// Subscriptions have their own commands for dead letters.
fn undelivered_events(SubscriptionState { name, dead_letters, .. }: &SubscriptionState) -> Option<String> {
    let events = format_count(*dead_letters, "webhook event");
    let (see, replay) = ("tidings subscriptions dead-letters", "tidings subscriptions replay");
    let line =
        format!("not delivered to {name}: {events}; see {see} {name}, then {replay} {name} --since 2d --dead-letters");
    (*dead_letters > 0).then_some(line)
}

fn in_a_line(letter: &DeadLetterEntry) -> String {
    let (id, to, at, reason, emitted) = match letter {
        DeadLetterEntry::Events(letter) => {
            let DeadLetterRecord { id, buried_at, reason, emitted, .. } = letter;
            (id.to_string(), letter.receiver(), *buried_at, reason, emitted)
        }
        DeadLetterEntry::Webhook(WebhookLetterRecord { id, relay, buried_at, reason, emitted, .. }) => {
            (id.to_string(), format!("webhook of {relay}"), *buried_at, reason, emitted)
        }
    };
    let emitted =
        emitted.as_ref().map(|records::EmissionRecord { at, by }| format!(", emitted by {by} at {}", local(*at)));
    format!("{id}  {}  {to}  {reason}{}", local(at), emitted.unwrap_or_default())
}

async fn show(
    DeadLetterShowOptions { id, payload, json: as_json }: DeadLetterShowOptions,
    config: &Config,
) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    match &id {
        LetterId::Events(events) => {
            let Some(letter) = store.dead_letter(None, events).await? else { return Ok(report_unknown(&id)) };
            if payload {
                stdout().write_all(&letter.head)?;
            } else {
                let text = if as_json { json!(describe_letter(&letter)).to_string() } else { events_in_words(&letter) };
                anstream::println!("{text}");
            }
        }
        LetterId::Webhook(webhook) => {
            let Some(letter) = store.webhook_letter(webhook).await? else { return Ok(report_unknown(&id)) };
            let read = decode_letter(&letter, config);
            let text = match (payload, as_json) {
                (true, _) => letter.head,
                (false, true) => json!(shown_letter(&letter, &read)).to_string(),
                (false, false) => webhook_in_words(&letter, &read),
            };
            anstream::println!("{text}");
        }
    }
    Ok(true)
}

fn report_unknown(id: &LetterId) -> bool {
    let of_webhooks = if matches!(id, LetterId::Webhook(_)) { " --source webhook" } else { "" };
    anstream::eprintln!("there is no dead letter {id}; see tidings dead-letters list{of_webhooks}");
    false
}

/// Returns `false` if the letter is missing, was emitted before, or cannot be emitted.
async fn emit(EmitOptions { id, reason, json: as_json }: EmitOptions, config: &Config) -> anyhow::Result<bool> {
    let order = reason.into_order()?;
    let store = storage::open(&config.database_url).await?;
    let emitted = match &id {
        LetterId::Events(id) => emit_events(&*store, &client::connect(config).await?, id, &order).await,
        LetterId::Webhook(webhook) => {
            let Some(letter) = store.webhook_letter(webhook).await? else { return Ok(report_unknown(&id)) };
            match emit_webhook(&*store, &config.unchecked_settings(), webhook, decode_letter(&letter, config), &order)
                .await
            {
                Ok((emitted, withdrawn)) => {
                    if !withdrawn.is_empty() {
                        let client = crate::installation::connect(config).await;
                        choices::wake_windows(client.as_ref(), &config.names, &withdrawn, "the withdrawn consent")
                            .await;
                    }
                    Ok(emitted)
                }
                Err(error @ DeadLetterError::Store(_)) => {
                    return Err(error).context("nothing was recorded; run the command again");
                }
                Err(error) => Err(error),
            }
        }
    };
    match emitted {
        Ok(emitted) => {
            anstream::println!("{}", if as_json { json!(emitted).to_string() } else { emitted_in_words(&emitted) });
            Ok(true)
        }
        Err(
            refused @ (DeadLetterError::Unknown(_) | DeadLetterError::Emitted { .. } | DeadLetterError::Refused { .. }),
        ) => {
            anstream::eprintln!("{refused}");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn emitted_in_words(emitted: &LetterEmission) -> String {
    match emitted {
        LetterEmission::Events(Emission { id, events, retracts, keys }) => {
            let (events, retracts) = (format_count(*events as u64, "event"), format_count(*retracts as u64, "retract"));
            format!("dead letter {id}: emitted {events} and {retracts} to {}", keys.join(", "))
        }
        LetterEmission::Webhook(WebhookEmission { id, new, again, unknown, foreign }) => {
            let new = format_count(*new as u64, "event");
            let foreign = if *foreign > 0 { format!(", {foreign} of another relay") } else { String::new() };
            format!("dead letter {id}: recorded {new}; {again} recorded before, {unknown} of unknown messages{foreign}")
        }
    }
}

/// Decodes with this version. The error has the reason and the remedy.
fn decode_letter(letter: &KeptWebhookLetter, config: &Config) -> Result<Vec<CheckedDeliveryEvent>, String> {
    read_letter(letter, config.relays.get(&letter.record.relay).map(RelayConfig::provider), Timestamp::now())
}

fn events_in_words(letter: &KeptLetter) -> String {
    let DeadLetterRecord { id, buried_at, reason, encoding, message_type, size, sha256, emitted, .. } = &letter.record;
    let mut text = format!("{BOLD}{id}{BOLD:#}: {reason}");
    let mut line = |name: &str, value: &str| add_line(&mut text, name, value);
    line("to", &letter.record.receiver());
    line("buried", &local(*buried_at));
    line("encoding", encoding);
    line("type", message_type.as_deref().unwrap_or_default());
    line("size", &format!("{}, {} kept", format_count(*size, "byte"), letter.head.len()));
    line("sha256", sha256);
    match (emitted, decode_again(letter)) {
        (Some(records::EmissionRecord { at, by }), _) => line("emitted", &format!("by {by} at {}", local(*at))),
        (None, Ok(again)) => line("emit", &format!("would send {}", describe_contents(&again))),
        (None, Err(why)) => line("emit", &format!("refuses it: {}", without_addresses(&why))),
    }
    text
}

fn describe_contents(DecodedLetter { events, retracts, keys }: &DecodedLetter) -> String {
    let (events, retracts) =
        (format_count(events.len() as u64, "event"), format_count(retracts.len() as u64, "retract"));
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    format!("{events} and {retracts} to {}", keys.join(", "))
}

fn webhook_in_words(letter: &KeptWebhookLetter, read: &Result<Vec<CheckedDeliveryEvent>, String>) -> String {
    let WebhookLetterRecord { id, relay, buried_at, reason, size, sha256, emitted, .. } = &letter.record;
    let mut text = format!("{BOLD}{id}{BOLD:#}: {reason}");
    let mut add = |name: &str, value: &str| add_line(&mut text, name, value);
    add("webhook", relay);
    add("buried", &local(*buried_at));
    add("size", &format_count(*size, "byte"));
    add("sha256", sha256);
    match (emitted, read) {
        (Some(records::EmissionRecord { at, by }), _) => add("emitted", &format!("by {by} at {}", local(*at))),
        (None, Ok(events)) if events.is_empty() => add("emit", "would record nothing: the event has no consequences"),
        (None, Ok(events)) => {
            let events: Vec<_> = events.iter().map(describe_event).collect();
            add("emit", &format!("would record {}", events.join("; ")));
        }
        (None, Err(why)) => add("emit", &format!("refuses it: {why}")),
    }
    let part: Option<Value> = serde_json::from_str(&letter.head).ok();
    let pretty = part.and_then(|part| serde_json::to_string_pretty(&part).ok());
    format!("{text}\n\n{}", pretty.as_deref().unwrap_or(&letter.head))
}

/// `bounced: 5.1.1 of message 01234567-89ab-5def-8123-456789abcdef`
fn describe_event(event: &CheckedDeliveryEvent) -> String {
    let of = event.of.first().map(|which| match which {
        MessageReference::Id(id) => format!("message {id}"),
        MessageReference::MessageId(id) => format!("Message-ID <{id}>"),
        MessageReference::RelayId(id) => format!("the message with relay id {id}"),
    });
    format!("{} of {}", event.report, of.unwrap_or_default())
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();

/// Adds a named line, unless the value is empty.
fn add_line(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name:<9} {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidings_model::records::WebhookLetterId;

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
        Config::parse_text(Path::new("tidings.toml"), &text, &|_| None).unwrap()
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
            let read = decode_letter(&letter, &config);
            let shown = webhook_in_words(&letter, &read);
            assert!(shown.contains(&says), "{shown}");
            assert!(head.starts_with('[') || shown.contains("{\n  \"kind\": "), "{shown}");
            assert_eq!(shown_letter(&letter, &read).refused.is_some(), read.is_err());
        }
    }

    #[test]
    fn undelivered_events_are_named_with_their_remedy() {
        let state = |dead_letters| SubscriptionState { name: "crm".into(), dead_letters, ..Default::default() };
        assert_eq!(undelivered_events(&state(0)), None);
        let line = "not delivered to crm: 1 webhook event; see tidings subscriptions dead-letters crm, \
                    then tidings subscriptions replay crm --since 2d --dead-letters";
        assert_eq!(undelivered_events(&state(1)).as_deref(), Some(line));
    }

    #[test]
    fn a_line_has_the_key_the_reason_and_the_emission() {
        let mut letter = DeadLetterRecord {
            id: "0192f0c1.7".parse().unwrap(),
            workflow_id: "digest/acme/activity/ann".to_owned(),
            buried_at: Timestamp::UNIX_EPOCH,
            reason: "is not JSON".to_owned(),
            encoding: "json/plain".to_owned(),
            message_type: None,
            size: 1,
            sha256: String::new(),
            emitted: None,
        };
        let line = in_a_line(&DeadLetterEntry::Events(letter.clone()));
        assert!(line.starts_with("0192f0c1.7  ") && line.ends_with("  acme/activity/ann  is not JSON"), "{line}");
        letter.workflow_id = "order\u{1b}[2J".to_owned();
        letter.emitted = Some(records::EmissionRecord { at: Timestamp::UNIX_EPOCH, by: "carol".to_owned() });
        let line = in_a_line(&DeadLetterEntry::Events(letter));
        assert!(line.contains("  \"order\\u{1b}[2J\"  is not JSON, emitted by carol at "), "{line}");
    }
}
