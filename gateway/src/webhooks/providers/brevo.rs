//! Brevo's transactional webhooks: one event per request, Basic credentials because Brevo does not sign.
//!
//! developers.brevo.com/docs/transactional-webhooks and /secured-webhooks; fixtures of Symfony's and
//! Anymail's bridges. Brevo replaces `Message-ID`, so we identify messages only by `X-Mailin-custom`.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, ReportKind};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, WebhookSecrets,
    basic::BasicCredentials,
    parsed::{HARD, POLICY, SOFT, find_status, seconds, unknown_word},
    provider::{LINK, UNKNOWN, bounce_reply, merge_fields},
};

pub(super) struct Brevo;

impl ProviderWebhook for Brevo {
    fn secret_hint(&self) -> &'static str {
        "USER:PASSWORD of the webhook's URL"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<BasicCredentials>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_one(body, now, read_event)
    }

    fn sample_event(&self, kind: ReportKind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let event = json!({"ts_event": now.as_second(), "X-Mailin-custom": message, "message-id": Uuid::new_v4()});
        let of_kind = match kind {
            ReportKind::Delivered => json!({"event": "delivered"}),
            ReportKind::Deferred => json!({"event": "deferred", "reason": "451 4.3.0 a test: later"}),
            // `blocked` does not mean the address is wrong.
            ReportKind::Bounced(_) if never_sent => return None,
            ReportKind::Bounced(BounceKind::Hard) => {
                json!({"event": "hard_bounce", "reason": bounce_reply(BounceKind::Hard).1})
            }
            ReportKind::Bounced(other) => json!({"event": "soft_bounce", "reason": bounce_reply(other).1}),
            ReportKind::Complained => json!({"event": "complaint"}),
            ReportKind::Unsubscribed => json!({"event": "unsubscribed"}),
            ReportKind::Opened => json!({"event": "opened"}),
            ReportKind::Clicked => json!({"event": "click", "link": LINK}),
        };
        Some(merge_fields(event, of_kind))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"event": UNKNOWN, "ts_event": now.as_second(), "message-id": id})
    }
}

#[derive(Deserialize)]
struct BrevoPayload {
    event: String,
    /// Time of the event. `ts_epoch` is the time of the message, in milliseconds or in seconds.
    ts_event: Option<i64>,
    ts: Option<i64>,
    #[serde(rename = "X-Mailin-custom")]
    custom: Option<String>,
    reason: Option<String>,
    link: Option<String>,
}

fn read_event(event: BrevoPayload) -> Result<ParsedPart, String> {
    let (kind, never_sent) = match event.event.as_str() {
        "request" => return Ok(ParsedPart::Nothing),
        "delivered" => (ReportKind::Delivered, false),
        "deferred" => (ReportKind::Deferred, false),
        "soft_bounce" => (SOFT, false),
        "hard_bounce" => (HARD, false),
        // This is either a recipient on Brevo's list or a blocked sender; we cannot distinguish them.
        "blocked" => (POLICY, true),
        "spam" | "complaint" => (ReportKind::Complained, false),
        "unsubscribed" => (ReportKind::Unsubscribed, false),
        "opened" | "unique_opened" | "proxy_open" | "unique_proxy_open" => (ReportKind::Opened, false),
        "click" => (ReportKind::Clicked, false),
        other => return Err(unknown_word("event", other)),
    };
    let at = event.ts_event.or(event.ts).ok_or_else(|| format!("a {} without its time", event.event))?;
    // Other messages of the account may use the header differently.
    let ours = |id: &String| Uuid::try_parse(id).is_ok();
    let reason = event.reason.map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty());
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: event.custom.filter(ours),
        status: find_status(reason.as_deref()).filter(|_| kind.bounce().is_some() || kind == ReportKind::Deferred),
        diagnostic: reason,
        never_sent,
        machine: event.event.ends_with("proxy_open").then_some(true),
        url: event.link.filter(|_| kind == ReportKind::Clicked),
        ..DeliveryEvent::new(kind, seconds(at)?)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn each_event_of_brevo_has_its_meaning() {
        // The fields of developers.brevo.com, with another address.
        let base = json!({"email": "ann@example.net", "id": 26_224, "date": "2026-11-21 12:59:59", "ts": 1_795_262_399,
            "message-id": "<202611211159.12345678901@smtp-relay.mailin.fr>", "ts_event": 1_795_262_399, "subject": "A digest",
            "X-Mailin-custom": ID, "sending_ip": "192.0.2.1", "ts_epoch": 1_795_262_399_000_i64, "tags": ["digest"]});
        let brevo = |of: Value| Brevo.parse(with(&base, &of).as_bytes(), None, now());
        let said = |event: &str, reason: &str| brevo(json!({"event": event, "reason": reason}));
        assert_rows([
            (brevo(json!({"event": "request"})), "nothing"),
            (brevo(json!({"event": "delivered"})), "delivered"),
            (said("deferred", "450 4.2.1 later"), "deferred 4.2.1"),
            (said("soft_bounce", "undefined Unable to find MX of domain no-mx.example.com"), "bounced soft"),
            (said("hard_bounce", " RecipientError: 550 5.5.0 mailbox unavailable."), "bounced hard 5.5.0"),
            (said("hard_bounce", "550 5.1.1 <ann@example.net>: User unknown"), "bounced hard 5.1.1"),
            (said("blocked", "blocked : due to blacklist user"), "bounced policy never_sent"),
            (brevo(json!({"event": "spam"})), "complained"),
            (brevo(json!({"event": "complaint", "ts_epoch": null})), "complained"),
            (brevo(json!({"event": "unsubscribed"})), "unsubscribed"),
            (brevo(json!({"event": "opened"})), "opened"),
            (brevo(json!({"event": "unique_opened"})), "opened"),
            (brevo(json!({"event": "proxy_open"})), "opened machine"),
            (brevo(json!({"event": "unique_proxy_open"})), "opened machine"),
            (brevo(json!({"event": "click", "link": "https://app.example.com"})), "clicked"),
            (brevo(json!({"event": "invalid_email"})), "unreadable"),
            (brevo(json!({"event": "error"})), "unreadable"),
            (brevo(json!({"event": "delivered", "ts_event": null, "ts": null})), "unreadable"),
            (brevo(json!({"event": "delivered", "X-Mailin-custom": "spring"})), "nameless"),
            (brevo(json!({"event": "delivered", "X-Mailin-custom": null})), "nameless"),
        ]);
    }
}
