//! The contents of an authentic body: events in the words that all providers share, and what cannot be read.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidings_model::{
    delivery_events::{Bounce, DeliveryEvent, Kind, Reported, Status, Unusable},
    foreign_text::skip_bom,
    wire,
};

use super::letter;

/// Dead letters of one request. More are counted.
const LETTERS: usize = 100;

/// The contents of a body.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    pub events: Vec<Reported>,
    /// Events that name no message: those of other messages of the provider's account, for example.
    pub nameless: usize,
    /// Parts that cannot be read, 100 at most.
    pub unusable: Vec<Unusable>,
    /// Parts that cannot be read, all of them.
    pub unreadable: usize,
}

/// The meaning of one part of a body.
pub enum Part {
    Event(Box<DeliveryEvent>),
    /// An event without consequences: the provider took the message, or its account changed.
    Nothing,
}

impl Part {
    /// An event.
    pub(super) fn event(event: DeliveryEvent) -> Self {
        Self::Event(Box::new(event))
    }
}

impl Parsed {
    /// Reads a body that is one event. Half a character in its words is no reason to lose it.
    pub(super) fn one<T: DeserializeOwned>(
        body: &[u8],
        now: Timestamp,
        read: impl Fn(T) -> Result<Part, String>,
    ) -> Self {
        let (mut parsed, body) = (Self::default(), &*wire::mended(body));
        parsed.add(body, now, serde_json::from_slice(body).map_err(|error| error.to_string()).and_then(read));
        parsed
    }

    /// Reads a body that is an array of events. An element that cannot be read spoils no other.
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

    /// Reads a body that is an array of events, or one event.
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

    /// Adds a dead letter.
    pub fn bury(&mut self, reason: &str, bytes: &[u8]) {
        self.unreadable += 1;
        if self.unusable.len() < LETTERS {
            self.unusable.push(letter::keep(reason, bytes));
        }
    }
}

/// The first word that is an enhanced status code. Providers write more around it, or something else instead of it.
pub(super) fn status(text: Option<&str>) -> Option<String> {
    let words = text?.split(|c: char| c.is_whitespace() || matches!(c, ';' | '(' | ')' | ',' | '-'));
    let mut statuses = words.filter(|word| word.parse::<Status>().is_ok());
    statuses.next().map(str::to_owned)
}

pub(super) const HARD: Kind = Kind::Bounced(Bounce::Hard);
pub(super) const SOFT: Kind = Kind::Bounced(Bounce::Soft);
pub(super) const POLICY: Kind = Kind::Bounced(Bounce::Policy);

/// Whole seconds since 1970.
pub(super) fn seconds(seconds: i64) -> Result<Timestamp, String> {
    Timestamp::from_second(seconds).map_err(|error| format!("the time of the event is out of range: {error}"))
}

/// The word of a kind that no documentation of the provider has.
pub(super) fn unknown(field: &str, word: &str) -> String {
    format!("{field} {word:?} is not one that Tidings knows")
}

/// The reason why a request is refused. For logs only: the answer never says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A header that the signature needs is missing, or is not text.
    #[error("has no header {0}")]
    Header(&'static str),
    /// A part of the request cannot be read.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// No secret of the relay made this signature.
    #[error("the signature is wrong")]
    Signature,
    /// The user name or password is wrong.
    #[error("the credentials are wrong")]
    Credentials,
    /// The request was signed too long ago, or in the future.
    #[error("the time of the signature is too far from now")]
    Time,
    /// The token came with another body before.
    #[error("the token came with another body before")]
    Token,
    /// Anybody may subscribe our URL to a topic of their own.
    #[error("the topic is not one of topic_arn")]
    Topic,
    /// The version of the signature is unknown, or not allowed.
    #[error("the version of the signature is not allowed")]
    Version,
    /// SNS signs nothing if the subscription delivers raw messages.
    #[error("raw message delivery is not signed; switch it off in the subscription")]
    Raw,
    /// The certificate is not at an address that we would build, or is not that of SNS.
    #[error("the certificate is not that of SNS")]
    Certificate,
}
