//! Dead letters as shown to operators.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use percent_encoding::utf8_percent_encode;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Key, key::ESCAPED, limits::InvalidField, records::PageRequest};

/// The first run in the chain, and the letter's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterId {
    pub run_id: String,
    pub seq: u64,
}

/// `RUN_ID.SEQ`
impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run_id, self.seq)
    }
}

impl FromStr for DeadLetterId {
    type Err = InvalidField;

    fn from_str(text: &str) -> Result<Self, InvalidField> {
        let parts = text.rsplit_once('.').filter(|(run_id, _)| !run_id.is_empty());
        let id = parts.and_then(|(run_id, seq)| Some(Self { run_id: run_id.to_owned(), seq: seq.parse().ok()? }));
        id.ok_or_else(|| InvalidField::new("dead letter", format!("{text:?} is not RUN_ID.SEQ, as in the list")))
    }
}

impl Serialize for DeadLetterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A dead letter without its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetterRecord {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: DeadLetterId,
    /// May be malformed.
    pub workflow_id: String,
    pub buried_at: Timestamp,
    /// Contains no addresses.
    pub reason: String,
    /// The `encoding` of the payload's metadata.
    pub encoding: String,
    /// The message type by which the bytes are read. `None`: an earlier version recorded the letter without it.
    pub message_type: Option<String>,
    /// Of the whole payload, in bytes.
    pub size: u64,
    /// Of the whole payload, in hex.
    pub sha256: String,
    /// Set if an operator emitted the letter again.
    pub emitted: Option<EmissionRecord>,
}

/// The emission of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EmissionRecord {
    pub at: Timestamp,
    /// The operator's login.
    pub by: String,
}

impl DeadLetterRecord {
    /// `None` if the workflow id stands for no key.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        Key::from_workflow_id(&self.workflow_id).ok()
    }

    /// Quotes any other workflow id, which may contain control characters.
    #[must_use]
    pub fn receiver(&self) -> String {
        self.key().map_or_else(|| format!("{:?}", self.workflow_id), |key| key.to_string())
    }
}

/// Do not log this: may contain email addresses.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptLetter {
    pub record: DeadLetterRecord,
    /// At most 64 KiB per signal.
    pub head: Vec<u8>,
}

impl KeptLetter {
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.head.len() as u64 == self.record.size
    }
}

closed_set! {
    pub enum LetterSource {
        Events = "events",
        Webhook = "webhook",
    }
}

pub type DeadLetterPlace = (Timestamp, String, u64);

/// A filter of dead letters, the latest first. What is `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct DeadLetterFilter {
    /// Only letters to keys of this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only letters to keys of this digest type
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    pub digest_type: Option<String>,
    /// Only letters to keys of this user
    #[cfg_attr(feature = "clap", arg(long, value_name = "USER", requires = "tenant"))]
    pub user: Option<String>,
    /// Only letters of this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::parse_past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub since: Option<Timestamp>,
    /// Only letters before this time
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::parse_past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub until: Option<Timestamp>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: PageRequest<DeadLetterPlace>,
}

impl DeadLetterFilter {
    /// `*` matches any text; ids of keys never contain it. `None` for all workflows, including malformed ids.
    #[must_use]
    pub fn workflow_ids(&self) -> Option<String> {
        let part = |part: &Option<String>| part.as_deref().map(|part| utf8_percent_encode(part, ESCAPED).to_string());
        match [&self.tenant, &self.digest_type, &self.user].map(part) {
            [None, None, None] => None,
            [Some(tenant), None, None] => Some(format!("digest/{tenant}/*")),
            parts => Some(format!("digest/{}", parts.map(|part| part.unwrap_or_else(|| "*".to_owned())).join("/"))),
        }
    }
}

const DIGITS: usize = 16;

/// The relay and the first 16 digits of the SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookLetterId {
    pub relay: String,
    pub digits: String,
}

impl WebhookLetterId {
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
    type Err = InvalidField;

    fn from_str(text: &str) -> Result<Self, InvalidField> {
        let is_hex = |digits: &&str| {
            digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let (relay, digits) = text.rsplit_once('/').unwrap_or_default();
        match Some(digits).filter(is_hex) {
            Some(digits) if !relay.is_empty() => Ok(Self { relay: relay.to_owned(), digits: digits.to_owned() }),
            _ => {
                Err(InvalidField { field: "id".to_owned(), problem: format!("{text:?} is not RELAY/{DIGITS} digits") })
            }
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
    /// Of the whole part, in bytes.
    pub size: u64,
    /// Of the whole part, in hex.
    pub sha256: String,
    /// `true` if nothing except addresses is missing.
    pub whole: bool,
    /// Set if an operator emitted the letter.
    pub emitted: Option<EmissionRecord>,
}

/// Contains no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWebhookLetter {
    pub record: WebhookLetterRecord,
    pub head: String,
}

/// Sort position: time, relay, SHA-256.
pub type WebhookLetterPlace = (Timestamp, String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookLetterFilter {
    /// Inclusive.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    pub page: PageRequest<WebhookLetterPlace>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_from_its_text_and_another_text_is_refused() {
        let id = DeadLetterId { run_id: "0192f0c1-7a55".to_owned(), seq: 7 };
        assert_eq!(id.to_string(), "0192f0c1-7a55.7");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "run", ".7", "run.", "run.x", "run.-1"] {
            assert!(wrong.parse::<DeadLetterId>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_filter_selects_workflow_ids_by_their_parts() {
        let ids = |tenant: Option<&str>, digest_type: Option<&str>, user: Option<&str>| {
            let [tenant, digest_type, user] = [tenant, digest_type, user].map(|part| part.map(str::to_owned));
            let page = PageRequest { limit: 1, after: None };
            DeadLetterFilter { tenant, digest_type, user, since: None, until: None, page }.workflow_ids()
        };
        assert_eq!(ids(None, None, None), None);
        for (tenant, digest_type, user, expected) in [
            (Some("a/*"), None, None, "digest/a%2F%2A/*"),
            (Some("acme"), Some("alerts"), None, "digest/acme/alerts/*"),
            (None, Some("alerts"), None, "digest/*/alerts/*"),
            (Some("acme"), None, Some("ann"), "digest/acme/*/ann"),
            (Some("acme"), Some("alerts"), Some("ann"), "digest/acme/alerts/ann"),
        ] {
            assert_eq!(ids(tenant, digest_type, user).as_deref(), Some(expected));
        }
    }
    #[test]
    fn an_id_of_a_webhook_letter_comes_back_from_its_text_and_another_text_is_refused() {
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
