//! A person in a tenant, and the data we hold about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::AddAssign,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::records::{PageRequest, Preferences, Recipient, Suppression, SuppressionReason};

/// An id this person has or had, and when renames gave and took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldId {
    pub user: String,
    pub since: Option<Timestamp>,
    /// `None` if the person still has the id.
    pub until: Option<Timestamp>,
}

pub type RecipientPlace = (String, String);

pub type KeyPlace = (String, String, String);

/// Position among a person's rows: a time or a number, then an id.
pub type RowPlace = (i64, String);

/// A filter of recipients, by tenant and user. What is `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct RecipientFilter {
    /// Only people of this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only people with this address, in any case
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub address: Option<String>,
    /// Only people with this zone in the directory
    #[cfg_attr(feature = "clap", arg(long, value_name = "ZONE"))]
    pub zone: Option<String>,
    /// Only people with this language in the directory
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOCALE"))]
    pub locale: Option<String>,
    /// Only people whose address is suppressed
    #[cfg_attr(feature = "clap", arg(long))]
    pub suppressed: bool,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: PageRequest<RecipientPlace>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ListedRecipient {
    pub recipient: Recipient,
    pub suppressed: Option<SuppressionReason>,
}

/// A person's data outside the ledger, including email addresses: never log it.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct PersonRecord {
    pub recipient: Option<Recipient>,
    pub preferences: Vec<PersonsChoice>,
    pub consents: Vec<PersonsConsent>,
    pub readings: Vec<PersonsReading>,
    pub suppressions: Vec<Suppression>,
    /// From the directory and all messages sent, in suppression spelling.
    pub addresses: BTreeSet<String>,
    /// In any row except the audit trail, configured or not.
    pub digest_types: BTreeSet<String>,
}

impl PersonRecord {
    /// Returns `true` if the store has no data about them. Single messages to an address outside the
    /// directory do not count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recipient.is_none() && self.addresses.is_empty() && self.digest_types.is_empty()
    }

    /// Returns `true` if the id reaches nobody and nobody chose anything under it. Events alone make no
    /// person.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.recipient.is_none() && self.preferences.is_empty() && self.consents.is_empty() && self.readings.is_empty()
    }
}

/// Merges data under another name of the tenant. The first directory row wins.
impl AddAssign for PersonRecord {
    fn add_assign(&mut self, more: Self) {
        self.recipient = self.recipient.take().or(more.recipient);
        self.preferences.extend(more.preferences);
        self.consents.extend(more.consents);
        self.readings.extend(more.readings);
        self.suppressions.extend(more.suppressions);
        self.addresses.extend(more.addresses);
        self.digest_types.extend(more.digest_types);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsChoice {
    pub digest_type: String,
    pub chosen: Preferences,
    pub revision: u64,
    pub changed_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsConsent {
    pub digest_type: String,
    pub consent: bool,
    pub changed_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersonsReading {
    pub digest_type: String,
    /// Only opens and clicks by a person.
    pub read_at: Option<Timestamp>,
    /// Also includes those where no header distinguishes person and machine.
    pub sign_at: Timestamp,
}

macro_rules! row_counts {
    ($(#[$meta:meta])* pub struct $counts:ident { $($(#[$doc:meta])* $field:ident = $words:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $counts { $($(#[$doc])* pub $field: u64,)+ }

        impl $counts {
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($words, self.$field)),+].into_iter().filter(|(_, count)| *count > 0)
            }
        }

        impl AddAssign for $counts {
            fn add_assign(&mut self, more: Self) {
                $(self.$field += more.$field;)+
            }
        }
    };
}

row_counts! {
    pub struct MovedRows {
        recipients = "recipients",
        preferences = "preferences",
        consents = "consents",
        digests = "digests",
        events = "events",
        /// Events among them waiting for the next claim.
        returned = "events that wait",
        retracts = "retracts",
        messages = "messages",
        dead_letters = "dead letters",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonRowKind {
    Digests,
    Events,
    Retracts,
    DeadLetters,
    Messages,
    DeliveryEvents,
    /// Events and retracts accepted by the gateway: on their way to Temporal, or already forwarded.
    Inbox,
    Notices,
    JobResults,
    TroubledRuns,
    Audit,
}

impl PersonRowKind {
    pub const ALL: [Self; 11] = [
        Self::Digests,
        Self::Events,
        Self::Retracts,
        Self::Messages,
        Self::DeliveryEvents,
        Self::DeadLetters,
        Self::Inbox,
        Self::Notices,
        Self::JobResults,
        Self::TroubledRuns,
        Self::Audit,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Digests => "digests",
            Self::Events => "events",
            Self::Retracts => "retracts",
            Self::DeadLetters => "dead_letters",
            Self::Messages => "messages",
            Self::DeliveryEvents => "delivery_events",
            Self::Inbox => "inbox",
            Self::Notices => "notices",
            Self::JobResults => "job_results",
            Self::TroubledRuns => "troubled_runs",
            Self::Audit => "audit",
        }
    }
}

closed_set! {
    pub enum NameKind {
        Digest = "digest",
        Tenant = "tenant",
        Category = "category",
        Relay = "relay",
        Subscription = "subscription",
    }
}

closed_set! {
    /// Data that may depend on a name. Sets are written after a count, e.g. `2 unsubscribed`.
    pub enum DependentKind {
        Withdrawn = "unsubscribed",
        Chosen = "with choices",
        Off = "who turned it off",
        Paused = "paused",
        Suppressed = "suppressed",
        Undelivered = "digests without an end",
        /// Stays open until an operator closes it.
        Broken = "open breaker",
        Waiting = "webhook events that wait",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredName {
    pub kind: NameKind,
    pub name: String,
    pub has: BTreeMap<DependentKind, u64>,
}

impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there: Vec<_> = self.has.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&there.join(", "))
    }
}

row_counts! {
    /// Number of rows that an erasure changed, or would change in a dry run.
    pub struct ErasedRows {
        recipients = "recipients",
        preferences = "preferences",
        consents = "consents",
        /// The address is now a pseudonym.
        suppressions = "suppressions",
        /// These can no longer be sent.
        digests = "digests",
        /// Reduced to id, category and times.
        events = "events",
        retracts = "retracts",
        /// Without bytes and subject; the address is a pseudonym.
        messages = "messages",
        /// Without the provider's text; the address is a pseudonym.
        delivery_events = "delivery_events",
        dead_letters = "dead_letters",
        inbox = "inbox",
        archived = "archived",
    }
}

impl ErasedRows {
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PersonId;

    /// Producers use the new id first.
    #[test]
    fn an_id_that_only_events_came_to_is_free() {
        let sent = PersonRecord { digest_types: ["activity".to_owned()].into(), ..PersonRecord::default() };
        assert!(sent.is_free() && !sent.is_empty());
        let consents =
            vec![PersonsConsent { digest_type: "activity".into(), consent: false, changed_at: Timestamp::UNIX_EPOCH }];
        let mut refused = PersonRecord { consents, ..PersonRecord::default() };
        assert!(!refused.is_free());
        refused += sent;
        assert_eq!((refused.digest_types.len(), refused.consents.len()), (1, 1));
    }

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
