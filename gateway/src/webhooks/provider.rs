//! The trait [`ProviderWebhook`], implemented by each provider, and the secrets to verify its requests.

use std::sync::Arc;

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use tidings_model::delivery_events::{BounceKind, OneTimeToken, ReportKind};
use uuid::Uuid;

use super::{ParsedBody, VerifyError};

pub trait ProviderWebhook: Sync {
    /// Explains which value to copy into `webhook_secret_env`, or how to make one.
    fn secret_hint(&self) -> &'static str;

    /// Returns an empty set, or `None` if this provider's proof is not in the request.
    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>>;

    /// `id` is the request's id; retries should have the same one.
    fn parse(&self, body: &[u8], id: Option<&str>, now: Timestamp) -> ParsedBody;

    /// Parses the part stored in a dead letter.
    fn parse_letter(&self, letter: &[u8], now: Timestamp) -> ParsedBody {
        self.parse(letter, None, now)
    }

    /// `None` if this provider lacks the event, or if we cannot make its requests.
    fn sample_event(&self, _kind: ReportKind, _never_sent: bool, _message: Uuid, _now: Timestamp) -> Option<Value> {
        None
    }

    /// This will become a dead letter. `id` makes each letter unique.
    fn unknown_kind(&self, _id: Uuid, _now: Timestamp) -> Value {
        Value::Null
    }
}

pub trait WebhookSecret: Clone + Send + Sync + 'static {
    /// A well-formed secret used by nobody.
    const WRONG: &'static str;

    /// Parses a secret from the configuration.
    ///
    /// # Errors
    ///
    /// Describes the expected format without quoting the secret.
    fn parse(text: &str) -> Result<Self, String>;

    /// Verifies the raw request against any of the secrets.
    ///
    /// # Errors
    ///
    /// The request is not authentic.
    fn verify(headers: &HeaderMap, body: &[u8], known: &[Self], now: Timestamp) -> Result<RequestProof, VerifyError>;

    /// Makes a test request. `None` if the secret is malformed, or if only the provider can sign.
    fn sign_sample(secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest>;
}

/// Facts proven by the signature, besides the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestProof {
    pub id: Option<String>,
    /// Signed in place of the body. The caller should reject this token if it was already used with another
    /// body.
    pub token: Option<OneTimeToken>,
}

pub struct SampleRequest {
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Several secrets can be active, so that we can rotate one.
pub trait WebhookSecrets: Send + Sync {
    /// Returns a copy with one more secret.
    ///
    /// # Errors
    ///
    /// See [`WebhookSecret::parse`].
    fn with_secret(&self, secret: &str) -> Result<Arc<dyn WebhookSecrets>, String>;

    fn count(&self) -> usize;

    /// See [`WebhookSecret::verify`].
    ///
    /// # Errors
    ///
    /// The request is not authentic.
    fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<RequestProof, VerifyError>;

    /// See [`WebhookSecret::sign_sample`].
    fn sign_sample(&self, secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest>;

    /// See [`WebhookSecret::WRONG`].
    fn wrong_secret(&self) -> &'static str;
}

impl<S: WebhookSecret> WebhookSecrets for Vec<S> {
    fn with_secret(&self, secret: &str) -> Result<Arc<dyn WebhookSecrets>, String> {
        let mut more = self.clone();
        more.push(S::parse(secret)?);
        Ok(Arc::new(more))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<RequestProof, VerifyError> {
        S::verify(headers, body, self, now)
    }

    fn sign_sample(&self, secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest> {
        S::sign_sample(secret, event, now)
    }

    fn wrong_secret(&self) -> &'static str {
        S::WRONG
    }
}

/// A link used in no message.
pub(super) const LINK: &str = "https://tidings.example/test";
/// An event kind no provider uses.
pub(super) const UNKNOWN: &str = "tidings_test";

/// Status code and reply of a mail server.
pub(super) const fn bounce_reply(bounce: BounceKind) -> (&'static str, &'static str) {
    match bounce {
        BounceKind::Hard => ("5.1.1", "550 5.1.1 a test: no such user"),
        BounceKind::Soft => ("4.2.2", "452 4.2.2 a test: the mailbox is full"),
        BounceKind::Policy => ("5.7.1", "550 5.7.1 a test: refused by policy"),
    }
}

pub(super) fn merge_fields(mut event: Value, more: Value) -> Value {
    if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
        event.extend(more);
    }
    event
}
