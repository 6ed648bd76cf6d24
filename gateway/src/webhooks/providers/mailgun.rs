//! Mailgun's webhooks: HMAC-SHA256 over a timestamp and a token in the body. Mailgun does not sign the event
//! itself, so we accept each token for one body only.

use std::sync::Arc;

use axum::http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tidings_model::{
    delivery_events::{BounceKind, DeliveryEvent, OneTimeToken, ReportKind},
    hex, hex_sha256, wire,
};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, RequestProof, SampleRequest, VerifyError, WebhookSecret, WebhookSecrets,
    parsed::{HARD, POLICY, SOFT, find_status, unknown_word},
    provider::{LINK, UNKNOWN, bounce_reply, merge_fields},
};

/// Maximum difference between this timestamp and now. Mailgun retries for eight hours.
const TOLERANCE: SignedDuration = SignedDuration::from_hours(12);
const TOKEN_CHARS: usize = 50;
const TIMESTAMP_CHARS: usize = 10;
/// Minimum key length. Mailgun's keys have 32 characters or more.
const KEY_CHARS: usize = 16;

/// The account's "HTTP webhook signing key".
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl WebhookSecret for SigningKey {
    const WRONG: &'static str = "a-secret-that-nobody-has";

    fn parse(text: &str) -> Result<Self, String> {
        if text.len() < KEY_CHARS {
            return Err("is not Mailgun's HTTP webhook signing key; copy it from API security in Mailgun".to_owned());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    fn verify(_headers: &HeaderMap, body: &[u8], known: &[Self], now: Timestamp) -> Result<RequestProof, VerifyError> {
        let signed = serde_json::from_slice(&wire::repair_json(body));
        let MailgunSignatures { signature, parent } = signed.map_err(|_| VerifyError::Malformed("the signature"))?;
        let mut well_formed =
            [Some(signature), parent].into_iter().flatten().filter(SignedToken::is_well_formed).peekable();
        well_formed.peek().ok_or(VerifyError::Malformed("the signature"))?;
        let signature = well_formed.find(|signature| known.iter().any(|key| key.verify_token(signature)));
        let SignedToken { timestamp, token, .. } = signature.ok_or(VerifyError::Signature)?;
        let at = timestamp.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let at = at.ok_or(VerifyError::Malformed("the timestamp"))?;
        if at.duration_since(now).abs() > TOLERANCE {
            return Err(VerifyError::Time);
        }
        Ok(RequestProof { id: None, token: Some(OneTimeToken { token, body_sha256: hex_sha256(body) }) })
    }

    fn sign_sample(secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest> {
        let (seconds, token) = (now.as_second().to_string(), random_hex()?);
        let signature = Self::parse(secret).ok()?.sign(&seconds, &token);
        let proof = json!({"timestamp": seconds, "token": token, "signature": signature});
        Some(SampleRequest { headers: Vec::new(), body: json!({"signature": proof, "event-data": event}).to_string() })
    }
}

/// Returns 50 random hex digits, the format of Mailgun's tokens.
fn random_hex() -> Option<String> {
    let mut bytes = [0; TOKEN_CHARS / 2];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

impl SigningKey {
    fn sign(&self, timestamp: &str, token: &str) -> String {
        hex(hmac::sign(&self.0, format!("{timestamp}{token}").as_bytes()).as_ref())
    }

    fn verify_token(&self, SignedToken { timestamp, token, signature }: &SignedToken) -> bool {
        self.sign(timestamp, token).as_bytes().ct_eq(signature.as_bytes()).into()
    }
}

#[derive(Deserialize)]
struct MailgunSignatures {
    signature: SignedToken,
    /// Signature with the parent account's key, for a subaccount.
    #[serde(rename = "parent-signature")]
    parent: Option<SignedToken>,
}

#[derive(Deserialize)]
struct SignedToken {
    timestamp: String,
    token: String,
    signature: String,
}

impl SignedToken {
    /// Timestamp and token are concatenated without a separator, so we check their lengths.
    fn is_well_formed(&self) -> bool {
        let digits = self.timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let token = self.token.bytes().all(|byte| byte.is_ascii_alphanumeric());
        digits && token && self.timestamp.len() == TIMESTAMP_CHARS && self.token.len() == TOKEN_CHARS
    }
}

pub(super) struct Mailgun;

impl ProviderWebhook for Mailgun {
    fn secret_hint(&self) -> &'static str {
        "the HTTP webhook signing key of the account"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<SigningKey>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_one(body, now, read_event)
    }

    fn sample_event(&self, kind: ReportKind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let event =
            json!({"timestamp": now.as_second(), "id": Uuid::new_v4(), "user-variables": {"tidings_message": message}});
        let of_kind = match kind {
            ReportKind::Delivered => json!({"event": "delivered"}),
            ReportKind::Deferred => json!({"event": "failed", "severity": "temporary"}),
            ReportKind::Bounced(_) if never_sent => {
                json!({"event": "failed", "severity": "permanent", "reason": "suppress-bounce", "delivery-status": {"code": 605}})
            }
            ReportKind::Bounced(bounce) => {
                let (status, said) = bounce_reply(bounce);
                let code = if bounce == BounceKind::Soft { 452 } else { 550 };
                let refused = json!({"code": code, "enhanced-code": status, "message": said});
                json!({"event": "failed", "severity": "permanent", "delivery-status": refused})
            }
            ReportKind::Complained => json!({"event": "complained"}),
            ReportKind::Unsubscribed => json!({"event": "unsubscribed"}),
            ReportKind::Opened => json!({"event": "opened"}),
            ReportKind::Clicked => json!({"event": "clicked", "url": LINK}),
        };
        Some(merge_fields(event, of_kind))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"event": UNKNOWN, "timestamp": now.as_second(), "id": id})
    }
}

#[derive(Deserialize)]
struct MailgunBody {
    #[serde(rename = "event-data")]
    event: MailgunPayload,
}

#[derive(Deserialize)]
struct MailgunPayload {
    event: String,
    /// Seconds with a fraction.
    timestamp: f64,
    id: Option<String>,
    severity: Option<String>,
    reason: Option<String>,
    url: Option<String>,
    reject: Option<MailgunReject>,
    #[serde(rename = "delivery-status", default)]
    delivery: MailgunDelivery,
    #[serde(rename = "client-info", default)]
    client: ClientInfo,
    #[serde(rename = "user-variables", default)]
    variables: MailgunVariables,
    #[serde(default)]
    message: MailgunMessage,
}

#[derive(Deserialize)]
struct MailgunReject {
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct MailgunDelivery {
    code: Option<i64>,
    #[serde(rename = "enhanced-code")]
    enhanced: Option<String>,
    message: Option<String>,
    description: Option<String>,
}

#[derive(Default, Deserialize)]
struct ClientInfo {
    /// Name of the machine, e.g. `apple`; empty for people.
    bot: Option<Value>,
}

impl ClientInfo {
    fn is_machine(&self) -> Option<bool> {
        match self.bot.as_ref()? {
            Value::String(name) => Some(!name.is_empty()),
            Value::Bool(is_machine) => Some(*is_machine),
            _ => None,
        }
    }
}

#[derive(Default, Deserialize)]
struct MailgunVariables {
    tidings_message: Option<String>,
}

#[derive(Default, Deserialize)]
struct MailgunMessage {
    #[serde(default)]
    headers: MessageHeaders,
}

#[derive(Default, Deserialize)]
struct MessageHeaders {
    #[serde(rename = "message-id")]
    message_id: Option<String>,
}

fn read_event(MailgunBody { event }: MailgunBody) -> Result<ParsedPart, String> {
    let (kind, never_sent) = match event.event.as_str() {
        "accepted" | "stored" => return Ok(ParsedPart::Nothing),
        "delivered" => (ReportKind::Delivered, false),
        "failed" if event.severity.as_deref() == Some("temporary") => (ReportKind::Deferred, false),
        "failed" => failure_kind(&event),
        "rejected" => (POLICY, true),
        "complained" => (ReportKind::Complained, false),
        "unsubscribed" => (ReportKind::Unsubscribed, false),
        "opened" => (ReportKind::Opened, false),
        "clicked" => (ReportKind::Clicked, false),
        other => return Err(unknown_word("event", other)),
    };
    let MailgunDelivery { enhanced, message, description, .. } = event.delivery;
    let said = [message, description, event.reject.and_then(|reject| reject.reason), event.reason];
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: event.variables.tidings_message,
        message_id: event.message.headers.message_id,
        status: find_status(enhanced.as_deref()),
        diagnostic: said.into_iter().flatten().find(|text| !text.is_empty()),
        event_id: event.id,
        never_sent,
        machine: event.client.is_machine().filter(|_| matches!(kind, ReportKind::Opened | ReportKind::Clicked)),
        url: event.url.filter(|_| kind == ReportKind::Clicked),
        ..DeliveryEvent::new(kind, time(event.timestamp)?)
    }))
}

/// Mailgun has its own suppression lists. A 4xx code means it gave up after temporary failures.
fn failure_kind(event: &MailgunPayload) -> (ReportKind, bool) {
    match (event.reason.as_deref(), event.delivery.code) {
        (Some("suppress-bounce"), _) | (_, Some(605)) => (HARD, true),
        (Some("suppress-unsubscribe"), _) | (_, Some(606)) => (ReportKind::Unsubscribed, true),
        (Some("suppress-complaint"), _) | (_, Some(607)) => (ReportKind::Complained, true),
        (_, Some(400..=499)) => (SOFT, false),
        _ => (HARD, false),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn time(seconds: f64) -> Result<Timestamp, String> {
    let milliseconds = (seconds * 1_000.0).round();
    let out_of_range = || format!("timestamp {seconds} is out of range");
    if !(0.0..1e15).contains(&milliseconds) {
        return Err(out_of_range());
    }
    Timestamp::from_millisecond(milliseconds as i64).map_err(|_| out_of_range())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn rows_of_mailgun_that_no_vector_has() {
        let base = json!({"timestamp": 1_795_262_399.25, "user-variables": {"tidings_message": ID}});
        let mailgun =
            |of: Value| Mailgun.parse(format!("{{\"event-data\":{}}}", with(&base, &of)).as_bytes(), None, now());
        assert_rows([
            (mailgun(json!({"event": "stored"})), "nothing"),
            (mailgun(json!({"event": "delivered"})), "delivered"),
            (
                mailgun(json!({"event": "failed", "severity": "temporary", "delivery-status": {"code": 450}})),
                "deferred",
            ),
            (
                mailgun(
                    json!({"event": "failed", "severity": "permanent", "delivery-status": {"code": 550, "enhanced-code": "5.1.1"}}),
                ),
                "bounced hard 5.1.1",
            ),
            (
                mailgun(json!({"event": "failed", "severity": "permanent", "delivery-status": {"code": 605}})),
                "bounced hard never_sent",
            ),
            (
                mailgun(json!({"event": "failed", "severity": "permanent", "reason": "suppress-complaint"})),
                "complained never_sent",
            ),
            (mailgun(json!({"event": "unsubscribed"})), "unsubscribed"),
            (mailgun(json!({"event": "opened"})), "opened"),
            (
                mailgun(json!({"event": "opened", "client-info": {"client-type": "browser", "bot": "apple"}})),
                "opened machine",
            ),
            (mailgun(json!({"event": "opened", "client-info": {"bot": ""}})), "opened person"),
            (mailgun(json!({"event": "clicked", "client-info": {"bot": "generic"}})), "clicked machine"),
            (mailgun(json!({"event": "delivered", "client-info": {"bot": "apple"}})), "delivered"),
            (mailgun(json!({"event": "delivered", "timestamp": -1.0})), "unreadable"),
            (mailgun(json!({"event": "delivered", "timestamp": 1e300})), "unreadable"),
        ]);
    }
}
