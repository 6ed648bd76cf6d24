//! SendGrid's Event Webhook: ECDSA over the time and the raw body; an array of events.

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::Deserialize;
use tidings_model::delivery_events::{DeliveryEvent, Kind};

use super::{
    Parsed, Part, Refused,
    parsed::{HARD, POLICY, SOFT, seconds, status, unknown},
};

const SIGNATURE: &str = "x-twilio-email-event-webhook-signature";
const TIMESTAMP: &str = "x-twilio-email-event-webhook-timestamp";
/// A `SubjectPublicKeyInfo` up to the point of P-256, which has 65 bytes.
const SPKI: &[u8; 26] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const POINT_BYTES: usize = 65;

/// The verification key of a webhook.
#[derive(Clone)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Reads the key as SendGrid shows it: base64 of a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text.trim()).ok();
        let point =
            bytes.as_deref().and_then(|bytes| bytes.strip_prefix(SPKI)).filter(|point| point.len() == POINT_BYTES);
        let point = point
            .ok_or("is not SendGrid's verification key, which begins with MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE")?;
        Ok(Self(point.to_owned()))
    }
}

/// Checks the signature. SendGrid documents no limit for its age.
///
/// # Errors
/// A header is missing or malformed, or no key made the signature.
pub fn verify(headers: &HeaderMap, body: &[u8], keys: &[PublicKey]) -> Result<(), Refused> {
    let header = |name| headers.get(name).ok_or(Refused::Header(name));
    let signature = STANDARD.decode(header(SIGNATURE)?).map_err(|_| Refused::Malformed(SIGNATURE))?;
    let timestamp = header(TIMESTAMP)?.as_bytes();
    // Time and body are joined without a separator, so that one of them must be known by its form.
    if timestamp.is_empty() || !timestamp.iter().all(u8::is_ascii_digit) {
        return Err(Refused::Malformed(TIMESTAMP));
    }
    let signed = [timestamp, body].concat();
    let verifies =
        |key: &PublicKey| UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &key.0).verify(&signed, &signature).is_ok();
    if keys.iter().any(verifies) { Ok(()) } else { Err(Refused::Signature) }
}

/// Reads the events of an authentic body.
#[must_use]
pub fn parse(body: &[u8], now: Timestamp) -> Parsed {
    Parsed::many(body, now, read)
}

#[derive(Deserialize)]
struct Payload {
    event: String,
    timestamp: i64,
    tidings_message: Option<String>,
    #[serde(rename = "smtp-id")]
    smtp_id: Option<String>,
    sg_message_id: Option<String>,
    sg_event_id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    reason: Option<String>,
    response: Option<String>,
    sg_machine_open: Option<bool>,
    url: Option<String>,
}

fn read(event: Payload) -> Result<Part, String> {
    let (kind, never_sent) = match event.event.as_str() {
        "processed" | "group_resubscribe" | "account_status_change" => return Ok(Part::Nothing),
        "delivered" => (Kind::Delivered, false),
        "deferred" => (Kind::Deferred, false),
        "bounce" if event.kind.as_deref() == Some("blocked") => (SOFT, false),
        "bounce" => (HARD, false),
        "dropped" => (dropped(event.reason.as_deref().unwrap_or_default()), true),
        "spamreport" => (Kind::Complained, false),
        "unsubscribe" | "group_unsubscribe" => (Kind::Unsubscribed, false),
        "open" => (Kind::Opened, false),
        "click" => (Kind::Clicked, false),
        other => return Err(unknown("event", other)),
    };
    // The id in the answer to DATA is the part before the names of SendGrid's servers.
    let relay_id = event.sg_message_id.as_deref().and_then(|id| id.split('.').next()).filter(|id| !id.is_empty());
    Ok(Part::event(DeliveryEvent {
        message: event.tidings_message,
        message_id: event.smtp_id,
        relay_id: relay_id.map(str::to_owned),
        status: status(event.status.as_deref()),
        diagnostic: event.reason.or(event.response),
        event_id: event.sg_event_id,
        never_sent,
        machine: event.sg_machine_open.filter(|_| kind == Kind::Opened),
        url: event.url.filter(|_| kind == Kind::Clicked),
        ..DeliveryEvent::new(kind, seconds(event.timestamp)?)
    }))
}

fn dropped(reason: &str) -> Kind {
    match reason {
        "Bounced Address" | "Invalid" => HARD,
        "Spam Reporting Address" => Kind::Complained,
        "Unsubscribed Address" => Kind::Unsubscribed,
        _ => POLICY,
    }
}
