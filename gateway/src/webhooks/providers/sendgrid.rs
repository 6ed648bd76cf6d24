//! SendGrid's Event Webhook: an array of events, ECDSA over timestamp and raw body.

use std::sync::Arc;

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;
use tidings_model::delivery_events::{DeliveryEvent, ReportKind};

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, RequestProof, SampleRequest, VerifyError, WebhookSecret, WebhookSecrets,
    parsed::{HARD, POLICY, SOFT, find_status, seconds, unknown_word},
};

const SIGNATURE: &str = "x-twilio-email-event-webhook-signature";
const TIMESTAMP: &str = "x-twilio-email-event-webhook-timestamp";
/// DER prefix of a P-256 `SubjectPublicKeyInfo`. The 65-byte point follows.
const SPKI: &[u8; 26] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const POINT_BYTES: usize = 65;

#[derive(Clone)]
pub struct PublicKey(Vec<u8>);

impl WebhookSecret for PublicKey {
    const WRONG: &'static str = "";

    /// Parses the key as shown by SendGrid: a `SubjectPublicKeyInfo` in base64.
    fn parse(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text.trim()).ok();
        let point =
            bytes.as_deref().and_then(|bytes| bytes.strip_prefix(SPKI)).filter(|point| point.len() == POINT_BYTES);
        let point = point
            .ok_or("is not SendGrid's verification key, which begins with MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE")?;
        Ok(Self(point.to_owned()))
    }

    /// SendGrid documents no maximum age of a signature, so we check none.
    fn verify(headers: &HeaderMap, body: &[u8], known: &[Self], _now: Timestamp) -> Result<RequestProof, VerifyError> {
        let header = |name| headers.get(name).ok_or(VerifyError::Header(name));
        let signature = STANDARD.decode(header(SIGNATURE)?).map_err(|_| VerifyError::Malformed(SIGNATURE))?;
        let timestamp = header(TIMESTAMP)?.as_bytes();
        // Timestamp and body are concatenated without a separator, so this should be digits only.
        if timestamp.is_empty() || !timestamp.iter().all(u8::is_ascii_digit) {
            return Err(VerifyError::Malformed(TIMESTAMP));
        }
        let signed = [timestamp, body].concat();
        let verifies = |key: &PublicKey| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &key.0).verify(&signed, &signature).is_ok()
        };
        if known.iter().any(verifies) { Ok(RequestProof::default()) } else { Err(VerifyError::Signature) }
    }

    /// Only SendGrid has the private key.
    fn sign_sample(_secret: &str, _event: Value, _now: Timestamp) -> Option<SampleRequest> {
        None
    }
}

pub(super) struct SendGrid;

impl ProviderWebhook for SendGrid {
    fn secret_hint(&self) -> &'static str {
        "the verification key of the Event Webhook"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<PublicKey>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_array(body, now, read_event)
    }

    /// A letter is either one array element or the whole body.
    fn parse_letter(&self, letter: &[u8], now: Timestamp) -> ParsedBody {
        if letter.trim_ascii_start().starts_with(b"{") {
            return self.parse(&[b"[", letter, b"]"].concat(), None, now);
        }
        self.parse(letter, None, now)
    }
}

#[derive(Deserialize)]
struct SendGridPayload {
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

fn read_event(event: SendGridPayload) -> Result<ParsedPart, String> {
    let (kind, never_sent) = match event.event.as_str() {
        "processed" | "group_resubscribe" | "account_status_change" => return Ok(ParsedPart::Nothing),
        "delivered" => (ReportKind::Delivered, false),
        "deferred" => (ReportKind::Deferred, false),
        "bounce" if event.kind.as_deref() == Some("blocked") => (SOFT, false),
        "bounce" => (HARD, false),
        "dropped" => (dropped_kind(event.reason.as_deref().unwrap_or_default()), true),
        "spamreport" => (ReportKind::Complained, false),
        "unsubscribe" | "group_unsubscribe" => (ReportKind::Unsubscribed, false),
        "open" => (ReportKind::Opened, false),
        "click" => (ReportKind::Clicked, false),
        other => return Err(unknown_word("event", other)),
    };
    // The id from the reply to DATA is the prefix before SendGrid's server names.
    let relay_id = event.sg_message_id.as_deref().and_then(|id| id.split('.').next()).filter(|id| !id.is_empty());
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: event.tidings_message,
        message_id: event.smtp_id,
        relay_id: relay_id.map(str::to_owned),
        status: find_status(event.status.as_deref()),
        diagnostic: event.reason.or(event.response),
        event_id: event.sg_event_id,
        never_sent,
        machine: event.sg_machine_open.filter(|_| kind == ReportKind::Opened),
        url: event.url.filter(|_| kind == ReportKind::Clicked),
        ..DeliveryEvent::new(kind, seconds(event.timestamp)?)
    }))
}

fn dropped_kind(reason: &str) -> ReportKind {
    match reason {
        "Bounced Address" | "Invalid" => HARD,
        "Spam Reporting Address" => ReportKind::Complained,
        "Unsubscribed Address" => ReportKind::Unsubscribed,
        _ => POLICY,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_model::delivery_events::MessageReference;

    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn rows_of_sendgrid_that_no_vector_has() {
        let base = json!({"timestamp": 1_795_262_399, "tidings_message": ID});
        let sendgrid = |of: Value| SendGrid.parse(format!("[{}]", with(&base, &of)).as_bytes(), None, now());
        assert_rows([
            (sendgrid(json!({"event": "deferred", "response": "451 4.2.0 later", "attempt": "2"})), "deferred"),
            (sendgrid(json!({"event": "bounce", "type": "blocked", "status": "5.7.1"})), "bounced policy 5.7.1"),
            (sendgrid(json!({"event": "bounce", "type": "blocked", "status": "5.2.2"})), "bounced soft 5.2.2"),
            (sendgrid(json!({"event": "bounce", "type": "bounce", "status": ""})), "bounced hard"),
            (sendgrid(json!({"event": "dropped", "reason": "Invalid"})), "bounced hard never_sent"),
            (sendgrid(json!({"event": "dropped", "reason": "Unsubscribed Address"})), "unsubscribed never_sent"),
            (
                sendgrid(json!({"event": "dropped", "reason": "Recipient List over Package Quota"})),
                "bounced policy never_sent",
            ),
            (sendgrid(json!({"event": "dropped"})), "bounced policy never_sent"),
            (sendgrid(json!({"event": "spamreport"})), "complained"),
            (sendgrid(json!({"event": "group_unsubscribe", "asm_group_id": 10})), "unsubscribed"),
            (sendgrid(json!({"event": "group_resubscribe"})), "nothing"),
            (sendgrid(json!({"event": "open", "sg_machine_open": false})), "opened person"),
            (sendgrid(json!({"event": "open", "sg_machine_open": true})), "opened machine"),
        ]);
    }

    #[test]
    fn one_element_that_cannot_be_read_spoils_no_other() {
        let body = br#"[{"event":"open","timestamp":1795262400,"sg_message_id":"a.b"}, 7, {"event":"ann@example.com"},
            {"event":"open","timestamp":"soon ann@example.com"}, {"event":"open","timestamp":99999999999999}]"#;
        let ParsedBody { events, unusable, unreadable, .. } = SendGrid.parse(body, None, now());
        assert_eq!((events.len(), unreadable), (1, 4));
        assert_eq!(events[0].of, [MessageReference::RelayId("a".into())]);
        assert_eq!((unusable[0].head.as_str(), unusable[0].size), ("7", 1));
        for letter in &unusable {
            assert!(!letter.reason.contains("ann@") && !letter.head.contains("ann@"), "{letter:?}");
        }
        assert!(
            unusable[2].reason.contains("timestamp") || unusable[2].reason.contains("invalid type"),
            "{unusable:?}"
        );
    }
}
