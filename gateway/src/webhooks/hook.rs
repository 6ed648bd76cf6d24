//! The webhook of one relay: its provider, with the secrets that make a request authentic.

use std::fmt;

use axum::{body::Bytes, http::HeaderMap};
use jiff::Timestamp;
use tidings_model::{Provider, delivery_events::OneTimeToken};

use crate::parsing;

use super::{
    Credentials, Parsed, Refused, Secret, generic,
    mailgun::{self, SigningKey},
    mailjet, postmark, resend,
    sendgrid::{self, PublicKey},
    ses::{self, Address, Certificates, Notice, Topic},
};

/// Bytes of a request of SNS: a message has 256 KiB at most, and escapes may double it.
const SNS_BYTES: usize = 512 * 1024;

/// A webhook. Several secrets count at once, so that one can be replaced.
#[derive(Clone)]
pub enum Hook {
    Ses {
        topics: Vec<Topic>,
        /// Version 1 of the signature counts.
        sha1: bool,
    },
    SendGrid(Vec<PublicKey>),
    Mailgun(Vec<SigningKey>),
    Postmark(Vec<Credentials>),
    Resend(Vec<Secret>),
    Mailjet(Vec<Credentials>),
    Generic(Vec<Secret>),
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
    pub const fn new(provider: Provider) -> Self {
        match provider {
            Provider::Ses => Self::Ses { topics: Vec::new(), sha1: false },
            Provider::SendGrid => Self::SendGrid(Vec::new()),
            Provider::Mailgun => Self::Mailgun(Vec::new()),
            Provider::Postmark => Self::Postmark(Vec::new()),
            Provider::Resend => Self::Resend(Vec::new()),
            Provider::Mailjet => Self::Mailjet(Vec::new()),
            Provider::Other => Self::Generic(Vec::new()),
        }
    }

    /// Lets version 1 of SNS's signature count, which is made with SHA-1.
    pub const fn allow_sha1(&mut self) {
        if let Self::Ses { sha1, .. } = self {
            *sha1 = true;
        }
    }

    /// Adds a secret, or a topic of SNS.
    ///
    /// # Errors
    /// Says what would be right, without the secret.
    pub fn add(&mut self, secret: &str) -> Result<(), String> {
        match self {
            Self::Ses { topics, .. } => topics.push(Topic::parse(secret)?),
            Self::SendGrid(keys) => keys.push(PublicKey::parse(secret)?),
            Self::Mailgun(keys) => keys.push(SigningKey::parse(secret)?),
            Self::Postmark(known) | Self::Mailjet(known) => known.push(Credentials::parse(secret)?),
            Self::Resend(secrets) | Self::Generic(secrets) => secrets.push(Secret::parse(secret)?),
        }
        Ok(())
    }

    /// The number of secrets, or of topics of SNS.
    #[must_use]
    pub const fn secrets(&self) -> usize {
        match self {
            Self::Ses { topics, .. } => topics.len(),
            Self::SendGrid(keys) => keys.len(),
            Self::Mailgun(keys) => keys.len(),
            Self::Postmark(known) | Self::Mailjet(known) => known.len(),
            Self::Resend(secrets) | Self::Generic(secrets) => secrets.len(),
        }
    }

    /// The topics of SNS. Other providers have none.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
        match self {
            Self::Ses { topics, .. } => topics,
            _ => &[],
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
        if let Self::Ses { topics, sha1 } = self {
            if body.len() > SNS_BYTES {
                return Err(Refused::Malformed("the length").into());
            }
            return read_ses(topics, *sha1, headers, body, certificates, now).await;
        }
        let (hook, headers, body) = (self.clone(), headers.clone(), body.clone());
        let reading = parsing::run(body.len(), move || hook.read_signed(&headers, &body, now));
        Ok(reading.await.map_err(|_| Denied::Later)??)
    }

    /// As [`Hook::read`], where the proof is in the request itself.
    fn read_signed(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<Authentic, Refused> {
        let events = |parsed| Ok(Authentic::Events(parsed, None));
        match self {
            // The certificate is elsewhere.
            Self::Ses { .. } => Err(Refused::Certificate),
            Self::SendGrid(keys) => {
                sendgrid::verify(headers, body, keys)?;
                events(sendgrid::parse(body, now))
            }
            Self::Mailgun(keys) => {
                let token = mailgun::verify(body, keys, now)?;
                Ok(Authentic::Events(mailgun::parse(body, now), Some(token)))
            }
            Self::Postmark(known) => {
                postmark::verify(headers, known)?;
                events(postmark::parse(body, now))
            }
            Self::Resend(secrets) => {
                let id = resend::verify(headers, body, secrets, now)?;
                events(resend::parse(body, Some(id), now))
            }
            Self::Mailjet(known) => {
                mailjet::verify(headers, known)?;
                events(mailjet::parse(body, now))
            }
            Self::Generic(secrets) => {
                generic::verify(headers, body, secrets, now)?;
                events(generic::parse(body, now))
            }
        }
    }
}

async fn read_ses(
    topics: &[Topic],
    sha1: bool,
    headers: &HeaderMap,
    body: &[u8],
    certificates: &Certificates,
    now: Timestamp,
) -> Result<Authentic, Denied> {
    let envelope = ses::read(headers, body)?;
    let topic = envelope.topic(topics)?;
    let certificate = certificates.get(&envelope.certificate(topic)?).await.ok_or(Denied::Later)?;
    Ok(match envelope.verify(topic, &certificate, sha1, now)? {
        Notice::Notification { message, id } => Authentic::Events(ses::parse(message, Some(id), now), None),
        Notice::Subscription(address) => Authentic::Subscription(address),
        Notice::Unsubscription => Authentic::Unsubscription,
    })
}
