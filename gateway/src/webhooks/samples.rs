//! Test requests as a provider would send them. There are none for Amazon SES and SendGrid, which sign with private
//! keys.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_model::{Provider, delivery_events::ReportKind, hex_sha256};
use uuid::Uuid;

use super::{
    SampleRequest,
    parsed::{HARD, POLICY, SOFT},
    webhook_for,
};

/// A request and its expected result.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub expected: Expected,
}

impl Sample {
    /// SHA-256 of the body, in hex: the id of a dead letter.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex_sha256(&self.body)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// 200. The event is recorded if its message exists.
    Event(ReportKind),
    /// 200. The part becomes a dead letter.
    DeadLetter,
    /// 401.
    Refused,
}

const EVENTS: [(&str, ReportKind, bool); 10] = [
    ("delivered", ReportKind::Delivered, false),
    ("deferred", ReportKind::Deferred, false),
    ("hard bounce", HARD, false),
    ("soft bounce", SOFT, false),
    ("refused by policy", POLICY, false),
    ("complained", ReportKind::Complained, false),
    ("unsubscribed", ReportKind::Unsubscribed, false),
    ("opened", ReportKind::Opened, false),
    ("clicked", ReportKind::Clicked, false),
    ("never sent", HARD, true),
];

/// The samples for one message. The first of the relay's `secrets` signs. Without secrets, or if the provider signs
/// with a private key, these are only requests that must be rejected.
#[must_use]
pub fn samples(provider: Provider, secrets: Option<&str>, message: Uuid, now: Timestamp) -> Vec<Sample> {
    let (mut samples, webhook) = (Vec::new(), webhook_for(provider));
    let event = |kind, never_sent| webhook.sample_event(kind, never_sent, message, now);
    let opened = event(ReportKind::Opened, false);
    if let (Some(known), Some(secret)) =
        (webhook.empty_secrets(), secrets.and_then(|secrets| secrets.split_whitespace().next()))
    {
        let signed = |secret: &str, name, event: Value, expected| {
            known.sign_sample(secret, event, now).map(|request| sample(name, request, expected))
        };
        samples.extend(EVENTS.into_iter().filter_map(|(name, kind, never_sent)| {
            signed(secret, name, event(kind, never_sent)?, Expected::Event(kind))
        }));
        let unknown = webhook.unknown_kind(Uuid::new_v4(), now);
        samples.extend(signed(secret, "unknown kind", unknown, Expected::DeadLetter));
        let unreadable = json!({"tidings_test": Uuid::new_v4()});
        samples.extend(signed(secret, "unreadable", unreadable, Expected::DeadLetter));
        let wrong = signed(known.wrong_secret(), "wrong secret", opened.clone().unwrap_or_default(), Expected::Refused);
        samples.extend(wrong);
    }
    let opened =
        opened.or_else(|| super::webhook_for(Provider::Other).sample_event(ReportKind::Opened, false, message, now));
    let unsigned = SampleRequest { headers: Vec::new(), body: opened.unwrap_or_default().to_string() };
    samples.push(sample("unsigned", unsigned, Expected::Refused));
    samples
}

fn sample(name: &'static str, request: SampleRequest, expected: Expected) -> Sample {
    let SampleRequest { mut headers, body } = request;
    headers.push(("content-type", "application/json".to_owned()));
    Sample { name, headers, body: body.into_bytes(), expected }
}

#[cfg(test)]
mod tests;
