//! Mailgun's webhooks: HMAC-SHA256 over a time and a token in the body. The event itself is not signed, so that a token counts
//! for one body only.

use jiff::{SignedDuration, Timestamp};
use ring::{
    digest::{SHA256, digest},
    hmac,
};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tidings_model::{
    delivery_events::{DeliveryEvent, Kind, OneTimeToken},
    wire,
};

use super::{
    Parsed, Part, Refused,
    parsed::{HARD, POLICY, SOFT, hex, status, unknown},
};

/// Difference between the time of a token and now. Mailgun's retries take eight hours.
const TOLERANCE: SignedDuration = SignedDuration::from_hours(12);
const TOKEN_CHARS: usize = 50;
const TIMESTAMP_CHARS: usize = 10;
/// Characters that a key must have. Those of Mailgun have 32 and more.
const KEY_CHARS: usize = 16;

/// The "HTTP webhook signing key" of an account.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl SigningKey {
    /// Reads the key as Mailgun shows it.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() < KEY_CHARS {
            return Err("is not Mailgun's HTTP webhook signing key; copy it from API security in Mailgun".to_owned());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    /// Returns the signature of a time and a token, in hex.
    #[must_use]
    pub fn sign(&self, timestamp: &str, token: &str) -> String {
        hex(hmac::sign(&self.0, format!("{timestamp}{token}").as_bytes()).as_ref())
    }

    fn made(&self, Proof { timestamp, token, signature }: &Proof) -> bool {
        self.sign(timestamp, token).as_bytes().ct_eq(signature.as_bytes()).into()
    }
}

#[derive(Deserialize)]
struct Signed {
    signature: Proof,
    /// That of the account to which a subaccount belongs.
    #[serde(rename = "parent-signature")]
    parent: Option<Proof>,
}

#[derive(Deserialize)]
struct Proof {
    timestamp: String,
    token: String,
    signature: String,
}

impl Proof {
    /// Time and token are joined without a separator, so that both must be known by their length.
    fn is_well_formed(&self) -> bool {
        let digits = self.timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let token = self.token.bytes().all(|byte| byte.is_ascii_alphanumeric());
        digits && token && self.timestamp.len() == TIMESTAMP_CHARS && self.token.len() == TOKEN_CHARS
    }
}

/// Checks the signature, and returns the token. The caller must refuse a token that came with another body before.
///
/// # Errors
/// The body has no signature, no key made it, or the time is too far from now.
pub fn verify(body: &[u8], keys: &[SigningKey], now: Timestamp) -> Result<OneTimeToken, Refused> {
    let signed = serde_json::from_slice(&wire::mended(body));
    let Signed { signature, parent } = signed.map_err(|_| Refused::Malformed("the signature"))?;
    let mut well_formed = [Some(signature), parent].into_iter().flatten().filter(Proof::is_well_formed).peekable();
    well_formed.peek().ok_or(Refused::Malformed("the signature"))?;
    let signature = well_formed.find(|signature| keys.iter().any(|key| key.made(signature)));
    let Proof { timestamp, token, .. } = signature.ok_or(Refused::Signature)?;
    let at = timestamp.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let at = at.ok_or(Refused::Malformed("the timestamp"))?;
    if at.duration_since(now).abs() > TOLERANCE {
        return Err(Refused::Time);
    }
    Ok(OneTimeToken { token, body_sha256: hex(digest(&SHA256, body).as_ref()) })
}

/// Reads the event of an authentic body.
#[must_use]
pub fn parse(body: &[u8], now: Timestamp) -> Parsed {
    Parsed::one(body, now, read)
}

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "event-data")]
    event: Payload,
}

#[derive(Deserialize)]
struct Payload {
    event: String,
    /// Seconds with a fraction.
    timestamp: f64,
    id: Option<String>,
    severity: Option<String>,
    reason: Option<String>,
    url: Option<String>,
    reject: Option<Reject>,
    #[serde(rename = "delivery-status", default)]
    delivery: Delivery,
    #[serde(rename = "client-info", default)]
    client: ClientInfo,
    #[serde(rename = "user-variables", default)]
    variables: Variables,
    #[serde(default)]
    message: Message,
}

#[derive(Deserialize)]
struct Reject {
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delivery {
    code: Option<i64>,
    #[serde(rename = "enhanced-code")]
    enhanced: Option<String>,
    message: Option<String>,
    description: Option<String>,
}

/// Of openings and clicks.
#[derive(Default, Deserialize)]
struct ClientInfo {
    /// The name of the machine, such as `apple`; empty for a person.
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
struct Variables {
    tidings_message: Option<String>,
}

#[derive(Default, Deserialize)]
struct Message {
    #[serde(default)]
    headers: MessageHeaders,
}

#[derive(Default, Deserialize)]
struct MessageHeaders {
    #[serde(rename = "message-id")]
    message_id: Option<String>,
}

fn read(Body { event }: Body) -> Result<Part, String> {
    let (kind, never_sent) = match event.event.as_str() {
        "accepted" | "stored" => return Ok(Part::Nothing),
        "delivered" => (Kind::Delivered, false),
        "failed" if event.severity.as_deref() == Some("temporary") => (Kind::Deferred, false),
        "failed" => failed(&event),
        "rejected" => (POLICY, true),
        "complained" => (Kind::Complained, false),
        "unsubscribed" => (Kind::Unsubscribed, false),
        "opened" => (Kind::Opened, false),
        "clicked" => (Kind::Clicked, false),
        other => return Err(unknown("event", other)),
    };
    let Delivery { enhanced, message, description, .. } = event.delivery;
    let said = [message, description, event.reject.and_then(|reject| reject.reason), event.reason];
    Ok(Part::event(DeliveryEvent {
        message: event.variables.tidings_message,
        message_id: event.message.headers.message_id,
        status: status(enhanced.as_deref()),
        diagnostic: said.into_iter().flatten().find(|text| !text.is_empty()),
        event_id: event.id,
        never_sent,
        machine: event.client.is_machine().filter(|_| matches!(kind, Kind::Opened | Kind::Clicked)),
        url: event.url.filter(|_| kind == Kind::Clicked),
        ..DeliveryEvent::new(kind, time(event.timestamp)?)
    }))
}

/// Mailgun keeps lists of addresses of its own. A code of 4xx means that it gave up after temporary failures.
fn failed(event: &Payload) -> (Kind, bool) {
    match (event.reason.as_deref(), event.delivery.code) {
        (Some("suppress-bounce"), _) | (_, Some(605)) => (HARD, true),
        (Some("suppress-unsubscribe"), _) | (_, Some(606)) => (Kind::Unsubscribed, true),
        (Some("suppress-complaint"), _) | (_, Some(607)) => (Kind::Complained, true),
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
