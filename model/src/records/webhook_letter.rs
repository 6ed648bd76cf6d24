//! Dead letters of webhooks, as operators list them.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::{Emitted, Page};
use crate::limits::Invalid;

/// Digits of an id. Letters of one relay that share them are not to be expected.
const DIGITS: usize = 16;

/// The id of a webhook's dead letter: the relay, and the first 16 digits of the SHA-256 of the letter's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookLetterId {
    pub relay: String,
    pub digits: String,
}

impl WebhookLetterId {
    /// Returns the id of the letter with this SHA-256, in hex.
    #[must_use]
    pub fn new(relay: &str, sha256: &str) -> Self {
        Self { relay: relay.to_owned(), digits: sha256.chars().take(DIGITS).collect() }
    }
}

/// `RELAY/DIGITS`
impl fmt::Display for WebhookLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.relay, self.digits)
    }
}

impl FromStr for WebhookLetterId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_hex = |digits: &&str| {
            digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let (relay, digits) = text.rsplit_once('/').unwrap_or_default();
        match Some(digits).filter(is_hex) {
            Some(digits) if !relay.is_empty() => Ok(Self { relay: relay.to_owned(), digits: digits.to_owned() }),
            _ => Err(Invalid { field: "id".to_owned(), problem: format!("{text:?} is not RELAY/{DIGITS} digits") }),
        }
    }
}

impl Serialize for WebhookLetterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A part of an authentic webhook that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookLetterRecord {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: WebhookLetterId,
    pub relay: String,
    pub buried_at: Timestamp,
    /// One line without addresses.
    pub reason: String,
    /// Size of the whole part in bytes.
    pub size: u64,
    /// SHA-256 of the whole part, in hex.
    pub sha256: String,
    /// All of the part is kept, apart from addresses.
    pub whole: bool,
    /// Set if an operator emitted the letter.
    pub emitted: Option<Emitted>,
}

/// A dead letter with the text that is kept of the part. The text has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWebhookLetter {
    pub record: WebhookLetterRecord,
    pub head: String,
}

/// The place of a letter in a listing: its time, its relay and its SHA-256.
pub type WebhookLetterPlace = (Timestamp, String, String);

/// A filter of dead letters, the latest first. What is `None` selects all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookLetterFilter {
    /// Letters buried at this time or later.
    pub since: Option<Timestamp>,
    /// Letters buried before this time.
    pub until: Option<Timestamp>,
    pub page: Page<WebhookLetterPlace>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_from_its_text_and_another_text_is_refused() {
        let id = WebhookLetterId::new("ses-1", &"0123456789abcdef".repeat(4));
        assert_eq!(id.to_string(), "ses-1/0123456789abcdef");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in
            ["", "ses", "/0123456789abcdef", "ses/0123456789abcde", "ses/0123456789abcdeg", "ses/0123456789ABCDEF"]
        {
            assert!(wrong.parse::<WebhookLetterId>().is_err(), "{wrong:?}");
        }
    }
}
