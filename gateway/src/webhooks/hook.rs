//! The webhook of one relay: its provider and the secrets to verify requests.

use std::{fmt, sync::Arc};

use axum::{body::Bytes, http::HeaderMap};
use jiff::Timestamp;
use tidings_model::{Provider, delivery_events::OneTimeToken};

use super::{
    ParsedBody, VerifyError,
    provider::{ProviderWebhook, WebhookSecrets},
    ses::{self, CertificateCache, SnsNotice, SnsTopic, SnsUrl},
    webhook_for,
};
use crate::request_body;

/// A message has at most 256 KiB, and escaping may double this.
const SNS_BYTES: usize = 512 * 1024;

#[derive(Clone)]
pub struct RelayWebhook {
    provider: &'static dyn ProviderWebhook,
    proof: ProofBy,
}

#[derive(Clone)]
enum ProofBy {
    Secrets(Arc<dyn WebhookSecrets>),
    Certificate {
        topics: Vec<SnsTopic>,
        /// Also accepts signature version 1.
        sha1: bool,
    },
}

/// Omits the secrets.
impl fmt::Debug for RelayWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

pub enum VerifiedRequest {
    /// Events, and the token signed by the provider in place of the body.
    Events(ParsedBody, Option<OneTimeToken>),
    Subscription(SnsUrl),
    Unsubscription,
}

pub enum WebhookError {
    Refused(VerifyError),
    /// The certificate is currently unavailable; the provider should retry.
    Later,
}

impl From<VerifyError> for WebhookError {
    fn from(refused: VerifyError) -> Self {
        Self::Refused(refused)
    }
}

impl RelayWebhook {
    /// Without secrets, this rejects every request.
    #[must_use]
    pub fn new(provider: Provider) -> Self {
        let provider = webhook_for(provider);
        let by_certificate = ProofBy::Certificate { topics: Vec::new(), sha1: false };
        Self { provider, proof: provider.empty_secrets().map_or(by_certificate, ProofBy::Secrets) }
    }

    /// Accepts SNS signature version 1, which uses SHA-1.
    pub const fn allow_sha1(&mut self) {
        if let ProofBy::Certificate { sha1, .. } = &mut self.proof {
            *sha1 = true;
        }
    }

    /// Adds a secret, or an SNS topic.
    ///
    /// # Errors
    ///
    /// Describes the expected format without quoting the secret.
    pub fn add_secret(&mut self, secret: &str) -> Result<(), String> {
        match &mut self.proof {
            ProofBy::Secrets(secrets) => *secrets = secrets.with_secret(secret)?,
            ProofBy::Certificate { topics, .. } => topics.push(SnsTopic::parse(secret)?),
        }
        Ok(())
    }

    #[must_use]
    pub fn secret_count(&self) -> usize {
        match &self.proof {
            ProofBy::Secrets(secrets) => secrets.count(),
            ProofBy::Certificate { topics, .. } => topics.len(),
        }
    }

    /// SNS topics; empty for other providers.
    #[must_use]
    pub fn topics(&self) -> &[SnsTopic] {
        match &self.proof {
            ProofBy::Secrets(_) => &[],
            ProofBy::Certificate { topics, .. } => topics,
        }
    }

    /// Verifies a request over its raw bytes, then parses it.
    ///
    /// # Errors
    ///
    /// The request is not authentic, or the certificate cannot be fetched.
    pub async fn verify_request(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        certificates: &CertificateCache,
        now: Timestamp,
    ) -> Result<VerifiedRequest, WebhookError> {
        let provider = self.provider;
        match &self.proof {
            ProofBy::Secrets(secrets) => {
                let (secrets, headers, body) = (Arc::clone(secrets), headers.clone(), body.clone());
                let reading = request_body::run_bounded(body.len(), move || {
                    let proof = secrets.verify(&headers, &body, now)?;
                    Ok(VerifiedRequest::Events(provider.parse(&body, proof.id.as_deref(), now), proof.token))
                });
                reading.await.map_err(|_| WebhookError::Later)?.map_err(WebhookError::Refused)
            }
            ProofBy::Certificate { .. } if body.len() > SNS_BYTES => Err(VerifyError::Malformed("the length").into()),
            ProofBy::Certificate { topics, sha1 } => {
                let envelope = ses::parse_envelope(headers, body)?;
                let topic = envelope.topic(topics)?;
                let certificate =
                    certificates.get(&envelope.certificate_url(topic)?).await.ok_or(WebhookError::Later)?;
                Ok(match envelope.verify(topic, &certificate, *sha1, now)? {
                    SnsNotice::Notification { message, id } => {
                        VerifiedRequest::Events(provider.parse(message.as_bytes(), Some(id), now), None)
                    }
                    SnsNotice::Subscription(address) => VerifiedRequest::Subscription(address),
                    SnsNotice::Unsubscription => VerifiedRequest::Unsubscription,
                })
            }
        }
    }
}
