//! The two streams and their relays. Digests must not delay a transactional message or harm its sender's
//! reputation (rule 29).

use std::{fmt, time::Duration};

use super::retry_delays::RETRY_DELAYS;
use crate::{EmailAddress, Provider, RelayUrl, link_keys::TOKEN_CHARS};

#[derive(Clone, Debug)]
pub struct DeliveryStreams {
    pub bulk: StreamSettings,
    pub transactional: StreamSettings,
}

closed_set! {
    pub enum StreamName {
        Transactional = "transactional",
        Bulk = "bulk",
    }
}

impl DeliveryStreams {
    #[must_use]
    pub const fn get(&self, name: StreamName) -> &StreamSettings {
        match name {
            StreamName::Bulk => &self.bulk,
            StreamName::Transactional => &self.transactional,
        }
    }
}

#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Relay names in order of preference; at least one.
    pub relays: Vec<String>,
    /// Delays after the first, second, ... failed attempt: one less than attempts (rule 25).
    pub retry_delays: Vec<Duration>,
    pub guarantee: DeliveryGuarantee,
    pub sender: SenderIdentity,
    /// Where servers return messages; `None` for the sender's address.
    pub return_path: Option<ReturnPath>,
}

impl StreamSettings {
    #[must_use]
    pub fn new(relays: &[&str], sender: SenderIdentity) -> Self {
        Self {
            relays: relays.iter().map(|&name| name.to_owned()).collect(),
            retry_delays: RETRY_DELAYS.to_vec(),
            guarantee: DeliveryGuarantee::default(),
            sender,
            return_path: None,
        }
    }

    /// The sender in MAIL FROM (RFC 5321).
    #[must_use]
    pub fn envelope_from(&self, token: Option<&str>) -> String {
        match (&self.return_path, token) {
            (Some(path), Some(token)) => format!("{}+{token}@{}", path.local, path.domain),
            _ => self.sender.address.to_string(),
        }
    }

    #[must_use]
    pub fn envelope_sender(&self) -> String {
        match &self.return_path {
            Some(path) => path.to_string(),
            None => self.sender.address.to_string().to_ascii_lowercase(),
        }
    }

    #[must_use]
    pub fn sends_as(&self, envelope_from: &str) -> bool {
        match &self.return_path {
            Some(ReturnPath { local, domain }) => {
                let token = envelope_from.strip_prefix(local.as_str()).and_then(|rest| rest.strip_prefix('+'));
                let address = token.and_then(|rest| rest.split_once('@'));
                // Without link keys there is no token, and we use the address in `From`.
                address.map_or_else(|| self.sends_from(envelope_from), |(_, of)| of.eq_ignore_ascii_case(domain))
            }
            None => self.sends_from(envelope_from),
        }
    }

    fn sends_from(&self, address: &str) -> bool {
        self.sender.address.to_string().eq_ignore_ascii_case(address)
    }
}

#[derive(Clone, Debug)]
pub struct SenderIdentity {
    pub name: String,
    pub address: EmailAddress,
    pub reply_to: Option<EmailAddress>,
    pub domain: String,
}

/// For bounce reports. A token after `local` identifies the returned message (VERP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPath {
    /// The part before `+` and the token.
    pub local: String,
    pub domain: String,
}

impl ReturnPath {
    /// In bytes: with `+` and the token, at most the 64 of RFC 5321.
    pub const LOCAL_BYTES: usize = 64 - 1 - TOKEN_CHARS;
}

impl fmt::Display for ReturnPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

closed_set! {
    /// How to treat an ambiguous attempt (rule 26).
    #[derive(Default)]
    pub enum DeliveryGuarantee {
        /// Send the message again: a recipient may get it twice.
        #[default]
        AtLeastOnce = "at_least_once",
        /// Do not send again, unless the relay removes duplicates: a recipient may get nothing.
        AtMostOnce = "at_most_once",
    }
}

#[derive(Clone, Debug)]
pub struct RelaySettings {
    pub relay: RelayUrl,
    /// Decides which provider-specific headers to send.
    pub provider: Provider,
    pub rate: Option<MessageRate>,
    pub per_connection: u32,
    pub connections: usize,
    /// The provider's name for a pool of sending IP addresses.
    pub pool: Option<String>,
    /// Timeout for the reply after the final dot. `None` for ten minutes, the minimum for clients in general
    /// (RFC 5321 4.5.3.2.6).
    pub reply_timeout: Option<Duration>,
}

impl RelaySettings {
    pub const PER_CONNECTION: u32 = 100;
    pub const CONNECTIONS: usize = 10;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRate {
    /// At least one.
    pub mails: u32,
    pub per: RateUnit,
}

impl MessageRate {
    #[must_use]
    pub fn per_second(self) -> f64 {
        f64::from(self.mails) / f64::from(self.per.seconds())
    }
}

/// In `tidings.toml` syntax: `14/s`.
impl fmt::Display for MessageRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.mails, self.per.name())
    }
}

closed_set! {
    pub enum RateUnit {
        Second = "s",
        Minute = "m",
        Hour = "h",
        Day = "d",
    }
}

impl RateUnit {
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
        let sender = SenderIdentity {
            name: String::new(),
            address: "a@b.example".parse().unwrap(),
            reply_to: None,
            domain: String::new(),
        };
        let stream = StreamSettings::new(&["default"], sender);
        let minutes = |attempt| stream.retry_delay(attempt).map(|wait| wait.as_secs() / 60);
        assert_eq!((1..=6).map(minutes).collect::<Vec<_>>(), [Some(1), Some(5), Some(30), Some(120), Some(480), None]);
        assert_eq!(minutes(0), None);
    }

    #[test]
    fn a_rate_is_the_same_in_every_unit() {
        for (mails, per, per_second) in [
            (14, RateUnit::Second, 14.0),
            (90, RateUnit::Minute, 1.5),
            (1800, RateUnit::Hour, 0.5),
            (43_200, RateUnit::Day, 0.5),
        ] {
            let rate = MessageRate { mails, per };
            assert!((rate.per_second() - per_second).abs() < 1e-9, "{rate}");
        }
    }
}
