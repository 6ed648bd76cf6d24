//! Parsed content of an authentic body: events in provider-independent form, and unusable parts.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidings_model::{
    delivery_events::{BounceKind, CheckedDeliveryEvent, DeliveryEvent, EnhancedStatus, ReportKind, UnusablePart},
    foreign_text::skip_bom,
    wire,
};

use super::letter;

/// Dead letters stored per request. Further ones are only counted.
const LETTERS: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct ParsedBody {
    pub events: Vec<CheckedDeliveryEvent>,
    /// Events without our message id, e.g. for other messages of this account.
    pub nameless: usize,
    /// Unusable parts, at most 100.
    pub unusable: Vec<UnusablePart>,
    pub unreadable: usize,
}

pub enum ParsedPart {
    Event(Box<DeliveryEvent>),
    /// Nothing to record, e.g. the provider accepted the message.
    Nothing,
}

impl ParsedPart {
    pub(super) fn from_event(event: DeliveryEvent) -> Self {
        Self::Event(Box::new(event))
    }
}

impl ParsedBody {
    /// Parses a body with one event. Invalid UTF-8 is repaired.
    pub(super) fn parse_one<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<ParsedPart, String>,
    ) -> Self {
        let (mut parsed, body) = (Self::default(), &*wire::repair_json(body));
        parsed.add_part(body, now, serde_json::from_slice(body).map_err(|error| error.to_string()).and_then(read));
        parsed
    }

    /// Parses an array of events. An invalid element does not affect the others.
    pub(super) fn parse_array<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<ParsedPart, String>,
    ) -> Self {
        let (mut parsed, body) = (Self::default(), &*wire::repair_json(body));
        match serde_json::from_slice::<Vec<&RawValue>>(body) {
            Ok(elements) => {
                for element in elements {
                    let part = serde_json::from_str(element.get()).map_err(|error| error.to_string()).and_then(&read);
                    parsed.add_part(element.get().as_bytes(), now, part);
                }
            }
            Err(error) => parsed.add_dead_letter(&format!("is not an array of events: {error}"), body),
        }
        parsed
    }

    pub(super) fn parse_any<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<ParsedPart, String>,
    ) -> Self {
        let is_object = skip_bom(body).iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        if is_object { Self::parse_one(body, now, read) } else { Self::parse_array(body, now, read) }
    }

    fn add_part(&mut self, bytes: &[u8], now: Timestamp, part: Result<ParsedPart, String>) {
        match part {
            Ok(ParsedPart::Event(event)) if event.names_a_message() => match event.check(now) {
                Ok(event) => self.events.push(event),
                Err(invalid) => self.add_dead_letter(&invalid.to_string(), bytes),
            },
            Ok(ParsedPart::Event(_)) => self.nameless += 1,
            Ok(ParsedPart::Nothing) => {}
            Err(reason) => self.add_dead_letter(&reason, bytes),
        }
    }

    pub fn add_dead_letter(&mut self, reason: &str, bytes: &[u8]) {
        self.unreadable += 1;
        if self.unusable.len() < LETTERS {
            self.unusable.push(letter::build_letter(reason, bytes));
        }
    }
}

/// Providers often add text around this code, or send only text.
pub(super) fn find_status(text: Option<&str>) -> Option<String> {
    let words = text?.split(|c: char| c.is_whitespace() || matches!(c, ';' | '(' | ')' | ',' | '-'));
    let mut statuses = words.filter(|word| word.parse::<EnhancedStatus>().is_ok());
    statuses.next().map(str::to_owned)
}

pub(super) const HARD: ReportKind = ReportKind::Bounced(BounceKind::Hard);
pub(super) const SOFT: ReportKind = ReportKind::Bounced(BounceKind::Soft);
pub(super) const POLICY: ReportKind = ReportKind::Bounced(BounceKind::Policy);

/// Converts whole seconds since 1970.
pub(super) fn seconds(seconds: i64) -> Result<Timestamp, String> {
    Timestamp::from_second(seconds).map_err(|error| format!("event timestamp is out of range: {error}"))
}

pub(super) fn unknown_word(field: &str, word: &str) -> String {
    format!("{field} {word:?} is not one that Tidings knows")
}

/// Reason for rejecting a request. We only log this; the response never includes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("header {0} is missing")]
    Header(&'static str),
    #[error("{0} is malformed")]
    Malformed(&'static str),
    #[error("invalid signature")]
    Signature,
    #[error("invalid credentials")]
    Credentials,
    #[error("signature timestamp is too far from now")]
    Time,
    #[error("token was already used with another body")]
    Token,
    /// Needed because anyone may subscribe our URL to their own topic.
    #[error("topic ARN is not listed in topic_arn")]
    Topic,
    #[error("signature version is not allowed")]
    Version,
    #[error("raw message delivery is not signed: turn it off in the SNS subscription")]
    Raw,
    /// The certificate's URL is not the one we expect, or its subject is not SNS.
    #[error("certificate does not belong to SNS")]
    Certificate,
}
