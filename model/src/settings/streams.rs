//! The two streams and their relays. Digests must not delay a transactional message or harm its sender's reputation
//! (rule 29).

use std::{fmt, time::Duration};

use crate::{EmailAddress, Provider, RelayUrl, link_keys::TOKEN_CHARS};

/// Waits after the first, second ... failed attempt; with the first attempt that makes six.
pub const RETRY_DELAYS: [Duration; 5] = [minutes(1), minutes(5), minutes(30), minutes(120), minutes(480)];

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Both streams.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Digests.
    pub bulk: Stream,
    /// Single messages that a person waits for.
    pub transactional: Stream,
}

closed_set! {
    /// The name of a stream, in `tidings.toml` too.
    pub enum StreamName {
        Transactional = "transactional",
        Bulk = "bulk",
    }
}

impl Streams {
    /// The settings of a stream.
    #[must_use]
    pub const fn get(&self, name: StreamName) -> &Stream {
        match name {
            StreamName::Bulk => &self.bulk,
            StreamName::Transactional => &self.transactional,
        }
    }
}

/// Delivery settings of a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Names of relays, the preferred one first; at least one.
    pub relays: Vec<String>,
    /// Waits after the first, second ... failed attempt; there is one attempt more than waits (rule 25).
    pub retry_delays: Vec<Duration>,
    /// Treatment of ambiguous attempts.
    pub guarantee: Guarantee,
    /// The sender of its messages.
    pub sender: Sender,
    /// The address to which servers return its messages. Without it they return to the sender.
    pub return_path: Option<ReturnPath>,
}

impl Stream {
    /// Creates a stream with defaults for everything else.
    #[must_use]
    pub fn new(relays: &[&str], sender: Sender) -> Self {
        Self {
            relays: relays.iter().map(|&name| name.to_owned()).collect(),
            retry_delays: RETRY_DELAYS.to_vec(),
            guarantee: Guarantee::default(),
            sender,
            return_path: None,
        }
    }

    /// Returns the envelope's sender (RFC 5321 MAIL FROM) of the message with this token.
    #[must_use]
    pub fn envelope_from(&self, token: Option<&str>) -> String {
        match (&self.return_path, token) {
            (Some(path), Some(token)) => format!("{}+{token}@{}", path.local, path.domain),
            _ => self.sender.address.to_string(),
        }
    }

    /// Returns the envelope's sender of its messages, without their tokens.
    #[must_use]
    pub fn envelope_sender(&self) -> String {
        match &self.return_path {
            Some(path) => path.to_string(),
            None => self.sender.address.to_string().to_ascii_lowercase(),
        }
    }

    /// Reports if a message with this envelope's sender is of the sender that the stream has now.
    #[must_use]
    pub fn sends_as(&self, envelope_from: &str) -> bool {
        match &self.return_path {
            Some(ReturnPath { local, domain }) => {
                let token = envelope_from.strip_prefix(local.as_str()).and_then(|rest| rest.strip_prefix('+'));
                let address = token.and_then(|rest| rest.split_once('@'));
                // Without keys there is no token, and the address is that of `From`.
                address.map_or_else(|| self.sends_from(envelope_from), |(_, of)| of.eq_ignore_ascii_case(domain))
            }
            None => self.sends_from(envelope_from),
        }
    }

    fn sends_from(&self, address: &str) -> bool {
        self.sender.address.to_string().eq_ignore_ascii_case(address)
    }

    /// Returns the longest wait between two attempts, or that of the default schedule if only one attempt is made.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let schedule = if self.retry_delays.is_empty() { &RETRY_DELAYS[..] } else { &self.retry_delays };
        schedule.iter().copied().max().unwrap_or_default()
    }

    /// Returns the wait after a failed attempt; the first attempt is 1. `None` after the last one.
    #[must_use]
    pub fn retry_delay(&self, attempt: u32) -> Option<Duration> {
        let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
        self.retry_delays.get(index).copied()
    }
}

/// The sender of messages.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Display name of `From`.
    pub name: String,
    /// Address of `From` and of the envelope.
    pub address: EmailAddress,
    /// `Reply-To`, if it differs.
    pub reply_to: Option<EmailAddress>,
    /// Right-hand side of `Message-ID` and `List-Id`.
    pub domain: String,
}

/// An address that receives reports about messages. A token between its parts tells which message came back (VERP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPath {
    /// The part before the token, without `+`.
    pub local: String,
    pub domain: String,
}

impl ReturnPath {
    /// Bytes of `local`: with `+` and the token they fill the 64 of RFC 5321.
    pub const LOCAL_BYTES: usize = 64 - 1 - TOKEN_CHARS;
}

impl fmt::Display for ReturnPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

closed_set! {
    /// The promise of a stream after an ambiguous attempt (rule 26).
    #[derive(Default)]
    pub enum Guarantee {
        /// The message is sent again: a recipient may get it twice.
        #[default]
        AtLeastOnce = "at_least_once",
        /// The message is not sent again, unless the relay de-duplicates: a recipient may get nothing.
        AtMostOnce = "at_most_once",
    }
}

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// Its address.
    pub relay: RelayUrl,
    /// Its provider, which decides the headers that it understands.
    pub provider: Provider,
    /// Rate at which it accepts messages, over all workers.
    pub rate: Option<Rate>,
    /// Messages over one connection.
    pub per_connection: u32,
    /// Connections of a process at a time, at most.
    pub connections: usize,
    /// The provider's name for the IP addresses that send.
    pub pool: Option<String>,
    /// The longest wait for the reply after the final dot. `None`: ten minutes, the least that RFC 5321 4.5.3.2.6 allows a client that
    /// knows nothing of its relay.
    pub reply_timeout: Option<Duration>,
}

impl RelaySettings {
    /// Messages over one connection by default.
    pub const PER_CONNECTION: u32 = 100;
    /// Connections of a process by default.
    pub const CONNECTIONS: usize = 10;

    /// Creates a relay with defaults for everything else.
    #[must_use]
    pub fn new(relay: RelayUrl) -> Self {
        Self {
            relay,
            provider: Provider::default(),
            rate: None,
            per_connection: Self::PER_CONNECTION,
            connections: Self::CONNECTIONS,
            pool: None,
            reply_timeout: None,
        }
    }
}

/// A number of messages in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At least one.
    pub mails: u32,
    /// A second, a minute, an hour or a day.
    pub per: Per,
}

impl Rate {
    /// Mails per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        f64::from(self.mails) / f64::from(self.per.seconds())
    }
}

/// In the words of `tidings.toml`: `14/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.mails, self.per.name())
    }
}

closed_set! {
    /// The time of a [`Rate`].
    pub enum Per {
        Second = "s",
        Minute = "m",
        Hour = "h",
        Day = "d",
    }
}

impl Per {
    const fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86_400,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_attempts_have_five_waits_between_them() {
        let sender = Sender {
            name: String::new(),
            address: "a@b.example".parse().unwrap(),
            reply_to: None,
            domain: String::new(),
        };
        let stream = Stream::new(&["default"], sender);
        let minutes = |attempt| stream.retry_delay(attempt).map(|wait| wait.as_secs() / 60);
        assert_eq!((1..=6).map(minutes).collect::<Vec<_>>(), [Some(1), Some(5), Some(30), Some(120), Some(480), None]);
        assert_eq!(minutes(0), None);
    }

    #[test]
    fn a_rate_is_the_same_in_every_unit() {
        for (mails, per, per_second) in
            [(14, Per::Second, 14.0), (90, Per::Minute, 1.5), (1800, Per::Hour, 0.5), (43_200, Per::Day, 0.5)]
        {
            let rate = Rate { mails, per };
            assert!((rate.per_second() - per_second).abs() < 1e-9, "{rate}");
        }
    }
}
