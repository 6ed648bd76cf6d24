//! Parsed content of an authentic body: events in provider-independent form, and unusable parts.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidings_model::{
    delivery_events::{Bounce, DeliveryEvent, Kind, Reported, Status, Unusable},
    foreign_text::skip_bom,
    wire,
};

use super::letter;

/// Dead letters stored per request. Further ones are only counted.
const LETTERS: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct Parsed {
    pub events: Vec<Reported>,
    /// Events without our message id, e.g. for other messages of this account.
    pub nameless: usize,
    /// Unusable parts, at most 100.
    pub unusable: Vec<Unusable>,
    pub unreadable: usize,
}

pub enum Part {
    Event(Box<DeliveryEvent>),
    /// Nothing to record, e.g. the provider accepted the message.
    Nothing,
}

impl Part {
    pub(super) fn event(event: DeliveryEvent) -> Self {
        Self::Event(Box::new(event))
    }
}

impl Parsed {
    /// Parses a body with one event. Invalid UTF-8 is repaired.
    pub(super) fn one<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<Part, String>,
    ) -> Self {
        let (mut parsed, body) = (Self::default(), &*wire::mended(body));
        parsed.add(body, now, serde_json::from_slice(body).map_err(|error| error.to_string()).and_then(read));
        parsed
    }

    /// Parses an array of events. An invalid element does not affect the others.
    pub(super) fn many<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<Part, String>,
    ) -> Self {
        let (mut parsed, body) = (Self::default(), &*wire::mended(body));
        match serde_json::from_slice::<Vec<&RawValue>>(body) {
            Ok(elements) => {
                for element in elements {
                    let part = serde_json::from_str(element.get()).map_err(|error| error.to_string()).and_then(&read);
                    parsed.add(element.get().as_bytes(), now, part);
                }
            }
            Err(error) => parsed.bury(&format!("is no array of events: {error}"), body),
        }
        parsed
    }

    pub(super) fn some<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<Part, String>,
    ) -> Self {
        let is_object = skip_bom(body).iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        if is_object { Self::one(body, now, read) } else { Self::many(body, now, read) }
    }

    fn add(&mut self, bytes: &[u8], now: Timestamp, part: Result<Part, String>) {
        match part {
            Ok(Part::Event(event)) if event.names_a_message() => match event.check(now) {
                Ok(event) => self.events.push(event),
                Err(invalid) => self.bury(&invalid.to_string(), bytes),
            },
            Ok(Part::Event(_)) => self.nameless += 1,
            Ok(Part::Nothing) => {}
            Err(reason) => self.bury(&reason, bytes),
        }
    }

    pub fn bury(&mut self, reason: &str, bytes: &[u8]) {
        self.unreadable += 1;
        if self.unusable.len() < LETTERS {
            self.unusable.push(letter::keep(reason, bytes));
        }
    }
}

/// Providers often add text around this code, or send only text.
pub(super) fn status(text: Option<&str>) -> Option<String> {
    let words = text?.split(|c: char| c.is_whitespace() || matches!(c, ';' | '(' | ')' | ',' | '-'));
    let mut statuses = words.filter(|word| word.parse::<Status>().is_ok());
    statuses.next().map(str::to_owned)
}

pub(super) const HARD: Kind = Kind::Bounced(Bounce::Hard);
pub(super) const SOFT: Kind = Kind::Bounced(Bounce::Soft);
pub(super) const POLICY: Kind = Kind::Bounced(Bounce::Policy);

/// Converts whole seconds since 1970.
pub(super) fn seconds(seconds: i64) -> Result<Timestamp, String> {
    Timestamp::from_second(seconds).map_err(|error| format!("the time of the event is out of range: {error}"))
}

pub(super) fn unknown(field: &str, word: &str) -> String {
    format!("{field} {word:?} is not one that Tidings knows")
}

/// Reason for rejecting a request. We only log this; the response never includes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("has no header {0}")]
    Header(&'static str),
    #[error("{0} is malformed")]
    Malformed(&'static str),
    #[error("the signature is wrong")]
    Signature,
    #[error("the credentials are wrong")]
    Credentials,
    #[error("the time of the signature is too far from now")]
    Time,
    /// Replay: the token was already used with another body.
    #[error("the token came with another body before")]
    Token,
    /// Needed because anyone may subscribe our URL to their own topic.
    #[error("the topic is not one of topic_arn")]
    Topic,
    #[error("the version of the signature is not allowed")]
    Version,
    #[error("raw message delivery is not signed; switch it off in the subscription")]
    Raw,
    /// The certificate's URL is not the one we expect, or its subject is not SNS.
    #[error("the certificate is not that of SNS")]
    Certificate,
}
