//! Amazon SES through SNS: RSA signature over envelope fields, by a certificate that SNS publishes.
//!
//! The envelope contains URLs of the certificate and of the confirmation. We never fetch them as given, but
//! rebuild both from the configured topic.

use std::fmt;

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;

use crate::webhooks::VerifyError;

mod certificates;
mod event;

pub use certificates::CertificateCache;
pub use certificates::SnsCertificate;
pub use event::Ses;
pub(super) use event::bounce_kind;

/// Maximum clock difference. SNS retries for an hour.
const TOLERANCE: SignedDuration = SignedDuration::from_hours(24);

/// Not yet verified.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SnsEnvelope {
    #[serde(rename = "Type")]
    kind: String,
    message_id: String,
    topic_arn: String,
    message: String,
    subject: Option<String>,
    timestamp: String,
    token: Option<String>,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<String>,
    signature_version: String,
    signature: String,
    #[serde(rename = "SigningCertURL", alias = "SigningCertUrl")]
    signing_cert_url: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnsNotice<'a> {
    /// An SES event with the envelope's id. SNS retries with the same id.
    Notification {
        message: &'a str,
        id: &'a str,
    },
    /// SNS asks to confirm a subscription, by a GET of this URL.
    Subscription(SnsUrl),
    Unsubscription,
}

/// Parses the envelope.
///
/// # Errors
///
/// The body is not an envelope or is a raw message, or the headers contradict it.
pub fn parse_envelope(headers: &HeaderMap, body: &[u8]) -> Result<SnsEnvelope, VerifyError> {
    let header = |name| headers.get(name).map(|value| value.as_bytes());
    if header("x-amz-sns-rawdelivery").is_some_and(|raw| raw.eq_ignore_ascii_case(b"true")) {
        return Err(VerifyError::Raw);
    }
    let envelope: SnsEnvelope = serde_json::from_slice(body).map_err(|_| VerifyError::Malformed("the envelope"))?;
    let agrees = |name, value: &str| header(name).is_none_or(|header| header == value.as_bytes());
    let agree =
        agrees("x-amz-sns-message-type", &envelope.kind) && agrees("x-amz-sns-message-id", &envelope.message_id);
    if agree { Ok(envelope) } else { Err(VerifyError::Malformed("a header of SNS")) }
}

impl SnsEnvelope {
    /// Finds the configured topic. Note: the signature is not verified yet.
    ///
    /// # Errors
    ///
    /// The topic is not configured.
    pub fn topic<'t>(&self, topics: &'t [SnsTopic]) -> Result<&'t SnsTopic, VerifyError> {
        topics.iter().find(|topic| topic.arn() == self.topic_arn).ok_or(VerifyError::Topic)
    }

    /// Builds the certificate's URL from the topic.
    ///
    /// # Errors
    ///
    /// The envelope has a different URL.
    pub fn certificate_url(&self, topic: &SnsTopic) -> Result<SnsUrl, VerifyError> {
        topic.certificate_url(&self.signing_cert_url).ok_or(VerifyError::Certificate)
    }

    /// Verifies the signature. Version 1 uses SHA-1 and is accepted only with `sha1`.
    ///
    /// # Errors
    ///
    /// The signature does not match the certificate, the version is not allowed, or the timestamp is too far
    /// from now.
    pub fn verify(
        &self,
        topic: &SnsTopic,
        certificate: &SnsCertificate,
        sha1: bool,
        now: Timestamp,
    ) -> Result<SnsNotice<'_>, VerifyError> {
        let algorithm = match self.signature_version.as_str() {
            "2" => &RSA_PKCS1_2048_8192_SHA256,
            "1" if sha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
            _ => return Err(VerifyError::Version),
        };
        let signature = STANDARD.decode(&self.signature).map_err(|_| VerifyError::Malformed("the signature"))?;
        let key = UnparsedPublicKey::new(algorithm, certificate.key());
        key.verify(self.signed_text().as_bytes(), &signature).map_err(|_| VerifyError::Signature)?;
        let at: Timestamp = self.timestamp.parse().map_err(|_| VerifyError::Malformed("the timestamp"))?;
        if at.duration_since(now).abs() > TOLERANCE {
            return Err(VerifyError::Time);
        }
        match self.kind.as_str() {
            "Notification" => Ok(SnsNotice::Notification { message: &self.message, id: &self.message_id }),
            "SubscriptionConfirmation" => {
                let token = self.token.as_deref().ok_or(VerifyError::Malformed("the token"))?;
                Ok(SnsNotice::Subscription(topic.confirmation(token)))
            }
            "UnsubscribeConfirmation" => Ok(SnsNotice::Unsubscription),
            _ => Err(VerifyError::Malformed("the type")),
        }
    }

    /// Field names and values, each on its own line, sorted by name.
    fn signed_text(&self) -> String {
        let fields = [
            ("Message", Some(&self.message)),
            ("MessageId", Some(&self.message_id)),
            ("Subject", self.subject.as_ref()),
            ("SubscribeURL", self.subscribe_url.as_ref()),
            ("Timestamp", Some(&self.timestamp)),
            ("Token", self.token.as_ref()),
            ("TopicArn", Some(&self.topic_arn)),
            ("Type", Some(&self.kind)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        fields.map(|(name, value)| format!("{name}\n{value}\n")).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnsTopic {
    arn: String,
    host: String,
}

/// HTTPS URL, built only by [`SnsTopic`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnsUrl {
    /// Port is always 443.
    pub host: String,
    pub path: String,
}

impl fmt::Display for SnsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.host, self.path)
    }
}

const CERTIFICATE: &str = "/SimpleNotificationService-";
const CERTIFICATE_DIGITS: usize = 32;

impl SnsTopic {
    /// Parses an Amazon resource name (ARN).
    ///
    /// # Errors
    ///
    /// Describes the expected format.
    pub fn parse(arn: &str) -> Result<Self, String> {
        let wrong = || "is not the ARN of a topic, like arn:aws:sns:eu-west-1:123456789012:tidings-events".to_owned();
        let parts: Vec<_> = arn.split(':').collect();
        let ["arn", partition, "sns", region, account, name] = parts[..] else { return Err(wrong()) };
        let suffix = match partition {
            "aws" | "aws-us-gov" => "amazonaws.com",
            "aws-cn" => "amazonaws.com.cn",
            _ => return Err(wrong()),
        };
        let account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        if !account || !is_region(region) || !is_name(name) {
            return Err(wrong());
        }
        Ok(Self { arn: arn.to_owned(), host: format!("sns.{region}.{suffix}") })
    }

    #[must_use]
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// SNS responds here, so this can be used to check the connection.
    #[must_use]
    pub fn server(&self) -> SnsUrl {
        SnsUrl { host: self.host.clone(), path: "/".to_owned() }
    }

    /// `None` if SNS has no certificate for this topic at `url`.
    pub(crate) fn certificate_url(&self, url: &str) -> Option<SnsUrl> {
        let name = url.strip_prefix("https://")?.strip_prefix(&self.host)?.strip_prefix(CERTIFICATE)?;
        let digits = name.strip_suffix(".pem").filter(|digits| digits.len() == CERTIFICATE_DIGITS)?;
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let path = format!("{CERTIFICATE}{digits}.pem");
        digits.bytes().all(hex).then(|| SnsUrl { host: self.host.clone(), path })
    }

    fn confirmation(&self, token: &str) -> SnsUrl {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("Action", "ConfirmSubscription")
            .append_pair("TopicArn", &self.arn)
            .append_pair("Token", token);
        SnsUrl { host: self.host.clone(), path: format!("/?{}", query.finish()) }
    }
}

/// Matches `eu-west-1` or `us-gov-west-1`: words, then a number. An S3 bucket's region has fewer parts, or a
/// digit in the first word, e.g. `s3-us-west-2`.
fn is_region(region: &str) -> bool {
    let Some((words, number)) = region.rsplit_once('-') else { return false };
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number && words.contains('-') && words.split('-').all(word)
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=256).contains(&name.len()) && name.bytes().all(fits)
}
