//! Requests as a provider would send them, for a test of the route. Amazon SES and SendGrid sign with keys of their own: no sample
//! can be made of theirs.

use jiff::Timestamp;
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
};
use serde_json::{Value, json};
use tidings_model::{Provider, delivery_events::Kind};
use uuid::Uuid;

use super::{
    Secret,
    mailgun::SigningKey,
    parsed::{HARD, POLICY, SOFT, hex},
};

mod bodies;

/// The secret of the requests that must be refused.
const WRONG: &str = "a-secret-that-nobody-has";

/// A request, and what should become of it.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: &'static str,
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub expected: Expected,
}

impl Sample {
    /// SHA-256 of the body, in hex: the id of a dead letter.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex(digest(&SHA256, &self.body).as_ref())
    }
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// 200, and the event is recorded if its message exists.
    Event(Kind),
    /// 200, and the part of the body is a dead letter.
    DeadLetter,
    /// 401.
    Refused,
}

/// The kinds of events, each with its name.
const EVENTS: [(&str, Kind, bool); 10] = [
    ("delivered", Kind::Delivered, false),
    ("deferred", Kind::Deferred, false),
    ("hard bounce", HARD, false),
    ("soft bounce", SOFT, false),
    ("refused by policy", POLICY, false),
    ("complained", Kind::Complained, false),
    ("unsubscribed", Kind::Unsubscribed, false),
    ("opened", Kind::Opened, false),
    ("clicked", Kind::Clicked, false),
    ("never sent", HARD, true),
];

/// The samples of a provider, about this message. `secrets` are those of the relay: the first one signs. Without them, and for
/// providers that sign with keys of their own, only the requests that must be refused are left.
#[must_use]
pub fn samples(provider: Provider, secrets: Option<&str>, message: Uuid, now: Timestamp) -> Vec<Sample> {
    let mut samples = Vec::new();
    let event = |kind, never_sent| bodies::event(provider, kind, never_sent, message, now);
    let opened = event(Kind::Opened, false).unwrap_or_default();
    if let Some(secret) = secrets.and_then(|secrets| secrets.split_whitespace().next()) {
        let signed = |name, event: Value, expected| {
            sign(provider, secret, event, now).map(|signed| signed.sample(name, expected))
        };
        samples.extend(
            EVENTS
                .into_iter()
                .filter_map(|(name, kind, never_sent)| signed(name, event(kind, never_sent)?, Expected::Event(kind))),
        );
        samples.extend(signed("unknown kind", bodies::unknown_kind(provider, now), Expected::DeadLetter));
        samples.extend(signed("unreadable", json!({"tidings_test": Uuid::new_v4()}), Expected::DeadLetter));
        let wrong = wrong(provider);
        samples.extend(
            sign(provider, &wrong, opened.clone(), now).map(|signed| signed.sample("wrong secret", Expected::Refused)),
        );
    }
    samples.push(Signed { headers: Vec::new(), body: opened.to_string() }.sample("unsigned", Expected::Refused));
    samples
}

/// A request without its name.
struct Signed {
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Signed {
    fn sample(self, name: &'static str, expected: Expected) -> Sample {
        let Self { mut headers, body } = self;
        headers.push(("content-type", "application/json".to_owned()));
        Sample { name, headers, body: body.into_bytes(), expected }
    }
}

/// Signs an event. `None` if the provider signs with a key of its own, or the secret is malformed.
fn sign(provider: Provider, secret: &str, event: Value, now: Timestamp) -> Option<Signed> {
    let seconds = now.as_second();
    match provider {
        Provider::Ses | Provider::SendGrid => None,
        Provider::Mailgun => {
            let token = random_hex()?;
            let signature = SigningKey::parse(secret).ok()?.sign(&seconds.to_string(), &token);
            let proof = json!({"timestamp": seconds.to_string(), "token": token, "signature": signature});
            Some(Signed { headers: Vec::new(), body: json!({"signature": proof, "event-data": event}).to_string() })
        }
        Provider::Postmark | Provider::Mailjet => {
            let headers = vec![("authorization", super::basic::authorization(secret))];
            Some(Signed { headers, body: event.to_string() })
        }
        Provider::Resend | Provider::Other => {
            let (id, body) = (Uuid::new_v4().to_string(), event.to_string());
            let signature = Secret::parse(secret).ok()?.sign(&id, seconds, body.as_bytes());
            let headers =
                vec![("webhook-id", id), ("webhook-timestamp", seconds.to_string()), ("webhook-signature", signature)];
            Some(Signed { headers, body })
        }
    }
}

/// A well-formed secret that is wrong.
fn wrong(provider: Provider) -> String {
    match provider {
        Provider::Postmark | Provider::Mailjet => format!("tidings:{WRONG}"),
        Provider::Resend | Provider::Other => "whsec_YS1zZWNyZXQtdGhhdC1ub2JvZHktaGFz".to_owned(),
        Provider::Ses | Provider::SendGrid | Provider::Mailgun => WRONG.to_owned(),
    }
}

/// 50 random digits: a token as Mailgun makes it.
fn random_hex() -> Option<String> {
    let mut bytes = [0; 25];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

#[cfg(test)]
mod tests;
