//! What a provider says of its webhook: [`Webhook`], which each module of a provider implements, and the secrets that prove a
//! request.

use std::sync::Arc;

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use tidings_model::delivery_events::{Bounce, Kind, OneTimeToken};
use uuid::Uuid;

use super::{Parsed, Refused};

/// A provider's webhook.
pub trait Webhook: Sync {
    /// What `webhook_secret_env` must hold: what to copy from the provider, or to make.
    fn secret(&self) -> &'static str;

    /// The provider's kind of secrets, none of them yet. `None` if the proof is not in the request.
    fn secrets(&self) -> Option<Arc<dyn Secrets>>;

    /// Reads the events of an authentic body. `id` is that of the request, which is the same when the request is repeated.
    fn parse(&self, body: &[u8], id: Option<&str>, now: Timestamp) -> Parsed;

    /// Reads the part of a body that a dead letter keeps.
    fn parse_letter(&self, letter: &[u8], now: Timestamp) -> Parsed {
        self.parse(letter, None, now)
    }

    /// An event about a message in the provider's words, for a test of the route. `None` if the provider has no such event, or
    /// no request of it can be made.
    fn event(&self, _kind: Kind, _never_sent: bool, _message: Uuid, _now: Timestamp) -> Option<Value> {
        None
    }

    /// An event of an unknown kind, which becomes a dead letter. `id` makes it a letter of its own.
    fn unknown_kind(&self, _id: Uuid, _now: Timestamp) -> Value {
        Value::Null
    }
}

/// A secret that proves a request.
pub trait WebhookSecret: Clone + Send + Sync + 'static {
    /// A well-formed secret that nobody has.
    const WRONG: &'static str;

    /// Reads the secret as an operator writes it.
    ///
    /// # Errors
    /// Says what would be right, without the secret.
    fn parse(text: &str) -> Result<Self, String>;

    /// Checks that one of these secrets proves the request, over its raw bytes.
    ///
    /// # Errors
    /// The request is not authentic.
    fn verify(headers: &HeaderMap, body: &[u8], known: &[Self], now: Timestamp) -> Result<Proof, Refused>;

    /// Makes the request about an event. `None` if the secret is malformed, or is one with which nobody else can sign.
    fn prove(secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest>;
}

/// What an authentic request proves besides its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The id of the request.
    pub id: Option<String>,
    /// The token that the provider signs instead of the body. The caller must refuse a token that came with another body before.
    pub token: Option<OneTimeToken>,
}

/// The headers and the body of a request that is authentic.
pub struct SampleRequest {
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// The secrets of one relay. Several count at once, so that one can be replaced.
pub trait Secrets: Send + Sync {
    /// These secrets and one more.
    ///
    /// # Errors
    /// See [`WebhookSecret::parse`].
    fn with(&self, secret: &str) -> Result<Arc<dyn Secrets>, String>;

    fn count(&self) -> usize;

    /// See [`WebhookSecret::verify`].
    ///
    /// # Errors
    /// The request is not authentic.
    fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<Proof, Refused>;

    /// See [`WebhookSecret::prove`].
    fn prove(&self, secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest>;

    /// See [`WebhookSecret::WRONG`].
    fn wrong(&self) -> &'static str;
}

impl<S: WebhookSecret> Secrets for Vec<S> {
    fn with(&self, secret: &str) -> Result<Arc<dyn Secrets>, String> {
        let mut more = self.clone();
        more.push(S::parse(secret)?);
        Ok(Arc::new(more))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<Proof, Refused> {
        S::verify(headers, body, self, now)
    }

    fn prove(&self, secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest> {
        S::prove(secret, event, now)
    }

    fn wrong(&self) -> &'static str {
        S::WRONG
    }
}

/// A link that no message has.
pub(super) const LINK: &str = "https://tidings.example/test";
/// A kind of events that no provider has.
pub(super) const UNKNOWN: &str = "tidings_test";

/// The enhanced status code and the words of a server that gave the message up.
pub(super) const fn refusal(bounce: Bounce) -> (&'static str, &'static str) {
    match bounce {
        Bounce::Hard => ("5.1.1", "550 5.1.1 a test: no such user"),
        Bounce::Soft => ("4.2.2", "452 4.2.2 a test: the mailbox is full"),
        Bounce::Policy => ("5.7.1", "550 5.7.1 a test: refused by policy"),
    }
}

/// The event with more fields.
pub(super) fn merged(mut event: Value, more: Value) -> Value {
    if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
        event.extend(more);
    }
    event
}
