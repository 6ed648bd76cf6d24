//! Postmark's webhooks: one event per request, Basic credentials because Postmark does not sign.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, ReportKind};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, WebhookSecrets,
    basic::BasicCredentials,
    parsed::{HARD, POLICY, SOFT, find_status, unknown_word},
    provider::{LINK, UNKNOWN, bounce_reply, merge_fields},
};

pub(super) struct Postmark;

impl ProviderWebhook for Postmark {
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
        if never_sent {
            return None;
        }
        let event = json!({"MessageID": Uuid::new_v4(), "Metadata": {"tidings-message": message}});
        let bounce =
            |kind: &str, said: &str| json!({"RecordType": "Bounce", "Type": kind, "BouncedAt": now, "Details": said});
        let of_kind = match kind {
            ReportKind::Delivered => json!({"RecordType": "Delivery", "DeliveredAt": now}),
            ReportKind::Deferred => bounce("Transient", "451 4.3.0 a test: later"),
            ReportKind::Bounced(of) => {
                let kind = match of {
                    BounceKind::Hard => "HardBounce",
                    BounceKind::Soft => "SoftBounce",
                    BounceKind::Policy => "Blocked",
                };
                bounce(kind, bounce_reply(of).1)
            }
            ReportKind::Complained => json!({"RecordType": "SpamComplaint", "BouncedAt": now}),
            ReportKind::Unsubscribed => {
                json!({"RecordType": "SubscriptionChange", "ChangedAt": now, "SuppressSending": true,
                                         "SuppressionReason": "ManualSuppression", "Origin": "Recipient"})
            }
            ReportKind::Opened => json!({"RecordType": "Open", "ReceivedAt": now}),
            ReportKind::Clicked => json!({"RecordType": "Click", "ReceivedAt": now, "OriginalLink": LINK}),
        };
        Some(merge_fields(event, of_kind))
    }

    fn unknown_kind(&self, id: Uuid, _now: Timestamp) -> Value {
        json!({"RecordType": UNKNOWN, "MessageID": id})
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PostmarkPayload {
    record_type: String,
    #[serde(rename = "MessageID")]
    message_id: Option<String>,
    #[serde(default)]
    metadata: PostmarkMetadata,
    /// Id of a bounce or complaint.
    #[serde(rename = "ID")]
    id: Option<u64>,
    #[serde(rename = "Type")]
    kind: Option<String>,
    description: Option<String>,
    details: Option<String>,
    delivered_at: Option<Timestamp>,
    bounced_at: Option<Timestamp>,
    received_at: Option<Timestamp>,
    changed_at: Option<Timestamp>,
    original_link: Option<String>,
    origin: Option<String>,
    suppress_sending: Option<bool>,
    suppression_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct PostmarkMetadata {
    #[serde(rename = "tidings-message")]
    message: Option<String>,
}

fn read_event(event: PostmarkPayload) -> Result<ParsedPart, String> {
    let Some(kind) = event_kind(&event)? else { return Ok(ParsedPart::Nothing) };
    let at = match event.record_type.as_str() {
        "Delivery" => event.delivered_at,
        "Open" | "Click" => event.received_at,
        "SubscriptionChange" => event.changed_at,
        _ => event.bounced_at,
    };
    let details = event.details.filter(|details| !details.is_empty());
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: event.metadata.message,
        relay_id: event.message_id,
        status: find_status(details.as_deref()).filter(|_| kind.bounce().is_some() || kind == ReportKind::Deferred),
        diagnostic: details.or(event.description),
        event_id: event.id.map(|id| id.to_string()),
        url: event.original_link.filter(|_| kind == ReportKind::Clicked),
        ..DeliveryEvent::new(kind, at.ok_or_else(|| format!("a {} without its time", event.record_type))?)
    }))
}

fn event_kind(event: &PostmarkPayload) -> Result<Option<ReportKind>, String> {
    Ok(match event.record_type.as_str() {
        "Delivery" => Some(ReportKind::Delivered),
        "Open" => Some(ReportKind::Opened),
        "Click" => Some(ReportKind::Clicked),
        "SpamComplaint" => Some(ReportKind::Complained),
        "Bounce" | "SMTPApiError" => bounce(event.kind.as_deref().unwrap_or_default())?,
        "SubscriptionChange" => subscription(event),
        "Inbound" => None,
        other => return Err(unknown_word("RecordType", other)),
    })
}

/// Uses the name, because the numbers published by Postmark are inconsistent.
fn bounce(kind: &str) -> Result<Option<ReportKind>, String> {
    Ok(match kind {
        "HardBounce" | "BadEmailAddress" | "ManuallyDeactivated" => Some(HARD),
        "SoftBounce" | "DnsError" | "Unknown" => Some(SOFT),
        "Transient" => Some(ReportKind::Deferred),
        "SpamNotification"
        | "Blocked"
        | "DMARCPolicy"
        | "VirusNotification"
        | "SMTPApiError"
        | "TemplateRenderingFailed"
        | "Unconfirmed" => Some(POLICY),
        "SpamComplaint" => Some(ReportKind::Complained),
        "Unsubscribe" => Some(ReportKind::Unsubscribed),
        "AutoResponder"
        | "AddressChange"
        | "Subscribe"
        | "OpenRelayTest"
        | "ChallengeVerification"
        | "InboundError" => None,
        other => return Err(unknown_word("Type", other)),
    })
}

/// Ignores changes by an operator, which are not the recipient's choice, and bounces, which have a separate
/// webhook.
fn subscription(event: &PostmarkPayload) -> Option<ReportKind> {
    let by_recipient = event.origin.as_deref() == Some("Recipient");
    match event.suppression_reason.as_deref() {
        _ if event.suppress_sending != Some(true) => None,
        Some("SpamComplaint") => Some(ReportKind::Complained),
        Some("ManualSuppression") if by_recipient => Some(ReportKind::Unsubscribed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn rows_of_postmark_that_no_vector_has() {
        let base = json!({"Metadata": {"tidings-message": ID}, "ChangedAt": "2026-11-21T11:59:59.1234567Z",
            "DeliveredAt": "2026-11-21T11:59:59Z", "ReceivedAt": "2026-11-21T06:59:59-05:00", "BouncedAt": "2026-11-21T11:59:59Z"});
        let postmark = |of: Value| Postmark.parse(with(&base, &of).as_bytes(), None, now());
        let subscription = |origin: &str, reason: Value, suppress: bool| json!({"RecordType": "SubscriptionChange", "Origin": origin, "SuppressionReason": reason, "SuppressSending": suppress});
        assert_rows([
            (postmark(json!({"RecordType": "Delivery"})), "delivered"),
            (postmark(json!({"RecordType": "Open"})), "opened"),
            (postmark(json!({"RecordType": "Click", "OriginalLink": "https://app.example.com"})), "clicked"),
            (postmark(json!({"RecordType": "SpamComplaint", "ID": 42})), "complained"),
            (postmark(json!({"RecordType": "SMTPApiError", "Type": "SMTPApiError"})), "bounced policy"),
            (postmark(json!({"RecordType": "Bounce", "Type": "SpamNotification"})), "bounced policy"),
            (postmark(json!({"RecordType": "Bounce", "Type": "TemplateRenderingFailed"})), "bounced policy"),
            (postmark(json!({"RecordType": "Bounce", "Type": "Newest"})), "unreadable"),
            (postmark(json!({"RecordType": "Bounce", "Type": "HardBounce", "BouncedAt": null})), "unreadable"),
            (postmark(subscription("Recipient", json!("ManualSuppression"), true)), "unsubscribed"),
            (postmark(subscription("Recipient", Value::Null, false)), "nothing"),
        ]);
    }
}
