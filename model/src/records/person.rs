//! A person of a tenant, and what is held about them.

use std::{collections::BTreeSet, fmt, str::FromStr};

use jiff::Timestamp;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use super::{Page, Preferences, Reason, Recipient, Suppression};
use crate::{
    Key,
    key::ESCAPED,
    limits::{self, Invalid},
};

/// A person, by their id in a tenant's directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PersonId {
    pub tenant: String,
    pub user: String,
}

impl PersonId {
    /// Checks both ids.
    ///
    /// # Errors
    /// Names the field and the limit.
    pub fn new(tenant: String, user: String) -> Result<Self, Invalid> {
        limits::id("tenant", &tenant)?;
        limits::id("user", &user)?;
        Ok(Self { tenant, user })
    }

    /// The person of a key.
    #[must_use]
    pub fn of(key: &Key) -> Self {
        Self { tenant: key.tenant.clone(), user: key.user.clone() }
    }

    /// The person's key for a digest type.
    #[must_use]
    pub fn key(&self, digest_type: &str) -> Key {
        Key { tenant: self.tenant.clone(), digest_type: digest_type.to_owned(), user: self.user.clone() }
    }
}

/// `{tenant}/{user}`, each part percent-encoded, as in a key.
impl fmt::Display for PersonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        write!(f, "{}/{}", part(&self.tenant), part(&self.user))
    }
}

impl FromStr for PersonId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parts: Vec<_> = text.split('/').map(|part| percent_decode_str(part).decode_utf8()).collect();
        let [Ok(tenant), Ok(user)] = parts.as_slice() else {
            return Err(Invalid::new("person", format!("{text:?} is not TENANT/USER with each part percent-encoded")));
        };
        Self::new(tenant.to_string(), user.to_string())
    }
}

/// The place of a recipient in the directory: tenant and user.
pub type RecipientPlace = (String, String);

/// The place of a key in a listing by key: tenant, digest type and user.
pub type KeyPlace = (String, String, String);

/// The place of a row among those about a person: a time or a number, then an id.
pub type RowPlace = (i64, String);

/// A filter of recipients, by tenant and user. What is `None` selects all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientFilter {
    pub tenant: Option<String>,
    /// In any spelling.
    pub address: Option<String>,
    pub zone: Option<String>,
    pub locale: Option<String>,
    /// Only recipients whose address is suppressed.
    pub suppressed: bool,
    pub page: Page<RecipientPlace>,
}

/// A recipient in a listing.
#[derive(Clone, PartialEq, Eq)]
pub struct ListedRecipient {
    pub recipient: Recipient,
    /// The first reason why their address is suppressed.
    pub suppressed: Option<Reason>,
}

/// A person as the store knows them apart from the ledger. It contains an address: not for logs.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Person {
    /// `None`: the directory does not have them.
    pub recipient: Option<Recipient>,
    pub preferences: Vec<PersonsChoice>,
    pub consents: Vec<PersonsConsent>,
    pub readings: Vec<PersonsReading>,
    /// Of all their addresses.
    pub suppressions: Vec<Suppression>,
    /// Their address in the directory and those that messages were sent to, as suppressions spell them.
    pub addresses: BTreeSet<String>,
    /// Digest types of their digests, preferences, consents and readings.
    pub digest_types: BTreeSet<String>,
}

impl Person {
    /// `true` if the store has nothing of them, apart from single messages to an address that the directory never had.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recipient.is_none() && self.addresses.is_empty() && self.digest_types.is_empty()
    }
}

/// A person's preferences for a digest type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsChoice {
    pub digest_type: String,
    pub chosen: Preferences,
    pub revision: u64,
    pub changed_at: Timestamp,
}

/// A person's consent to a digest type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsConsent {
    pub digest_type: String,
    pub consent: bool,
    pub changed_at: Timestamp,
}

/// The last times at which a person's digests of a type were opened or clicked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsReading {
    pub digest_type: String,
    /// By a person.
    pub read_at: Option<Timestamp>,
    /// By a person, or by whom no header says.
    pub sign_at: Timestamp,
}

/// A kind of rows that the store holds about a person, besides [`Person`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Digests,
    Events,
    Retracts,
    DeadLetters,
    /// Messages of digests and single ones, with their bytes and attempts.
    Messages,
    DeliveryEvents,
    Audit,
}

impl Part {
    /// Each of them, in the order of an export.
    pub const ALL: [Self; 7] = [
        Self::Digests,
        Self::Events,
        Self::Retracts,
        Self::Messages,
        Self::DeliveryEvents,
        Self::DeadLetters,
        Self::Audit,
    ];

    /// The name in an export.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Digests => "digests",
            Self::Events => "events",
            Self::Retracts => "retracts",
            Self::DeadLetters => "dead_letters",
            Self::Messages => "messages",
            Self::DeliveryEvents => "delivery_events",
            Self::Audit => "audit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_comes_back_from_the_text_and_a_key_is_none() {
        let ann = PersonId { tenant: "a/b".into(), user: "ann 1".into() };
        assert_eq!(ann.to_string(), "a%2Fb/ann%201");
        assert_eq!(ann.to_string().parse(), Ok(ann));
        for wrong in ["ann", "acme/", "/ann", "acme/activity/ann", "acme/%ff"] {
            assert!(wrong.parse::<PersonId>().is_err(), "{wrong}");
        }
    }
}
