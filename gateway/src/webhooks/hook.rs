//! The webhook of one relay: its provider and the secrets to verify requests.

use std::{fmt, sync::Arc};

use axum::{body::Bytes, http::HeaderMap};
use jiff::Timestamp;
use tidings_model::{Provider, delivery_events::OneTimeToken};

use super::{
    Parsed, Refused,
    provider::{Secrets, Webhook},
    ses::{self, Address, Certificates, Notice, Topic},
    webhook,
};
use crate::request_body;

/// A message has at most 256 KiB, and escaping may double this.
const SNS_BYTES: usize = 512 * 1024;

/// Several secrets can be active, so that we can rotate one.
#[derive(Clone)]
pub struct Hook {
    provider: &'static dyn Webhook,
    proof: ProofBy,
}

#[derive(Clone)]
enum ProofBy {
    Secrets(Arc<dyn Secrets>),
    Certificate {
        topics: Vec<Topic>,
        /// Also accepts signature version 1.
        sha1: bool,
    },
}

/// Omits the secrets.
impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

pub enum Authentic {
    /// Events, and the token signed by the provider in place of the body.
    Events(Parsed, Option<OneTimeToken>),
    Subscription(Address),
    Unsubscription,
}

pub enum Denied {
    Refused(Refused),
    /// The certificate is currently unavailable; the provider should retry.
    Later,
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Hook {
    /// Builds a webhook without secrets. It rejects every request.
    #[must_use]
    pub fn new(provider: Provider) -> Self {
        let provider = webhook(provider);
        let by_certificate = ProofBy::Certificate { topics: Vec::new(), sha1: false };
        Self { provider, proof: provider.secrets().map_or(by_certificate, ProofBy::Secrets) }
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
    pub fn add(&mut self, secret: &str) -> Result<(), String> {
        match &mut self.proof {
            ProofBy::Secrets(secrets) => *secrets = secrets.with(secret)?,
            ProofBy::Certificate { topics, .. } => topics.push(Topic::parse(secret)?),
        }
        Ok(())
    }

    #[must_use]
    pub fn secrets(&self) -> usize {
        match &self.proof {
            ProofBy::Secrets(secrets) => secrets.count(),
            ProofBy::Certificate { topics, .. } => topics.len(),
        }
    }

    /// SNS topics; empty for other providers.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
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
    pub async fn read(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        certificates: &Certificates,
        now: Timestamp,
    ) -> Result<Authentic, Denied> {
        let provider = self.provider;
        match &self.proof {
            ProofBy::Secrets(secrets) => {
                let (secrets, headers, body) = (Arc::clone(secrets), headers.clone(), body.clone());
                let reading = request_body::parse(body.len(), move || {
                    let proof = secrets.verify(&headers, &body, now)?;
                    Ok(Authentic::Events(provider.parse(&body, proof.id.as_deref(), now), proof.token))
                });
                reading.await.map_err(|_| Denied::Later)?.map_err(Denied::Refused)
            }
            ProofBy::Certificate { .. } if body.len() > SNS_BYTES => Err(Refused::Malformed("the length").into()),
            ProofBy::Certificate { topics, sha1 } => {
                let envelope = ses::read(headers, body)?;
                let topic = envelope.topic(topics)?;
                let certificate = certificates.get(&envelope.certificate(topic)?).await.ok_or(Denied::Later)?;
                Ok(match envelope.verify(topic, &certificate, *sha1, now)? {
                    Notice::Notification { message, id } => {
                        Authentic::Events(provider.parse(message.as_bytes(), Some(id), now), None)
                    }
                    Notice::Subscription(address) => Authentic::Subscription(address),
                    Notice::Unsubscription => Authentic::Unsubscription,
                })
            }
        }
    }
}
