//! Reads dead letters again, e.g. after an upgrade that supports more events.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_model::{
    Provider,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport},
    records::{KeptWebhookLetter, WebhookLetterRecord},
};
use utoipa::ToSchema;

use super::webhook_for;

/// Parses the letter with this version. `provider` is `None` if the letter's relay is no longer configured.
///
/// # Errors
///
/// Explains why the letter cannot be emitted, and the remedy.
pub fn read_letter(
    letter: &KeptWebhookLetter,
    provider: Option<Provider>,
    now: Timestamp,
) -> Result<Vec<CheckedDeliveryEvent>, String> {
    let WebhookLetterRecord { relay, size, whole, .. } = &letter.record;
    let Some(provider) = provider else {
        return Err(format!("[relay.{relay}] is not in tidings.toml, so its provider is unknown: add the relay"));
    };
    if !whole {
        let bytes = if *size == 1 { "byte" } else { "bytes" };
        return Err(format!("its {size} {bytes} were not kept as a whole; look for the event at the provider"));
    }
    let read = read_again(provider, &letter.head, now);
    read.map_err(|why| format!("{why}; emit it after an upgrade that can read it"))
}

/// A letter with its events, and what an emission would do.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ShownWebhookLetter {
    /// `webhook`.
    source: &'static str,
    #[serde(flatten)]
    record: WebhookLetterRecord,
    /// The text that is kept of the part: JSON, or a string for other text.
    part: Value,
    /// The events that an emission would record.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<DeliveryReport>>,
    /// The reason why the letter cannot be emitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[must_use]
pub fn shown_letter(
    letter: &KeptWebhookLetter,
    read: &Result<Vec<CheckedDeliveryEvent>, String>,
) -> ShownWebhookLetter {
    let (events, refused) = match read {
        Ok(events) => (Some(events.iter().map(|event| event.report.clone()).collect()), None),
        Err(why) => (None, Some(why.clone())),
    };
    let part = serde_json::from_str(&letter.head).unwrap_or_else(|_| letter.head.clone().into());
    ShownWebhookLetter { source: "webhook", record: letter.record.clone(), part, events, refused }
}

fn read_again(provider: Provider, letter: &str, now: Timestamp) -> Result<Vec<CheckedDeliveryEvent>, String> {
    let parsed = webhook_for(provider).parse_letter(letter.as_bytes(), now);
    match parsed.unusable.into_iter().next() {
        Some(unusable) => Err(unusable.reason),
        None if parsed.nameless > 0 => Err("has no message id".to_owned()),
        None => Ok(parsed.events),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidings_model::delivery_events::{MessageReference, ReportKind};

    use super::*;
    use crate::webhooks::{letter::build_letter, samples::samples, tests::secret};

    const ID: &str = "01234567-89ab-5def-8123-456789abcdef";

    #[test]
    fn a_letter_of_each_provider_is_read_like_its_request() {
        let now = Timestamp::from_second(1_795_262_460).unwrap();
        let read = |provider, part: &Value| {
            let letter = build_letter("a former version did not know it", part.to_string().as_bytes());
            read_again(provider, &letter.head, now)
        };
        let at = 1_795_262_400;
        // No sample of these two can be made.
        let mut letters = vec![
            (
                Provider::Ses,
                json!({"eventType": "Open", "open": {"timestamp": "2026-11-21T12:00:00Z"},
                                   "mail": {"tags": {"tidings_message": [ID]}}}),
            ),
            (Provider::SendGrid, json!({"event": "open", "timestamp": at, "tidings_message": ID})),
        ];
        for provider in Provider::ALL {
            let samples = samples(provider, secret(provider, "one").as_deref(), ID.parse().unwrap(), now);
            let opened = samples.into_iter().find(|sample| sample.name == "opened");
            letters.extend(opened.map(|opened| (provider, serde_json::from_slice(&opened.body).unwrap())));
        }
        assert_eq!(letters.len(), Provider::ALL.len());
        for (provider, part) in letters {
            let events = read(provider, &part).unwrap();
            assert_eq!(
                (events[0].report.kind, &events[0].of),
                (ReportKind::Opened, &vec![MessageReference::Id(ID.parse().unwrap())])
            );
        }
        let resend = json!({"type": "email.opened", "created_at": "2026-11-21T12:00:00Z",
                            "data": {"message_id": format!("<{ID}@acme.example>"), "to": ["ann@example.com"]}});
        let events = read(Provider::Resend, &resend).unwrap();
        assert_eq!(events[0].of, [MessageReference::MessageId(format!("{ID}@acme.example"))]);
    }

    #[test]
    fn a_letter_that_still_cannot_be_used_says_why() {
        let now = Timestamp::from_second(1_795_262_460).unwrap();
        for (letter, says) in [
            ("{\"event\":\"eaten\",\"timestamp\":1}", "event \"eaten\" is not one that Tidings knows"),
            ("{\"event\":\"open\",\"timestamp\":1}", "has no message id"),
            ("no JSON", "is not an array of events"),
        ] {
            let said = read_again(Provider::SendGrid, letter, now).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
        let nothing = "{\"event\":\"processed\",\"timestamp\":1}";
        assert_eq!(read_again(Provider::SendGrid, nothing, now), Ok(vec![]));
    }
}
