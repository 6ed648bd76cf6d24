//! The webhook of one relay: its provider, with the secrets that make a request authentic.

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

/// Bytes of a request of SNS: a message has 256 KiB at most, and escapes may double it.
const SNS_BYTES: usize = 512 * 1024;

/// A webhook. Several secrets count at once, so that one can be replaced.
#[derive(Clone)]
pub struct Hook {
    provider: &'static dyn Webhook,
    proof: ProofBy,
}

#[derive(Clone)]
enum ProofBy {
    Secrets(Arc<dyn Secrets>),
    /// A certificate of SNS, which must be fetched.
    Certificate {
        topics: Vec<Topic>,
        /// Version 1 of the signature counts.
        sha1: bool,
    },
}

/// Without secrets.
impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

/// The contents of an authentic request.
pub enum Authentic {
    /// Events, and the token that the provider signs instead of them.
    Events(Parsed, Option<OneTimeToken>),
    /// SNS asks if the subscription is wanted.
    Subscription(Address),
    /// The subscription of SNS ended.
    Unsubscription,
}

/// The reason why a request has no effect.
pub enum Denied {
    /// The request is not authentic.
    Refused(Refused),
    /// The proof of the request cannot be fetched now.
    Later,
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Hook {
    /// Returns the webhook of a provider without secrets, which refuses everything.
    #[must_use]
    pub fn new(provider: Provider) -> Self {
        let provider = webhook(provider);
        let by_certificate = ProofBy::Certificate { topics: Vec::new(), sha1: false };
        Self { provider, proof: provider.secrets().map_or(by_certificate, ProofBy::Secrets) }
    }

    /// Lets version 1 of SNS's signature count, which is made with SHA-1.
    pub const fn allow_sha1(&mut self) {
        if let ProofBy::Certificate { sha1, .. } = &mut self.proof {
            *sha1 = true;
        }
    }

    /// Adds a secret, or a topic of SNS.
    ///
    /// # Errors
    /// Says what would be right, without the secret.
    pub fn add(&mut self, secret: &str) -> Result<(), String> {
        match &mut self.proof {
            ProofBy::Secrets(secrets) => *secrets = secrets.with(secret)?,
            ProofBy::Certificate { topics, .. } => topics.push(Topic::parse(secret)?),
        }
        Ok(())
    }

    /// The number of secrets, or of topics of SNS.
    #[must_use]
    pub fn secrets(&self) -> usize {
        match &self.proof {
            ProofBy::Secrets(secrets) => secrets.count(),
            ProofBy::Certificate { topics, .. } => topics.len(),
        }
    }

    /// The topics of SNS. Other providers have none.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
        match &self.proof {
            ProofBy::Secrets(_) => &[],
            ProofBy::Certificate { topics, .. } => topics,
        }
    }

    /// Verifies a request over its raw bytes, and then reads it.
    ///
    /// # Errors
    /// The request is not authentic, or a certificate cannot be fetched.
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
