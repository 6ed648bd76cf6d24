//! Webhook for your own relays: Standard Webhooks signatures, and the JSON format from docs/delivery.md.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, ReportKind};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, SigningSecret, WebhookSecrets,
    parsed::unknown_word,
    provider::{LINK, UNKNOWN, bounce_reply, merge_fields},
};

pub(super) struct GenericWebhook;

impl ProviderWebhook for GenericWebhook {
    fn secret_hint(&self) -> &'static str {
        "what `echo whsec_$(openssl rand -base64 24)` prints, here and at the relay"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<SigningSecret>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_any(body, now, read_event)
    }

    fn sample_event(&self, kind: ReportKind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let mut event = json!({"kind": kind.name(), "message": message, "occurred_at": now, "never_sent": never_sent});
        if let Some(bounce) = kind.bounce() {
            let (status, said) = bounce_reply(bounce);
            event = merge_fields(event, json!({"bounce": bounce.name(), "status": status, "diagnostic": said}));
        }
        if kind == ReportKind::Clicked {
            event = merge_fields(event, json!({"url": LINK}));
        }
        Some(event)
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"kind": UNKNOWN, "occurred_at": now, "relay_id": id})
    }
}

/// Uses the same words as `tidings messages show --json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenericPayload {
    kind: String,
    bounce: Option<String>,
    message: Option<String>,
    message_id: Option<String>,
    relay_id: Option<String>,
    status: Option<String>,
    diagnostic: Option<String>,
    occurred_at: Timestamp,
    event_id: Option<String>,
    #[serde(default)]
    never_sent: bool,
    machine: Option<bool>,
    url: Option<String>,
}

fn read_event(event: GenericPayload) -> Result<ParsedPart, String> {
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: event.message,
        message_id: event.message_id,
        relay_id: event.relay_id,
        status: event.status,
        diagnostic: event.diagnostic,
        event_id: event.event_id,
        never_sent: event.never_sent,
        machine: event.machine,
        url: event.url,
        ..DeliveryEvent::new(parse_kind(&event.kind, event.bounce.as_deref())?, event.occurred_at)
    }))
}

fn parse_kind(kind: &str, bounce: Option<&str>) -> Result<ReportKind, String> {
    let known = ReportKind::ALL.into_iter().filter(|known| known.name() == kind).collect::<Vec<_>>();
    let first = *known.first().ok_or_else(|| unknown_word("kind", kind))?;
    match (first.bounce(), bounce) {
        (None, None) => Ok(first),
        (None, Some(_)) => Err(format!("kind {kind:?} has no bounce; leave the field out")),
        (Some(_), None) => Err("kind \"bounced\" needs bounce: hard, soft or policy".to_owned()),
        (Some(_), Some(word)) => {
            BounceKind::named(word).map(ReportKind::Bounced).ok_or_else(|| unknown_word("bounce", word))
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_model::delivery_events::DeliveryReport;

    use super::*;
    use crate::webhooks::tests::now;

    #[test]
    fn a_relay_of_your_own_reports_in_the_words_of_tidings() {
        let read = |of: Value| {
            let mut event =
                json!({"message": "01234567-89ab-5def-8123-456789abcdef", "occurred_at": "2026-11-21T12:00:00Z"});
            event.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
            GenericWebhook.parse(event.to_string().as_bytes(), None, now())
        };
        let full =
            read(json!({"kind": "bounced", "bounce": "hard", "status": "5.1.1", "diagnostic": "no", "event_id": "e",
            "message_id": "<m@x>", "relay_id": "4Xk", "never_sent": true, "machine": true, "url": "https://x"}));
        let event = &full.events[0];
        let DeliveryReport { kind, never_sent, machine, url, .. } = &event.report;
        assert_eq!((kind.bounce().unwrap().name(), never_sent, machine), ("hard", &true, &Some(true)));
        assert_eq!((event.event_id.as_deref(), url.as_deref()), (Some("e"), Some("https://x")));
        for (wrong, says) in [
            (json!({"kind": "eaten"}), "kind \"eaten\" is not one that Tidings knows"),
            (json!({"kind": "bounced"}), "kind \"bounced\" needs bounce: hard, soft or policy"),
            (json!({"kind": "bounced", "bounce": "odd"}), "bounce \"odd\" is not one that Tidings knows"),
            (json!({"kind": "opened", "bounce": "hard"}), "kind \"opened\" has no bounce; leave the field out"),
            (json!({"kind": "opened", "bouncd": "hard"}), "unknown field `bouncd`"),
            (json!({"kind": "opened", "status": "550"}), "status: \"550\" is not an enhanced status code"),
            (json!({"kind": "opened", "message": "m"}), "message: \"m\" is not a UUID"),
            (
                json!({"kind": "opened", "occurred_at": "2026-11-23T12:00:00Z"}),
                "occurred_at: 2026-11-23T12:00:00Z is more than",
            ),
        ] {
            let parsed = read(wrong);
            assert!(parsed.unusable[0].reason.starts_with(says), "{:?}", parsed.unusable);
        }
        let both = format!("[{0}, {0}]", r#"{"kind":"opened","relay_id":"m","occurred_at":"2026-11-21T12:00:00Z"}"#);
        assert_eq!(GenericWebhook.parse(both.as_bytes(), None, now()).events.len(), 2);
    }
}
