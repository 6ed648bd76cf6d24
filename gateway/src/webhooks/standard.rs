//! Svix and Standard Webhooks signatures: HMAC-SHA256 over id, timestamp and raw body, sent in headers.

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::Value;
use subtle::{Choice, ConstantTimeEq as _};
pub use tidings_model::webhook_secret::SigningSecret;

use uuid::Uuid;

use super::{RequestProof, SampleRequest, VerifyError, WebhookSecret};

/// Maximum difference between this timestamp and now, in either direction.
const TOLERANCE_SECONDS: u64 = 300;

impl WebhookSecret for SigningSecret {
    const WRONG: &'static str = "whsec_YS1zZWNyZXQtdGhhdC1ub2JvZHktaGFz";

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn verify(headers: &HeaderMap, body: &[u8], known: &[Self], now: Timestamp) -> Result<RequestProof, VerifyError> {
        let id = header(headers, ["svix-id", "webhook-id"])?;
        let timestamp = header(headers, ["svix-timestamp", "webhook-timestamp"])?;
        let signatures = header(headers, ["svix-signature", "webhook-signature"])?;
        let digits = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let seconds =
            timestamp.parse::<i64>().ok().filter(|_| digits).ok_or(VerifyError::Malformed("the timestamp"))?;
        let expected: Vec<_> = known.iter().map(|secret| secret.mac(id, timestamp, body)).collect();
        let given = signatures.split(' ').filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok());
        let same = given.fold(Choice::from(0), |same, given| {
            expected.iter().fold(same, |same, expected| same | given.as_slice().ct_eq(expected.as_ref()))
        });
        if !bool::from(same) {
            return Err(VerifyError::Signature);
        }
        if seconds.abs_diff(now.as_second()) > TOLERANCE_SECONDS {
            return Err(VerifyError::Time);
        }
        Ok(RequestProof { id: Some(id.to_owned()), token: None })
    }

    fn sign_sample(secret: &str, event: Value, now: Timestamp) -> Option<SampleRequest> {
        let (id, seconds, body) = (Uuid::new_v4().to_string(), now.as_second(), event.to_string());
        let signature = Self::parse(secret).ok()?.sign(&id, seconds, body.as_bytes());
        let headers =
            vec![("webhook-id", id), ("webhook-timestamp", seconds.to_string()), ("webhook-signature", signature)];
        Some(SampleRequest { headers, body })
    }
}

/// Returns the first header present and not empty.
fn header<'a>(headers: &'a HeaderMap, names: [&'static str; 2]) -> Result<&'a str, VerifyError> {
    let value = names.iter().find_map(|name| headers.get(*name)).ok_or(VerifyError::Header(names[0]))?;
    let text = value.to_str().map_err(|_| VerifyError::Malformed(names[0]))?;
    if text.is_empty() { Err(VerifyError::Header(names[0])) } else { Ok(text) }
}
