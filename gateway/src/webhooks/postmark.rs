//! Postmark's webhooks: Basic credentials, as Postmark signs nothing; one event.

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use tidings_model::delivery_events::{DeliveryEvent, Kind};

use super::{
    Credentials, Parsed, Part, Refused, basic,
    parsed::{HARD, POLICY, SOFT, status, unknown},
};

/// Checks the credentials.
///
/// # Errors
/// The request has none, or wrong ones.
pub fn verify(headers: &HeaderMap, credentials: &[Credentials]) -> Result<(), Refused> {
    basic::verify(headers, credentials)
}

/// Reads the event of an authentic body.
#[must_use]
pub fn parse(body: &[u8], now: Timestamp) -> Parsed {
    Parsed::one(body, now, read)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Payload {
    record_type: String,
    #[serde(rename = "MessageID")]
    message_id: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    /// The id of a bounce or complaint.
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
struct Metadata {
    #[serde(rename = "tidings-message")]
    message: Option<String>,
}

fn read(event: Payload) -> Result<Part, String> {
    let Some(kind) = kind(&event)? else { return Ok(Part::Nothing) };
    let at = match event.record_type.as_str() {
        "Delivery" => event.delivered_at,
        "Open" | "Click" => event.received_at,
        "SubscriptionChange" => event.changed_at,
        _ => event.bounced_at,
    };
    let details = event.details.filter(|details| !details.is_empty());
    Ok(Part::event(DeliveryEvent {
        message: event.metadata.message,
        relay_id: event.message_id,
        status: status(details.as_deref()).filter(|_| kind.bounce().is_some() || kind == Kind::Deferred),
        diagnostic: details.or(event.description),
        event_id: event.id.map(|id| id.to_string()),
        url: event.original_link.filter(|_| kind == Kind::Clicked),
        ..DeliveryEvent::new(kind, at.ok_or_else(|| format!("a {} without its time", event.record_type))?)
    }))
}

fn kind(event: &Payload) -> Result<Option<Kind>, String> {
    Ok(match event.record_type.as_str() {
        "Delivery" => Some(Kind::Delivered),
        "Open" => Some(Kind::Opened),
        "Click" => Some(Kind::Clicked),
        "SpamComplaint" => Some(Kind::Complained),
        "Bounce" | "SMTPApiError" => bounce(event.kind.as_deref().unwrap_or_default())?,
        "SubscriptionChange" => subscription(event),
        "Inbound" => None,
        other => return Err(unknown("RecordType", other)),
    })
}

/// By the name, because the numbers that Postmark publishes differ.
fn bounce(kind: &str) -> Result<Option<Kind>, String> {
    Ok(match kind {
        "HardBounce" | "BadEmailAddress" | "ManuallyDeactivated" => Some(HARD),
        "SoftBounce" | "DnsError" | "Unknown" => Some(SOFT),
        "Transient" => Some(Kind::Deferred),
        "SpamNotification"
        | "Blocked"
        | "DMARCPolicy"
        | "VirusNotification"
        | "SMTPApiError"
        | "TemplateRenderingFailed"
        | "Unconfirmed" => Some(POLICY),
        "SpamComplaint" => Some(Kind::Complained),
        "Unsubscribe" => Some(Kind::Unsubscribed),
        "AutoResponder"
        | "AddressChange"
        | "Subscribe"
        | "OpenRelayTest"
        | "ChallengeVerification"
        | "InboundError" => None,
        other => return Err(unknown("Type", other)),
    })
}

/// A change by an operator is none of the recipient, and a bounce has a webhook of its own.
fn subscription(event: &Payload) -> Option<Kind> {
    let by_recipient = event.origin.as_deref() == Some("Recipient");
    match event.suppression_reason.as_deref() {
        _ if event.suppress_sending != Some(true) => None,
        Some("SpamComplaint") => Some(Kind::Complained),
        Some("ManualSuppression") if by_recipient => Some(Kind::Unsubscribed),
        _ => None,
    }
}
